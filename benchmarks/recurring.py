"""States that return: labels, new states, evidence and cost of model="recurring".

    python benchmarks/recurring.py [--data FOLDER] [--seeds N] [--only SECTION ...]

Sections: switching (labels and new states on streams that switch between modes), paper (the streams of the paper's
model), none (streams without states: every novelty is false), dwell (visits that last too long), batch (labels against
those of ``hs.fit``, which knows all readings); with data, in the layout of real.py: nab (labelled faults), evidence
(against "auto", and novelties), cost.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import nab
import numpy as np
import recordings
import switching

import ishsmm_stream as hs
from ishsmm_stream.experiments.labels import adjusted_mutual_information

NEW = 0.5
LATE = 20  # readings after which the published label is revised


class Run:
    """What a detector said of a stream, reading by reading."""

    def __init__(self, values: np.ndarray, model: str = "recurring") -> None:
        detector = hs.OnlineDetector(model)
        n = len(values)
        self.at_once, self.late, self.novelty = np.zeros(n, dtype=int), np.zeros(n, dtype=int), np.zeros(n)
        self.events: list[hs.Event] = []
        for t, value in enumerate(values):
            self.events += detector.update(value)
            recent = detector.recent_states
            if len(recent):
                self.at_once[t] = recent[-1]
            if len(recent) > LATE:
                self.late[t - LATE] = recent[-1 - LATE]
            self.novelty[t] = detector.novelty or 0.0
        self.late[-LATE:] = self.at_once[-LATE:]
        self.detector = detector

    @property
    def novelties(self) -> np.ndarray:
        """Readings at which P(new) rose above NEW."""
        above = np.concatenate([[False], self.novelty > NEW])
        return np.flatnonzero(above[1:] & ~above[:-1])


def agreement(found: np.ndarray, truth: np.ndarray) -> float:
    return adjusted_mutual_information(found, truth)


SETTINGS = {
    "phi .5": {}, "phi .8": {"phi": 0.8}, "separation 3": {"separation": 3.0}, "drift 2": {"drift": 2.0},
}  # fmt: skip


def switching_streams(seeds: range) -> None:
    print("switching: AMI at once / late; new mode found within 20; false novelties per 10,000; states found / true")
    for name, options in SETTINGS.items():
        scores, found, false, counts, true = [], 0, [], [], []
        for seed in seeds:
            stream = switching.switching(seed, **options)
            run = Run(stream.values)
            scores.append([agreement(run.at_once, stream.modes), agreement(run.late, stream.modes)])
            new = run.novelties
            found += bool(((new >= stream.new_from) & (new < stream.new_from + 20)).any())
            first = np.array([np.flatnonzero(stream.modes == mode)[0] for mode in np.unique(stream.modes)])
            is_true = ((new[:, None] >= first) & (new[:, None] < first + 60)).any(axis=1)
            false.append((~is_true).sum() / len(stream.values) * 1e4)
            counts.append(len(run.detector.states))
            true.append(len(first))
        at_once, late = np.mean(scores, axis=0)
        low = np.min(scores, axis=0)
        print(
            f"  {name:14} {at_once:.3f} / {late:.3f} (worst {low[0]:.2f} / {low[1]:.2f})   {found} of {len(seeds)}   "
            f"{np.mean(false):.2f}   {np.mean(counts):.1f} / {np.mean(true):.1f}",
            flush=True,
        )


PAPER = {
    "paper": ((-6.0, -2.0, 2.0, 6.0), (10, 20, 3, 7)),
    "close": ((-2.0, -0.5, 0.8, 2.0), (40, 80, 30, 60)),
}


def paper_streams(seeds: range) -> None:
    print("paper: AMI at once / late; states found")
    for name, (means, rates) in PAPER.items():
        scores, counts = [], []
        for seed in seeds:
            values, modes = paper_stream(means, rates, seed)
            run = Run(values)
            scores.append([agreement(run.at_once, modes), agreement(run.late, modes)])
            counts.append(len(run.detector.states))
        at_once, late = np.mean(scores, axis=0)
        print(f"  {name:14} {at_once:.3f} / {late:.3f}   {counts}", flush=True)


def paper_stream(means, rates, seed: int, length: int = 5000, sd: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return readings and states: dwells of 1 + Poisson(rate), every other state equally likely next."""
    rng = np.random.default_rng([seed, 22])
    modes = np.empty(length, dtype=int)
    t, mode = 0, int(rng.integers(len(means)))
    while t < length:
        dwell = 1 + int(rng.poisson(rates[mode]))
        modes[t : t + dwell] = mode
        t += dwell
        mode = (mode + int(rng.integers(1, len(means)))) % len(means)
    return np.array(means)[modes] + sd * rng.standard_normal(length), modes


