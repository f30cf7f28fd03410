"""The service's results followed in a terminal: where messages come from, what is known of them, how it is drawn."""
