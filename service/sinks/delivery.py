"""Committed events to a sink, at least once.

    read -> filter -> send, a bounded number of times -> note the place

The place is noted after the sink has the events: a crash in between sends them again, with the same id and revision.
Events that are too old or muted are passed over, and one that the receiver does not take is given up after the last
attempt, so that it does not hold up the others; all of it is counted and said in the log.

With ``at_most``, only the most unusual alarms are sent (``service.sinks.allowance``), and an incident stands for the
alarms that are raised in its group while it is open. The message that ends an alarm or an incident is sent exactly if
the one that opened it was (``service.sinks.ledger``).
"""

from __future__ import annotations

import fnmatch
import json
import logging
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import prometheus_client

from service.incidents.change import group_of
from service.operations.control import Changes, ControlBook
from service.settings.incidents import IncidentPolicy
from service.settings.sinks import ABOUT_STATES, CHANGES, LONGEST_WAIT, SinkSettings
from service.sinks import allowance
from service.sinks.ledger import Ledger, Opened
from service.sinks.sink import DeliveryRefused, Outgoing, Sink, TryAgain, outgoing
from service.wire import messages
from service.wire.readings import from_rfc3339

log = logging.getLogger(__name__)

OUTCOMES = ("sent", "given_up", "too_old", "muted", "held_back", "in_incident", "unwanted", "unreadable")
# After so many seconds the place is noted and the reader asked again: it may have to show that it is alive.
_LONGEST_BATCH = 30.0
_POLL_SECONDS = 0.5
# An incident without a new member for so many spans is over.
_SPANS_APART = 6.0


class CommittedEvent(NamedTuple):
    """An event that will not be taken back."""

    value: bytes
    published: int  # milliseconds since the epoch
    place: Any  # the reader's own


class Reader(Protocol):
    """Committed events in their order, how far they are dealt with, and what the sink remembers."""

    def read(self, timeout: float) -> Sequence[CommittedEvent]:
        """The next events that are not done, some hundred at most; waits so many seconds for the first."""
        ...

    def done(self, events: Sequence[CommittedEvent], changes: Changes) -> None:
        """Save the position behind these, the first ones of what was last read, with the sink's changed records. The
        others come again."""
        ...

    def save(self, changes: Changes) -> None:
        """Save the sink's changed records; returns when they are durable, or after a warning."""
        ...

    def remembered(self) -> Mapping[str, bytes] | None:
        """Return the sink's records; None if they are the same as at the last call, but for what was saved here."""
        ...

    def close(self) -> None: ...


