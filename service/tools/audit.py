"""Whether everything adds up, judged from the topics alone.

Per partition, every record that the group has committed was accepted or is a dead letter. Per sensor, the accepted
readings of its partition are those that its state has counted: the state's final index without the inserted steps.

The order of reading makes this hold while workers run. The changelog comes first, then the committed offsets, then dead
letters and input up to these: a state that was read has seen no more than what is committed. Readings that were
committed after a sensor's snapshot are in none yet; a restart replays them, from where the commit's metadata says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from service.kafka import groups
from service.kafka import topics as kafka_topics
from service.kafka.changelog import ChangelogReader
from service.kafka.connection import ConnectionProblem
from service.kafka.control import KafkaControl
from service.kafka.input import Commit, connection_of, read_commit, reads_directly, sensor_topic
from service.runtime.log import TopicPartition
from service.sensors.envelope import read_changelog_value
from service.sensors.track import Tally, TrackError, tally
from service.settings import RecordMapping, Settings
from service.wire import decoding as mappings
from service.wire import messages
from service.wire.decoding import Decoder
from service.wire.readings import BadRecord, Reading

Letters = Counter[tuple[int, int | None]]  # how often by offset and, where it is about one of several, reading


class PartitionSum(msgspec.Struct, kw_only=True):
    """A partition's records from where the group began to what it has committed."""

    topic: str
    partition: int
    began: int
    committed: int
    records: int = 0
    accepted: int = 0
    dead_letters: int = 0
    readings: int = 0  # accepted ones; a record may hold several, and some of these may be dead letters
    problems: list[str] = []


class SensorSum(msgspec.Struct, kw_only=True):
    """A sensor's readings, in its topic and in its state."""

    sensor: str
    partition: int
    generation: int = 0
    accepted: int = 0  # readings of the topic that its state must have seen
    index: int = -1  # the state's, of its newest observation
    inserted: int = 0
    reordered: int = 0  # readings in the state that wait for older ones
    earlier: int | None = 0  # readings of earlier generations; None: not known
    in_no_snapshot: int = 0  # accepted after its snapshot
    forgotten: int = 0  # accepted by a state that people wanted forgotten, as far as they can be told apart
    problem: str | None = None

    @property
    def counted(self) -> int:
        """Readings that the state has counted, earlier generations included."""
        return self.index + 1 - self.inserted + self.reordered + (self.earlier or 0)


class Report(msgspec.Struct, kw_only=True):
    """The audit's result."""

    group: str
    workers: int
    partitions: list[PartitionSum]
    sensors: list[SensorSum]
    notes: list[str]

    @property
    def balanced(self) -> bool:
        """Whether everything adds up."""
        return not any(one.problems for one in self.partitions) and not any(one.problem for one in self.sensors)


class ChangelogState(NamedTuple):
    """What the changelog says of a sensor."""

    next_offset: int  # seen: everything before it
    tally: Tally | None  # None: bytes that are no state of ours


def states(reader: ChangelogReader, settings: Settings, number: int) -> dict[str, ChangelogState]:
    """The last committed state of every sensor of a partition."""
    newest: dict[str, bytes | None] = {}
    for key, value, _ in reader.read(settings.topics.changelog, number):
        if key is not None:
            newest[key.decode(errors="replace")] = value
    return {sensor: _state(value) for sensor, value in newest.items() if value is not None}


def _state(value: bytes) -> ChangelogState:
    saved = read_changelog_value(value)
    try:
        return ChangelogState(saved.next_offset, tally(saved.state))
    except TrackError:
        return ChangelogState(saved.next_offset, None)


def audit(settings: Settings) -> Report:
    """Read the topics and add up."""
    connection, topic, is_direct = connection_of(settings), sensor_topic(settings), reads_directly(settings)
    with ChangelogReader(connection) as reader:
        numbers = range(kafka_topics.partition_counts(connection, [topic])[topic])
        known = {number: states(reader, settings, number) for number in numbers}
        committed = groups.committed(connection, settings.kafka.group)
        if not committed:
            raise ConnectionProblem(f"group {settings.kafka.group!r} has committed nothing: no worker has run yet")
        workers = groups.members(connection, settings.kafka.group)
        forgotten = KafkaControl(connection, settings.topics.control).read().forgotten
        books = _Auditor(settings, reader, workers, forgotten)
        letters = books.letters(committed)
        sent: Counter[str] = Counter()
        for place in sorted(committed):
            if place[0] == topic:
                books.sensors_of(place, committed[place], letters[place], known.get(place[1], {}))
            elif not is_direct and settings.kafka.reads(place[0]):
                books.sent_on_of(place, committed[place], letters[place], sent)
        if not is_direct:
            books.compare_sent(sent)
    return books.report()


