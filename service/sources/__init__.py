"""Sources of readings other than Kafka. Each yields raw records, which the worker decodes."""
