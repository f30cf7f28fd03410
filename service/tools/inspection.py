"""Where one sensor stands, from what the service has committed: its last snapshot, and the input that came since.

Nothing is published or committed, and the service may run meanwhile. The state is brought forward exactly as a restart
would do it.
"""

from __future__ import annotations

import contextlib
import difflib
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from service.api.answers import SensorPosterior
from service.api.posterior import posterior
from service.runtime.snapshot_store import Saved, Store
from service.sensors.envelope import read_changelog_value
from service.sensors.partition import Partition, RecordDecoder, Rules, decode_with
from service.sensors.track import Track, TrackError, tally
from service.sensors.wording import transform_words
from service.settings import RecordMapping, Settings
from service.wire import decoding as mappings
from service.wire import messages
from service.wire.readings import Reading

_MOST_NAMES = 5


class Inspection(msgspec.Struct, kw_only=True):
    """A sensor's posterior, and what else people ask."""

    posterior: SensorPosterior
    place: str  # where its state is saved
    snapshot_offset: int | None  # the snapshot has seen the input before it; None: there is none yet
    replayed: int  # records of the input that were read to bring it forward
    rule: str  # the pattern of the rule that matches now
    keeps_state: bool  # whether that rule goes on with the state
    transform: str
    alarm_threshold: float  # above which changes are announced; from when these were called alarms
    budget: str  # of alarms
    model: str
    states_return: bool
    settings: dict[str, Any]  # of the detector
    times: dict[int, str]  # of observations, from events: also of those too far back for its state to remember


class UnknownSensor(ValueError):
    """There is no such sensor; the message has the nearest names."""

    def __init__(self, sensor: str, names: Iterable[str]) -> None:
        known = sorted(names)
        near = difflib.get_close_matches(sensor, known, n=_MOST_NAMES, cutoff=0.5)
        if not known:
            hint = "no sensor has a state yet"
        elif near:
            hint = f"did you mean {', '.join(near)}?"
        else:
            more = ", ..." if len(known) > _MOST_NAMES else ""
            hint = f"there are {len(known):,}: {', '.join(known[:_MOST_NAMES])}{more}"
        super().__init__(f"no sensor {sensor!r}: {hint}")


def inspect(settings: Settings, sensor: str) -> Inspection:
    """Look at a sensor."""
    return _from_topics(settings, sensor) if settings.source.is_kafka else _from_database(settings, sensor)


# Where states are


def _from_database(settings: Settings, sensor: str) -> Inspection:
    path = settings.source.state
    if not path.is_file():
        raise ValueError(f"source.state {path}: there is no such file, the service has not run yet")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return _from_open_database(settings, sensor, database)
    except sqlite3.Error as error:
        raise ValueError(f"source.state {path}: {error}") from None


def _from_open_database(settings: Settings, sensor: str, database: sqlite3.Connection) -> Inspection:
    from service.embedded.intake import IntakeRecord

    database.execute("BEGIN")  # one view of everything
    row = database.execute(
        "SELECT next_offset, newest, generation, state FROM sensors WHERE sensor = ?", (sensor,)
    ).fetchone()
    next_offset, unsaved_from, clock = database.execute(
        "SELECT next_offset, unsaved_from, clock FROM position"
    ).fetchone()
    records = database.execute(
        "SELECT offset, received, source, format, key, value FROM intake WHERE offset >= ? AND offset < ?"
        " ORDER BY offset",
        (unsaved_from, next_offset),
    )
    limit = settings.limits.record_bytes
    decoders = {
        number: mappings.decoder(msgspec.json.decode(text, type=RecordMapping), limit)
        for number, text in database.execute("SELECT format, mapping FROM formats")
    }

    def decode(record: IntakeRecord) -> list[Reading]:
        return decoders[record.format](record.key, record.value, record.timestamp)

    said = [value for (value,) in database.execute("SELECT value FROM events WHERE sensor = ?", (sensor,))]

    def names() -> Iterator[str]:
        return (name for (name,) in database.execute("SELECT sensor FROM sensors UNION SELECT sensor FROM states"))

    saved = None if row is None else Saved(*row)
    source = (IntakeRecord(*record) for record in records)
    place = str(settings.source.state)
    found = _brought_forward(settings, sensor, saved, decode, source, 0, next_offset, clock, place)
    if found is None:
        raise UnknownSensor(sensor, names())
    found.times = _times(said, found)
    return found


