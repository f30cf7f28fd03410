"""All sensors of a fleet as people look at them, which no worker knows: from messages to an API and a page."""
