"""The recorded inputs of ``compare.py``: configurations, and what happens to a service that runs with them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

START = 1_704_067_200  # of reading times: 2024-01-01
PARTITIONS = 2
BATCH = 300  # records


class Record(NamedTuple):
    """A record of the input topic."""

    key: bytes | None
    value: bytes | None
    time: float = START  # its timestamp, in seconds


class Send(NamedTuple):
    """Records that arrive together in one partition."""

    records: list[Record]
    partition: int = 0


class Restart(NamedTuple):
    """Stop the service in order, or kill it, and start it again, perhaps with other rules."""

    kill: bool = False
    rules: Sequence[dict[str, Any]] | None = None


class Command(NamedTuple):
    """A command line of ``ishsmm-stream``, without ``--config``."""

    arguments: tuple[str, ...]
    fails: bool = False


class Forget(NamedTuple):
    """Forget a sensor, and wait until the service has done so: it has then read all control records before it."""

    sensor: str


Step = Send | Restart | Command | Forget


@dataclass
class Input:
    """One input. ``source``: how the service without a broker gets the records, or "" if it cannot."""

    name: str
    steps: list[Step]
    rules: list[dict[str, Any]] = field(default_factory=list)
    mapping: dict[str, Any] = field(default_factory=lambda: {"partitioned_by_sensor": True})
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    source: str = "http"
    file: dict[str, Any] = field(default_factory=lambda: {"format": "lines"})  # [source.file]
    kafka: bool = True


def own(sensor: str, second: float, *values: float) -> Record:
    """Return a reading in our own format."""
    measured = {"value": values[0]} if len(values) == 1 else {"values": list(values)}
    text = json.dumps({"sensor": sensor, "time": START + second, **measured})
    return Record(sensor.encode(), text.encode(), START + second)


def send(records: Iterable[Record], size: int = BATCH) -> list[Send]:
    """Cut records into batches, each for one partition: that of the record's key."""
    queues: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    batches = []
    for record in records:
        number = zlib.crc32(record.key or b"") % PARTITIONS
        queues[number].append(record)
        if len(queues[number]) == size:
            batches.append(Send(queues[number], number))
            queues[number] = []
    return batches + [Send(queue, number) for number, queue in enumerate(queues) if queue]


