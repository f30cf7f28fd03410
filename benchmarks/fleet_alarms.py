"""What a fleet's alarms cost: false alarms of the default detector on noise in which nothing changes, by threshold, and
how long real changes wait for a stricter one.

``service/settings/fleet.py`` turns a fleet's budget of false alarms into a threshold by the worst of these rates.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from table import Table

import ishsmm_stream as hs

DAY = 86_400  # readings of a sensor at 1 Hz
EARLY = 5_000  # readings, in which a detector has not yet learned how rare changes are
REST = (1e-1, 2e-2, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-9)  # 1 - threshold
QUIET, HORIZON = 2_000, 3_000
SIZES = (1.0, 2.0, 4.0)
SEEDS_OF_DELAYS = 10_000


def _autoregression(share: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    def draw(rng: np.random.Generator, length: int) -> np.ndarray:
        steps = rng.normal(size=length) * np.sqrt(1.0 - share**2)
        steps[0] = rng.normal()
        values = steps.tolist()
        for i in range(1, length):
            values[i] += share * values[i - 1]
        return np.array(values)

    return draw


# All of variance 1.
NOISES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, length: rng.normal(size=length),
    "t(4)": lambda rng, length: rng.standard_t(4, size=length) / np.sqrt(2.0),
    "AR(.5)": _autoregression(0.5),
    "AR(.9)": _autoregression(0.9),
}


def alarms(values: np.ndarray, rest: float, min_effect_sd: float = 0.0) -> list[int]:
    """The readings at which alarms are raised."""
    policy = hs.AlarmPolicy(threshold=1.0 - rest, min_effect_sd=min_effect_sd)
    events = hs.OnlineDetector(alarm_policy=policy).update_many(values)
    return [event.at for event in events if event.kind == "raised"]


def false_alarms(noise: str, sensors: int, rests: list[float], min_effect_sd: float) -> dict[float, tuple[int, int]]:
    """By 1 - threshold how many alarms there are, and how many of them early, in a day of so many sensors.

    A sensor without an alarm has none at a stricter threshold either, and is not run again.
    """
    left = list(range(sensors))
    found = {}
    for rest in sorted(rests, reverse=True):
        raised = {seed: alarms(NOISES[noise](np.random.default_rng(seed), DAY), rest, min_effect_sd) for seed in left}
        left = [seed for seed in left if raised[seed]]
        at = [index for indices in raised.values() for index in indices]
        found[rest] = (len(at), sum(index < EARLY for index in at))
    return found


def delay(rest: float, size: float, runs: int) -> tuple[float, int]:
    """The median number of new readings up to the alarm, and how many changes were found."""
    waits = []
    for seed in range(runs):
        values = np.random.default_rng(SEEDS_OF_DELAYS + seed).normal(size=QUIET + HORIZON)
        values[QUIET:] += size
        after = [at for at in alarms(values, rest) if at >= QUIET]
        if after:
            waits.append(after[0] - QUIET + 1)
    return (float(np.median(waits)) if waits else np.nan), len(waits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--noises", default=",".join(NOISES), help=f"of {', '.join(NOISES)}")
    parser.add_argument("--sensors", type=int, default=24, help="a day of 86,400 readings each (default 24)")
    parser.add_argument("--loosest", type=float, default=REST[0], help="largest 1 - threshold (default 0.1)")
    parser.add_argument("--min-effect-sd", default="0,1", help="least effects (default 0,1)")
    parser.add_argument("--runs", type=int, default=20, help="changes of each size (default 20); 0: no delays")
    parser.add_argument("--quick", action="store_true", help="2 sensors, 5 changes, no least effect")
    options = parser.parse_args()
    sensors, runs = (2, 5) if options.quick else (options.sensors, options.runs)
    effects = [0.0] if options.quick else [float(text) for text in options.min_effect_sd.split(",")]
    rests = [rest for rest in REST if rest <= options.loosest]
    names = {f"1-{rest:g}": 10 for rest in rests}
    table = Table(
        f"False alarms in {sensors} sensor-days of 86,400 readings of noise, {sensors * DAY / 1e6:.1f} million, by "
        f"threshold; in brackets those in a sensor's first {EARLY:,} readings. Effect: min_effect_sd.",
        noise=-7, effect=6, **names,
    )  # fmt: skip
    for noise in options.noises.split(","):
        for effect in effects:
            found = false_alarms(noise, sensors, rests, effect)
            table.row(noise, f"{effect:g}", *(f"{found[rest][0]} ({found[rest][1]})" for rest in rests))
    if runs:
        table = Table(
            f"Median new readings up to the alarm over {runs} changes of level after {QUIET:,} quiet readings of "
            "normal noise, by threshold. Size: in standard deviations of the noise.",
            size=-7, found=6, **names,
        )  # fmt: skip
        for size in SIZES:
            waits = [delay(rest, size, runs) for rest in rests]
            table.row(f"{size:g}", f"{min(n for _, n in waits)}/{runs}", *(f"{wait:g}" for wait, _ in waits))


if __name__ == "__main__":
    main()
