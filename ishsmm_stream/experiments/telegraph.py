"""Random telegraph noise of a transistor: the IED-HMM against the sticky HDP-HMM.

The paper's recording is not public. Simulated here as the paper describes it: four levels, rescaled; the one at 0.5
lasts 300 to 400 steps, those at -0.5 and 1.5, which come much more often, about 10.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import ishsmm_stream as hs
from ishsmm_stream.experiments import hsmm, live, style
from ishsmm_stream.experiments.labels import adjusted_mutual_information, mean_run, runs
from ishsmm_stream.experiments.outcome import Claim, Outcome, Progress, judged, listed, sampled, shares

LENGTH = 4000
LEVELS = (0.5, -0.5, 1.5, -1.5)
SD = 0.45
# From the long state at the rest level the traps fill one after the other: rows of the embedded chain.
TRANSITIONS = ((0.0, 0.5, 0.4, 0.1), (0.12, 0.0, 0.68, 0.2), (0.12, 0.68, 0.0, 0.2), (0.1, 0.5, 0.4, 0.0))
SHORT_MEAN = 10.0
LONG = (300, 400)
_SEED = 3


def data(length: int = LENGTH, seed: int = _SEED) -> hsmm.SimulatedSeries:
    rng = np.random.default_rng(seed)
    labels: list[int] = []
    state = 0
    while len(labels) < length:
        dwell = int(rng.integers(LONG[0], LONG[1] + 1)) if state == 0 else int(rng.geometric(1.0 / SHORT_MEAN))
        labels += [state] * dwell
        state = int(rng.choice(len(LEVELS), p=TRANSITIONS[state]))
    states = np.array(labels[:length])
    levels = np.array(LEVELS)[states]
    return hsmm.SimulatedSeries(rng.normal(levels, SD), states, levels)


def emission() -> Any:
    return hs.emissions.Normal(mean=0.0, mean_weight=0.1, shape=2.0, scale=0.2)


def ied() -> hs.Model:
    """Durations from one step to hundreds: negative binomial, of geometric shape or more regular."""
    return hs.ied(emission(), hs.durations.NegativeBinomial(size=(1.0, 4.0, 20.0), a=1.0, b=1.0))


def sticky() -> hs.Model:
    """With the vague prior of Fox and others for alpha + kappa."""
    return hs.sticky_hdp_hmm(emission(), alpha1_plus_kappa=hs.priors.Gamma(1.0, 0.01))


def run(progress: Progress, quick: bool = False) -> Outcome:
    length, draws, burn_in = (1500, 100, 150) if quick else (LENGTH, 200, 300)
    series = data(length)
    numbers: dict[str, Any] = {"y": series.y, "true_levels": series.levels, "true_changes": series.change_points}
    numbers["true"] = _described(series.states, series.states, series.levels)
    for name, model in (("ied", ied()), ("sticky", sticky())):
        posterior = sampled(progress, model.name, series.y, model, draws=draws, burn_in=burn_in, chains=2, seed=1)
        best = posterior.map
        levels = np.array([state["mean"] for state in best.parameters])
        numbers[name] = _described(best.states, series.states, levels[best.states])
        numbers[name]["n_states"] = shares(posterior.n_states)
        numbers[name]["change_probability"] = posterior.change_probability
        numbers[name]["map_changes"] = best.change_points
        if name == "sticky":
            rho = posterior.hyperparameter("rho")
            numbers[name]["expected_dwell"] = float(np.mean(1.0 / (1.0 - rho)))
    numbers["live"] = live.follow(progress, "live", series.y, ied(), series.change_points, chains=100)
    counts = numbers["ied"]["n_states"]
    batch = {
        "levels": numbers["ied"]["levels"],
        "change_probability": numbers["ied"]["change_probability"],
        "number": max(counts, key=counts.get),
    }
    figures = {
        "telegraph": _draw(numbers),
        "telegraph_live": live.draw("Random telegraph noise, live (IED-HMM)", series.y, numbers["live"], batch),
    }
    return Outcome(_judge(numbers), numbers, figures)


def _described(states: np.ndarray, truth: np.ndarray, levels: np.ndarray) -> dict[str, Any]:
    """A state sequence: its levels, the length of its segments, and how it agrees with the truth."""
    _, lengths, labels = runs(states)
    by_state = {int(k): {"level": float(levels[states == k].mean()), "mean_dwell": float(lengths[labels == k].mean()),
                         "segments": int((labels == k).sum())} for k in np.unique(states)}  # fmt: skip
    return {
        "levels": levels,
        "by_state": by_state,
        "mean_dwell": mean_run(states),
        "segments": len(lengths),
        "agreement": adjusted_mutual_information(states, truth),
    }


def _long_state(described: dict[str, Any]) -> dict[str, float]:
    """The state nearest to the long one's level."""
    return min(described["by_state"].values(), key=lambda state: abs(state["level"] - LEVELS[0]))