class SinkMetrics:
    """What became of events, for all sinks of a process."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self.registry = registry
        self.events = prometheus_client.Counter(
            "ishsmm_sink_events_total", "Events by sink and what became of them", ("sink", "outcome"), registry=registry
        )
        self.retries = prometheus_client.Counter(
            "ishsmm_sink_retries_total", "Attempts after the first", ("sink",), registry=registry
        )


class Delivery:
    """One sink's way through the events."""

    def __init__(
        self,
        settings: SinkSettings,
        sink: Sink,
        reader: Reader,
        book: ControlBook,
        metrics: SinkMetrics,
        *,
        rng: random.Random,
        incidents: IncidentPolicy = IncidentPolicy(),
        stopping: threading.Event | None = None,
        now: Callable[[], float] = time.time,
        wait: Callable[[float], Any] | None = None,
    ) -> None:
        self.settings = settings
        self._sink = sink
        self._reader = reader
        self._book = book
        self._metrics = metrics
        self._rng = rng
        self._stopping = threading.Event() if stopping is None else stopping
        self._incidents = incidents
        self._limit = None if settings.limit is None else allowance.limit_of(settings.limit)
        self._ledger = Ledger()
        self.ends = threading.Event()  # when everything that is there is dealt with
        self._now = now
        self._wait = self._stopping.wait if wait is None else wait
        for outcome in OUTCOMES:
            metrics.events.labels(settings.name, outcome)
        metrics.retries.labels(settings.name)

    def run(self) -> None:
        """Deliver until told to stop."""
        if not self.settings.only:
            log.warning(
                "sink %s gets alarms and notices, no changes: it has no only. For changes set only = %s",
                self.settings.name, json.dumps(CHANGES),
            )  # fmt: skip
        try:
            while not self._stopping.is_set():
                if not self.step() and self.ends.is_set():
                    return
        finally:
            self._reader.close()
            self._sink.close()

    def step(self) -> Counter[str]:
        """Deal with what is there, and note the place. Returns what became of it."""
        events = self._reader.read(_POLL_SECONDS)
        remembered = self._reader.remembered()
        if remembered is not None:
            self._ledger.load(remembered)
        began, outcomes = time.monotonic(), Counter[str]()
        dealt_with = 0
        for event in events:
            outcome = self._deal_with(event)
            if outcome is None:
                break
            dealt_with += 1
            outcomes[outcome] += 1
            if time.monotonic() - began > _LONGEST_BATCH:
                break
        if self._limit is not None:
            self._report()
        changes = self._ledger.take_changes()
        if events:
            self._reader.done(events[:dealt_with], changes)
        elif changes:
            self._reader.save(changes)
        for outcome, count in outcomes.items():
            self._metrics.events.labels(self.settings.name, outcome).inc(count)
        self._tell(outcomes)
        return outcomes

    def _tell(self, outcomes: Counter[str]) -> None:
        name, settings = self.settings.name, self.settings
        if outcomes["too_old"]:
            log.warning("sink %s: %d events older than %g s not sent", name, outcomes["too_old"], settings.max_age_s)
        if outcomes["muted"]:
            log.info("sink %s: %d muted events not sent", name, outcomes["muted"])
        if outcomes["held_back"]:
            log.info("sink %s: %d alarms held back (at_most = %s)", name, outcomes["held_back"], settings.at_most)
        if outcomes["unreadable"]:
            log.warning("sink %s: %d records are no events of ours, passed over", name, outcomes["unreadable"])

    def _report(self) -> None:
        """Send what was held back as one message, once a day."""
        summary = self._ledger.summary(self.settings.name, str(self.settings.at_most), self._now())
        if summary is None:
            return
        log.warning("sink %s: %s since %s", self.settings.name, summary.summary, summary.since)
        going = Outgoing(summary.id, summary.revision, summary.sink, messages.encode(summary))
        outcome = self._send(going)
        if outcome is not None:
            self._ledger.reported()
            self._metrics.events.labels(self.settings.name, outcome).inc()

    def _deal_with(self, committed: CommittedEvent) -> str | None:
        """What became of an event; None where we are to stop before that is known."""
        event = read_event(committed.value)
        if event is None:
            return "unreadable"
        going = outgoing(event, committed.value)
        opened = self._ledger.opened(going.id)
        if opened is not None and ends(event) and wants_status(self.settings, event):
            # whatever has happened to the sensor's rule, its mutes or the allowance since
            outcome = self._send(going)
            if outcome is not None:
                self._ledger.close(going.id)
            return outcome
        if not is_wanted(self.settings, event):
            return "unwanted"
        if ends(event) and self._remembers(event):
            return "unwanted"  # what it ends was not sent
        if not isinstance(event, messages.Incident | messages.AlarmEvent) or ends(event) or not self._remembers(event):
            return self._filtered(event, committed) or self._send(going)
        return self._open(event, committed, going, opened)

    def _remembers(self, event: messages.Event | messages.Incident) -> bool:
        """Whether the sink gets the message that opens what this one is about, and so has to remember it.

        Without a limit, a sink gets every revision of an incident.
        """
        if isinstance(event, messages.Incident):
            return self._limit is not None
        return isinstance(event, messages.AlarmEvent) and (not self.settings.only or "raised" in self.settings.only)

    def _open(
        self, event: messages.AlarmEvent | messages.Incident, committed: CommittedEvent, going: Outgoing,
        opened: Opened | None,
    ) -> str | None:  # fmt: skip
        """Deal with a raised alarm or an open incident. Sent before a crash, it is sent again."""
        group = event.group if isinstance(event, messages.Incident) else None
        noted = Opened(committed.published, event.revision, group)
        if opened is not None and opened.revision < event.revision:  # more members of the incident
            self._ledger.note(going.id, msgspec.structs.replace(opened, published=committed.published))
            return "in_incident"
        before = self._ledger.tally.allowance
        if opened is None:
            reason = self._filtered(event, committed) or self._held_back(event, committed)
            if reason is not None:
                return reason
            self._ledger.note(going.id, noted)
            self._reader.save(self._ledger.take_changes())
        outcome = self._send(going)
        if outcome == "given_up":
            self._ledger.close(going.id)
            self._ledger.spend(msgspec.structs.replace(self._ledger.tally.allowance, sent=before.sent))
        return outcome

    def _held_back(self, event: messages.AlarmEvent | messages.Incident, committed: CommittedEvent) -> str | None:
        """Return why a limited sink is not sent an alarm or an incident; None if it is, which is then spent."""
        if self._limit is None:
            return None
        now, ratio = self._now(), math.inf  # an incident stands for many alarms
        if isinstance(event, messages.AlarmEvent):
            if event.labels.get("critical") is True:
                return None
            if self._is_in_incident(event, committed.published):
                self._ledger.count("in_incident", now)
                return "in_incident"
            ratio = ratio_of(event)
        after, passes = allowance.decide(self._limit, self._ledger.tally.allowance, ratio, now)
        self._ledger.spend(after)
        if passes:
            return None
        self._ledger.count("held_back", now)
        return "held_back"

    def _is_in_incident(self, event: messages.AlarmEvent, published: int) -> bool:
        policy = self._incidents
        since = published - int(_SPANS_APART * policy.span_s * 1000)
        return policy.of == "alarms" and self._ledger.is_in_incident(group_of(event, policy.group_by), since)

    def _filtered(self, event: messages.Event | messages.Incident, committed: CommittedEvent) -> str | None:
        """Return why an event is not sent, None if it is."""
        if self._now() - self._counted_from(event, committed.published) > self.settings.max_age_s:
            return "too_old"
        sensors = [one.sensor for one in event.members] if isinstance(event, messages.Incident) else [event.sensor]
        if all(self._book.is_muted(sensor, committed.published * 1000) is not None for sensor in sensors):
            return "muted"
        return None

    def _counted_from(self, event: messages.Event | messages.Incident, published: int) -> float:
        """When the event was news, in seconds. A replay of old input publishes today what happened long ago."""
        said = event.at if isinstance(event, messages.Incident) else messages.time_of(event)
        if self.settings.age == "publication" or said is None:
            return published / 1e3
        return min(published / 1e3, from_rfc3339(said) / 1e6)

    def _send(self, going: Outgoing) -> str | None:
        settings = self.settings
        backoff = settings.backoff_s
        for attempt in range(1, settings.attempts + 1):
            try:
                self._sink.send(going)
                return "sent"
            except DeliveryRefused as refused:
                return self._give_up(going.key, going.sensor, str(refused))
            except TryAgain as again:
                if attempt == settings.attempts:
                    return self._give_up(going.key, going.sensor, f"{attempt} attempts, the last: {again}")
                # between half and all of it, so that many senders do not come back at once
                pause = max(backoff * self._rng.uniform(0.5, 1.0), again.after)
                log.info("sink %s: %s again in %.1f s: %s", settings.name, going.key, pause, again)
            self._wait(min(pause, LONGEST_WAIT))
            if self._stopping.is_set():
                return None
            self._metrics.retries.labels(settings.name).inc()
            backoff = min(2.0 * backoff, LONGEST_WAIT)
        raise AssertionError("the last attempt returns")

    def _give_up(self, key: str, sensor: str, reason: str) -> str:
        log.error("sink %s: event %s of %s given up: %s", self.settings.name, key, sensor, reason)
        return "given_up"


