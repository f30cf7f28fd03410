"""The IED-HMM on data from four states with Poisson durations (the paper's first experiment).

Paper: 500 observations, duration rates 10, 20, 3, 7, means -6, -2, 2, 6, unit variance; NIG(0, .25, 1, .) emissions,
Gamma(1, scale 1000) duration rates, temperature 3, 1000 draws after 100. The scale of the inverse gamma is not given;
here it is 1.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import ishsmm_stream as hs
from ishsmm_stream.experiments import hsmm, live, style
from ishsmm_stream.experiments.outcome import Claim, Outcome, Progress, judged, listed, percent, sampled, shares
from ishsmm_stream.model.durations import family as durations

LENGTH = 500
RATES = (10.0, 20.0, 3.0, 7.0)
MEANS = (-6.0, -2.0, 2.0, 6.0)
TEMPERATURES = (1.0, 3.0, 10.0)
DATA_SEED = 0
# Intervals that are to hold all of eight true values: each holds its own with 99.9%.
_TAIL = 0.0005
_LAGS = 50
_PAPERS_SHARE = 0.82


def model() -> hs.Model:
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.25, shape=1.0, scale=1.0)
    return hs.ied(emission, hs.durations.Poisson(shape=1.0, scale=1000.0))


def data(seed: int = DATA_SEED, length: int = LENGTH) -> hsmm.SimulatedSeries:
    return hsmm.recurring(length, MEANS, 1.0, hsmm.poisson_dwell(RATES), np.random.default_rng(seed))


def run(progress: Progress, quick: bool = False) -> Outcome:
    series = data()
    draws, chains, data_sets = (250, 2, 2) if quick else (1000, 4, 8)
    options = {"draws": draws, "burn_in": 100, "chains": chains}
    posterior = sampled(progress, "IED-HMM", series.y, model(), seed=1, **options)
    numbers: dict[str, Any] = {"y": series.y, "true_levels": series.levels, "true_changes": series.change_points}
    numbers |= _answer(posterior)
    numbers["mixing"] = _mixing(posterior, times=(100, 200, 300, 400))
    numbers["share_of_four"] = [shares(posterior.n_states).get(4, 0.0)] + [
        float(np.mean(sampled(progress, f"data set {k}", data(k).y, model(), seed=1, **options).n_states == 4))
        for k in range(DATA_SEED + 1, DATA_SEED + data_sets)
    ]
    numbers["temperature"] = _temperatures(progress, series.y, draws, chains)
    numbers["live"] = live.follow(progress, "live", series.y, model(), series.change_points, chains=200)
    batch = {"levels": numbers["map_levels"], "change_probability": posterior.change_probability}
    batch["number"] = max(numbers["n_states"], key=numbers["n_states"].get)
    figures = {
        "ied": _draw(numbers),
        "ied_live": live.draw("IED-HMM, live: four states with their own durations", series.y, numbers["live"], batch),
    }
    return Outcome(_judge(numbers), numbers, figures)


def _answer(posterior: hs.Posterior) -> dict[str, Any]:
    """The most probable explanation, the number of states, and draws of the parameters of the four true states."""
    best = posterior.map
    parameters = posterior.state_parameters()
    used = [k for k in np.unique(best.states) if len(parameters[k]["mean"])]
    nearest = [min(used, key=lambda k: abs(float(np.median(parameters[k]["mean"])) - mean)) for mean in MEANS]
    return {
        "map_levels": np.array([state["mean"] for state in best.parameters])[best.states],
        "map_changes": best.change_points,
        "n_states": shares(posterior.n_states),
        "change_probability": posterior.change_probability,
        "log_joint": posterior.log_joint.reshape(len(posterior.chains), -1),
        "means": [parameters[k]["mean"] for k in nearest],
        "rates": [parameters[k]["dwell"] - 1.0 for k in nearest],
        "rhat": posterior.summary()["log_joint"]["rhat"],
    }


def _at(posterior: hs.Posterior, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the duration rate of the state at ``t``, (chains, draws) each."""
    means, rates = [], []
    for draw in posterior.draws:
        k = draw.labels[np.searchsorted(draw.starts, t, side="right") - 1]
        means.append(float(draw.theta[k, 0]))
        rates.append(float(durations.mean(posterior.model.duration, draw.lam[k])) - 1.0)
    shape = (len(posterior.chains), -1)
    return np.reshape(means, shape), np.reshape(rates, shape)


