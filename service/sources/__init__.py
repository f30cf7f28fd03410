"""Ways in for readings beside Kafka. Each hands on raw records; the worker decodes them."""
