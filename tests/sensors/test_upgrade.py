"""States that earlier versions have written are read, and go on as if this version had seen everything itself."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import msgspec
import pytest
import saved_states
from saved_states import DATA, DETECTORS, RULES, take

import ishsmm_stream as hs
from service.sensors.envelope import read_changelog_value
from service.sensors.rules import prepare_rule
from service.sensors.track import Track

WRITTEN = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(DATA.glob("states-*.json"))}


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(name, told["saved_at"], one, id=f"{stem}-{name}")
        for stem, told in WRITTEN.items()
        for name, one in told[kind].items()
    ]


def same(one: Any, other: Any) -> bool:
    """Equal; numbers but for what another processor's logarithm may round differently."""
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def changes_among(events: list[hs.Event]) -> list[hs.Event]:
    return [event for event in events if event.kind not in ("alarm", "cleared")]


def without_rarity(published: Any) -> Any:
    """The record of what is usual, and of alarms promised, is not in old states: it begins anew."""
    new = ("return_period", "learning", "constants", "promised", "budget_s")
    return [
        {key: value for key, value in message.items() if key not in new}
        for message in published
        if message["type"] != "alarm"
    ]


def test_this_version_has_its_states_kept():
    assert f"states-{hs.__version__}" in WRITTEN, "write them: python tests/saved_states.py"


@pytest.mark.parametrize(("name", "saved_at", "kept"), cases("detectors"))
def test_a_detector_goes_on(name, saved_at, kept):
    values = kept["readings"]
    fresh = DETECTORS[name]()
    fresh._constants = 1  # those that the state was written with
    fresh.update_many(values[:saved_at])
    expected = changes_among(fresh.update_many(values[saved_at:]))

    old = hs.OnlineDetector.restore(base64.b64decode(kept["state"]))
    found = changes_among(old.update_many(values[saved_at:]))
    assert [(event.kind, event.index, event.at) for event in found] == [
        (event.kind, event.index, event.at) for event in expected
    ]
    assert expected, "a change comes after the state was saved"
    assert [point.index for point in old.change_points] == [point.index for point in fresh.change_points]
    assert same(old.state.parameters, fresh.state.parameters)


@pytest.mark.parametrize(("name", "saved_at", "kept"), cases("sensors"))
def test_a_sensor_goes_on_from_its_changelog(name, saved_at, kept):
    values, prepared = kept["readings"], prepare_rule(RULES[name])
    fresh = Track("boiler", prepared)
    fresh.detector._constants = 1
    take(fresh, values[:saved_at], 0)
    expected = msgspec.to_builtins(take(fresh, values[saved_at:], saved_at))

    saved = read_changelog_value(base64.b64decode(kept["state"]))
    assert (saved.next_offset, saved.generation) == (saved_at, 0)
    old = Track.load("boiler", saved.state, prepared)
    found = msgspec.to_builtins(take(old, values[saved_at:], saved_at))
    assert same(without_rarity(expected), without_rarity(found))
    assert expected


def test_a_state_that_differs_is_found_out():
    """The comparison above can fail: a sensor that has seen one reading more says something else."""
    kept = WRITTEN[f"states-{hs.__version__}"]["sensors"]["default"]
    values, prepared = kept["readings"], prepare_rule(RULES["default"])
    published = []
    for seen in (saved_states.SAVED_AT, saved_states.SAVED_AT - 1):
        track = Track("boiler", prepared)
        take(track, values[:seen], 0)
        published.append(msgspec.to_builtins(take(track, values[saved_states.SAVED_AT :], saved_states.SAVED_AT)))
    assert not same(*published)
