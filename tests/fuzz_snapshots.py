"""Forged snapshots: change one field of a real snapshot, write a valid checksum, and restore it.

    python tests/fuzz_snapshots.py --trials 100000 --minutes 20 --seed 1
    python tests/fuzz_snapshots.py --seed 1 --only 4711          # one trial, in this process

``restore`` must raise SnapshotError and nothing else, or return a detector that takes 1,000 readings, answers every
question and survives another snapshot. Trials run in another process, which reports each of them: if it dies or stops,
the trial that it was at is the culprit. A trial depends on the seed and on its number only.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import functools
import json
import math
import os
import struct
import subprocess
import sys
import time
import traceback
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import ishsmm_stream as hs
from ishsmm_stream.online import detector as online_detector
from ishsmm_stream.online import snapshot
from ishsmm_stream.online.particles import engine as particles

UPDATES = 1000
FEW_UPDATES = 150  # in most trials of models whose states return, which are slower
TIMEOUT = 10.0  # seconds that a trial may take
START_UP = 900.0  # and the first one of a process, which builds the corpus and may have to compile

# The corpus


def _levels(rng: np.random.Generator, length: int) -> np.ndarray:
    """Levels that change, noise, missing readings, outliers and a stretch that stands still."""
    jumps = np.cumsum(rng.random(length) < 0.01)
    y = rng.normal(0.0, 5.0, jumps[-1] + 1)[jumps] + rng.normal(size=length)
    y[rng.random(length) < 0.03] = np.nan
    y[rng.random(length) < 0.01] *= 1e6
    still = length // 3
    y[still : still + length // 10] = 1.5
    return y


def _counts(rng: np.random.Generator, length: int) -> np.ndarray:
    return rng.poisson(3.0 + 5.0 * (rng.random(length) < 0.1)).astype(float)


def _letters(rng: np.random.Generator, length: int) -> np.ndarray:
    return rng.integers(0, 3, length).astype(float)


def _constant(rng: np.random.Generator, length: int) -> np.ndarray:
    y = np.full(length, 3.0)
    y[length - length // 4 :] += rng.normal(size=length // 4)
    return y


def _vectors(channels: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, length: np.column_stack([_levels(rng, length) for _ in range(channels)])


class Case(NamedTuple):
    """A detector to take snapshots of."""

    make: Callable[[], hs.OnlineDetector]
    draw: Callable[[np.random.Generator, int], np.ndarray]
    ages: tuple[int, ...]
    hours: bool = False


def _detector(*arguments: Any, **settings: Any) -> Callable[[], hs.OnlineDetector]:
    return lambda: hs.OnlineDetector(*arguments, **settings)


_NORMAL, _DWELL = hs.emissions.Normal(0.0, 0.1, 1.0, 1.0), hs.durations.Poisson(1.0, 40.0)
_VECTOR = hs.emissions.MultivariateNormal((0.0, 0.0), 0.1, 4.0, ((1.0, 0.0), (0.0, 1.0)))
_FEW = {"chains": 4, "lag": 16}
_MIXED = hs.emissions.Mixed((_NORMAL, hs.emissions.Autoregressive(order=1)))

AUTO = {
    "auto": Case(_detector(), _levels, (0, 5, 12, 60, 300, 3000)),
    "auto, counts": Case(_detector(), _counts, (40, 700)),
    "auto, constant": Case(_detector(), _constant, (100, 600)),
    "auto, hours": Case(_detector(), _levels, (400,), hours=True),
    "auto, small": Case(_detector(lag=12, max_hypotheses=6, keep=2, warm_up=30), _levels, (20, 200)),
    "auto, effects": Case(_detector(alarm_policy=hs.AlarmPolicy(min_effect_sd=2.0, every=200)), _levels, (500,)),
    "auto, vectors": Case(_detector(), _vectors(3), (8, 150)),
}
RENEWAL = {
    "ilr normal": Case(_detector(hs.ilr(_NORMAL, _DWELL)), _levels, (0, 200)),
    "ilr outliers": Case(_detector(hs.ilr(_NORMAL, _DWELL), outliers=0.02, prior="auto"), _levels, (200,)),
    "ilr hazard": Case(
        _detector(hs.ilr(_NORMAL, _DWELL), hazard=hs.priors.Beta(1.0, 50.0), min_dwell=3), _levels, (200,)
    ),
    "ilr counts": Case(_detector(hs.ilr(hs.emissions.Poisson(1.0, 0.5), _DWELL)), _counts, (200,)),
    "ilr letters": Case(
        _detector(hs.ilr(hs.emissions.Categorical((1.0, 1.0, 1.0)), hs.durations.DelayedGeometric(1.0, 9.0, 5))),
        _letters,
        (200,),
    ),
    "ilr autoregression": Case(
        _detector(hs.ilr(hs.emissions.Autoregressive(order=2, trend=True), hs.durations.NegativeBinomial(3.0))),
        _levels,
        (150,),
    ),
    "ilr mixed": Case(_detector(hs.ilr(_MIXED, _DWELL)), _levels, (150,)),
}
RECURRING = {
    "ied": Case(_detector(hs.ied(_NORMAL, _DWELL), **_FEW), _levels, (1, 30, 300)),
    "ied, units": Case(_detector(hs.ied(_NORMAL, _DWELL), prior="auto", **_FEW), _levels, (5, 100)),
    "hdp_hsmm": Case(
        _detector(hs.hdp_hsmm(_NORMAL, hs.durations.DelayedGeometric(1.0, 9.0, 5)), **_FEW),
        _levels,
        (100,),
    ),
    "hdp_hmm": Case(_detector(hs.hdp_hmm(hs.emissions.Poisson(1.0, 0.5)), **_FEW), _counts, (100,)),
    "sticky_hdp_hmm": Case(
        _detector(hs.sticky_hdp_hmm(hs.emissions.Categorical((1.0, 1.0, 1.0))), **_FEW), _letters, (100,)
    ),
    "bayesian_hmm": Case(_detector(hs.bayesian_hmm(3, _VECTOR), **_FEW), _vectors(2), (100,)),
    "recurring": Case(_detector("recurring", chains=5, lag=16), _levels, (0, 1, 30, 300, 301)),
    "recurring, counts": Case(_detector("recurring", chains=5, lag=16), _counts, (40, 300)),
    "bayesian_hsmm": Case(
        _detector(hs.bayesian_hsmm(4, _NORMAL, hs.durations.NegativeBinomial(3.0)), **_FEW),
        _levels,
        (100,),
    ),
}
GROUPS = {"auto": AUTO, "renewal": RENEWAL, "recurring": RECURRING}
SHORT = {  # compiled by other tests anyway
    "auto": {name: AUTO[name] for name in ("auto", "auto, hours", "auto, small")},
    "recurring": {name: RECURRING[name] for name in ("ied", "recurring")},
}


class Sample(NamedTuple):
    """A real snapshot, taken apart, and the readings that may follow it."""

    group: str
    name: str
    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    draw: Callable[[np.random.Generator, int], np.ndarray]
    fields: list[tuple[Any, ...]]  # paths in the header, names of arrays, and ("container",)


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterable[tuple[Any, ...]]:
    yield path
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value[:3])
    for key, entry in entries:
        yield from _leaves(entry, (*path, key))


def _taken_apart(group: str, name: str, data: bytes, draw: Callable[..., np.ndarray]) -> Sample:
    header, arrays = snapshot.read(data)
    fields = [("header", *path) for path in _leaves(header, ())]
    # arrays are what compiled code reads: each of them counts twice
    fields += 2 * [("array", key) for key in arrays] + [("container",)]
    return Sample(group, name, header, arrays, draw, fields)


@functools.cache
def corpus(short: bool) -> list[Sample]:
    """Real snapshots."""
    samples = []
    for group, cases in (SHORT if short else GROUPS).items():
        for name, case in cases.items():
            rng = np.random.default_rng(len(name))
            y = case.draw(rng, max(case.ages) + 1)
            for age in case.ages:
                detector = case.make()
                times = 1_767_225_600.0 + 900.0 * np.arange(age) if case.hours else None
                detector.update_many(y[:age], times)
                if age == 300:
                    detector.accept()
                samples.append(_taken_apart(group, f"{name} {age}", detector.snapshot(), case.draw))
    return samples


# Mutations

_WHOLE = (-1, 0, 1, 2, 7, 63, 64, 65, 2**31 - 1, 2**31, 2**53, 2**62, -(2**31), -(2**62), 2**63 - 1, -(2**63))
_REAL = (
    math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-308, 5e-324, -1.0, 0.0, -0.0, 0.5, 1.0, 64.0, 1e15, 1e30, -1e30,
    1e100, -1e9,
)  # fmt: skip
_JSON: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 0.5, -0.5, 2**31, 2**53, 2**62, 2**64, 10**30, 1e308, -1e308, 1e-308, math.nan,
    math.inf, "", "auto", "x" * 1000, [], {}, [[]], [0] * 50, {"kind": "NormalEmission", "fields": []}, {"a": 1},
)  # fmt: skip
_DTYPES = ("<f8", "<f4", "<i8", "<i4", "<i2", "|b1", "|u1", "<u8", "<f2", ">f8", "<c16", "<U3")


def _extreme(rng: np.random.Generator, array: np.ndarray) -> Any:
    if array.dtype.kind == "f":
        return _REAL[rng.integers(len(_REAL))]
    if array.dtype.kind == "b":
        return True
    info = np.iinfo(array.dtype)
    choices = [*_WHOLE, *array.shape, array.size, array.max(initial=0) + 1, array.max(initial=0) + 2]
    return int(np.clip(choices[rng.integers(len(choices))], info.min, info.max))


def _some_places(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    return rng.integers(0, array.size, rng.integers(1, 4))


def _set_entries(rng, array):
    for place in _some_places(rng, array):
        array.reshape(-1)[place] = _extreme(rng, array)
    return array


def _set_all(rng, array):
    array[...] = _extreme(rng, array)
    return array


def _nudge(rng, array):
    flat = array.reshape(-1)
    for place in _some_places(rng, array):
        old = flat[place]
        if array.dtype.kind == "b":
            flat[place] = not old
        else:
            flat[place] = (old + 1, old - 1, -old, 2 * old, old // 2)[rng.integers(5)]
    return array


def _flip_bits(rng, array):
    data = array.view(np.uint8).reshape(-1)
    for place in rng.integers(0, data.size, rng.integers(1, 4)):
        data[place] ^= 1 << int(rng.integers(8))
    return array


def _shuffle(rng, array):
    rng.shuffle(array.reshape(-1))
    return array


def _repeat_entry(rng, array):
    flat = array.reshape(-1)
    flat[rng.integers(flat.size)] = flat[rng.integers(flat.size)]
    return array


def _reshape(rng, array):
    shapes = [
        array[:0], array.reshape(-1), array[np.newaxis], array[..., np.newaxis], array.T, array[: len(array) // 2],
        np.concatenate([array, array[:1]]), np.concatenate([array, array]), array.reshape(-1)[:1].sum(), array[1:],
    ]  # fmt: skip
    return np.array(shapes[rng.integers(len(shapes))], order="C")


def _retype(rng, array):
    dtype = _DTYPES[rng.integers(len(_DTYPES))]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return array.astype(dtype)


_ARRAY_MUTATIONS = (_set_entries, _set_entries, _set_all, _nudge, _nudge, _flip_bits, _shuffle, _repeat_entry)
_FORM_MUTATIONS = (_reshape, _retype)


def _mutate_array(rng: np.random.Generator, arrays: dict[str, np.ndarray], name: str) -> None:
    chosen = rng.random()
    if chosen < 0.02:
        del arrays[name]
    elif chosen < 0.04:
        arrays[name + "2"] = arrays.pop(name) if rng.random() < 0.5 else arrays[name]
    elif chosen < 0.15 or arrays[name].size == 0:
        change = _FORM_MUTATIONS[rng.integers(2)]
        arrays[name] = change(rng, arrays[name].copy() if arrays[name].ndim else arrays[name].reshape(1))
        if arrays[name].size == 0 and rng.random() < 0.3:
            arrays[name] = np.zeros((1,) * max(arrays[name].ndim, 1), dtype=arrays[name].dtype)
    else:
        change = _ARRAY_MUTATIONS[rng.integers(len(_ARRAY_MUTATIONS))]
        with np.errstate(all="ignore"):
            arrays[name] = change(rng, arrays[name].copy())


def _mutate_header(rng: np.random.Generator, header: dict[str, Any], path: tuple[Any, ...]) -> Any:
    if not path:
        return [header, [], None, 5, "x", {}][rng.integers(6)]
    place: Any = header
    for key in path[:-1]:
        place = place[key]
    key, chosen = path[-1], rng.random()
    old = place[key]
    if chosen < 0.05:
        del place[key]
    elif chosen < 0.1:
        if isinstance(place, dict):
            place[f"{key}2"] = old
        else:
            place.append(old)
    elif chosen < 0.13:
        nested: Any = old
        for _ in range(int(rng.integers(10, 700))):
            nested = [nested]
        place[key] = nested
    elif isinstance(old, (int, float)) and chosen < 0.4:
        changes = (old + 1, old - 1, -old, 2 * old, old / 2, old // 2 if old == old and abs(old) < 1e300 else 0)
        place[key] = changes[rng.integers(6)]
    elif isinstance(old, str) and chosen < 0.4:
        place[key] = old[:-1] if rng.random() < 0.5 else old + "x"
    else:
        place[key] = copy.deepcopy(_JSON[rng.integers(len(_JSON))])
    return header


def _packed(text: bytes, body: bytes) -> bytes:
    packing = zlib.compressobj(level=1, zdict=snapshot._WORDS)
    head = packing.compress(text) + packing.flush()
    return _sealed(struct.pack("<I", len(head)) + head + zlib.compress(body, 1))


def _sealed(rest: bytes, version: int = snapshot.VERSION) -> bytes:
    return snapshot._FIXED.pack(snapshot._MAGIC, version, zlib.crc32(rest)) + rest


def _mutate_container(rng: np.random.Generator, sample: Sample) -> bytes:
    described = [[name, array.dtype.str, list(array.shape)] for name, array in sample.arrays.items()]
    body = b"".join(snapshot._shuffled(array) for array in sample.arrays.values())
    whole = {"header": sample.header, "arrays": described}
    kind = int(rng.integers(9))
    if kind == 0:  # bits of all arrays
        data = bytearray(body or b"\x00")
        for place in rng.integers(0, len(data), 4):
            data[place] ^= 1 << int(rng.integers(8))
        return _packed(json.dumps(whole).encode(), bytes(data))
    if kind == 1:  # bits of the header
        text = bytearray(json.dumps(whole).encode())
        text[rng.integers(len(text))] ^= 1 << int(rng.integers(8))
        return _packed(bytes(text), body)
    if kind == 2:  # a header that describes other arrays
        place = described[rng.integers(len(described))]
        column = int(rng.integers(3))
        others: tuple[Any, ...] = (None, 0, [], "engine.mass", "<f8", [-1], [2**62], [2**40, 0], [1.5], [[1]], {}, True)
        place[column] = others[rng.integers(len(others))]
        return _packed(json.dumps(whole).encode(), body)
    if kind == 3:  # a bomb
        described.append(["engine.bomb", "|u1", [int(rng.integers(1, 2**33))]])
        return _packed(json.dumps(whole).encode(), body + bytes(int(rng.integers(0, 2**22))))
    if kind == 4:
        return _packed(b"[" * int(rng.integers(1, 200_000)), body)
    if kind == 5:  # cut off
        data_out = _packed(json.dumps(whole).encode(), body)[14:]
        return _sealed(data_out[: rng.integers(len(data_out))])
    if kind == 6:
        return _sealed(_packed(json.dumps(whole).encode(), body)[14:], int(rng.integers(0, 4)))
    if kind == 7:
        return _packed(json.dumps(whole).encode(), body[: rng.integers(len(body) + 1)])
    data = bytearray(_packed(json.dumps(whole).encode(), body)[14:])
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return _sealed(bytes(data))


def forge(seed: int, number: int, short: bool = False) -> tuple[Sample, str, bytes]:
    """Return the snapshot that a trial is about, its field, and the forged bytes."""
    rng = np.random.default_rng([seed, number])
    samples = corpus(short)
    sample = samples[rng.integers(len(samples))]
    field = sample.fields[rng.integers(len(sample.fields))]
    group = "/".join(str(key) for key in field if not isinstance(key, int))
    if field[0] == "container":
        return sample, group, _mutate_container(rng, sample)
    header, arrays = copy.deepcopy(sample.header), dict(sample.arrays)
    if field[0] == "header":
        header = _mutate_header(rng, header, field[1:])
    else:
        _mutate_array(rng, arrays, field[1])
    return sample, group, snapshot.write(header, arrays)


# A trial

BEGUN, REFUSED, ACCEPTED = "begun", "refused", "accepted"


def _answers(detector: hs.OnlineDetector) -> str:
    """Everything that users read, as text: NaN is equal to itself there."""
    found: list[Any] = [
        detector.time, detector.change_points, detector.announced_changes, detector.unusual, detector.rarity,
        detector.log_evidence, detector.discarded, detector.n_states, detector.run_length(),
        detector.change_probability(20), detector.effective_sample_size, detector.state,
    ]  # fmt: skip
    if detector.time:
        found += [part.tolist() for part in detector.forecast(3)]
    return repr(found)


def use(detector: hs.OnlineDetector, rng: np.random.Generator, draw: Callable[..., np.ndarray]) -> None:
    """Use a detector as people do; AssertionError if another snapshot of it does not continue as it does."""
    is_slow = detector.effective_sample_size is not None
    length = FEW_UPDATES if is_slow and rng.random() < 0.7 else UPDATES
    y = draw(rng, length)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _answers(detector)
        twin = hs.OnlineDetector.restore(detector.snapshot())
        one_by_one = rng.random() < 0.05
        if one_by_one:
            events = [event for row in y for event in detector.update(row)]
        else:
            times = 1_767_225_600.0 + 600.0 * np.arange(length) if rng.random() < 0.2 else None
            events = detector.update_many(y, times)
        if one_by_one or rng.random() < 0.1:
            if not one_by_one and times is not None:
                twin.update_many(y, times)
            else:
                assert repr(twin.update_many(y)) == repr(events), "a restored detector has other events"
            assert _answers(twin) == _answers(detector), "a restored detector has other answers"
        _answers(detector)
        detector.accept()
        data = detector.snapshot()
        again = hs.OnlineDetector.restore(data)
        assert again.snapshot() == data, "a restored detector writes another snapshot"


def trial(sample: Sample, data: bytes, rng: np.random.Generator) -> str:
    """Restore forged bytes and use the detector; returns the outcome."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            detector = hs.OnlineDetector.restore(data)
    except hs.SnapshotError:
        return REFUSED
    use(detector, rng, sample.draw)
    return ACCEPTED


