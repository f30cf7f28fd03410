"""The sensors of one partition: records in, messages and snapshots out. Independent of where the records are stored.

Each sensor's track gets its readings of a cycle as one batch. A track's state is saved some time after its readings
were committed. So a partition tracks the input offset from which on readings are in no snapshot. A restore replays
from there.
"""

from __future__ import annotations

import heapq
import logging
import math
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import ishsmm_stream as hs
from service.operations.control import NEVER, ControlBook
from service.sensors import envelope
from service.sensors.counts import CycleCounts
from service.sensors.crashes import CrashJournal
from service.sensors.inference import SensorBatch, infer
from service.sensors.pipeline import process
from service.sensors.records import InputRecord, Outbound, RecordDecoder, about, dead_letter
from service.sensors.rules import Rules
from service.sensors.saved import Saved, SavedStates
from service.sensors.track import Published, Track, TrackError
from service.wire import messages
from service.wire.readings import EARLIEST, LATEST, BadRecord, Reading

log = logging.getLogger(__name__)

_AT_ONCE = -math.inf  # ``unsaved_since`` of a state that has to be saved with the next commit


class AcceptedRecords(NamedTuple):
    """Decoded records of a cycle, with checked readings."""

    batches: list[SensorBatch]
    outputs: list[Outbound]  # outputs so far
    records: int
    readings: int


class SensorSlot:
    """A partition's data about a sensor, whether its detector is in memory or not."""

    __slots__ = (
        "fresh_because", "is_moved", "is_reported", "is_saved", "is_silent", "last_seen", "next_offset", "track",
        "unsaved_from", "unsaved_since",
    )  # fmt: skip

    def __init__(self) -> None:
        self.track: Track | None = None  # None: its state is in the store
        self.last_seen: int | None = None  # time of the newest reading, microseconds; None: no reading was accepted yet
        self.next_offset = 0  # its state has seen everything before
        self.unsaved_from = 0  # first offset that is in no snapshot
        self.unsaved_since = math.inf  # since when there is one (monotonic)
        self.is_saved = False
        self.is_silent = False
        self.is_moved = False  # its state was read from an earlier topic of the same name
        self.is_reported = True  # False: it was set aside, and this was not published yet
        self.fresh_because = ""  # why it starts afresh, if the reason is not its rule

    def must_save(self, offset: int, since: float = _AT_ONCE) -> None:
        """Mark readings from ``offset`` on as being in no snapshot."""
        self.unsaved_from, self.unsaved_since = offset, since


