"""What a sink has to remember across restarts: which open alarms and incidents it was sent, and its allowance.

Each piece is a record under a key, kept beside the sink's position. A message that opens something is noted before it
is sent: if the process dies in between, the message is sent again, and the one that ends it is sent, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from service.sinks.allowance import Allowance
from service.wire import messages
from service.wire.readings import rfc3339

MOST_OPEN = 100_000  # open alarms and incidents that are remembered
_REPORT_EVERY = 86_400.0
_OPEN, _TALLY = "open/", "tally"


class Opened(msgspec.Struct, frozen=True, omit_defaults=True):
    """A raised alarm or an open incident that was sent."""

    published: int  # milliseconds; of an incident: its newest revision
    revision: int = 0
    group: str | None = None  # of an incident


class SentTally(msgspec.Struct, frozen=True, kw_only=True):
    """The allowance, and what was not sent since the last report."""

    allowance: Allowance = Allowance()
    since: float | None = None  # when the first of these was not sent
    held_back: int = 0
    in_incidents: int = 0


class Ledger:
    """The records of one sink, and which of them are not saved yet."""

    def __init__(self) -> None:
        self.tally = SentTally()
        self._open: dict[str, Opened] = {}
        self._groups: dict[str, set[str]] = {}  # ids of open incidents by group
        self._changed: set[str] = set()

    # Records

    def load(self, records: Mapping[str, bytes]) -> None:
        """Begin with what was saved."""
        self.tally, self._open, self._groups = SentTally(), {}, {}
        found = {}
        for key, value in records.items():
            if key.startswith(_OPEN):
                found[key.removeprefix(_OPEN)] = msgspec.json.decode(value, type=Opened)
            elif key == _TALLY:
                self.tally = msgspec.json.decode(value, type=SentTally)
        for id, opened in sorted(found.items(), key=lambda one: one[1].published):
            self.note(id, opened)
        self._changed.clear()

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the records that are to be saved."""
        changes: dict[str, bytes | None] = {}
        for key in self._changed:
            about: Opened | SentTally | None = self.tally if key == _TALLY else self._open.get(key.removeprefix(_OPEN))
            changes[key] = None if about is None else msgspec.json.encode(about)
        self._changed.clear()
        return changes

    # Open alarms and incidents

    def opened(self, id: str) -> Opened | None:
        """Return what was sent of an open alarm or incident; None if nothing was."""
        return self._open.get(id)

    def note(self, id: str, opened: Opened) -> None:
        """An alarm or incident is going to be sent, or was revised."""
        self._open[id] = opened
        self._changed.add(_OPEN + id)
        if opened.group is not None:
            self._groups.setdefault(opened.group, set()).add(id)
        while len(self._open) > MOST_OPEN:
            self.close(next(iter(self._open)))

    def close(self, id: str) -> None:
        """An alarm or incident is over, or could not be sent."""
        opened = self._open.pop(id)
        self._changed.add(_OPEN + id)
        if opened.group is not None:
            self._groups[opened.group].discard(id)

    def is_in_incident(self, group: str, since: int) -> bool:
        """Whether an incident of a group was sent and is open. ``since``: one without a revision since is over."""
        return any(self._open[id].published >= since for id in self._groups.get(group, ()))

    # The allowance, and what is not sent

    def spend(self, allowance: Allowance) -> None:
        """Keep the allowance after a decision."""
        self._keep(msgspec.structs.replace(self.tally, allowance=allowance))

    def count(self, outcome: str, now: float) -> None:
        """Count an alarm or incident that is not sent: ``held_back`` or ``in_incident``."""
        tally = self.tally
        self._keep(
            msgspec.structs.replace(
                tally,
                since=now if tally.since is None else tally.since,
                held_back=tally.held_back + (outcome == "held_back"),
                in_incidents=tally.in_incidents + (outcome == "in_incident"),
            )
        )

    def summary(self, sink: str, at_most: str, now: float) -> messages.Summary | None:
        """Return the report of what was not sent, once a day; None if there is none yet."""
        tally = self.tally
        if tally.since is None or now < tally.since + _REPORT_EVERY:
            return None
        since = rfc3339(int(tally.since * 1e6))
        part = f", {tally.in_incidents} are part of incidents" if tally.in_incidents else ""
        return messages.Summary(
            id=hashlib.blake2b(msgspec.json.encode(["summary", sink, since]), digest_size=12).hexdigest(),
            revision=0,
            sink=sink,
            at_most=at_most,
            since=since,
            until=rfc3339(int(now * 1e6)),
            held_back=tally.held_back,
            in_incidents=tally.in_incidents,
            summary=f"{tally.held_back} alarms were held back by at_most = {at_most}{part}",
        )

    def reported(self) -> None:
        """Begin to count anew."""
        self._keep(SentTally(allowance=self.tally.allowance))

    def _keep(self, tally: SentTally) -> None:
        self.tally = tally
        self._changed.add(_TALLY)