def no_states(seeds: range) -> None:
    print("none: novelties per 10,000 (alarms by new states); states")
    for kind in switching.WITHOUT_MODES:
        new, alarms, counts = 0, 0, []
        for seed in seeds:
            run = Run(switching.without_modes(kind, seed))
            new += len(run.novelties)
            alarms += sum(e.kind == "alarm" and "new_state" in e.reasons for e in run.events)
            counts.append(len(run.detector.states))
        scale = 1e4 / (len(seeds) * switching.LENGTH)
        print(f"  {kind:14} {new * scale:.2f} ({alarms * scale:.2f})   {counts}", flush=True)


def dwell(seeds: range) -> None:
    """Append to each stream a visit of twice the longest dwell of its state."""
    print("dwell: visit of twice the longest found; other unusual dwells per 10,000")
    found, false, readings = 0, 0, 0
    for seed in seeds:
        stream = switching.switching(seed, separation=6.0)
        values, begin, end = with_long_visit(stream, seed)
        run = Run(values)
        at = np.array([e.at for e in run.events if e.kind == "alarm" and "unusual_dwell" in e.reasons])
        hit = bool(((at >= begin) & (at < end + 30)).any()) if len(at) else False
        found += hit
        false += int((at < begin).sum()) if len(at) else 0
        readings += begin
    print(f"  {found} of {len(seeds)}; {false / readings * 1e4:.2f}", flush=True)


def with_long_visit(stream: switching.Switching, seed: int) -> tuple[np.ndarray, int, int]:
    rng = np.random.default_rng([seed, 23])
    modes, values = stream.modes, stream.values
    ends = np.flatnonzero(np.diff(modes)) + 1
    starts = np.concatenate([[0], ends])
    lengths = np.diff(np.concatenate([starts, [len(modes)]]))
    mode = int(modes[starts[np.bincount(modes[starts]).argmax() == modes[starts]][0]])
    longest = int(lengths[modes[starts] == mode].max())
    level = np.median(values[modes == mode])
    begin = int(starts[modes[starts] != mode][-1])  # cut the stream before another mode's last visit is over
    begin = min(begin + 30, len(modes))
    extra = np.empty(2 * longest)
    last = rng.normal()
    for t in range(len(extra)):
        last = 0.5 * last + np.sqrt(0.75) * rng.normal()
        extra[t] = level + last
    return np.concatenate([values[:begin], extra]), begin, begin + len(extra)


BATCH_LENGTH, BATCH_SEED = 2_000, 900
BATCH = {
    "phi .5, clean": {"outliers": 0.0}, "phi .5": {}, "phi .8": {"phi": 0.8}, "separation 3": {"separation": 3.0},
}  # fmt: skip


def batch(seeds: range) -> None:
    print(
        "batch: AMI with the truth, live late / batch; AMI of the two; states live / batch / true; spread of ln joint"
    )
    for name, options in BATCH.items():
        rows, stuck = [], []
        for seed in seeds:
            stream = switching.switching(BATCH_SEED + seed, length=BATCH_LENGTH, **options)
            live = Run(stream.values)
            posterior = hs.fit("recurring", stream.values, burn_in=300, draws=100, chains=4, seed=seed)
            states = posterior.map.states  # of the draw with the highest ln joint of all chains
            best = [max(draw.log_joint for draw in chain) for chain in posterior.chains]
            stuck.append(max(best) - min(best))
            rows.append([
                agreement(live.late, stream.modes), agreement(states, stream.modes), agreement(live.late, states),
                len(live.detector.states), len(np.unique(states)), len(np.unique(stream.modes)),
            ])  # fmt: skip
        found, worst = np.mean(rows, axis=0), np.min(rows, axis=0)
        print(
            f"  {name:14} {found[0]:.3f} / {found[1]:.3f} (worst {worst[0]:.2f} / {worst[1]:.2f})   "
            f"{found[2]:.3f} (worst {worst[2]:.2f})   {found[3]:.1f} / {found[4]:.1f} / {found[5]:.1f}   "
            f"{np.median(stuck):.1f}, at most {max(stuck):.1f}",
            flush=True,
        )