def _autocorrelation(values: np.ndarray) -> np.ndarray:
    """Over lags 0 to 50, averaged over the chains."""
    result = []
    for chain in values:
        centred = chain - chain.mean()
        variance = float(np.mean(centred**2)) or 1.0
        result.append([np.mean(centred[: len(chain) - lag] * centred[lag:]) / variance for lag in range(_LAGS + 1)])
    return np.mean(result, axis=0)


def _mixing(posterior: hs.Posterior, times: tuple[int, ...]) -> dict[str, Any]:
    pairs = {t: _at(posterior, t) for t in times}
    return {
        "mean": {t: _autocorrelation(means) for t, (means, _) in pairs.items()},
        "rate": {t: _autocorrelation(rates) for t, (_, rates) in pairs.items()},
    }


def _temperatures(progress: Progress, y: np.ndarray, draws: int, chains: int) -> list[dict[str, Any]]:
    """Effective draws of the joint log-likelihood a second of computing, for both kinds of slice.

    A sweep with the paper's slice takes ten times as long: it gets fewer of them.
    """
    result = []
    for cut, share in (("transition", 1), ("paper", 16)):
        for temperature in TEMPERATURES:
            begin = time.process_time()
            posterior = sampled(
                progress, f"{cut} slice, temperature {temperature:g}", y, model(),
                draws=draws * chains // (2 * share), burn_in=draws // 10,
                chains=2, seed=2, temperature=temperature, slice=cut,
            )  # fmt: skip
            seconds = time.process_time() - begin
            effective = posterior.summary()["log_joint"]["ess"]
            result.append(
                {"slice": cut, "temperature": temperature, "effective_draws": effective, "seconds": seconds,
                 "effective_draws_per_second": effective / seconds,
                 "share_of_four": float(np.mean(posterior.n_states == 4))}
            )  # fmt: skip
    return result


def _judge(numbers: dict[str, Any]) -> list[Claim]:
    states, four = numbers["n_states"], numbers["share_of_four"]
    most = max(states, key=states.get)
    contained = {
        name: [
            bool(np.quantile(values, _TAIL) <= truth <= np.quantile(values, 1.0 - _TAIL))
            for values, truth in zip(numbers[name], truths, strict=True)
        ]
        for name, truths in (("means", MEANS), ("rates", RATES))
    }
    lag = {
        name: max(_first_below(curve, 0.1) for curve in numbers["mixing"][name].values()) for name in ("mean", "rate")
    }
    per_second = {
        cut: {e["temperature"]: e["effective_draws_per_second"] for e in numbers["temperature"] if e["slice"] == cut}
        for cut in ("transition", "paper")
    }
    shown = ", ".join(
        f"{'/'.join(f'{value:.0f}' for value in values.values())} ({cut} slice)" for cut, values in per_second.items()
    )
    papers = per_second["paper"]
    return [
        judged("four states: 82% of the samples", f"{listed(states)}", most == 4 and states[4] > 0.5),
        judged(
            "82% is typical of such data",
            f"P(4) over {len(four)} data sets: {percent(min(four))} to {percent(max(four))}, median "
            f"{percent(float(np.median(four)))}",
            min(four) <= _PAPERS_SHARE <= max(four),
        ),
        *(
            judged(f"posteriors of the {name} contain the truth", f"{sum(inside)} of {len(inside)} in 99.9% intervals",
                   all(inside))
            for name, inside in contained.items()
        ),
        judged(
            "mixes quickly: autocorrelations at fixed times fall off",
            f"below .1 from lag {lag['mean']} (means), {lag['rate']} (rates)",
            max(lag.values()) <= _LAGS,
        ),
        judged(
            "a temperature above 1 mixes faster", f"effective draws a second at 1/3/10: {shown}",
            max(papers[3.0], papers[10.0]) > papers[1.0],
        ),
        live.agreement_claim(numbers["live"], numbers["map_changes"]),
        live.delay_claim(numbers["live"]),
        live.states_claim(numbers["live"], most),
    ]  # fmt: skip


