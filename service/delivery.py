"""Committed events to a sink, at least once.

    read -> filter -> send, a bounded number of times -> note the place

The place is noted after the sink has the events: a crash in between sends them again, with the same id and revision.
Events that are too old or muted are passed over, and one that the receiver does not take is given up after the last
attempt, so that it does not hold up the others; all of it is counted and said in the log.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import prometheus_client

from service import messages
from service.control import ControlBook, moment
from service.settings.sinks import CHANGES, LONGEST_WAIT, SinkSettings
from service.sinks.sink import Refused, Sink, TryAgain, outgoing

log = logging.getLogger(__name__)

OUTCOMES = ("sent", "given_up", "too_old", "muted", "unwanted", "unreadable")
# After so many seconds the place is noted and the reader asked again: it may have to show that it is alive.
_LONGEST_BATCH = 30.0
_POLL_SECONDS = 0.5
_MOST_RAISES = 100_000  # open alarms of which it is remembered whether their raise was sent


class Committed(NamedTuple):
    """An event that will not be taken back."""

    value: bytes
    published: int  # milliseconds since the epoch
    place: Any  # the reader's own


class Reader(Protocol):
    """Committed events in their order, and how far they are dealt with."""

    def read(self, timeout: float) -> Sequence[Committed]:
        """The next events that are not done, some hundred at most; waits so many seconds for the first."""
        ...

    def done(self, events: Sequence[Committed]) -> None:
        """These, the first ones of what was last read, are dealt with. The others come again."""
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
        self._raises: dict[str, bool] = {}  # open alarms by id: whether their raise was sent
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
        if events:
            self._reader.done(events[:dealt_with])
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
        if outcomes["unreadable"]:
            log.warning("sink %s: %d records are no events of ours, passed over", name, outcomes["unreadable"])

    def _deal_with(self, committed: Committed) -> str | None:
        """What became of an event; None where we are to stop before that is known."""
        event = read_event(committed.value)
        if event is None:
            return "unreadable"
        if not is_wanted(self.settings, event):
            return "unwanted"
        if isinstance(event, messages.AlarmEvent) and event.status == "cleared" and event.id in self._raises:
            # sent exactly if its raise was, even if the sensor is muted by now
            return self._send(event, committed.value) if self._raises.pop(event.id) else "unwanted"
        outcome = self._filtered(event, committed) or self._send(event, committed.value)
        if isinstance(event, messages.AlarmEvent) and event.status == "raised" and outcome is not None:
            self._raises[event.id] = outcome == "sent"
            while len(self._raises) > _MOST_RAISES:
                del self._raises[next(iter(self._raises))]
        return outcome

    def _filtered(self, event: messages.Event, committed: Committed) -> str | None:
        """Return why an event is not sent, None if it is."""
        if self._now() - self._counted_from(event, committed.published) > self.settings.max_age_s:
            return "too_old"
        if self._book.is_muted(event.sensor, committed.published * 1000) is not None:
            return "muted"
        return None

    def _counted_from(self, event: messages.Event, published: int) -> float:
        """When the event was news, in seconds. A replay of old input publishes today what happened long ago."""
        said = messages.time_of(event)
        if self.settings.age == "publication" or said is None:
            return published / 1e3
        return min(published / 1e3, moment(said) / 1e6)

    def _send(self, event: messages.Event, value: bytes) -> str | None:
        settings, going = self.settings, outgoing(event, value)
        backoff = settings.backoff_s
        for attempt in range(1, settings.attempts + 1):
            try:
                self._sink.send(going)
                return "sent"
            except Refused as refused:
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


def read_event(value: bytes) -> messages.Event | None:
    """The event; None for what is none of ours."""
    try:
        message = messages.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return message if isinstance(message, messages.Event) else None


def is_wanted(settings: SinkSettings, event: messages.Event) -> bool:
    """Whether a sink is for an event. Without ``only`` it is for alarms and notices, not for changes."""
    status = messages.status_of(event)
    if status not in settings.only if settings.only else status in CHANGES:
        return False
    if any(event.labels.get(name) != value for name, value in settings.labels.items()):
        return False
    return fnmatch.fnmatchcase(event.sensor, settings.sensors)