def _judge(numbers: dict[str, Any]) -> list[Claim]:
    true, ours, sticky_answer = numbers["true"], numbers["ied"], numbers["sticky"]
    most = max(ours["n_states"], key=ours["n_states"].get)
    long_ours, long_sticky, long_true = (_long_state(found)["mean_dwell"] for found in (ours, sticky_answer, true))
    return [
        judged("the IED-HMM finds four states", listed(ours["n_states"]), most == len(LEVELS)),
        judged(
            "the IED-HMM finds the durations",
            f"long state {long_ours:.0f} steps (true {long_true:.0f}), all segments {ours['mean_dwell']:.1f} "
            f"(true {true['mean_dwell']:.1f})",
            abs(long_ours / long_true - 1.0) < 0.2 and abs(ours["mean_dwell"] / true["mean_dwell"] - 1.0) < 0.2,
        ),
        judged(
            "the sticky HDP-HMM's segments are shorter on average (40 against 48)",
            f"{sticky_answer['mean_dwell']:.1f} against {ours['mean_dwell']:.1f}",
            sticky_answer["mean_dwell"] < ours["mean_dwell"],
        ),
        judged(
            "the sticky HDP-HMM over-segments",
            f"{sticky_answer['segments']} segments, IED {ours['segments']}, true {true['segments']}",
            sticky_answer["segments"] > 1.05 * true["segments"] and sticky_answer["segments"] > ours["segments"],
        ),
        judged(
            "because it breaks the long state",
            f"the long state lasts {long_sticky:.0f} steps there; rho expects {sticky_answer['expected_dwell']:.0f} "
            "of every state",
            long_sticky < 0.8 * long_true,
        ),
        judged(
            "the IED-HMM fits better",
            f"agreement with the truth (AMI) {ours['agreement']:.3f} against {sticky_answer['agreement']:.3f}",
            ours["agreement"] > sticky_answer["agreement"],
        ),
        live.agreement_claim(numbers["live"], ours["map_changes"]),
        live.delay_claim(numbers["live"]),
        live.states_claim(numbers["live"], most),
    ]


def _draw(numbers: dict[str, Any]) -> Figure:
    figure = style.new_figure(6.6, "Random telegraph noise, simulated: most probable samples")
    grid = figure.add_gridspec(3, 4, height_ratios=[2.0, 2.0, 1.6])
    y = np.asarray(numbers["y"])
    x = np.arange(len(y))
    for row, (name, title) in enumerate((("ied", "IED-HMM"), ("sticky", "sticky HDP-HMM"))):
        found = numbers[name]
        heading = f"{title}: {found['segments']} segments (true: {numbers['true']['segments']})"
        panel = style.tidy(figure.add_subplot(grid[row, :]), title=heading, y="current, rescaled")
        panel.scatter(x, y, s=1.2, color=style.ORANGE, linewidths=0.0)
        panel.plot(x, found["levels"], color=style.TRUTH, linewidth=0.7)
        panel.margins(x=0.01)
    panel.set_xlabel("time step", fontsize=style.FONT)
    panel = style.tidy(figure.add_subplot(grid[2, :2]), title="mean dwell of each state (log)", x="level", y="steps")
    for name, colour, marker in (("true", style.TRUTH, "_"), ("ied", style.BLUE, "o"), ("sticky", style.RED, "x")):
        states = list(numbers[name]["by_state"].values())
        panel.scatter([s["level"] for s in states], [s["mean_dwell"] for s in states], color=colour, marker=marker,
                      s=200.0 if marker == "_" else 28.0, label=name)  # fmt: skip
    panel.set_yscale("log")
    panel.legend(frameon=False, fontsize=style.FONT - 1.5)
    for place, name in ((2, "ied"), (3, "sticky")):
        panel = style.tidy(figure.add_subplot(grid[2, place]), title=f"P(states), {name}")
        style.bars(panel, numbers[name]["n_states"], mark=4)
    return figure
