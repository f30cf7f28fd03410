"""The ILR-HMM on five states, left to right.

Paper: 150 observations, duration rates 30, 10, 50, 30 and none for the last, means -4, 0, 4, 0, -4, unit variance;
priors as in the IED experiment, 1000 draws; then duration priors Gamma(1, scale a_d) with a_d from 20 to 200. The
posterior is computed exactly here, and the paper's sampler is compared with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import ishsmm_stream as hs
from ishsmm_stream.experiments import hsmm, live, style
from ishsmm_stream.experiments.outcome import Claim, Outcome, Progress, judged, listed, percent, sampled

LENGTH = 150
RATES = (30.0, 10.0, 50.0, 30.0)
MEANS = (-4.0, 0.0, 4.0, 0.0, -4.0)
SCALES = (20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
_TAIL = 0.0005  # as in ``ied``
_MOST = 12  # numbers of change points that are written down


def model(scale: float = 1000.0) -> hs.Model:
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.25, shape=1.0, scale=1.0)
    return hs.ilr(emission, hs.durations.Poisson(shape=1.0, scale=scale))


def data(seed: int = 1) -> hsmm.SimulatedSeries:
    """A data set whose last state, as the paper's, is reached before the end."""
    while True:
        dwell = hsmm.poisson_dwell(RATES)
        series = hsmm.left_to_right(LENGTH, MEANS, 1.0, dwell, np.random.default_rng(seed))
        if series.states[-10] == len(MEANS) - 1:
            return series
        seed += 1000


def run(progress: Progress, quick: bool = False) -> Outcome:
    draws = 400 if quick else 4000
    series = data()
    progress.step("exact posterior")
    exact = hs.exact_posterior(series.y, model())
    posterior = exact.draw(draws, seed=1)
    numbers: dict[str, Any] = {"y": series.y, "true_levels": series.levels, "true_changes": series.change_points}
    numbers |= _answer(posterior, exact)
    numbers["by_scale"] = {s: hs.exact_posterior(series.y, model(s)).n_changes[:_MOST] for s in SCALES}
    sets = 4 if quick else 12
    numbers["share_of_four_by_scale"] = {
        s: [hs.exact_posterior(data(k).y, model(s)).n_changes[4] for k in range(sets)] for s in SCALES
    }
    beam = sampled(
        progress, "the paper's sampler", series.y, model(), method="beam", draws=draws // 4, burn_in=100,
        chains=4, seed=1,
    )  # fmt: skip
    numbers["beam_n_changes"] = np.bincount(beam.n_changes, minlength=_MOST)[:_MOST] / len(beam)
    numbers["beam_change_probability"] = beam.change_probability
    numbers["beam_effective_draws"] = beam.summary()["log_joint"]["ess"]
    numbers["live"] = live.follow(progress, "live", series.y, model(), series.change_points)
    batch = {
        "levels": numbers["map_levels"],
        "change_probability": exact.change_probability,
        "number": int(np.argmax(exact.n_changes)),
    }
    title = "ILR-HMM, live: five states, left to right"
    figures = {
        "ilr": _draw(numbers),
        "ilr_live": live.draw(title, series.y, numbers["live"], batch, recurs=False),
    }
    return Outcome(_judge(numbers), numbers, figures)


def _answer(posterior: hs.Posterior, exact: hs.ExactPosterior) -> dict[str, Any]:
    best = posterior.map
    parameters = posterior.state_parameters()
    return {
        "map_levels": np.array([np.mean(parameters[k]["mean"]) for k in range(len(parameters))])[best.states],
        "map_changes": exact.map_change_points,
        "n_changes": exact.n_changes[:_MOST],
        "change_probability": exact.change_probability,
        "log_evidence": exact.log_evidence,
        "means": [state["mean"] for state in parameters],
        "rates": [state["dwell"] - 1.0 for state in parameters],
    }


