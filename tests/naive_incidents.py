"""The definition of incidents spelled out, with nothing remembered: the twin that the tests compare with."""

from __future__ import annotations

import math
from datetime import datetime

from scipy.stats import nbinom

HOUR = 3_600_000_000
HISTORIES = (168, 24, 3)


def micros(text):
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


def latest(events):
    """The highest revision of each event, without what is retracted."""
    found = {}
    for event in events:
        if event.id not in found or found[event.id].revision < event.revision:
            found[event.id] = event
    return sorted(
        (event for event in found.values() if event.status != "retracted"),
        key=lambda event: (micros(event.time), event.id),
    )


def incidents(events, policy, now=None, since=None):
    """{(group, first onset of a window, status): [(sensor, event id), ...]}"""
    span = round(policy.span_s * 1e6)
    widths = (span // 64, span // 8, span)
    changes = [(micros(event.time), event) for event in latest(events)]
    hours = [onset // HOUR for onset, _ in changes]
    began = min([*hours, *([] if since is None else [since // HOUR])], default=0)
    groups = {}
    for onset, event in changes:
        groups.setdefault(event.sensor.rpartition("/")[0], []).append((onset, event))
    found = {}
    for name, mine in groups.items():
        kept = []
        for width in widths:
            windows = []
            for i, (start, _) in enumerate(mine):
                inside = [(onset, event.sensor) for onset, event in mine[i:] if onset <= start + width]
                end = inside[-1][0]
                # what narrower windows explain counts as one sensor
                rest = {
                    event.sensor
                    for onset, event in mine
                    if start <= onset <= end and not any(s <= onset <= e for s, e in kept)
                }
                has_explained = any(
                    start <= onset <= end and any(s <= onset <= e for s, e in kept) for onset, _ in mine
                )
                counts = [len({sensor for _, sensor in inside}), len(rest) + has_explained]
                where = (mine, hours, start // HOUR, began, width, policy.false_per_week / 3)
                if all(count >= policy.min_sensors and exceeds(count, *where) for count in counts):
                    windows.append((start, end))
            kept += windows
        for extents in in_sessions(sorted(kept), 6 * span):
            members = {}
            for onset, event in mine:
                low = max(min(micros(event.low.time), onset), onset - span)
                high = min(max(micros(event.high.time), onset), onset + span)
                if any(low <= end and start <= high for start, end in extents):
                    members.setdefault(event.sensor, event.id)
            is_over = now is not None and now - max(end for _, end in extents) > 6 * span
            found[name, extents[0][0], "closed" if is_over else "open"] = list(members.items())
    return found


def exceeds(sensors, mine, fleet, hour, began, width, false_per_width):
    known = min(hour - began - 1, 168)
    if known <= 0:
        return False
    fleet_counts = [sum(hour - length <= at < hour for at in fleet) for length in HISTORIES]
    week = max(
        (n + 0.5) / min(length, known) * 168
        for n, length in zip(fleet_counts, HISTORIES, strict=True)
        if n or length == 168
    )
    chance = false_per_width / 2 ** math.ceil(math.log2(week))
    for length in HISTORIES:
        stretches = {
            (event.sensor, onset // HOUR, onset // width)
            for onset, event in mine
            if hour - length <= onset // HOUR < hour
        }
        n, exposure = len(stretches), min(length, known)
        if (n or length == 168) and nbinom.sf(sensors - 2, n + 1.5, exposure / (exposure + width / HOUR)) > chance:
            return False
    return True


def in_sessions(extents, quiet):
    sessions = []
    for start, end in extents:
        if sessions and start - max(e for _, e in sessions[-1]) <= quiet:
            sessions[-1].append((start, end))
        else:
            sessions.append([(start, end)])
    return sessions
