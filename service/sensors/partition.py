"""The sensors of one partition: records in, messages and snapshots out. Knows nothing of Kafka.

Readings are handed to each sensor's track as one window a cycle. A track's state reaches its changelog some time after
its readings were committed, so a partition knows from which input offset on readings are in no snapshot: from there a
restore replays.
"""

from __future__ import annotations

import heapq
import logging
import math
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import ishsmm_stream as hs
from service.operations.control import NEVER, ControlBook
from service.runtime.snapshot_store import Saved, SavedStates
from service.sensors import envelope
from service.sensors.crashes import CrashJournal, Stretch
from service.sensors.inference import Inference, take
from service.sensors.track import PreparedRule, Published, Track, TrackError, prepare_rule
from service.settings import Settings
from service.wire import messages
from service.wire.decoding import Decoder
from service.wire.readings import EARLIEST, LATEST, BadRecord, Reading

log = logging.getLogger(__name__)


class Window:
    """What a sensor measured since the cycle began, on its way to the detector."""

    __slots__ = ("first", "newest", "offset", "readings", "track")

    def __init__(self, track: Track) -> None:
        self.track = track
        self.readings: list[tuple[int, tuple[float, ...], int]] = []  # time, values, steps missing before
        self.newest = EARLIEST  # of their times
        self.first = -1  # offset of the first one's record, -1 before there is one,
        self.offset = 0  # and of the last one's


Pending = dict[str, Window]  # by sensor


class Accepted(NamedTuple):
    """Records of a cycle, decoded and judged."""

    windows: list[Window]
    outputs: list[Output]  # what is to be published so far
    records: int
    readings: int


class Record(Protocol):
    """A record of the input."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


class Output(NamedTuple):
    """Something to publish: ``kind`` is a key of ``Topics.names``."""

    kind: str
    key: bytes
    value: bytes


RecordDecoder = Callable[[Any], list[Reading]]  # of a record


def decode_with(decode: Decoder) -> RecordDecoder:
    """A decoder of records that are all of one kind."""
    return lambda record: decode(record.key, record.value, record.timestamp)


class Rules:
    """The rule of every sensor, prepared once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prepared: dict[int, PreparedRule] = {}

    def of(self, sensor: str) -> PreparedRule:
        """The rule that follows the sensor."""
        rule = self._settings.rule_for(sensor)
        prepared = self._prepared.get(id(rule))
        if prepared is None:
            prepared = self._prepared[id(rule)] = prepare_rule(rule)
        return prepared


def dead_letter(record: Record, bad: BadRecord, reading: int | None = None) -> Output:
    """The record as a dead letter."""
    letter = messages.dead_letter(
        bad.reason, bad.detail,
        topic=record.topic, partition=record.partition, offset=record.offset, timestamp=record.timestamp,
        key=record.key, value=record.value, reading=reading,
    )  # fmt: skip
    return Output("dead_letters", record.key or b"", messages.encode(letter))


_NONE: Counter[str] = Counter()  # never changed


class Counts(NamedTuple):
    """What a cycle did, for metrics."""

    records: int = 0
    readings: int = 0
    dead_letters: int = 0
    events: int = 0
    states: int = 0
    forwarded: int = 0  # readings
    inference_seconds: float = 0.0
    promised: Counter[str] = _NONE  # by rule: alarms that the sensors' budgets allow for these readings,
    raised: Counter[str] = _NONE  # those that were raised,
    observed: Counter[str] = _NONE  # and the seconds that the readings span, of each sensor


def add_up(counts: Iterable[Counts]) -> Counts:
    """What several did together."""
    return Counts(*(sum(column[1:], start=column[0]) for column in zip(Counts(), *counts, strict=True)))


