"""Do chains of the batch sampler find the same answer, whatever they start from?

    python benchmarks/convergence.py [--quick] [--only SECTION ...] [--before]

Sections:
comparison   the paper's two-state data, Poisson durations, 24 settings: the share of single chains whose best ln joint
             is within 3 nats of the best that is known (of many starts, the truth among them), the same for the
             mass around a chain's explanation, and the agreement with the truth (AMI)
paper        the paper's four states: P(4 states), effective draws of the number of states per CPU second
long         5,000 observations, eight states: whether four chains agree (R-hat of ln joint and ln mass)
cost         microseconds per sweep, with and without moves, alternating

``--before``: single starts from clustered observations, without moves, as versions before this sampler had it.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import ishsmm_stream as hs
from ishsmm_stream.batch import starts
from ishsmm_stream.batch.burn_in import burnt_in
from ishsmm_stream.batch.chain import Chain, Draw
from ishsmm_stream.batch.diagnostics import effective_sample_size, rhat
from ishsmm_stream.experiments import comparison, hsmm, ied
from ishsmm_stream.experiments.labels import adjusted_mutual_information

NEAR = 3.0  # nats
MANY_STATES = (-9.0, -6.5, -4.0, -1.0, 1.5, 4.0, 7.0, 10.0)


def run(y: np.ndarray, model: hs.Model, seed, burn_in: int, draws: int, before: bool, first=None) -> list[Draw]:
    """Return a chain's draws; with ``first`` it begins there."""
    data, rng = np.asarray(y, dtype=float).reshape(len(y), -1), np.random.default_rng(seed)

    if first is None and not before:
        chain = burnt_in(model, data, rng, burn_in, {}, ignore)
    else:
        chain = Chain(model, data, rng, first=first, moves=0 if before else None)
        for _ in range(burn_in):
            chain.sweep()
    kept = []
    for _ in range(draws):
        chain.sweep(weigh=True)
        kept.append(chain.draw())
    return kept


def ignore(_: int) -> None:
    """Take a report of progress."""


def of_comparison(options: argparse.Namespace) -> None:
    sets, chains, others = (1, 2, 2) if options.quick else (3, 4, 45)
    near, heavy, agreement = [], [], []
    with ThreadPoolExecutor(2) as pool:
        for gap in comparison.GAPS:
            for dwell in comparison.DWELLS:
                for seed in range(sets):
                    series = comparison.data("poisson", gap, dwell, options.first + seed)
                    model = comparison.models("poisson")["ied"]
                    truth = starts.from_labels(series.states.astype(np.int64), model)

                    def one(i: int, series=series, model=model, truth=truth) -> list[Draw]:
                        is_reference, first = i >= chains, truth if i == chains else None
                        return run(series.y, model, [i, 1], 500, 50, options.before and not is_reference, first)

                    found = list(pool.map(one, range(chains + others)))
                    joints = np.array([max(draw.log_joint for draw in draws) for draws in found])
                    masses = np.array([np.mean([draw.log_mass for draw in draws]) for draws in found])
                    near += (joints[:chains] > joints.max() - NEAR).tolist()
                    heavy += (masses[:chains] > masses.max() - NEAR).tolist()
                    scores = [
                        adjusted_mutual_information(draw.states(len(series.y)), series.states)
                        for draws in found[:chains]
                        for draw in draws[::10]
                    ]
                    agreement.append(np.mean(scores))
                    print(
                        f"  gap {gap:g} dwell {dwell:3g} set {seed}: ln joint {joints.max():7.1f} "
                        f"{np.round(joints[:chains] - joints.max(), 1)}  mass {masses.max():7.1f} "
                        f"{np.round(masses[:chains] - masses.max(), 1)}  AMI {agreement[-1]:.2f}",
                        flush=True,
                    )
    print(
        f"comparison: chains within {NEAR:g} nats of the best ln joint {np.mean(near):.3f}, of the largest mass "
        f"{np.mean(heavy):.3f} (of {len(near)}); mean AMI {np.mean(agreement):.3f}"
    )