class _Auditor:
    """Takes partitions in, one after the other."""

    def __init__(self, settings: Settings, reader: ChangelogReader, workers: int, forgotten: Mapping[str, int]) -> None:
        self._settings = settings
        self._reader = reader
        self._workers = workers
        self._forgotten = forgotten
        self._is_direct = reads_directly(settings)
        limit = settings.limits.record_bytes
        self._decode_input = mappings.decoder(settings.mapping, limit)
        own = mappings.decoder(RecordMapping(partitioned_by_sensor=True), limit)
        self._decode = self._decode_input if self._is_direct else own
        self._partitions: list[PartitionSum] = []
        self._sensors: list[SensorSum] = []
        self._received: Counter[str] = Counter()  # readings on the internal topic
        self._is_whole = True
        self._notes: list[str] = []

    def report(self) -> Report:
        if gone := [one for one in self._sensors if one.forgotten]:
            readings = sum(one.forgotten for one in gone)
            self._notes.append(f"{len(gone):,} sensors were forgotten, their {readings:,} readings are in no state")
        return Report(
            group=self._settings.kafka.group,
            workers=self._workers,
            partitions=self._partitions,
            sensors=sorted(self._sensors, key=lambda one: one.sensor),
            notes=self._notes,
        )

    def letters(self, committed: dict[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, Letters]:
        """Dead letters of what is committed, by the partition of the record."""
        topic = self._settings.topics.dead_letters
        found: dict[TopicPartition, Letters] = defaultdict(Counter)
        gone = 0
        for number in range(kafka_topics.partition_counts(connection_of(self._settings), [topic])[topic]):
            gone += self._reader.beginning(topic, number)
            for _, value, offset in self._reader.read(topic, number):
                try:
                    letter = messages.decode(value or b"")
                except msgspec.DecodeError:
                    letter = None
                if not isinstance(letter, messages.DeadLetter):
                    self._notes.append(f"{topic}[{number}] offset {offset} is no dead letter of ours")
                    continue
                place = (letter.topic, letter.partition)
                if letter.offset < committed.get(place, (0, ""))[0]:
                    found[place][letter.offset, letter.reading] += 1
        if gone:
            self._notes.append(f"{topic} has lost its oldest records: dead letters may seem to be missing")
        return found

    def sensors_of(
        self, place: TopicPartition, committed: tuple[int, str], letters: Letters, known: dict[str, ChangelogState]
    ) -> None:
        """A partition that detectors follow."""
        total, commit = self._open(place, committed)
        is_whole = self._is_there(total)
        sums = {sensor: _sum_of(sensor, place[1], state) for sensor, state in known.items()}
        first_unsaved: dict[str, int] = {}
        for offset, reading, is_accepted in self._accepted(total, letters, self._decode):
            self._received[reading.sensor] += 1
            if not is_accepted:
                continue
            one = sums.setdefault(reading.sensor, SensorSum(sensor=reading.sensor, partition=place[1]))
            if reading.sensor in known and offset < known[reading.sensor].next_offset:
                one.accepted += 1
            else:
                one.in_no_snapshot += 1
                first_unsaved.setdefault(reading.sensor, offset)
        for sensor, one in sums.items():
            if sensor in self._forgotten and sensor not in known:
                # What came after it was forgotten would be in a snapshot: that is saved at once.
                one.forgotten, one.in_no_snapshot = one.in_no_snapshot, 0
                continue
            unreadable = sensor in known and known[sensor].tally is None
            one.problem = _problem(one, unreadable, is_whole, first_unsaved.get(sensor), commit)
        self._sensors += sums.values()

    def sent_on_of(
        self, place: TopicPartition, committed: tuple[int, str], letters: Letters, sent: Counter[str]
    ) -> None:
        """A partition whose readings are sent on through the internal topic."""
        total, _ = self._open(place, committed)
        self._is_whole &= self._is_there(total)
        for _, reading, is_accepted in self._accepted(total, letters, self._decode_input):
            sent[reading.sensor] += is_accepted

    def compare_sent(self, sent: Counter[str]) -> None:
        """What was sent on against what is on the internal topic, of which a running worker has not read all."""
        waiting = self._waiting()
        received = self._received + waiting
        sums = {one.sensor: one for one in self._sensors}
        for sensor in sorted(sent.keys() | received.keys()):
            expected, found = sent[sensor], received[sensor]
            if found == expected or not self._is_whole or (found > expected and self._workers):
                continue
            one = sums.get(sensor)
            if one is None:
                one = SensorSum(sensor=sensor, partition=-1)
                self._sensors.append(one)
            one.problem = f"{expected:,} readings in the input, {found:,} on {self._settings.topics.readings}"

    def _waiting(self) -> Counter[str]:
        """Readings on the internal topic that no detector has taken yet."""
        waiting: Counter[str] = Counter()
        topic = self._settings.topics.readings
        ends = {one.partition: one.committed for one in self._partitions if one.topic == topic}
        for number in range(kafka_topics.partition_counts(connection_of(self._settings), [topic])[topic]):
            until = self._reader.high_watermark(topic, number)
            for record in self._reader.records(topic, number, ends.get(number, 0), until):
                try:
                    waiting.update(
                        reading.sensor for reading in self._decode(record.key, record.value, record.timestamp)
                    )
                except BadRecord:
                    continue
        return waiting

    def _open(self, place: TopicPartition, committed: tuple[int, str]) -> tuple[PartitionSum, Commit]:
        offset, metadata = committed
        where = f"{place[0]}[{place[1]}]"
        if metadata:
            commit = read_commit(metadata, where, self._settings.kafka.group)
        else:
            commit = Commit(offset, 0, self._reader.beginning(*place))
            self._notes.append(f"{where}: the commit does not say where the group began, counted from the first record")
        total = PartitionSum(topic=place[0], partition=place[1], began=commit.began, committed=offset)
        self._partitions.append(total)
        return total, commit

    def _is_there(self, total: PartitionSum) -> bool:
        """Whether all records since the beginning are still on the topic."""
        first = self._reader.beginning(total.topic, total.partition)
        if first <= total.began or total.began == total.committed:
            return True
        self._notes.append(
            f"{total.topic}[{total.partition}]: records {total.began:,} to {first:,} are deleted, its sensors cannot "
            "be counted"
        )
        return False

    def _accepted(self, total: PartitionSum, letters: Letters, decode: Decoder) -> Iterator[tuple[int, Reading, bool]]:
        """The partition's readings with their offsets, and whether they were accepted; adds up on the way."""
        first_kept = self._reader.beginning(total.topic, total.partition)
        expected = Counter({key: n for key, n in letters.items() if key[0] >= max(total.began, first_kept)})
        if self._settings.kafka.delivery == "exactly-once":
            total.problems += [f"offset {at}: {n} dead letters" for (at, _), n in sorted(expected.items()) if n > 1]
        unread = set(expected)
        span = (total.began, total.committed)
        for record in self._reader.records(total.topic, total.partition, *span) if span[0] < span[1] else ():
            total.records += 1
            is_dead = (record.offset, None) in expected
            unread.discard((record.offset, None))
            total.dead_letters += is_dead
            try:
                readings = decode(record.key, record.value, record.timestamp)
            except BadRecord as bad:
                if not is_dead:
                    total.problems.append(f"offset {record.offset}: neither accepted nor a dead letter ({bad.reason})")
                continue
            total.accepted += not is_dead
            for i, reading in enumerate(readings):
                unread.discard((record.offset, i))
                is_accepted = not is_dead and (record.offset, i) not in expected
                total.readings += is_accepted
                yield record.offset, reading, is_accepted
        total.problems += [f"offset {offset}: a dead letter without a record" for offset, _ in sorted(unread, key=str)]


def _sum_of(sensor: str, partition: int, state: ChangelogState) -> SensorSum:
    one = SensorSum(sensor=sensor, partition=partition)
    if state.tally is not None:
        told = state.tally
        one.generation, one.index, one.inserted = told.generation, told.final_index, told.inserted
        one.reordered, one.earlier = told.waiting, told.earlier
    return one


def _problem(one: SensorSum, unreadable: bool, is_whole: bool, first_unsaved: int | None, commit: Commit) -> str | None:
    if unreadable:
        return "its state in the changelog cannot be read"
    if first_unsaved is not None and first_unsaved < commit.unsaved_from:
        return f"{one.in_no_snapshot:,} readings from offset {first_unsaved} on are in no snapshot and not replayed"
    if is_whole and one.earlier is not None and one.accepted != one.counted:
        return f"{one.accepted:,} readings accepted, its state has counted {one.counted:,}"
    return None
