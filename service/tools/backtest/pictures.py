"""A picture for each sensor: its readings, the level as published, changes, alarms and labels."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ishsmm_stream as hs
from service.sensors.wording import transform_words
from service.tools.backtest.replay import Followed, Replayed, level_of

MOST_PICTURES = 24


def draw(
    result: Replayed,
    folder: Path,
    most: int,
    labels: dict[str, list[int]],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, str]:
    """Write pictures of the sensors with the most alarms, then changes; returns file names by sensor. ``labels``: known
    changes."""
    if most == 0:
        return {}
    plots = _plots()
    ranked = sorted(result.sensors.values(), key=lambda one: (-len(one.alarms), -len(one.changes), one.name))
    chosen = {one.name for one in ranked[:most]}
    names: dict[str, str] = {}
    for sensor in result.sensors.values():
        if sensor.name not in chosen:
            continue
        names[sensor.name] = file_name(sensor.name)
        marks = labels.get(sensor.name, [])
        plots.plot_streams([_stream(plots, sensor, marks)], path=folder / names[sensor.name])
        progress(len(names), len(chosen))
    return names


def _plots() -> Any:
    """The library's pictures, which need matplotlib."""
    try:
        from ishsmm_stream import plots
    except ImportError as error:
        raise ValueError(f"{error}; or say --pictures 0") from None
    return plots


def _stream(plots: Any, sensor: Followed, labels: Sequence[int]) -> Any:
    values = np.array(sensor.values).reshape(-1, sensor.channels)
    unit = sensor.rule.labels.get("unit", "")
    transform = transform_words(sensor.rule)
    label = f"{transform} of {unit or 'value'}" if transform != "none" else str(unit or "value")
    names = [label] if sensor.channels == 1 else [f"{label} [{i}]" for i in range(sensor.channels)]
    return plots.Stream(
        values=values,
        change_points=sensor.change_points,
        alarms=[
            hs.AnnouncedChange(number, alarm.index, alarm.raised_at, "raised")
            for number, alarm in enumerate(sensor.alarms)
        ],
        name=sensor.name,
        labels=names,
        x=np.array(sensor.times, dtype="datetime64[us]") if _ascends(sensor.times) else None,
        levels=_levels(plots, sensor),
        known=labels,
    )


def _ascends(times: Sequence[int]) -> bool:
    return bool((np.diff(np.array(times)) >= 0).all())


def _levels(plots: Any, sensor: Followed) -> list[Any]:
    found = []
    for index, parameters in sensor.levels:
        pairs = [level_of(parameters, channel, sensor.channels) for channel in range(sensor.channels)]
        if not np.isnan([level for level, _ in pairs]).all():
            level, noise = zip(*pairs, strict=True)
            found.append(plots.StreamLevel(index, level, noise))
    return found


def file_name(sensor: str) -> str:
    """A file's name that any system takes, different for different sensors.

    >>> file_name("boiler-1"), file_name("north/boiler 1")
    ('boiler-1.png', 'north_boiler_1-a5525b6a.png')
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", sensor)[:80].lstrip(".")
    return f"{plain}.png" if plain == sensor else f"{plain}-{zlib.crc32(sensor.encode()):08x}.png"
