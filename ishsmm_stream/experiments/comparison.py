"""The IED-HMM against the HDP-HMM and the sticky HDP-HMM on data from two states.

Two-state models with unit variance, means 1 to 4 apart. Hidden semi-Markov models: one state of 5 steps on average, the
other of 5 to 130, both Poisson or both geometric. Hidden Markov models: both states with the same probability to stay.
The score is the adjusted mutual information of sampled states with the true ones, averaged over draws and data sets.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import ishsmm_stream as hs
from ishsmm_stream.experiments import hsmm, style
from ishsmm_stream.experiments.labels import adjusted_mutual_information
from ishsmm_stream.experiments.outcome import Claim, Outcome, Progress, from_the_truth, judged

GAPS = (1.0, 2.0, 3.0, 4.0)
DWELLS = (5.0, 30.0, 65.0, 90.0, 115.0, 130.0)
STAYS = (0.01, 0.025, 0.06, 0.16, 0.40, 0.99)
KINDS = {"poisson": DWELLS, "geometric": DWELLS, "hmm": STAYS}  # the data, and the second number of their settings
MODELS = ("ied", "hdp_hmm", "sticky_hdp_hmm")
OTHERS = {"poisson": MODELS[1:], "geometric": MODELS[1:], "hmm": MODELS[1:2]}
DATA_SETS = 10
_LENGTH = 400
_SCORED = 20  # draws of a posterior that are compared with the truth
_NEAR = 3.0  # nats
_EQUAL = 0.01


def models(kind: str) -> dict[str, hs.Model]:
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.25, shape=1.0, scale=1.0)
    duration = hs.durations.Poisson(1.0, 1000.0) if kind == "poisson" else hs.durations.Geometric(1.0, 1.0)
    sticky = hs.sticky_hdp_hmm(emission, alpha1_plus_kappa=hs.priors.Gamma(1.0, 0.01))
    return {"ied": hs.ied(emission, duration), "hdp_hmm": hs.hdp_hmm(emission), "sticky_hdp_hmm": sticky}


def data(kind: str, gap: float, dwell: float, seed: int) -> hsmm.SimulatedSeries:
    """Return a series. ``dwell``: the second state's mean; for ``hmm`` the probability to stay in either state."""
    means = (1.0 / (1.0 - dwell), 1.0 / (1.0 - dwell)) if kind == "hmm" else (DWELLS[0], dwell)

    def geometric(rng: np.random.Generator, k: int) -> int:
        return int(rng.geometric(1.0 / means[k]))

    law = hsmm.poisson_dwell([mean - 1.0 for mean in means]) if kind == "poisson" else geometric
    number = int(1000 * dwell) if kind == "hmm" else int(dwell)
    rng = np.random.default_rng([seed, int(gap), number, list(KINDS).index(kind)])
    return hsmm.recurring(_LENGTH, (-0.5 * gap, 0.5 * gap), 1.0, law, rng)


def run(progress: Progress, quick: bool = False) -> Outcome:
    gaps, sets = ((2.0, 4.0), 1) if quick else (GAPS, DATA_SETS)
    seconds = {kind: values[::2] if quick else values for kind, values in KINDS.items()}
    numbers: dict[str, Any] = {"gaps": gaps, "seconds": seconds, "data_sets": sets, "score": {}}
    jobs = [
        (kind, i, j, seed)
        for kind, values in seconds.items()
        for i in range(len(gaps)) for j in range(len(values)) for seed in range(sets)
    ]  # fmt: skip
    for kind, values in seconds.items():
        shape = (len(gaps), len(values))
        numbers["score"][kind] = {name: np.zeros(shape) for name in ("ied", *OTHERS[kind])}
    behind: list[float] = []

    def work(job: tuple[str, int, int, int]) -> tuple[dict[str, float], float | None]:
        kind, i, j, seed = job
        series = data(kind, gaps[i], seconds[kind][j], seed)
        found = models(kind)
        scores, mass = {}, 0.0
        for name in numbers["score"][kind]:
            scores[name], reached = _score(series, found[name])
            mass = reached if name == "ied" else mass
        if kind != "poisson" or seed > 0:
            return scores, None
        reference = from_the_truth(series.y, found["ied"], series.states, seed=1, burn_in=500)
        return scores, float(np.mean([draw.log_mass for draw in reference])) - mass

    progress.step("two states", len(jobs))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for done, (job, (scores, gap)) in enumerate(zip(jobs, pool.map(work, jobs), strict=True)):
            kind, i, j, _ = job
            for name, score in scores.items():
                numbers["score"][kind][name][i, j] += score / sets
            if gap is not None:
                behind.append(gap)
            progress.reach(done + 1, len(jobs))
    numbers["behind_the_truth"] = behind
    return Outcome(_judge(numbers), numbers, {"comparison": _draw(numbers)})