class Deliveries:
    """Sinks side by side, each on a thread of its own. When one ends for a reason of its own, all are to stop."""

    def __init__(self, stopping: threading.Event) -> None:
        self.stopping = stopping
        self._threads: list[threading.Thread] = []
        self._deliveries: list[Delivery] = []
        self._failure: BaseException | None = None

    def start(self, delivery: Delivery) -> None:
        """Run it from now on."""

        def work() -> None:
            try:
                delivery.run()
            except BaseException as error:
                self._failure = error
                self.stopping.set()

        thread = threading.Thread(target=work, name=f"sink {delivery.settings.name}", daemon=True)
        self._threads.append(thread)
        self._deliveries.append(delivery)
        thread.start()

    def all_run(self) -> bool:
        """Whether none has ended."""
        return all(thread.is_alive() for thread in self._threads)

    def finish(self, seconds: float) -> None:
        """Deal with what is there, for so long, and end."""
        for delivery in self._deliveries:
            delivery.ends.set()
        self.join(seconds)
        self.stopping.set()
        self.join()

    def join(self, seconds: float = 60.0) -> None:
        """Wait until all have ended, once they are told to."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def raise_failure(self) -> None:
        """Raise what ended one of them."""
        if self._failure is not None:
            raise self._failure


_decode: Callable[[bytes], messages.Event | messages.Incident] = msgspec.json.Decoder(
    messages.Event | messages.Incident
).decode


def read_event(value: bytes) -> messages.Event | messages.Incident | None:
    """Decode an event or an incident; None if it is neither."""
    try:
        return _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def ends(event: messages.Event | messages.Incident) -> bool:
    """Whether a message ends an alarm or an incident."""
    if isinstance(event, messages.Incident):
        return event.status != "open"
    return isinstance(event, messages.AlarmEvent) and event.status == "cleared"


def ratio_of(alarm: messages.AlarmEvent) -> float:
    """Return how many times over its sensor's budget an alarm is; 1 if that is not known."""
    if alarm.return_period_s is None or not alarm.budget_s:
        return 1.0
    return alarm.return_period_s / alarm.budget_s


def wants_status(settings: SinkSettings, event: messages.Event | messages.Incident) -> bool:
    """Whether a sink is for events of this status. Without ``only`` it is for alarms and notices, not for changes."""
    if isinstance(event, messages.Incident):
        return settings.gets_incidents
    status = messages.status_of(event)
    return status in settings.only if settings.only else status not in CHANGES + ABOUT_STATES


def is_wanted(settings: SinkSettings, event: messages.Event | messages.Incident) -> bool:
    """Whether a sink is for an event: its status, labels and sensor. An incident has several sensors and no labels."""
    if not wants_status(settings, event):
        return False
    if isinstance(event, messages.Incident):
        return any(fnmatch.fnmatchcase(member.sensor, settings.sensors) for member in event.members)
    if any(event.labels.get(name) != value for name, value in settings.labels.items()):
        return False
    return fnmatch.fnmatchcase(event.sensor, settings.sensors)