def levels(rng: np.random.Generator, length: int, *values: float, noise: float = 1.0) -> np.ndarray:
    """Return a series whose level takes these values in turn."""
    return np.repeat(values, -(-length // len(values)))[:length] + noise * rng.normal(size=length)


def stream(sensors: dict[str, np.ndarray], first: int = 0) -> list[Record]:
    """Return a reading per second of each sensor, in turn. A NaN is no reading."""
    length = max(map(len, sensors.values()))
    return [
        own(sensor, first + t, *np.atleast_1d(values[t]).tolist())
        for t in range(length)
        for sensor, values in sensors.items()
        if t < len(values) and not np.isnan(values[t]).any()
    ]


def change_id(sensor: str, generation: int, number: int) -> str:
    """Return the id that events of a change have."""
    text = json.dumps([sensor, generation, number], separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


QUICK = {"window": {"readings": 20}, "alarms": {"threshold": 0.95, "per_sensor": "40 per hour"}}


def restores() -> Input:
    """Changes and alarms of sensors and groups, two channels, stops and kills in between."""
    rng = np.random.default_rng(1)
    sensors = {f"north/boiler-{k}/level": levels(rng, 420, 4.0 + k, 9.0 + k, 4.0) for k in range(4)}
    sensors |= {f"north/boiler-{k}/flow": levels(rng, 420, 1.0, 1.0, 8.0 + k) for k in range(3)}
    sensors["pair"] = np.stack([levels(rng, 420, 0.0, 6.0), levels(rng, 420, 0.0, 0.0, 9.0)], axis=1)
    sensors["short"] = levels(rng, 70, 0.0)
    sensors["still"] = np.repeat([2.0, 2.0, 5.0], 140)
    for at in (150, 250, 350):
        sensors["north/boiler-0/flow"][at] += 30.0  # a spike
    sends = send(stream(sensors), 150)
    cuts = [len(sends) * part // 4 for part in range(5)]
    parts = [sends[at:to] for at, to in pairwise(cuts)]
    steps = [*parts[0], Restart(), *parts[1], Restart(kill=True), *parts[2], Restart(kill=True), *parts[3]]
    labels = {"labels": {"site": "north", "unit": "bar", "critical": True}}
    rules = [{"match": "north/*", **QUICK, **labels}, {"match": "*", **QUICK, "detector": {"outliers": 0.01}}]
    sections = {"limits": {"detectors": 4}, "incidents": {"min_sensors": 2}}
    return Input("restores", steps, rules, sections=sections)


def times() -> Input:
    """Silence, gaps, late and repeated readings, readings that wait for older ones, clocks that are ahead."""
    rng = np.random.default_rng(2)
    records = []
    for t in range(420):
        value = float(rng.normal(5.0 * (t // 150 % 2), 1.0))
        if not (60 <= t < 90 or t % 7 == 3):
            records += [own("insert/a", t, value), own("ignore/a", t, value)]
        if t == 200:
            records.append(own("insert/jump", 200.0, 1.0))
        if t == 210:
            records.append(own("insert/jump", 90_000.0, 1.0))
        if t % 5 == 0:
            records += [own("accept/late", t - (40 if t % 25 == 0 else 0), value), own("reject/late", t, value)]
            records += [own("reject/late", t - 3.5, value + 1.0)]
        for name in ("accept/twice", "reject/twice", "identical/twice"):
            records += [own(name, t // 2, round(value) if t % 4 else t)]
        if t < 100 or 140 <= t < 200 or t > 380:
            records.append(own("silent/a", t, value))
        records.append(own("reorder/a", t + (6 if t % 4 == 0 else 0), value))
        if t % 50 == 49:
            records += [own("reorder/a", t - 30, value), own("reorder/a", t, value)]
            ahead = own("accept/late", t + 100_000, value)
            records.append(ahead._replace(time=START + t))
    records.append(Record(b"far", b'{"sensor":"far","time":"2999-01-01T00:00:00Z","value":1}'))
    sends = send(records, 200)
    half = len(sends) // 2
    steps = [*sends[:half], Restart(kill=True), *sends[half : half + 3], Restart(), *sends[half + 3 :]]
    policies = {
        "insert/*": {"gap": "insert", "interval_s": 1.0},
        "ignore/*": {"gap": "ignore", "interval_s": 1.0},
        "accept/*": {"late": "accept", "duplicate": "accept", "max_ahead_s": 3600.0},
        "reject/*": {"late": "reject", "duplicate": "reject"},
        "silent/*": {"silent_after_s": 20.0, "zone": "Europe/Berlin"},
        "reorder/*": {"reorder_within_s": 5.0, "late": "reject"},
    }
    rules = [{"match": match, **QUICK, "time": policy} for match, policy in policies.items()]
    return Input("times", steps, rules)


def people() -> Input:
    """Commands of people: resets, acceptances, forgettings, mutes and acknowledgements, before and after kills."""
    rng = np.random.default_rng(3)
    names = [f"room-{k}" for k in range(5)]
    parts = []
    for n, heights in enumerate([(0.0, 8.0), (8.0, 0.0, 9.0), (9.0, 20.0), (20.0, 3.0), (3.0, 0.0)]):
        sensors = {name: levels(rng, 90, *heights) for name in names} | {f"mark-{n}": np.zeros(40)}
        sensors["room-1"] = levels(rng, 90, *[(0.0,), (0.0, 0.0, 12.0), (12.0,), (12.0, 0.0), (0.0,)][n])
        parts.append(send(stream(sensors, 100 * n)))
    mute = ("mute", "room-[12]", "--from", "2026-01-01T00:00:00Z", "--until", "2026-02-01T00:00:00Z", "--why", "paint")
    steps: list[Step] = [*parts[0]]
    steps += [Command(mute), Command(("mute", "room-9", "--for", "2h")), Command(("unmute", "room-9"))]
    steps += [Command(("reset", "room-0")), Forget("mark-0"), *parts[1], Command(("accept", "room-1"))]
    steps += [Command(("ack", change_id("room-2", 0, 0), "--note", "it was us")), Forget("room-3")]
    steps += [*parts[2], Restart(kill=True), Command(("reset", "room-2")), Command(("accept", "room-4"))]
    steps += [Command(("reset", "room-2"), fails=True), Command(("accept", "nobody"), fails=True), Forget("mark-1")]
    steps += [*parts[3], Restart(), Command(("reset", "room-3")), Forget("room-0"), *parts[4]]
    return Input("people", steps, [{"match": "*", **QUICK}])


def dead_letters() -> Input:
    """Records and readings that are refused, for many reasons, among good ones."""
    rng = np.random.default_rng(4)
    own_format = [
        '"sensor":"","value":1', '"sensor":7,"value":1', '"sensor":"a\\u0007","value":1', '"value":1',
        '"sensor":"a","time":"soon","value":1', '"sensor":"a","time":1e99,"value":1', '"sensor":"a","time":1',
        '"sensor":"a","value":null', '"sensor":"a","value":"x"', '"sensor":"a","value":true',
        '"sensor":"a","value":1e400', '"sensor":"a","values":[]', f'"sensor":"a","values":{[1] * 70}',
        '"sensor":"a","time":1704067300,"values":[1,2,3]', '"sensor":"a","value":1,"values":[1]',
        '"sensor":"log","time":1704067300,"value":-1', '"sensor":"one-too-many","time":1704067300,"value":1',
        f'"sensor":"a","value":{"1" * 600}', '"sensor":"count","time":1704067300,"value":1.5',
    ]  # fmt: skip
    bad = [None, b"", b"{", b"\xff\xfe", b"[1]", b"7", *(f"{{{text}}}".encode() for text in own_format)]
    records = []
    for t in range(100):
        records += [own("a", t, float(rng.normal())), own("log", t, float(rng.random() + 1.0)), own("count", t, t % 3)]
        value = bad[t % len(bad)]
        key = b"other" if value is None else [b"other", None, b"a", b"\xff"][t % 4]
        records.append(Record(key, value, START + t))
    counts = {"kind": "ilr", "emission": {"family": "poisson"}, "duration": {"family": "poisson"}}
    rules = [{"match": "log", "transform": "log", **QUICK}, {"match": "count", "model": counts, **QUICK}]
    sections = {"limits": {"sensors": 4, "record_bytes": 512}}
    steps = [Send(records[:250]), Restart(kill=True), Send(records[250:])]
    return Input("dead_letters", steps, rules, sections=sections, source="file")


def models() -> Input:
    """Models in which states return or observations are counts, in one channel and in several."""
    rng = np.random.default_rng(5)
    heights = levels(rng, 260, 0.0, 6.0, 0.0, 6.0, 12.0)
    sensors = {f"ied/{k}": np.roll(heights, 60 * k) for k in range(2)}
    sensors["poisson"] = rng.poisson(levels(rng, 260, 1.0, 8.0, 1.0, noise=0.0)).astype(float)
    sensors["categorical"] = (levels(rng, 260, 0.0, 2.0, 1.0, noise=0.0) + (rng.random(260) < 0.1)).round()
    sensors["hdp"] = sensors["categorical"][::-1]
    sensors["vector"] = np.stack([heights, -heights + rng.normal(size=260)], axis=1)
    counts, letters = {"family": "poisson"}, {"family": "categorical", "concentration": [1.0, 1.0, 1.0, 1.0]}
    dwell = {"family": "poisson", "scale": 60.0}
    unit = [[1.0, 0.0], [0.0, 1.0]]
    vector = {"family": "multivariate_normal", "mean": [0.0, 0.0], "mean_weight": 0.1, "freedom": 4.0, "scale": unit}
    normal = {"family": "normal", "mean": 5.0, "mean_weight": 0.1}
    tables = {
        "ied/*": {"kind": "ied", "emission": normal, "duration": dwell},
        "poisson": {"kind": "ilr", "emission": counts, "duration": dwell},
        "categorical": {"kind": "ilr", "emission": letters, "duration": {"family": "negative_binomial", "size": 2.0}},
        "hdp": {"kind": "sticky_hdp_hmm", "emission": letters},
        "vector": {"kind": "ilr", "emission": vector, "duration": dwell},
    }
    rules = [{"match": match, "model": model, **QUICK} for match, model in tables.items()]
    rules[0] |= {"state_names": {"0": "idle", "1": "busy"}, "detector": {"chains": 30}}
    rules[3] |= {"detector": {"chains": 30}}
    sends = send(stream(sensors))
    third = len(sends) // 3
    steps = [*sends[:third], Restart(), *sends[third : 2 * third], Restart(kill=True), *sends[2 * third :]]
    return Input("models", steps, rules)


def transforms() -> Input:
    """Transforms and seasons, which remember values of their own."""
    rng = np.random.default_rng(6)
    cycle = 3.0 * np.sin(np.arange(500) * 2 * np.pi / 60)
    sensors = {
        "log": np.exp(levels(rng, 500, 1.0, 3.0, noise=0.2)),
        "sqrt": np.abs(levels(rng, 500, 4.0, 20.0)),
        "difference": np.cumsum(levels(rng, 500, 0.0, 3.0)),
        "counter": np.cumsum(np.abs(levels(rng, 500, 2.0, 9.0))) % 700.0,
        "season": cycle + levels(rng, 500, 0.0, 0.0, 9.0),
        "both": np.abs(cycle + levels(rng, 500, 9.0, 30.0)),
    }
    kinds: dict[str, dict[str, Any]] = {
        "log": {"transform": "log"}, "sqrt": {"transform": "sqrt"}, "difference": {"transform": "difference"},
        "counter": {"transform": ["counter_rate", "log1p"]}, "season": {"season": "1m"},
        "both": {"transform": "sqrt", "season": {"period_s": 60.0, "bins": 20}},
    }  # fmt: skip
    sends = send(stream(sensors))
    third = len(sends) // 3
    steps = [*sends[:third], Restart(kill=True), *sends[third : 2 * third], Restart(), *sends[2 * third :]]
    return Input("transforms", steps, [{"match": match, **options, **QUICK} for match, options in kinds.items()])


def rules() -> Input:
    """Rules that change at a restart: another model is a new generation, other alarms and labels are not."""
    rng = np.random.default_rng(7)
    sensors = {name: levels(rng, 450, 0.0, 7.0, 14.0, 7.0) for name in ("kept", "model", "transform", "alarms")}
    sends = send(stream({name: np.abs(values) + 1.0 for name, values in sensors.items()}))
    third = len(sends) // 3
    counts = {"kind": "ilr", "emission": {"family": "normal"}, "duration": {"family": "poisson"}}
    later = [{"match": "model", "model": counts, **QUICK}, {"match": "transform", "transform": "log", **QUICK}]
    alarms = {"threshold": 0.999, "confirm_after": 5, "per_sensor": "1 per day"}
    later.append({"match": "alarms", "alarms": alarms, "window": {"readings": 7}, "labels": {"site": "south"}})
    every = [{"match": "*", **QUICK}]
    steps = [*sends[:third], Restart(rules=later + every), *sends[third : 2 * third]]
    steps += [Restart(kill=True, rules=every), *sends[2 * third :]]
    return Input("rules", steps, every)


def nested_json() -> Input:
    """Nested records of several values, keyed by something else: readings go through the internal topic."""
    rng = np.random.default_rng(8)
    heights = {number: levels(rng, 300, 20.0, 26.0, noise=0.5) for number in range(3)}
    records = []
    for t in range(300):
        for number, values in heights.items():
            data = {"temperature": round(float(values[t]), 4), "pressure": t % 5}
            if t % 11 == 10:
                del data["pressure"]
            document: Any = {"site": "north", "device": {"id": number}, "ts": (START + t) * 1000, "data": data}
            if t % 37 == 36:
                document = [{"ts": "never"}, {"site": "north", "data": {}}, 4][number]
            records.append(Record(str(t % 3).encode(), json.dumps(document).encode(), START + t))
    mapping = {
        "format": "json", "sensor": "site/device.id", "time": "ts", "time_unit": "ms",
        "values": ["data.temperature", "data.pressure"], "optional": True,
    }  # fmt: skip
    sends = send(records, 250)
    half = len(sends) // 2
    steps = [*sends[:half], Restart(kill=True), *sends[half:]]
    return Input("nested_json", steps, [{"match": "*", **QUICK}], mapping, source="file")


def listed_json() -> Input:
    """Lists of readings of two channels, through the internal topic."""
    rng = np.random.default_rng(9)
    heights = np.stack([levels(rng, 600, 0.0, 6.0, 0.0), levels(rng, 600, 3.0)], axis=1)
    records = []
    for at in range(0, 600, 10):
        for device in ("d1", "d2"):
            samples = [[START + t, *heights[t].round(4).tolist()] for t in range(at, at + 10)]
            if at % 150 == 140:
                samples[4][1] = None
            records.append(Record(None, json.dumps({"device": device, "samples": samples}).encode(), START + at))
    mapping = {
        "format": "json", "readings": "samples", "sensor": "$.device", "time": "0", "values": ["1", "2"],
        "together": True,
    }  # fmt: skip
    return Input("listed_json", [*send(records, 40)], [{"match": "*", **QUICK}], mapping, source="file")


def csv_lines() -> Input:
    """CSV lines whose key is the sensor, with several values; in a file the column names it."""
    rng = np.random.default_rng(10)
    heights = {name: levels(rng, 250, 1.0, 5.0, 1.0) for name in ("d1", "d2", "d3")}
    records = []
    for t in range(250):
        for name, values in heights.items():
            line = f"{name};2024-01-01T00:{t // 60:02}:{t % 60:02}Z;{values[t]:.4f};{t % 3}"
            line = {40: "junk", 80: f'{name};"2024', 120: f"{name};2024-01-01T00:02:00Z;;1"}.get(t, line)
            records.append(Record(name.encode(), line.encode(), START + t))
    mapping = {
        "format": "csv", "delimiter": ";", "columns": ["device", "at", "temperature", "load"], "sensor": "device",
        "time": "at", "time_unit": "rfc3339", "values": ["temperature", "load"], "partitioned_by_sensor": True,
    }  # fmt: skip
    return Input("csv_lines", [*send(records)], [{"match": "*", **QUICK}], mapping, source="file")


def numbers() -> Input:
    """Bare numbers, with the sensor from the key and the time from the record."""
    rng = np.random.default_rng(11)
    records = []
    for t, value in enumerate(levels(rng, 300, 1.0, 9.0)):
        text = {50: "x", 51: "", 52: "nan", 53: "+.5"}.get(t, f"{value:.3f}")
        records += [Record(name, text.encode(), START + t) for name in (b"n1", b"n2", None)]
    return Input("numbers", [*send(records)], [{"match": "*", **QUICK}], {"format": "number"}, source="")


def wide_file() -> Input:
    """A CSV file with a header and a column for each sensor, read in two stretches."""
    rng = np.random.default_rng(12)
    one, two = levels(rng, 500, 2.0, 9.0, 2.0), levels(rng, 500, 0.0, 5.0)
    lines = ["time,boiler-1,boiler-2"]
    lines += [f"{START + t},{one[t]:.4f},{'' if t % 9 == 0 else format(two[t], '.4f')}" for t in range(500)]
    lines[100] = "what,is,this"
    records = [Record(None, line.encode()) for line in lines]
    steps = [Send(records[:300]), Restart(), Send(records[300:])]
    return Input("wide_file", steps, [{"match": "*", **QUICK}], source="file", file={"format": "csv"}, kafka=False)


INPUTS = {
    made.name: made
    for make in (
        restores, times, people, dead_letters, models, transforms, rules, nested_json, listed_json, csv_lines, numbers,
        wide_file,
    )
    for made in [make()]
}  # fmt: skip
