"""Types on the wire: messages, readings, and how the records of others are mapped to readings."""