def _score(series: hsmm.SimulatedSeries, model: hs.Model) -> tuple[float, float]:
    """Return the mean AMI of a chain's draws, and the mean ln mass around them."""
    posterior = hs.sample(series.y, model, draws=50, burn_in=500, chains=1, seed=1)
    chosen = np.linspace(0, len(posterior) - 1, _SCORED).astype(int)
    agreement = [adjusted_mutual_information(posterior.draws[i].states(_LENGTH), series.states) for i in chosen]
    return float(np.mean(agreement)), float(posterior.log_mass.mean())


def _judge(numbers: dict[str, Any]) -> list[Claim]:
    claims = []
    for kind, score in numbers["score"].items():
        what = "HMM data" if kind == "hmm" else f"{kind} durations"
        mean = {name: float(np.mean(values)) for name, values in score.items()}
        for other in OTHERS[kind]:
            better = np.asarray(score["ied"]) - np.asarray(score[other])
            ours = (
                f"mean AMI {mean['ied']:.3f} against {mean[other]:.3f}, better at {int((better > 0).sum())} of "
                f"{better.size}, within {_EQUAL} or better at {int((better > -_EQUAL).sum())}"
            )
            claims.append(judged(f"{what}: the IED-HMM is closer to the truth than {other}", ours, better.mean() > 0))
        wide = np.asarray(score["ied"])[-1] - np.asarray(score["ied"])[0]
        claims.append(
            judged(
                f"{what}: emissions farther apart help",
                f"AMI {wide.mean():+.2f} from closest to farthest",
                wide.mean() > 0,
            )
        )
    behind = np.array(numbers["behind_the_truth"])
    claims.append(
        judged(
            "(ours) poisson durations: the IED-HMM's chains find what chains that begin with the truth find",
            f"at most {_NEAR:g} nats less mass at {int((behind < _NEAR).sum())} of {len(behind)}; truth at least "
            f"{_NEAR:g} behind at {int((behind < -_NEAR).sum())}",
            np.mean(behind < _NEAR) >= 0.9,
        )
    )
    return claims


def _draw(numbers: dict[str, Any]) -> Figure:
    figure = style.new_figure(8.0, "Agreement with the true states (AMI): two states")
    rows = figure.subplots(len(KINDS), len(MODELS) + 1, squeeze=False, width_ratios=[1, 1, 1, 1.25])
    gaps = numbers["gaps"]
    for kind, panels in zip(KINDS, rows, strict=True):
        score, seconds = numbers["score"][kind], numbers["seconds"][kind]
        label = "probability to stay" if kind == "hmm" else "second dwell"
        for panel, name in zip(panels, MODELS, strict=False):
            if name not in score:
                panel.set_visible(False)
                continue
            title = {"ied": "IED-HMM", "hdp_hmm": "HDP-HMM", "sticky_hdp_hmm": "sticky HDP-HMM"}[name]
            image = panel.imshow(score[name], origin="lower", aspect="auto", cmap="cividis", vmin=0.0, vmax=1.0)
            _axes(panel, f"{title}, {kind}", gaps, seconds)
            panel.set_xlabel(label, fontsize=style.FONT)
            panel.set_ylabel("distance of the means" if name == MODELS[0] else "", fontsize=style.FONT)
            for (i, j), value in np.ndenumerate(np.asarray(score[name])):
                panel.text(j, i, f"{max(value, 0.0):.2f}"[1:] if value < 0.995 else "1", ha="center", va="center",
                           fontsize=6.5, color="white" if value < 0.55 else "black")  # fmt: skip
        bar = figure.colorbar(image, ax=panels[len(MODELS) - 1], shrink=0.9)
        bar.ax.tick_params(labelsize=style.FONT - 2.0)
        panel = style.tidy(panels[-1], title="IED minus the others", x=label)
        places = np.arange(len(seconds))
        for name, colour in zip(OTHERS[kind], (style.BLUE, style.ORANGE), strict=False):
            better = np.asarray(score["ied"]) - np.asarray(score[name])
            panel.plot(places, better.mean(axis=0), color=colour, marker="o", markersize=3.5, linewidth=1.3, label=name)
        panel.set_xticks(places, [f"{second:g}" for second in seconds])
        panel.axhline(0.0, color="#999999", linewidth=0.8)
        panel.legend(frameon=False, fontsize=style.FONT - 2.0)
    return figure


def _axes(panel: Any, title: str, gaps: Any, seconds: Any) -> None:
    style.tidy(panel, title=title)
    panel.grid(visible=False)
    panel.set_xticks(range(len(seconds)), [f"{second:g}" for second in seconds])
    panel.set_yticks(range(len(gaps)), [f"{gap:g}" for gap in gaps])