class Partition:
    """The sensors of a partition.

    ``room_for_sensor`` says whether the worker takes on one more. ``control`` may change between two calls: resets
    and acceptances hold from the next reading on that ``take`` is given, what is to be forgotten goes with ``forget``.
    ``origin``: of the records.
    """

    def __init__(
        self,
        number: int,
        rules: Rules,
        decode: RecordDecoder,
        store: SavedStates,
        room_for_sensor: Callable[[], bool],
        snapshot_within: float = 60.0,
        control: ControlBook | None = None,
        origin: envelope.Origin = envelope.Origin(),
        journal: CrashJournal | None = None,
    ) -> None:
        self.number = number
        self._origin = origin
        self._journal = journal
        self.next_offset = 0
        self.clock = 0  # the newest reading time in the partition: its stream time
        self._rules = rules
        self._decode = decode
        self._store = store
        self._room_for_sensor = room_for_sensor
        self._snapshot_within = snapshot_within
        self._control = ControlBook() if control is None else control
        self._to_forget: set[str] = set()  # found in what was replayed
        self._to_begin_afresh: set[str] = set()  # likewise, with another model than the readings were taken by
        self._promised: Counter[str] = Counter()  # alarms by rule since the cycle began, see Counts
        self._raised: Counter[str] = Counter()
        self._observed: Counter[str] = Counter()
        self._tracks: dict[str, Track] = {}  # least recently used first
        self._unsaved: dict[str, tuple[int, float]] = {}  # first offset that is in no snapshot, and since when
        self._next_offset: dict[str, int] = {}  # by sensor: what its state has seen
        self._last_seen: dict[str, int] = {}  # every sensor, evicted ones too
        self._saved: set[str] = set()  # sensors with a snapshot
        self._silent: set[str] = set()
        self._fresh: dict[str, str] = {}  # why sensors start afresh, where it is not their rule
        self._to_report: set[str] = set()  # sensors that were set aside and not reported yet
        self._moved: set[str] = set()  # sensors whose state was read from a topic that is gone
        self._is_replaying = False
        self._deadlines: list[tuple[int, str]] = []
        self._arrived: list[str] = []

    # Where it stands

    @property
    def sensors(self) -> int:
        """How many it has seen."""
        return len(self._last_seen)

    @property
    def in_memory(self) -> int:
        """How many detectors are in memory."""
        return len(self._tracks)

    @property
    def silent(self) -> int:
        """How many sensors have fallen silent."""
        return len(self._silent)

    def look(self, sensor: str) -> Track | None:
        """A copy of a sensor's track as it stands; None where there is no such sensor."""
        if sensor not in self._last_seen:
            return None
        track = self._tracks.get(sensor)
        if track is not None and track.set_aside:
            return None
        if track is not None:
            return Track.load(sensor, track.dump(), track.prepared)
        saved = self._store.get(self.number, sensor)
        assert saved is not None
        return self._from(sensor, saved)

    def is_silent(self, sensor: str) -> bool:
        """Whether a sensor has fallen silent."""
        return sensor in self._silent

    @property
    def last_seen(self) -> Mapping[str, int]:
        """Every sensor, and the time of its newest reading in microseconds."""
        return self._last_seen

    def take_arrived(self) -> list[str]:
        """The sensors that are new since the last call."""
        taken, self._arrived = self._arrived, []
        return taken

    def detectors(self, sensors: Iterable[str]) -> Iterable[hs.OnlineDetector]:
        """The detectors of sensors, those that are in memory."""
        return (self._tracks[sensor].detector for sensor in sensors if sensor in self._tracks)

    def unsaved_from(self, saved: Iterable[str] = ()) -> int:
        """The first offset of the input that is in no snapshot, once the sensors ``saved`` are in one."""
        saved = set(saved)
        unsaved = (offset for sensor, (offset, _) in self._unsaved.items() if sensor not in saved)
        return min(unsaved, default=self.next_offset)

    def begin(
        self,
        next_offset: int,
        clock: int,
        replayed: Iterable[Record] = (),
        moved: Collection[str] = (),
        end: float = math.inf,
    ) -> None:
        """Stand at ``next_offset`` and ``clock`` as they were committed.

        The store is as it was read from the changelog; ``replayed`` are the records up to there that may be in no
        snapshot. The states of the sensors in ``moved`` were read from an earlier topic of the same name: their offsets
        say nothing about this one. Nor do offsets after the partition's ``end``, which brokers may have lost."""
        # what is damaged is found when the sensor is loaded; until then its numbers must do no harm
        self._last_seen = {
            sensor: seen if type(seen) is int and EARLIEST <= seen <= LATEST else 0
            for sensor, seen in self._store.last_seen(self.number).items()
            if isinstance(sensor, str)
        }
        self._saved = set(self._last_seen)
        self._moved = set(moved)
        self._next_offset = {
            sensor: seen
            for sensor, seen in self._store.next_offsets(self.number).items()
            if sensor not in self._moved and type(seen) is int and seen <= end
        }
        self.next_offset = next_offset
        self._set_aside()
        self._is_replaying = True
        self.take(replayed)  # published before
        self._is_replaying = False
        self._to_begin_afresh.clear()
        self.next_offset = next_offset
        self.clock = clock
        self._silent.clear()
        self._deadlines.clear()
        self._arrived = list(self._last_seen)
        for sensor, seen in self._last_seen.items():
            self._expect(sensor, seen)

    def _set_aside(self) -> None:
        """Give the sensors that crashed a worker twice a track that takes no readings, saved with the next commit."""
        for sensor in self._journal.set_aside(self.number) if self._journal is not None else ():
            saved = self._store.get(self.number, sensor)
            generation = 0 if saved is None else envelope.next_generation(saved)
            track = Track(sensor, self._rules.of(sensor), generation, None)
            track.set_aside = "its readings crashed the worker twice"
            self._tracks[sensor] = track
            self._unsaved[sensor] = (self.next_offset, -math.inf)
            self._last_seen.setdefault(sensor, 0)
            self._to_report.add(sensor)

    # Records in

    def take(self, records: Iterable[Record]) -> tuple[list[Output], Counts]:
        """Take records in; returns what is to be published."""
        (outputs,), counts = take_all([(self, records)], publishes=not self._is_replaying, journal=self._journal)
        return outputs, counts

    def accept(self, records: Iterable[Record]) -> Accepted:
        """Decode records and judge their readings, which is the first half of taking them in."""
        outputs: list[Output] = []
        pending: Pending = {}
        n_records = n_readings = 0
        for record in records:
            n_records += 1
            self.next_offset = record.offset + 1
            try:
                readings = self._decode(record)
            except BadRecord as bad:
                outputs.append(dead_letter(record, bad))
                continue
            for reading in readings:
                window = pending.get(reading.sensor)
                try:
                    if window is None:
                        n_readings += self._accept_first(record, reading, pending, outputs)
                    else:
                        self._accept(window, record, reading, pending, outputs)
                        n_readings += 1
                except BadRecord as bad:
                    place = next(i for i, one in enumerate(readings) if one is reading)
                    outputs.append(dead_letter(record, bad, place if len(readings) > 1 else None))
        return Accepted(list(pending.values()), outputs, n_records, n_readings)

    def conclude(self, accepted: Accepted, published: Sequence[Published]) -> Counts:
        """The second half: what came of the windows, and of time that has passed, joins the outputs."""
        outputs = accepted.outputs
        self._publish(accepted.windows, published, outputs)
        self._report_silent(outputs)
        kinds = [output.kind for output in outputs]
        promised, raised, observed = self._promised, self._raised, self._observed
        self._promised, self._raised, self._observed = Counter(), Counter(), Counter()
        return Counts(
            accepted.records, accepted.readings, kinds.count("dead_letters"), kinds.count("events"),
            kinds.count("states"),
            promised=promised, raised=raised, observed=observed,
        )  # fmt: skip

    def _accept_first(self, record: Record, reading: Reading, pending: Pending, outputs: list[Output]) -> int:
        """A sensor's first reading of the cycle opens its window. Returns whether it was taken; BadRecord where it is
        refused."""
        sensor = reading.sensor
        if record.offset < self._next_offset.get(sensor, 0):
            return 0  # replayed, and already in the snapshot
        if self._is_replaying and sensor in self._control.forgotten and self._is_forgotten(sensor):
            # What came after it was forgotten would be in a snapshot.
            self._to_forget.add(sensor)
            return 0
        if self._is_replaying and sensor in self._to_begin_afresh:
            return 0
        track = self._track(sensor)
        if track.set_aside and track.generation > self._control.finished.get(sensor, NEVER):
            return self._refuse(track, reading, outputs)
        starts_generation = not track.has_readings and (sensor in self._saved or track.generation > 0)
        if self._is_replaying:
            if starts_generation:
                del self._tracks[sensor]
                self._to_begin_afresh.add(sensor)
                return 0
        elif track.generation <= self._control.finished.get(sensor, NEVER):
            track, starts_generation = self._reset(track), True
        window = Window(track)
        self._accept(window, record, reading, pending, outputs)
        pending.setdefault(sensor, window)
        accepted = self._accept_behaviour(track, reading.time)
        if sensor not in self._last_seen:
            self._note_time(track, reading.time)  # it counts from now on
        if sensor in self._moved:
            self._moved.discard(sensor)
            why = "its topic was deleted and created again: its detector continues with the readings of the new topic"
            notice = track.notice("topic_recreated", reading.time, why)
            outputs.append(Output("events", sensor.encode(), messages.encode(notice)))
            self._unsaved[sensor] = (record.offset, -math.inf)  # said once, as below
        if starts_generation:
            why = self._fresh.pop(sensor, "the rule's model, prior, transform or season is another one")
            notice = track.notice("new_generation", reading.time, why)
            said: list[messages.Event] = [notice] if track.ended is None else [track.ended, notice]
            outputs += [Output("events", sensor.encode(), messages.encode(one)) for one in said]
            # Saved with the commit that says so: said once, whatever happens next.
            self._unsaved[sensor] = (record.offset, -math.inf)
        elif sensor not in self._unsaved:
            self._unsaved[sensor] = (record.offset, time.monotonic() - self._head_start(sensor))
        if accepted is not None:
            outputs += [Output("events", sensor.encode(), messages.encode(one)) for one in accepted]
            self._unsaved[sensor] = (self._unsaved[sensor][0], -math.inf)  # likewise said once
        return 1

    def _refuse(self, track: Track, reading: Reading, outputs: list[Output]) -> int:
        """A reading of a sensor that is set aside is a dead letter; those that are replayed were published before."""
        if self._is_replaying:
            return 0
        if track.sensor in self._to_report:
            self._to_report.discard(track.sensor)
            notice = track.notice("set_aside", reading.time, track.set_aside)
            outputs.append(Output("events", track.sensor.encode(), messages.encode(notice)))
        raise BadRecord("set_aside", f"{track.set_aside}; `ishsmm-stream reset` lets it start afresh")

    def _accept_behaviour(self, track: Track, time: int) -> list[messages.Event] | None:
        """Where people have accepted what a sensor does, so does its track, before its reading of this time. Not in a
        replay: an acceptance is saved with the commit that says so."""
        said, moment = self._control.acceptances.get(track.sensor, (None, 0))
        if said is None or self._is_replaying or said.generation != track.generation or moment <= track.acceptance:
            return None
        return track.accept(moment, said.by, time)

    def _accept(
        self, window: Window, record: Record, reading: Reading, pending: Pending, outputs: list[Output]
    ) -> None:
        """Put a reading in its sensor's window; BadRecord where it is refused. Every reading passes here."""
        track, moment = window.track, reading.time
        prepared = track.prepared
        values = reading.values if prepared.prepare is None else prepared.prepare(reading.values)
        released = track.reorder(reading, record.timestamp) if track.reorders else None
        missing = track.judge(reading, record.timestamp) if released is None else 0
        if prepared.silent_after is not None and self._was_silent(track, moment, pending, outputs):
            window = pending[reading.sensor] = Window(track)
        if released is None:
            window.readings.append((moment, values, missing))
        else:
            prepare = prepared.prepare or (lambda values: values)
            window.readings += [(one.time, prepare(one.values), missing) for one, missing in released]
        window.offset = record.offset
        if window.first < 0:
            window.first = record.offset
        if moment > window.newest:
            window.newest = moment
        if moment > self.clock:
            self.clock = moment

    def _publish(self, windows: Sequence[Window], published: Sequence[Published], outputs: list[Output]) -> None:
        """What came of windows, for the topics."""
        for window, (events, states) in zip(windows, published, strict=True):
            # the record's other readings may be of the same sensor
            self._next_offset[window.track.sensor] = window.offset
            self._note_time(window.track, window.newest)
            track, read = window.track, len(window.readings)
            key, rule = track.sensor.encode(), track.rule.match
            self._promised[rule] += read / track.every  # type: ignore[assignment]
            self._observed[rule] += read * track.interval_s  # type: ignore[assignment]
            self._raised[rule] += sum(messages.status_of(event) == "raised" for event in events)
            outputs += [Output("events", key, messages.encode(event)) for event in events]
            outputs += [Output("states", key, messages.encode(state)) for state in states]

    def _track(self, sensor: str) -> Track:
        """The sensor's track: in memory, from the store, or a new one."""
        track = self._tracks.pop(sensor, None)
        if track is None:
            track = self._load(sensor)
        self._tracks[sensor] = track  # most recently used
        return track

    def _load(self, sensor: str) -> Track:
        saved = self._store.get(self.number, sensor)
        is_over = saved is not None and saved.generation <= self._control.forgotten.get(sensor, NEVER)
        if saved is not None and not (envelope.is_plausible(saved) and is_over):
            return self._from(sensor, saved)
        if sensor not in self._last_seen and not self._room_for_sensor():
            raise BadRecord("too_many_sensors", f"{sensor!r} would be one more than limits.sensors allows")
        finished = self._control.finished_generation(sensor)
        if finished == NEVER or self._is_replaying:
            return Track(sensor, self._rules.of(sensor))
        self._fresh[sensor] = "it was forgotten" if sensor in self._control.forgotten else "reset"
        return Track(sensor, self._rules.of(sensor), finished + 1, None)

    def _reset(self, track: Track) -> Track:
        """The sensor's next generation, which has seen nothing."""
        sensor = track.sensor
        self._fresh[sensor] = "reset"
        self._tracks[sensor] = track.next_generation(self._control.finished_generation(sensor) + 1)
        return self._tracks[sensor]

    def _from(self, sensor: str, saved: Saved) -> Track:
        """The track that was saved; a new generation where its rule infers otherwise, or it cannot be read."""
        prepared = self._rules.of(sensor)
        try:
            envelope.origin_of(self.number, sensor, saved)
            return Track.load(sensor, saved.state, prepared)
        except Exception as error:  # whatever it is: one sensor's state must not stop the others
            if not isinstance(error, (envelope.Damaged, TrackError)):
                log.exception("the saved state of %r cannot be loaded", sensor)
            self._fresh[sensor] = f"its saved state cannot be used: {error}"
            return Track(sensor, prepared, envelope.next_generation(saved), None)

    # Forgetting

    def forget(self) -> list[str]:
        """Drop the sensors that are to be forgotten; returns them. What else is kept of them goes with the commit."""
        named = [sensor for sensor in self._control.forgotten if sensor in self._last_seen]
        gone = self._to_forget.union(sensor for sensor in named if self._is_forgotten(sensor))
        self._to_forget.clear()
        for sensor in gone:
            for kept in (self._tracks, self._unsaved, self._next_offset, self._last_seen, self._fresh):
                kept.pop(sensor, None)
            self._saved.discard(sensor)
            self._silent.discard(sensor)
            self._store.delete(self.number, sensor)
        return sorted(gone)

    def _is_forgotten(self, sensor: str) -> bool:
        """Whether what is kept of a sensor is of a generation that is to be forgotten."""
        if (track := self._tracks.get(sensor)) is not None:
            generation = track.generation
        else:
            saved = self._store.get(self.number, sensor)
            generation = NEVER if saved is None else saved.generation
        return generation <= self._control.forgotten[sensor]

    # Silence, judged by the partition's stream time

    def _was_silent(self, track: Track, moment: int, pending: Pending, outputs: list[Output]) -> bool:
        """Say so where a reading ends its sensor's silence."""
        sensor, limit, window = track.sensor, track.prepared.silent_after, pending.get(track.sensor)
        seen = self._last_seen.get(sensor)
        if window is not None and (seen is None or window.newest > seen):
            seen = window.newest
        if limit is None or seen is None or self.clock <= seen + limit:
            return False
        if window is not None:
            del pending[sensor]  # what came before is said before
            self._publish([window], [take(track, window.readings, not self._is_replaying)], outputs)
        self._tell_silent(sensor, seen + limit, outputs)
        self._silent.discard(sensor)
        notice = track.notice("back", moment, "a reading came")
        outputs.append(Output("events", sensor.encode(), messages.encode(notice)))
        return True

    def _note_time(self, track: Track, moment: int) -> None:
        sensor = track.sensor
        seen = self._last_seen.get(sensor)
        if seen is None:
            self._arrived.append(sensor)
        if seen is None or moment > seen:
            self._last_seen[sensor] = moment
            limit = track.prepared.silent_after
            if limit is not None and (seen is None or sensor not in self._silent):
                heapq.heappush(self._deadlines, (moment + limit, sensor))

    def _expect(self, sensor: str, seen: int) -> None:
        limit = self._rules.of(sensor).silent_after
        if limit is None:
            return
        if seen + limit < self.clock:
            self._silent.add(sensor)  # as was said before the restore
        else:
            heapq.heappush(self._deadlines, (seen + limit, sensor))

    def _report_silent(self, outputs: list[Output]) -> None:
        while self._deadlines and self._deadlines[0][0] < self.clock:
            _, sensor = heapq.heappop(self._deadlines)
            limit, seen = self._rules.of(sensor).silent_after, self._last_seen.get(sensor)
            if limit is not None and seen is not None and seen + limit < self.clock:
                self._tell_silent(sensor, seen + limit, outputs)

    def _tell_silent(self, sensor: str, deadline: int, outputs: list[Output]) -> None:
        if sensor in self._silent:
            return
        self._silent.add(sensor)
        track = self._tracks.get(sensor)
        if track is None:
            saved = self._store.get(self.number, sensor)
            assert saved is not None
            track = self._from(sensor, saved)
        notice = track.notice("silent", deadline, "no reading came for as long as the rule allows")
        outputs.append(Output("events", sensor.encode(), messages.encode(notice)))

    # Snapshots out

    def _head_start(self, sensor: str) -> float:
        """Seconds by which a sensor's first snapshot comes early: a fleet that started at once is spread over time."""
        if sensor in self._saved:
            return 0.0
        return self._snapshot_within * (zlib.crc32(sensor.encode()) / 2**32)

    def snapshots(self, older_than: float, most: int) -> list[tuple[str, Saved]]:
        """The states of sensors whose oldest unsaved reading came before the time ``older_than`` (monotonic), the
        oldest first, at most so many."""
        due = sorted((since, sensor) for sensor, (_, since) in self._unsaved.items() if since <= older_than)
        at_once = sum(since == -math.inf for since, _ in due)  # new generations, still small, and acceptances
        found = []
        for _, sensor in due[: max(most, at_once)]:
            track = self._tracks[sensor]
            saved = Saved(self.next_offset, self._last_seen[sensor], track.generation, track.dump())
            found.append((sensor, envelope.seal(self.number, sensor, saved, self._origin)))
        return found

    def saved(self, snapshots: Iterable[tuple[str, Saved]]) -> None:
        """The snapshots are committed."""
        snapshots = list(snapshots)
        for sensor, saved in snapshots:
            self._unsaved.pop(sensor, None)
            self._saved.add(sensor)
            self._next_offset[sensor] = saved.next_offset
        self._store.put(self.number, snapshots)

    def evict(self, most: int) -> int:
        """Drop at most ``most`` detectors from memory that are saved, the least recently used first."""
        names = [sensor for sensor in self._tracks if sensor not in self._unsaved][:most]
        for sensor in names:
            del self._tracks[sensor]
            self._next_offset.pop(sensor, None)
        return len(names)


def take_all(
    batches: Iterable[tuple[Partition, Iterable[Record]]], *, threads: int = 0, publishes: bool = True,
    journal: CrashJournal | None = None,
) -> tuple[list[list[Output]], Counts]:  # fmt: skip
    """Take records of several partitions in, as each would alone, with inference on so many ``threads`` beside this
    one; returns what each is to publish, which is little unless it ``publishes``."""
    taken = []
    with Inference(threads, publishes, journal) as inference:
        for partition, records in batches:
            accepted = partition.accept(records)
            feeds = inference.add(
                [
                    (
                        window.track,
                        window.readings,
                        Stretch(partition.number, window.track.sensor, window.first, window.offset),
                    )
                    for window in accepted.windows
                ]
            )
            taken.append((partition, accepted, feeds))
        inference.finish()
    counts = [partition.conclude(accepted, [feed.published for feed in feeds]) for partition, accepted, feeds in taken]
    return [accepted.outputs for _, accepted, _ in taken], add_up(counts)._replace(inference_seconds=inference.seconds)