# Processes


def _hurry() -> None:
    """Let snapshots compress less and forecasts draw fewer paths; the code is the same."""
    snapshot._LEVEL = 1
    particles._MOST_PATHS, online_detector._FORECAST_DRAWS = 20, 100


def _work(seed: int, first: int, last: int, short: bool) -> None:
    """Run trials and print a line for each, at once."""
    _hurry()
    faulthandler.enable()
    faulthandler.dump_traceback_later(START_UP, exit=True)
    for sample in corpus(short):  # compiles what is not compiled yet
        use(
            hs.OnlineDetector.restore(snapshot.write(sample.header, sample.arrays)),
            np.random.default_rng(0),
            sample.draw,
        )
    for number in range(first, last):
        faulthandler.dump_traceback_later(TIMEOUT, exit=True)
        sample, field, data = forge(seed, number, short)
        group = f"{sample.group}: {field}"
        print(json.dumps([number, group, BEGUN]), flush=True)
        try:
            outcome = trial(sample, data, np.random.default_rng([seed, number, 1]))
        except Exception:
            outcome = traceback.format_exc()
        print(json.dumps([number, group, outcome]), flush=True)
    faulthandler.cancel_dump_traceback_later()


class Result(NamedTuple):
    """What came of a run."""

    counts: dict[str, Counter[str]]  # by field
    failures: list[tuple[int, str, str]]  # number of the trial, its field, what happened

    @property
    def trials(self) -> int:
        return sum(sum(counter.values()) for counter in self.counts.values())