def _judge(numbers: dict[str, Any]) -> list[Claim]:
    count = numbers["n_changes"]
    found = len(numbers["means"]) == len(MEANS)
    inside_means = found and [_holds(values, truth) for values, truth in zip(numbers["means"], MEANS, strict=True)]
    inside_rates = found and [_holds(values, truth) for values, truth in zip(numbers["rates"], RATES, strict=False)]
    spread = [float(np.diff(np.quantile(values, [0.05, 0.95]))[0] / np.median(values)) for values in numbers["rates"]]
    by_scale = {s: float(np.mean(shares)) for s, shares in numbers["share_of_four_by_scale"].items()}
    in_range = [share for s, share in by_scale.items() if s <= 200.0]
    difference = float(np.abs(np.asarray(numbers["beam_n_changes"]) - count).max())
    sets = len(next(iter(numbers["share_of_four_by_scale"].values())))
    return [
        judged("four change points", listed(dict(enumerate(count))), int(np.argmax(count)) == 4),
        judged(
            "posteriors of the means contain the truth", _inside(inside_means, 5), inside_means and all(inside_means)
        ),
        judged(
            "posteriors of the rates contain the truth", _inside(inside_rates, 4), inside_rates and all(inside_rates)
        ),
        judged(
            "the last duration has a wide posterior",
            f"90% width / median: {', '.join(f'{width:.1f}' for width in spread)}",
            found and spread[-1] == max(spread),
        ),
        judged(
            "similar results for duration priors a_d from 20 to 200",
            f"P(4) over {sets} data sets: " + ", ".join(f"{percent(share)} at {s:g}" for s, share in by_scale.items()),
            max(in_range) - min(in_range) < 0.2,
        ),
        judged(
            "1000 sweeps of the sampler are enough",
            f"largest error of P(number) {difference:.3f} with {numbers['beam_effective_draws']:.0f} effective draws",
            difference < 0.05,
        ),
        live.agreement_claim(numbers["live"], numbers["map_changes"]),
        live.delay_claim(numbers["live"]),
    ]


def _holds(values: Any, truth: float) -> bool:
    return bool(np.quantile(values, _TAIL) <= truth <= np.quantile(values, 1.0 - _TAIL))


def _inside(inside: Any, total: int) -> str:
    return f"{sum(inside)} of {total} in 99.9% intervals" if inside else "not five segments"


def _draw(numbers: dict[str, Any]) -> Figure:
    figure = style.new_figure(7.4, "ILR-HMM on five states, left to right")
    grid = figure.add_gridspec(3, 6, height_ratios=[2.4, 1.6, 1.7])
    y = np.asarray(numbers["y"])
    x = np.arange(len(y))
    panel = style.tidy(figure.add_subplot(grid[0, :4]), x="time", y="observation")
    style.dots(panel, x, y)
    panel.plot(x, numbers["true_levels"], color=style.TRUTH, linewidth=2.2, label="true mean")
    panel.plot(x, numbers["map_levels"], color=style.RED, linewidth=1.2, label="most probable segmentation")
    panel.margins(x=0.01)
    style.legend(panel)
    panel = style.tidy(figure.add_subplot(grid[0, 4:]), title="P(number of change points)")
    style.bars(panel, dict(enumerate(numbers["n_changes"])), mark=4)
    style.marks(panel, numbers["beam_n_changes"], "paper's sampler")

    names = [f"state {k + 1}" for k in range(len(numbers["means"]))]
    truths = list(MEANS) if len(names) == len(MEANS) else [None] * len(names)
    panel = style.tidy(figure.add_subplot(grid[1, :3]), title="posterior of the means (dashed: true)")
    style.densities(panel, numbers["means"], names, truths)
    panel = style.tidy(figure.add_subplot(grid[1, 3:]), title="posterior of the duration rates; the last is open")
    logged = [np.log10(np.maximum(values, 1.0)) for values in numbers["rates"]]
    rates = [float(np.log10(rate)) for rate in RATES] + [None] if len(names) == len(MEANS) else [None] * len(names)
    style.densities(panel, logged, names, rates)
    panel.set_xticks([0, 1, 2, 3], ["1", "10", "100", "1000"])
    panel.legend(frameon=False, fontsize=style.FONT - 1.5, handlelength=1.2)

    panel = style.tidy(
        figure.add_subplot(grid[2, :]), title="P(four change points) by the duration prior's scale, a line a data set",
        x="prior scale a_d",
    )  # fmt: skip
    table = np.array(list(numbers["share_of_four_by_scale"].values()))
    panel.plot(SCALES, table, color=style.BLUE, linewidth=0.8, alpha=0.4)
    panel.plot(SCALES, table.mean(axis=1), color=style.RED, linewidth=2.0, marker="o", markersize=4.0, label="mean")
    panel.axvspan(20.0, 200.0, color="#f2f2f2", zorder=0.0, label="paper: similar results")
    panel.set_xscale("log")
    panel.set_xticks(SCALES, [f"{s:g}" for s in SCALES])
    panel.minorticks_off()
    panel.set_ylim(0.0, 1.02)
    style.legend(panel)
    return figure