def of_paper(options: argparse.Namespace) -> None:
    found, rates = [], []
    for seed in range(2 if options.quick else 20):
        series = ied.data(options.first + seed)
        begin = time.thread_time()
        draws = run(series.y, ied.model(), [seed, 2], 100, 1000, options.before)
        cost = time.thread_time() - begin
        counts = np.array([len(np.unique(draw.labels)) for draw in draws])
        found.append(np.mean(counts == 4))
        rates.append(effective_sample_size(counts[np.newaxis]) / cost)
    print(
        f"paper: P(4 states) >= .82 for {np.sum(np.array(found) >= 0.82)} of {len(found)}, least {min(found):.2f}; "
        f"effective draws of the number of states per CPU second, median {np.median(rates):.0f}"
    )


def many_states(seed: int, length: int = 5_000) -> hsmm.SimulatedSeries:
    """Eight states with mean dwells from 20 to 200."""
    rng = np.random.default_rng([seed, 30])
    rates = np.exp(np.linspace(np.log(20.0), np.log(200.0), len(MANY_STATES)))
    return hsmm.recurring(length, MANY_STATES, 1.0, hsmm.poisson_dwell(rng.permutation(rates)), rng)


def of_long(options: argparse.Namespace) -> None:
    agree, equal = [], []
    model = hs.ied(hs.emissions.Normal(0.0, 0.05, 1.0, 1.0), hs.durations.Poisson(1.0, 1000.0))
    with ThreadPoolExecutor(2) as pool:
        for seed in range(2 if options.quick else 10):
            series = many_states(options.first + seed)
            begin = time.process_time()

            def one(i: int, series=series, seed=seed) -> list[Draw]:
                return run(series.y, model, [i, seed, 3], 200, 100, options.before)

            found = list(pool.map(one, range(4)))
            joints = np.array([[draw.log_joint for draw in draws] for draws in found])
            masses = np.array([[draw.log_mass for draw in draws] for draws in found])
            scores = [adjusted_mutual_information(draws[-1].states(5_000), series.states) for draws in found]
            agree.append(rhat(joints) < 1.05)
            equal.append(np.ptp(masses.mean(axis=1)) < NEAR)
            print(
                f"  seed {seed}: R-hat of ln joint {rhat(joints):.3f}, of ln mass {rhat(masses):.3f}; mass of chains "
                f"{np.round(masses.mean(axis=1) - masses.mean(axis=1).max(), 1)}; AMI {np.round(scores, 3)}; "
                f"CPU {time.process_time() - begin:.1f} s",
                flush=True,
            )
    print(
        f"long: R-hat of ln joint < 1.05 for {np.sum(agree)} of {len(agree)}; masses within {NEAR:g}: {np.sum(equal)}"
    )


def of_cost(options: argparse.Namespace) -> None:
    print("cost: microseconds of CPU per sweep without and with moves, ratio")
    cases = {
        "paper's series": (ied.data(0).y, ied.model()),
        "comparison": (comparison.data("poisson", 3.0, 65.0, 0).y, comparison.models("poisson")["ied"]),
        "5,000 observations, eight states": (
            many_states(0).y, hs.ied(hs.emissions.Normal(0.0, 0.05, 1.0, 1.0), hs.durations.Poisson(1.0, 1000.0)),
        ),
    }  # fmt: skip
    for name, (y, model) in cases.items():
        data, rng = np.asarray(y, dtype=float).reshape(len(y), -1), np.random.default_rng(0)
        chain = burnt_in(model, data, rng, 60, {}, ignore)
        cost, usual = np.zeros((2, 15)), chain.moves
        for i in range(15):
            for moves in (0, 1):
                chain.moves = moves * usual
                begin = time.thread_time()
                for _ in range(20):
                    chain.sweep()
                cost[moves, i] = (time.thread_time() - begin) / 20 * 1e6
        without, with_moves = np.median(cost, axis=1)
        print(f"  {name:34} {without:.0f}, {with_moves:.0f}, {np.median(cost[1] / cost[0]):.2f}", flush=True)


SECTIONS = {"comparison": of_comparison, "paper": of_paper, "long": of_long, "cost": of_cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--first", type=int, default=0, help="the first seed of the data")
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for name in options.only:
        begin = time.perf_counter()
        SECTIONS[name](options)
        print(f"({name}: {time.perf_counter() - begin:.1f} s)\n", flush=True)


if __name__ == "__main__":
    main()