def _first_below(curve: Any, level: float) -> int:
    """The first lag from which on the autocorrelation stays below ``level``."""
    above = np.flatnonzero(np.asarray(curve) >= level)
    return int(above[-1]) + 1 if len(above) else 0


def _draw(numbers: dict[str, Any]) -> Figure:
    figure = style.new_figure(9.0, "IED-HMM on four states with their own durations")
    grid = figure.add_gridspec(4, 6, height_ratios=[2.4, 1.5, 1.5, 1.5])
    y = np.asarray(numbers["y"])
    panel = style.tidy(figure.add_subplot(grid[0, :5]), x="time", y="observation")
    x = np.arange(len(y))
    style.dots(panel, x, y)
    panel.plot(x, numbers["true_levels"], color=style.TRUTH, linewidth=2.2, label="true mean")
    panel.plot(x, numbers["map_levels"], color=style.RED, linewidth=1.0, label="most probable sample")
    panel.margins(x=0.01)
    style.legend(panel)
    style.bars(style.tidy(figure.add_subplot(grid[0, 5]), title="P(states)"), numbers["n_states"], mark=4)

    panel = style.tidy(figure.add_subplot(grid[1, :3]), title="posterior of the means (dashed: true)")
    style.densities(panel, numbers["means"], [f"{m:g}" for m in MEANS], MEANS)
    panel = style.tidy(figure.add_subplot(grid[1, 3:]), title="posterior of the duration rates (dashed: true)")
    style.densities(panel, numbers["rates"], [f"{r:g}" for r in RATES], RATES)

    for place, name in ((slice(0, 2), "mean"), (slice(2, 4), "rate")):
        panel = style.tidy(figure.add_subplot(grid[2, place]), title=f"autocorrelation, {name} of the state", x="lag")
        for k, (t, curve) in enumerate(numbers["mixing"][name].items()):
            panel.plot(curve, color=style.STATE_COLOURS[k], linewidth=1.2, label=f"t = {t}")
        panel.axhline(0.0, color="#999999", linewidth=0.7)
        panel.set_ylim(-0.15, 1.0)
    panel.legend(frameon=False, fontsize=style.FONT - 1.5, handlelength=1.2)
    panel = style.tidy(figure.add_subplot(grid[2, 4:]), title="effective draws a second", x="temperature")
    for cut, colour in (("transition", style.BLUE), ("paper", style.ORANGE)):
        rows = [entry for entry in numbers["temperature"] if entry["slice"] == cut]
        heights = [entry["effective_draws_per_second"] for entry in rows]
        panel.plot(range(len(rows)), heights, color=colour, marker="o", markersize=4.0, label=f"{cut} slice")
    panel.set_xticks(range(len(TEMPERATURES)), [f"{t:g}" for t in TEMPERATURES])
    panel.set_yscale("log")
    panel.legend(frameon=False, fontsize=style.FONT - 1.5, handlelength=1.2)

    panel = style.tidy(figure.add_subplot(grid[3, :]), title="joint log-likelihood, a line a chain", x="draw")
    for k, chain in enumerate(numbers["log_joint"]):
        panel.plot(chain, linewidth=0.6, color=style.STATE_COLOURS[k % 8], alpha=0.8)
    panel.margins(x=0.01)
    return figure
