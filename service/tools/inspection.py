"""Where one sensor stands, from what the service has committed: its last snapshot, and the input that came since.

Nothing is published or committed, and the service may run meanwhile. The state is brought forward exactly as a restart
would do it.
"""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from service.api.answers import SensorPosterior
from service.api.posterior import posterior
from service.deployment import deployment_of
from service.runtime.log import StoredSensor
from service.runtime.snapshot_store import SnapshotStore
from service.sensors.partition import Partition
from service.sensors.rules import Rules
from service.sensors.saved import Saved
from service.sensors.track import Track, TrackError, tally
from service.sensors.wording import transform_words
from service.settings import Settings
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
    deployment = deployment_of(settings)
    with deployment.stored(sensor) as candidates:
        for stored in candidates:
            found = _brought_forward(settings, sensor, stored)
            if found is not None:
                found.times = _times(stored.events(), found)
                return found
    with closing(deployment.operations()) as operations:
        raise UnknownSensor(sensor, operations.sensors())


# From a snapshot to the present


def _brought_forward(settings: Settings, sensor: str, stored: StoredSensor[Any]) -> Inspection | None:
    """Return the sensor as it stands at the next offset; None if neither snapshot nor records know it."""
    saved = stored.saved
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
            return [reading for reading in stored.decode(record) if reading.sensor == sensor]

        with (
            tempfile.TemporaryDirectory() as folder,
            closing(SnapshotStore(Path(folder) / "one.sqlite")) as store,
        ):
            if saved is not None:
                store.put(stored.number, [(sensor, saved)])
            partition = Partition(stored.number, rules, only_this, store, lambda: True)
            partition.begin(stored.next_offset, stored.clock, stored.records)
            track, silent = partition.look(sensor), partition.is_silent(sensor)
    if track is None:
        return None
    rule = prepared.rule
    return Inspection(
        posterior=posterior(track, silent),
        place=stored.place,
        snapshot_offset=None if saved is None else saved.next_offset,
        replayed=count,
        rule=rule.match,
        keeps_state=keeps_state,
        transform=transform_words(rule),
        alarm_threshold=prepared.policy.threshold,
        budget=rule.alarms.per_sensor or "",
        model=rule.model if isinstance(rule.model, str) else f"{rule.model.kind} of {rule.model.emission['family']}",
        states_return=rule.states_return,
        settings={
            name: value
            for name, value in msgspec.to_builtins(rule.detector_settings).items()
            if name != "move_every"  # it does nothing
        },
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
            if event.sensor != found.posterior.sensor or event.generation != found.posterior.generation:
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
