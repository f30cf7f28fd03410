"""The service in one process, without a broker: a SQLite file takes the place of the topics."""