class Partition:
    """The sensors of a partition.

    ``room_for_sensor`` returns whether the worker accepts one more sensor. ``control`` may change between two calls.
    Resets and acceptances apply from the next reading on that ``take`` gets; ``forget`` drops the sensors that are
    to be forgotten. ``origin``: topic and group of the records.
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
        self.sensors = 0  # sensors with accepted readings
        self.silent = 0  # those of them that are silent
        self._rules = rules
        self._decode = decode
        self._store = store
        self._room_for_sensor = room_for_sensor
        self._snapshot_within = snapshot_within
        self._control = ControlBook() if control is None else control
        self._slots: dict[str, SensorSlot] = {}
        self._in_memory: dict[str, SensorSlot] = {}  # those that have a track, least recently used first
        self._unsaved: dict[str, SensorSlot] = {}  # those that have readings in no snapshot
        self._to_forget: set[str] = set()  # found in replayed records
        self._to_begin_afresh: set[str] = set()  # likewise; the model has changed since those readings
        self._promised: Counter[str] = Counter()  # alarms by rule since the cycle began, see CycleCounts
        self._raised: Counter[str] = Counter()
        self._observed: Counter[str] = Counter()
        self._is_replaying = False
        self._deadlines: list[tuple[int, str]] = []
        self._arrived: list[str] = []

    # Where it stands

    @property
    def in_memory(self) -> int:
        """The number of detectors in memory."""
        return len(self._in_memory)

    def look(self, sensor: str) -> Track | None:
        """Return a copy of a sensor's track in its present state, or None if the sensor is not found."""
        slot = self._slots.get(sensor)
        if slot is None or slot.last_seen is None:
            return None
        track = slot.track
        if track is not None and track.set_aside:
            return None
        if track is not None:
            return Track.load(sensor, track.dump(), track.prepared)
        return self._from_store(sensor, slot)

    def is_silent(self, sensor: str) -> bool:
        """Return whether a sensor is silent."""
        slot = self._slots.get(sensor)
        return slot is not None and slot.is_silent

    def last_seen(self, sensor: str) -> int | None:
        """Return the time of a sensor's newest reading in microseconds, or None if the sensor is not found."""
        slot = self._slots.get(sensor)
        return None if slot is None else slot.last_seen

    def seen(self) -> Iterator[tuple[str, int]]:
        """Yield every sensor with the time of its newest reading."""
        return ((name, slot.last_seen) for name, slot in self._slots.items() if slot.last_seen is not None)

    def take_arrived(self) -> list[str]:
        """Return the sensors that are new since the last call."""
        taken, self._arrived = self._arrived, []
        return taken

    def tracks(self) -> Iterator[tuple[str, Track]]:
        """Yield the tracks that are in memory, by sensor."""
        return ((sensor, slot.track) for sensor, slot in self._in_memory.items() if slot.track is not None)

    def detectors(self, sensors: Iterable[str]) -> Iterable[hs.OnlineDetector]:
        """Yield the sensors' detectors, as far as they are in memory."""
        tracks = (self._slots[sensor].track for sensor in sensors if sensor in self._in_memory)
        return (track.detector for track in tracks if track is not None)

    def unsaved_from(self, saved: Iterable[str] = ()) -> int:
        """Return the first input offset that is in no snapshot, assuming that the sensors ``saved`` are in one."""
        saved = set(saved)
        unsaved = (slot.unsaved_from for sensor, slot in self._unsaved.items() if sensor not in saved)
        return min(unsaved, default=self.next_offset)

    def begin(
        self,
        next_offset: int,
        clock: int,
        replayed: Iterable[InputRecord] = (),
        moved: Collection[str] = (),
        end: float = math.inf,
    ) -> None:
        """Begin at the committed ``next_offset`` and ``clock``.

        The store holds the states from the changelog. ``replayed`` are the records before ``next_offset`` that may
        be in no snapshot. The states of the sensors in ``moved`` were read from an earlier topic of the same name,
        so their offsets do not apply to this topic. Nor do offsets after the partition's ``end``: brokers may have
        lost those records.
        """
        self._read_slots(set(moved), end)
        self.next_offset = next_offset
        self._set_aside()
        self._is_replaying = True
        self.take(replayed)  # their outputs were published before
        self._is_replaying = False
        self._to_begin_afresh.clear()
        self.next_offset = next_offset
        self.clock = clock
        self._deadlines.clear()
        self._arrived = [sensor for sensor, _ in self.seen()]
        self.silent = 0
        for sensor, seen in self.seen():
            self._expect(sensor, seen)

    def _read_slots(self, moved: Collection[str], end: float) -> None:
        offsets = self._store.next_offsets(self.number)
        for sensor, seen in self._store.last_seen(self.number).items():
            if not isinstance(sensor, str):
                continue
            slot = self._slots[sensor] = SensorSlot()
            # Damage is found when the sensor is loaded. Until then, its numbers must do no harm.
            slot.last_seen = seen if type(seen) is int and EARLIEST <= seen <= LATEST else 0
            slot.is_saved = True
            slot.is_moved = sensor in moved
            offset = offsets.get(sensor, 0)
            if not slot.is_moved and type(offset) is int and offset <= end:
                slot.next_offset = offset
        self.sensors = len(self._slots)

    def _set_aside(self) -> None:
        """Set aside the sensors that crashed a worker twice.

        Each gets a track that takes no readings and is saved with the next commit.
        """
        for sensor in self._journal.set_aside(self.number) if self._journal is not None else ():
            saved = self._store.get(self.number, sensor)
            generation = 0 if saved is None else envelope.next_generation(saved)
            track = Track(sensor, self._rules.of(sensor), generation, None)
            track.set_aside = "its readings crashed the worker twice"
            slot = self._slots.setdefault(sensor, SensorSlot())
            slot.track, slot.is_reported = track, False
            slot.must_save(self.next_offset)
            self._in_memory[sensor] = self._unsaved[sensor] = slot
            if slot.last_seen is None:
                slot.last_seen = 0
                self.sensors += 1

    # Records in

    def take(self, records: Iterable[InputRecord]) -> tuple[list[Outbound], CycleCounts]:
        """Process records. Returns the outputs to publish, and the counts."""
        (outputs,), counts = process([(self, records)], publishes=not self._is_replaying, journal=self._journal)
        return outputs, counts

    def accept(self, records: Iterable[InputRecord]) -> AcceptedRecords:
        """Decode records and check their readings: the first half of ``take``."""
        outputs: list[Outbound] = []
        pending: dict[str, SensorBatch] = {}  # by sensor
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
                batch = pending.get(reading.sensor)
                try:
                    if batch is None:
                        n_readings += self._accept_first(record, reading, pending, outputs)
                    else:
                        self._accept(batch, record, reading, pending, outputs)
                        n_readings += 1
                except BadRecord as bad:
                    which = next(i for i, one in enumerate(readings) if one is reading)
                    outputs.append(dead_letter(record, bad, which if len(readings) > 1 else None))
        return AcceptedRecords(list(pending.values()), outputs, n_records, n_readings)

    def collect_outputs(self, accepted: AcceptedRecords, published: Sequence[Published]) -> CycleCounts:
        """Add the results of the batches and the notices of silence to the outputs: the second half of ``take``."""
        outputs = accepted.outputs
        self._publish(accepted.batches, published, outputs)
        self._report_silent(outputs)
        kinds = [output.kind for output in outputs]
        promised, raised, observed = self._promised, self._raised, self._observed
        self._promised, self._raised, self._observed = Counter(), Counter(), Counter()
        return CycleCounts(
            accepted.records, accepted.readings, kinds.count("dead_letters"), kinds.count("events"),
            kinds.count("states"),
            promised=promised, raised=raised, observed=observed,
        )  # fmt: skip

    def _accept_first(
        self, record: InputRecord, reading: Reading, pending: dict[str, SensorBatch], outputs: list[Outbound]
    ) -> int:
        """Accept a sensor's first reading of the cycle, which opens its batch.

        Returns 1 if the reading was taken, else 0. Raises BadRecord if it is refused.
        """
        sensor = reading.sensor
        slot = self._slots.get(sensor)
        if slot is not None and record.offset < slot.next_offset:
            return 0  # a replayed reading that is already in the snapshot
        if self._is_replaying and sensor in self._control.forgotten and self._is_forgotten(sensor):
            # Readings after the forgetting would be in a snapshot.
            self._to_forget.add(sensor)
            return 0
        if self._is_replaying and sensor in self._to_begin_afresh:
            return 0
        slot, track = self._loaded(sensor)
        if track.set_aside and track.generation > self._control.finished.get(sensor, NEVER):
            return self._refuse(slot, track, reading, outputs)
        starts_generation = not track.has_readings and (slot.is_saved or track.generation > 0)
        if self._is_replaying:
            if starts_generation:
                self._unload(sensor)
                self._to_begin_afresh.add(sensor)
                return 0
        elif track.generation <= self._control.finished.get(sensor, NEVER):
            track, starts_generation = self._reset(slot, track), True
        batch = SensorBatch(track, self.number)
        self._accept(batch, record, reading, pending, outputs)
        pending.setdefault(sensor, batch)
        accepted = self._accept_behaviour(track, reading.time)
        if slot.last_seen is None:
            self._note_time(slot, track, reading.time)  # the sensor counts from now on
        must_save = starts_generation or slot.is_moved or accepted is not None
        if slot.is_moved:
            slot.is_moved = False
            why = "its topic was deleted and created again: its detector continues with the readings of the new topic"
            outputs += about(sensor, track.notice("topic_recreated", reading.time, why))
        if starts_generation:
            why = slot.fresh_because or "the rule's model, prior, transform or season is another one"
            slot.fresh_because = ""
            notice = track.notice("new_generation", reading.time, why)
            outputs += about(sensor, *([] if track.ended is None else [track.ended]), notice)
        outputs += about(sensor, *(accepted or ()))
        if must_save:
            # Save the state with the commit that publishes the message, so that it is published once, whatever happens
            # next.
            is_unsaved = sensor in self._unsaved and not starts_generation
            slot.must_save(slot.unsaved_from if is_unsaved else record.offset)
        elif sensor not in self._unsaved:
            slot.must_save(record.offset, time.monotonic() - self._head_start(sensor, slot))
        self._unsaved[sensor] = slot
        return 1

    def _refuse(self, slot: SensorSlot, track: Track, reading: Reading, outputs: list[Outbound]) -> int:
        """Refuse a reading of a sensor that is set aside: it is a dead letter. Replayed ones were published before."""
        if self._is_replaying:
            return 0
        if not slot.is_reported:
            slot.is_reported = True
            outputs += about(track.sensor, track.notice("set_aside", reading.time, track.set_aside))
        raise BadRecord("set_aside", f"{track.set_aside}; `ishsmm-stream reset` lets it start afresh")

    def _accept_behaviour(self, track: Track, time: int) -> list[messages.Event] | None:
        """Apply an acceptance of the sensor's behaviour to its track before the reading of this time, if there is a new
        one.

        Never in a replay: an acceptance is saved with the commit that publishes it.
        """
        said, moment = self._control.acceptances.get(track.sensor, (None, 0))
        if said is None or self._is_replaying or said.generation != track.generation or moment <= track.acceptance:
            return None
        return track.accept(moment, said.by, time)

    def _accept(
        self, batch: SensorBatch, record: InputRecord, reading: Reading, pending: dict[str, SensorBatch],
        outputs: list[Outbound],
    ) -> None:  # fmt: skip
        """Put a reading into its sensor's batch. Raises BadRecord if it is refused. Every reading passes here."""
        track, moment = batch.track, reading.time
        prepared = track.prepared
        values = reading.values if prepared.prepare is None else prepared.prepare(reading.values)
        released = track.reorder(reading, record.timestamp) if track.reorders else None
        missing = track.judge(reading, record.timestamp) if released is None else 0
        if prepared.silent_after is not None and self._was_silent(track, moment, pending, outputs):
            batch = pending[reading.sensor] = SensorBatch(track, self.number)
        if released is None:
            batch.readings.append((moment, values, missing))
        else:
            prepare = prepared.prepare or (lambda values: values)
            batch.readings += [(one.time, prepare(one.values), missing) for one, missing in released]
        batch.offset = record.offset
        if batch.first < 0:
            batch.first = record.offset
        if moment > batch.newest:
            batch.newest = moment
        if moment > self.clock:
            self.clock = moment

    def _publish(self, batches: Sequence[SensorBatch], published: Sequence[Published], outputs: list[Outbound]) -> None:
        """Add the events and states of the batches to the outputs."""
        for batch, (events, states) in zip(batches, published, strict=True):
            track, read = batch.track, len(batch.readings)
            slot = self._slots[track.sensor]
            slot.next_offset = batch.offset  # not after it: the record's other readings may be of the same sensor
            self._note_time(slot, track, batch.newest)
            key, rule = track.sensor.encode(), track.rule.match
            self._promised[rule] += read / track.every  # type: ignore[assignment]
            self._observed[rule] += read * track.interval_s  # type: ignore[assignment]
            self._raised[rule] += sum(messages.status_of(event) == "raised" for event in events)
            outputs += [Outbound("events", key, event) for event in events]
            for state in states:
                is_dictionary = isinstance(state, messages.StateDictionary)
                outputs.append(
                    Outbound("states", messages.dictionary_key(track.sensor) if is_dictionary else key, state)
                )

    # Tracks in memory

    def _loaded(self, sensor: str) -> tuple[SensorSlot, Track]:
        """Return the sensor's slot with its track: from memory, from the store, or a new one."""
        slot = self._in_memory.pop(sensor, None)
        if slot is None:
            slot = self._slots.get(sensor) or SensorSlot()
            slot.track = self._load(sensor, slot)
            self._slots[sensor] = slot
        assert slot.track is not None
        self._in_memory[sensor] = slot  # most recently used
        return slot, slot.track

    def _unload(self, sensor: str) -> None:
        slot = self._in_memory.pop(sensor)
        slot.track = None
        if slot.last_seen is None:
            del self._slots[sensor]

    def _load(self, sensor: str, slot: SensorSlot) -> Track:
        saved = self._store.get(self.number, sensor)
        is_over = saved is not None and saved.generation <= self._control.forgotten.get(sensor, NEVER)
        if saved is not None and not (envelope.is_plausible(saved) and is_over):
            return self._from(sensor, slot, saved)
        if slot.last_seen is None and not self._room_for_sensor():
            raise BadRecord("too_many_sensors", f"{sensor!r} would be one more than limits.sensors allows")
        finished = self._control.finished_generation(sensor)
        if finished == NEVER or self._is_replaying:
            return Track(sensor, self._rules.of(sensor))
        slot.fresh_because = "it was forgotten" if sensor in self._control.forgotten else "reset"
        return Track(sensor, self._rules.of(sensor), finished + 1, None)

    def _reset(self, slot: SensorSlot, track: Track) -> Track:
        """Return the track of the sensor's next generation, which has seen nothing."""
        slot.fresh_because = "reset"
        slot.track = track.next_generation(self._control.finished_generation(track.sensor) + 1)
        return slot.track

    def _from_store(self, sensor: str, slot: SensorSlot) -> Track:
        saved = self._store.get(self.number, sensor)
        assert saved is not None
        return self._from(sensor, slot, saved)

    def _from(self, sensor: str, slot: SensorSlot, saved: Saved) -> Track:
        """Return the saved track, or a new generation if its rule infers otherwise or the state cannot be read."""
        prepared = self._rules.of(sensor)
        try:
            envelope.origin_of(self.number, sensor, saved)
            return Track.load(sensor, saved.state, prepared)
        except Exception as error:  # whatever it is: one sensor's state must not stop the others
            if not isinstance(error, (envelope.Damaged, TrackError)):
                log.exception("the saved state of %r cannot be loaded", sensor)
            slot.fresh_because = f"its saved state cannot be used: {error}"
            return Track(sensor, prepared, envelope.next_generation(saved), None)

    # Forgetting

    def forget(self) -> list[str]:
        """Drop the sensors that are to be forgotten, and return them. The commit deletes their other data."""
        named = [sensor for sensor in self._control.forgotten if self.last_seen(sensor) is not None]
        gone = self._to_forget.union(sensor for sensor in named if self._is_forgotten(sensor))
        self._to_forget.clear()
        for sensor in gone:
            for kept in (self._in_memory, self._unsaved):
                kept.pop(sensor, None)
            slot = self._slots.pop(sensor, None)
            if slot is not None and slot.last_seen is not None:
                self.sensors -= 1
                self.silent -= slot.is_silent
            self._store.delete(self.number, sensor)
        return sorted(gone)

    def _is_forgotten(self, sensor: str) -> bool:
        """Return whether a sensor's stored generation is one that is to be forgotten."""
        slot = self._slots.get(sensor)
        if slot is not None and slot.track is not None:
            generation = slot.track.generation
        else:
            saved = self._store.get(self.number, sensor)
            generation = NEVER if saved is None else saved.generation
        return generation <= self._control.forgotten[sensor]

    # Silence, judged by the partition's stream time

    def _was_silent(self, track: Track, moment: int, pending: dict[str, SensorBatch], outputs: list[Outbound]) -> bool:
        """Return whether a reading ends its sensor's silence. If it does, publish that."""
        sensor, limit, batch = track.sensor, track.prepared.silent_after, pending.get(track.sensor)
        slot = self._slots[sensor]
        seen = slot.last_seen
        if batch is not None and (seen is None or batch.newest > seen):
            seen = batch.newest
        if limit is None or seen is None or self.clock <= seen + limit:
            return False
        if batch is not None:
            del pending[sensor]  # publish earlier events first
            self._publish([batch], [infer(track, batch.readings, not self._is_replaying)], outputs)
        self._tell_silent(sensor, slot, seen + limit, outputs)
        self._set_silent(slot, False)
        outputs += about(sensor, track.notice("back", moment, "a reading came"))
        return True

    def _note_time(self, slot: SensorSlot, track: Track, moment: int) -> None:
        sensor, seen = track.sensor, slot.last_seen
        if seen is None:
            self.sensors += 1
            self._arrived.append(sensor)
        if seen is None or moment > seen:
            slot.last_seen = moment
            limit = track.prepared.silent_after
            if limit is not None and (seen is None or not slot.is_silent):
                heapq.heappush(self._deadlines, (moment + limit, sensor))

    def _expect(self, sensor: str, seen: int) -> None:
        limit, slot = self._rules.of(sensor).silent_after, self._slots[sensor]
        slot.is_silent = False
        if limit is None:
            return
        if seen + limit < self.clock:
            self._set_silent(slot, True)  # this was published before the restore
        else:
            heapq.heappush(self._deadlines, (seen + limit, sensor))

    def _report_silent(self, outputs: list[Outbound]) -> None:
        while self._deadlines and self._deadlines[0][0] < self.clock:
            _, sensor = heapq.heappop(self._deadlines)
            limit, slot = self._rules.of(sensor).silent_after, self._slots.get(sensor)
            seen = None if slot is None else slot.last_seen
            if slot is not None and limit is not None and seen is not None and seen + limit < self.clock:
                self._tell_silent(sensor, slot, seen + limit, outputs)

    def _tell_silent(self, sensor: str, slot: SensorSlot, deadline: int, outputs: list[Outbound]) -> None:
        if slot.is_silent:
            return
        self._set_silent(slot, True)
        track = self._from_store(sensor, slot) if slot.track is None else slot.track
        outputs += about(sensor, track.notice("silent", deadline, "no reading came for as long as the rule allows"))

    def _set_silent(self, slot: SensorSlot, is_silent: bool) -> None:
        self.silent += is_silent - slot.is_silent
        slot.is_silent = is_silent

    # Snapshots out

    def _head_start(self, sensor: str, slot: SensorSlot) -> float:
        """Return the seconds by which a sensor's first snapshot comes early: this spreads a fleet that started at once
        over time."""
        return 0.0 if slot.is_saved else self._snapshot_within * (zlib.crc32(sensor.encode()) / 2**32)

    def snapshots(self, older_than: float, most: int) -> list[tuple[str, Saved]]:
        """Return the states that are due, the oldest first: of at most ``most`` sensors, or of all that have to be
        saved at once.

        A state is due if its oldest unsaved reading came before the time ``older_than`` (monotonic).
        """
        due = sorted(
            (slot.unsaved_since, sensor) for sensor, slot in self._unsaved.items() if slot.unsaved_since <= older_than
        )
        at_once = sum(since == _AT_ONCE for since, _ in due)  # new generations, which are still small, and acceptances
        found = []
        for _, sensor in due[: max(most, at_once)]:
            slot = self._unsaved[sensor]
            assert slot.track is not None
            assert slot.last_seen is not None
            saved = Saved(self.next_offset, slot.last_seen, slot.track.generation, slot.track.dump())
            found.append((sensor, envelope.seal(self.number, sensor, saved, self._origin)))
        return found

    def saved(self, snapshots: Iterable[tuple[str, Saved]]) -> None:
        """Note that the snapshots are committed."""
        snapshots = list(snapshots)
        for sensor, saved in snapshots:
            self._unsaved.pop(sensor, None)
            slot = self._slots[sensor]
            slot.is_saved = True
            slot.next_offset = saved.next_offset
        self._store.put(self.number, snapshots)

    def evict(self, most: int) -> int:
        """Drop at most ``most`` saved detectors from memory, the least recently used first. Returns how many it
        dropped."""
        names = [sensor for sensor in self._in_memory if sensor not in self._unsaved][:most]
        for sensor in names:
            self._unload(sensor)
        return len(names)