def run(trials: int, minutes: float, seed: int, short: bool = False, first: int = 0) -> Result:
    """Run trials in another process, again after each that kills it."""
    until = time.monotonic() + 60.0 * minutes
    result = Result(defaultdict(Counter), [])
    number, last, group = first, first + trials, "start-up"
    while number < last and time.monotonic() < until:
        command = [sys.executable, __file__, "--work", str(number), str(last), "--seed", str(seed)]
        worker = subprocess.Popen(
            command + ["--short"] * short, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        assert worker.stdout is not None
        assert worker.stderr is not None
        for line in worker.stdout:
            done, group, outcome = json.loads(line)
            if outcome == BEGUN:
                continue
            number = done + 1
            if outcome in (REFUSED, ACCEPTED):
                result.counts[group][outcome] += 1
            else:
                result.counts[group]["failed"] += 1
                result.failures.append((done, group, outcome))
            if time.monotonic() > until:
                worker.kill()
                break
        if number >= last or time.monotonic() > until:
            worker.kill()
            worker.wait()
            break
        worker.wait()  # it died at trial ``number``
        told = f"exit code {worker.returncode} (a signal if negative)\n{worker.stderr.read()[-3000:]}"
        result.counts[group]["failed"] += 1
        result.failures.append((number, group, told))
        number += 1
        if len(result.failures) > 200:
            break
    return result


def table(result: Result) -> str:
    """The counts by field."""
    lines = [f"{'field':60} {'trials':>8} {'refused':>8} {'accepted':>8} {'failed':>8}"]
    totals: Counter[str] = Counter()
    for group in sorted(result.counts):
        counter = result.counts[group]
        totals += counter
        lines.append(_line(group, counter))
    lines.append(_line("all", totals))
    return "\n".join(lines)


def _line(name: str, counter: Counter[str]) -> str:
    trials = sum(counter.values())
    return f"{name:60} {trials:8} {counter[REFUSED]:8} {counter[ACCEPTED]:8} {counter['failed']:8}"


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns 1 if a trial failed."""
    parser = argparse.ArgumentParser(description="Restore forged snapshots; none of them may crash, hang or raise.")
    parser.add_argument("--trials", type=int, default=10_000, help="number of trials (default: 10,000)")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="a trial depends on the seed and its number (default: 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial (default: 0)")
    parser.add_argument("--short", action="store_true", help="only models that compile quickly")
    parser.add_argument("--only", type=int, help="run one trial in this process")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        _work(given.seed, *given.work, given.short)
        return 0
    print(f"seed {given.seed}", flush=True)
    if given.only is not None:
        _hurry()
        sample, field, data = forge(given.seed, given.only, given.short)
        print(sample.name, field, flush=True)
        print(trial(sample, data, np.random.default_rng([given.seed, given.only, 1])))
        return 0
    result = run(given.trials, given.minutes, given.seed, given.short, given.first)
    print(table(result))
    for number, group, told in result.failures:
        print(f"\ntrial {number}, {group}:\n{told}")
    print(f"\n{result.trials} trials with seed {given.seed}, {len(result.failures)} failed")
    return int(bool(result.failures))


if __name__ == "__main__":
    sys.exit(main())