def nab_files(data: Path, _: range) -> None:
    hits, false, rows, windows = {}, {}, 0, 0
    for file in nab.load(data / "nab"):
        run = Run(file.values)
        kinds = {
            "P(new) > .5": [int(at) for at in run.novelties],
            "new states": [e.at for e in run.events if e.kind == "new_state"],
            "spikes": [e.at for e in run.events if e.kind == "spike"],
            "all alarms": [e.at for e in run.events if e.kind == "alarm"],
        }
        kinds["new state or spike"] = kinds["new states"] + kinds["spikes"]
        windows += len(file.scored_windows)
        rows += len(file.values) - file.probation
        for kind, at in kinds.items():
            tally = nab.tally(file, at)
            hits[kind] = hits.get(kind, 0) + tally.hits
            false[kind] = false.get(kind, 0) + tally.false_alarms
    print(f"nab: hits of {windows}; false per 1,000")
    for kind in hits:
        print(f"  {kind:20} {hits[kind]}; {false[kind] / rows * 1000:.3f}", flush=True)


def timed(model: str, values: np.ndarray) -> tuple[hs.OnlineDetector, float]:
    """Return a detector that has seen the values, and what one of them cost in microseconds of CPU time."""
    detector = hs.OnlineDetector(model)
    begin = time.process_time()
    detector.update_many(values)
    return detector, (time.process_time() - begin) / len(values) * 1e6


def memory(detector: hs.OnlineDetector) -> float:
    """Kilobytes of the engine's arrays and of the record of what is usual."""
    engine = detector._engine
    parts = (engine.chains, engine.tracker)
    return sum(array.nbytes for part in parts for array in part if isinstance(array, np.ndarray)) / 1024


def evidence(data: Path, _: range) -> None:
    print(
        "evidence: nats per reading against auto; novelties per 1,000; states; us of CPU per reading and their ratio;"
    )
    print("  memory and snapshot in KB")
    rows = []
    series = recordings.load(data)
    for model in ("auto", "recurring"):
        timed(model, series[0].values)  # compile
    for one in series:
        auto, cost_of_auto = timed("auto", one.values)
        ours, cost = timed("recurring", one.values)
        _, again = timed("auto", one.values)
        cost_of_auto = min(cost_of_auto, again)
        known = int((~np.isnan(one.values)).sum())
        gain = (ours.log_evidence - auto.log_evidence) / known
        new = len(Run(one.values).novelties) / len(one.values) * 1e3
        rows.append([gain, cost_of_auto, cost, cost / cost_of_auto, memory(ours), len(ours.snapshot()) / 1024, new])
        print(
            f"  {one.name[:44]:44} {gain:+.3f}   {new:5.2f}   {len(ours.states):3}   {cost_of_auto:4.1f} {cost:5.1f} "
            f"{rows[-1][3]:5.1f}   {rows[-1][4]:4.0f} {rows[-1][5]:5.1f}",
            flush=True,
        )
    table = np.array(rows)
    middle, mean = np.median(table, axis=0), table.mean(axis=0)
    print(f"  better on {(table[:, 0] > 0).sum()} of {len(series)}, median {middle[0]:+.3f} nats")
    for name, column in (("us, auto", 1), ("us", 2), ("ratio", 3), ("memory", 4), ("snapshot", 5), ("novelties", 6)):
        print(f"  {name:10} median {middle[column]:.2f}, mean {mean[column]:.2f}, most {table[:, column].max():.2f}")


SECTIONS: dict[str, Callable] = {
    "switching": switching_streams, "paper": paper_streams, "none": no_states, "dwell": dwell,
    "batch": batch,
}  # fmt: skip
WITH_DATA: dict[str, Callable] = {"nab": nab_files, "evidence": evidence}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of recordings")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS, *WITH_DATA])
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    for name in options.only or [*SECTIONS, *(WITH_DATA if options.data else [])]:
        begin = time.perf_counter()
        if name in SECTIONS:
            SECTIONS[name](seeds)
        else:
            WITH_DATA[name](options.data, seeds)
        print(f"({name}: {time.perf_counter() - begin:.1f} s)\n", flush=True)


if __name__ == "__main__":
    main()
