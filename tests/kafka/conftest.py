"""Brokers for the tests of this folder."""

from broker_fixtures import *  # noqa: F403
from broker_fixtures import _fragile  # noqa: F401
