"""The service's configuration: frozen structures, and how they are read from a file and the environment."""

from service.settings.incidents import IncidentPolicy
from service.settings.load import load
from service.settings.rules import Rule
from service.settings.settings import Settings
from service.settings.times import TimePolicy
from service.wire.mapping import RecordMapping

__all__ = ["IncidentPolicy", "RecordMapping", "Rule", "Settings", "TimePolicy", "load"]
