"""Brokers for the tests of this folder."""

from broker_fixtures import broker, broker_software, compiled, connection  # noqa: F401
