"""States as a version writes them, kept for the versions after it.

    PYTHONPATH=. python tests/saved_states.py      # with every new version: writes tests/data/states-VERSION.json

Each has the readings that it has seen and those that came after, so that a later version can go on from it and be
compared with one that has seen all of them itself.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ishsmm_stream as hs
from service.sensors import inference
from service.sensors.envelope import changelog_value
from service.sensors.rules import prepare_rule
from service.sensors.saved import Saved
from service.sensors.track import Track
from service.settings import Rule
from service.settings.rules import Alarms, Window

DATA = Path(__file__).parent / "data"
BEGIN, SECOND = 1_700_000_000_000_000, 1_000_000  # microseconds
SAVED_AT = 200  # readings of 300

DETECTORS: dict[str, Callable[[], hs.OnlineDetector]] = {
    "auto": lambda: hs.OnlineDetector(threshold=0.98),
    "counts": lambda: hs.OnlineDetector(
        hs.ilr(hs.emissions.Poisson(shape=1.0, rate=1.0), hs.durations.Poisson(shape=1.0, scale=80.0))
    ),
    "returning": lambda: hs.OnlineDetector(
        hs.ied(hs.emissions.Normal(mean=3.0, mean_weight=0.1), hs.durations.Poisson(shape=1.0, scale=80.0)), chains=20
    ),
}
RULES: dict[str, Rule] = {
    "default": Rule(window=Window(readings=20), alarms=Alarms(threshold=0.98)),
    "prepared": Rule(transform=("sqrt", "difference"), season="1m", window=Window(readings=20)),
}


def readings(name: str) -> list[float]:
    """Levels that change after every hundred readings; counts for the detector of counts."""
    draw = np.random.default_rng(len(name))
    levels = np.repeat([2.0, 8.0, 2.0], 100)
    values = draw.poisson(levels) if name == "counts" else np.abs(levels + draw.normal(size=300))
    return [float(value) for value in values]


def take(track: Track, values: list[float], first: int) -> list[Any]:
    """Give a sensor readings, the first of them with this number; the messages that are published."""
    prepare = track.prepared.prepare
    accepted = [
        (BEGIN + (first + i) * SECOND, (value,) if prepare is None else prepare((value,)), 0)
        for i, value in enumerate(values)
    ]
    published = inference.infer(track, accepted)
    return [*published.events, *published.states]


def written() -> dict[str, Any]:
    """What this version writes."""
    detectors, sensors = {}, {}
    for name, make in DETECTORS.items():
        values, detector = readings(name), make()
        detector.update_many(values[:SAVED_AT])
        detectors[name] = {"readings": values, "state": base64.b64encode(detector.snapshot()).decode()}
    for name, rule in RULES.items():
        values, track = readings(name), Track("boiler", prepare_rule(rule))
        take(track, values[:SAVED_AT], 0)
        saved = Saved(SAVED_AT, BEGIN + (SAVED_AT - 1) * SECOND, 0, track.dump())
        sensors[name] = {"readings": values, "state": base64.b64encode(changelog_value(saved)).decode()}
    return {"version": hs.__version__, "saved_at": SAVED_AT, "detectors": detectors, "sensors": sensors}


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    path = DATA / f"states-{hs.__version__}.json"
    path.write_text(json.dumps(written(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")