def _from_topics(settings: Settings, sensor: str) -> Inspection:
    from service.kafka import groups
    from service.kafka import topics as kafka_topics
    from service.kafka.changelog import ChangelogReader, ReadStalled
    from service.kafka.connection import ConnectionProblem
    from service.kafka.input import connection_of, partition_of, read_commit, reads_directly, sensor_topic

    connection, topic, changelog = connection_of(settings), sensor_topic(settings), settings.topics.changelog
    count = kafka_topics.partition_counts(connection, [changelog])[changelog]
    # the service's own topic has its own rule of who is where; elsewhere the producers decide
    numbers = list(range(count)) if reads_directly(settings) else [partition_of(sensor, count)]
    mapping = settings.mapping if reads_directly(settings) else RecordMapping(partitioned_by_sensor=True)
    decode = decode_with(mappings.decoder(mapping, settings.limits.record_bytes))
    names: set[str] = set()
    saved: dict[int, Saved] = {}
    try:
        with ChangelogReader(connection) as reader:
            for number in numbers:
                for key, value, _ in reader.read(changelog, number):
                    name = (key or b"").decode(errors="replace")
                    names.add(name)
                    if name == sensor and value is not None:
                        saved[number] = read_changelog_value(value)
            committed = groups.committed(connection, settings.kafka.group)
            for number in saved or numbers:
                offset, metadata = committed.get((topic, number), (0, ""))
                if not metadata:
                    continue
                commit = read_commit(metadata, f"{topic}[{number}]", settings.kafka.group)
                since = commit.unsaved_from
                records = reader.records(topic, number, since, offset) if since < offset else iter(())
                found = _brought_forward(
                    settings, sensor, saved.get(number), decode, records, number, offset, commit.clock,
                    f"{changelog}[{number}]", names.add,
                )  # fmt: skip
                if found is not None:
                    key = sensor.encode()
                    events = reader.read(settings.topics.events, number)
                    found.times = _times([value for name, value, _ in events if name == key and value], found)
                    return found
    except ReadStalled as stalled:
        raise ConnectionProblem(f"cannot be read to its end: {stalled}") from stalled
    raise UnknownSensor(sensor, names - {""})


# From a snapshot to the present


def _brought_forward(
    settings: Settings, sensor: str, saved: Saved | None, decode: RecordDecoder, records: Iterable[Any],
    number: int, next_offset: int, clock: int, place: str, note_name: Callable[[str], None] = lambda name: None,
) -> Inspection | None:  # fmt: skip
    """The sensor as it stands at ``next_offset`` of its partition; None where neither snapshot nor records know it."""
    rules = Rules(settings)
    prepared = rules.of(sensor)
    count = 0
    keeps_state = True
    silent = False
    if saved is not None and (fingerprint := _fingerprint(saved)) != prepared.fingerprint:
        keeps_state = False
        track: Track | None = Track.load(sensor, saved.state, prepared._replace(fingerprint=fingerprint))
    else:

        def only_this(record: Any) -> list[Reading]:
            nonlocal count
            count += 1
            readings = decode(record)
            for reading in readings:
                note_name(reading.sensor)
            return [reading for reading in readings if reading.sensor == sensor]

        with tempfile.TemporaryDirectory() as folder, contextlib.closing(Store(Path(folder) / "one.sqlite")) as store:
            if saved is not None:
                store.put(number, [(sensor, saved)])
            partition = Partition(number, rules, only_this, store, lambda: True)
            partition.begin(next_offset, clock, records)
            track, silent = partition.look(sensor), partition.is_silent(sensor)
    if track is None:
        return None
    rule = prepared.rule
    return Inspection(
        posterior=posterior(track, silent),
        place=place,
        snapshot_offset=None if saved is None else saved.next_offset,
        replayed=count,
        rule=rule.match,
        keeps_state=keeps_state,
        transform=transform_words(rule),
        alarm_threshold=prepared.policy.threshold,
        budget=rule.alarms.per_sensor or "",
        model=rule.model if isinstance(rule.model, str) else f"{rule.model.kind} of {rule.model.emission['family']}",
        states_return=not isinstance(rule.model, str) and rule.model.kind != "ilr",
        settings=msgspec.to_builtins(rule.detector_settings),
        times={},
    )


def _times(events: Iterable[bytes], found: Inspection) -> dict[int, str]:
    """The times of observations that events of the sensor's generation speak of."""
    times: dict[int, str] = {}
    for value in events:
        try:
            event = messages.decode(value)
        except msgspec.DecodeError:
            continue
        if isinstance(event, messages.ChangeEvent | messages.AlarmEvent):
            if event.generation != found.posterior.generation:
                continue
            places = [messages.Place(event.index, event.time), event.at]
            if isinstance(event, messages.ChangeEvent):
                places += [event.low, event.high]
            times |= {place.index: place.time for place in places if place.time is not None}
    return times


def _fingerprint(saved: Saved) -> str:
    try:
        return tally(saved.state).fingerprint
    except TrackError as error:
        raise ValueError(f"{error}: was it written by another version?") from None
