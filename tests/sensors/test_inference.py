"""Readings of many tracks on several threads: each track says what it would say alone."""

from __future__ import annotations

import numpy as np
import pytest

from service.sensors import inference
from service.sensors.inference import Inference, SensorBatch, infer
from service.sensors.rules import prepare_rule
from service.sensors.track import Track
from service.settings import Rule
from service.settings.rules import Window
from service.wire import messages
from service.wire.readings import Reading

BEGIN = 1_700_000_000_000_000
RULES = [Rule(window=Window(readings=7)), Rule(window=Window(readings=50), transform="log1p")]


def readings(track: Track, first: int, count: int, seed: int):
    """Judged readings of one a second; the level jumps at 60."""
    rng = np.random.default_rng([seed, first])
    found = []
    for i in range(first, first + count):
        moment, values = BEGIN + i * 1_000_000, (20.0 + 9.0 * (i >= 60) + float(rng.normal()),)
        values = values if track.prepared.prepare is None else track.prepared.prepare(values)
        found.append((moment, values, track.judge(Reading(track.sensor, moment, values), -1)))
    return found


def said(published) -> list[bytes]:
    return [messages.encode(message) for message in (*published.events, *published.states)]


def cycles(threads: int | None, lengths: list[int], tracks: int = 12) -> list[list[bytes]]:
    """What each track publishes over cycles of so many readings; without ``threads`` each track is alone."""
    followed = [Track(f"sensor-{i}", prepare_rule(RULES[i % 2])) for i in range(tracks)]
    found: list[list[bytes]] = [[] for _ in followed]
    first = 0
    for length in lengths:
        waiting = [(track, readings(track, first, length, i)) for i, track in enumerate(followed)]
        first += length
        if threads is None:
            published = [infer(track, accepted) for track, accepted in waiting]
        else:
            with Inference(threads) as together:
                batches = [SensorBatch(track, readings=accepted) for track, accepted in waiting]
                pending = together.add(batches[:5]) + together.add(batches[5:])
                together.finish()
            published = [one.published for one in pending]
        for own, one in zip(found, published, strict=True):
            own.extend(said(one))
    return found


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_threads_and_groups_change_nothing(monkeypatch, threads):
    monkeypatch.setattr(inference, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(inference, "_GROUP", 3)
    alone = cycles(None, [31, 40, 1, 28])
    assert all(alone)
    assert any(b'"provisional"' in message for own in alone for message in own)
    assert cycles(threads, [31, 40, 1, 28]) == alone


def test_what_a_thread_raises_is_raised_here(monkeypatch):
    monkeypatch.setattr(inference, "_WORTH_A_THREAD", 1)
    track = Track("broken", prepare_rule(RULES[0]))
    accepted = readings(track, 0, 5, 0)
    track.detector = None  # type: ignore[assignment]

    def take() -> None:
        with Inference(1) as together:
            together.add([SensorBatch(track, readings=accepted)])
            together.finish()

    with pytest.raises(AttributeError):
        take()
