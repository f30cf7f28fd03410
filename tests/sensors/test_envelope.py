"""A stored state is used by the sensor, the generation and the partition that it was written for, or not at all."""

from __future__ import annotations

import contextlib
import random

import msgspec
import pytest

from service.sensors import envelope
from service.sensors.rules import prepare_rule
from service.sensors.saved import Saved
from service.sensors.track import Track, _SavedTrack, tally
from service.settings import Rule

ORIGIN = envelope.Origin.of(bytes(range(16)), "a-group")


def unsealed() -> Saved:
    track = Track("pump", prepare_rule(Rule()))
    return Saved(17, 1_700_000_000_000_000, 2, track.dump())


def sealed() -> Saved:
    return envelope.seal(3, "pump", unsealed(), ORIGIN)


def test_what_was_sealed_is_read_back():
    saved = envelope.read_changelog_value(envelope.changelog_value(sealed()))
    assert envelope.origin_of(3, "pump", saved) == ORIGIN
    assert tally(saved.state) == tally(unsealed().state)
    assert Track.load("pump", saved.state, prepare_rule(Rule())).generation == 0


def test_a_state_without_a_topic_has_no_origin():
    assert envelope.origin_of(3, "pump", envelope.seal(3, "pump", unsealed())) == envelope.Origin()


@pytest.mark.parametrize(
    ("partition", "sensor", "change"),
    [
        (4, "pump", {}),
        (3, "pump2", {}),
        (3, "pump", {"next_offset": 2**62}),
        (3, "pump", {"next_offset": -1}),
        (3, "pump", {"newest": 1}),
        (3, "pump", {"newest": 2**62}),
        (3, "pump", {"generation": 3}),
        (3, "pump", {"generation": -5}),
    ],
)
def test_another_sensors_state_or_other_numbers_are_found(partition, sensor, change):
    with pytest.raises(envelope.Damaged):
        envelope.origin_of(partition, sensor, sealed()._replace(**change))


def test_every_flipped_bit_is_found():
    value, draw = envelope.changelog_value(sealed()), random.Random(1)
    for _ in range(2000):
        damaged = bytearray(value)
        damaged[draw.randrange(len(value))] ^= 1 << draw.randrange(8)
        saved = envelope.read_changelog_value(bytes(damaged))
        try:
            assert envelope.origin_of(3, "pump", saved) != ORIGIN  # it looks like one without a checksum,
            msgspec.msgpack.decode(saved.state, type=_SavedTrack)  # but is none
        except (envelope.Damaged, msgspec.DecodeError):
            continue
        raise AssertionError("a damaged value was believed")


@pytest.mark.parametrize("length", [0, 1, 19, 20, 25])
def test_a_value_that_was_cut_off_is_no_state(length):
    saved = envelope.read_changelog_value(envelope.changelog_value(sealed())[:length])
    with contextlib.suppress(envelope.Damaged):
        envelope.origin_of(3, "pump", saved)
        with pytest.raises(msgspec.DecodeError):
            msgspec.msgpack.decode(saved.state, type=_SavedTrack)


class Earlier(msgspec.Struct, array_like=True):
    """The first fields of a track, as a version without checksums reads them."""

    version: int
    fingerprint: str
    generation: int
    accepted: int


def test_an_earlier_version_reads_a_sealed_state():
    assert msgspec.msgpack.decode(sealed().state, type=Earlier).accepted == 0


def test_a_state_from_before_there_were_checksums_is_read():
    fields = msgspec.msgpack.decode(unsealed().state)
    saved = unsealed()._replace(state=msgspec.msgpack.encode(fields[:20]))
    assert envelope.origin_of(3, "pump", saved) == envelope.Origin()
    assert Track.load("pump", saved.state, prepare_rule(Rule())).accepted == 0
