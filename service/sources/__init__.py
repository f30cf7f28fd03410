"""Ways in for readings beside Kafka: each hands on raw records, which the worker decodes."""
