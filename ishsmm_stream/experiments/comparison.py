"""The IED-HMM against the HDP-HMM and the sticky HDP-HMM on data from two states.

Two-state hidden semi-Markov models with unit variance: means 1 to 4 apart, one state of 5 steps on average, the other
of 5 to 130, both Poisson or both geometric. The score is the adjusted mutual information of sampled states with the
true ones, averaged over draws and data sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import ishsmm_stream as hs
from ishsmm_stream.experiments import hsmm, style
from ishsmm_stream.experiments.labels import adjusted_mutual_information
from ishsmm_stream.experiments.outcome import Claim, Outcome, Progress, judged

GAPS = (1.0, 2.0, 3.0, 4.0)
DWELLS = (5.0, 30.0, 65.0, 90.0, 115.0, 130.0)
MODELS = ("ied", "hdp_hmm", "sticky_hdp_hmm")
KINDS = ("poisson", "geometric")
_LENGTH = 400
_SCORED = 20  # draws of a posterior that are compared with the truth


def models(kind: str) -> dict[str, hs.Model]:
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.25, shape=1.0, scale=1.0)
    duration = hs.durations.Poisson(1.0, 1000.0) if kind == "poisson" else hs.durations.Geometric(1.0, 1.0)
    sticky = hs.sticky_hdp_hmm(emission, alpha1_plus_kappa=hs.priors.Gamma(1.0, 0.01))
    return {"ied": hs.ied(emission, duration), "hdp_hmm": hs.hdp_hmm(emission), "sticky_hdp_hmm": sticky}


def data(kind: str, gap: float, dwell: float, seed: int) -> hsmm.SimulatedSeries:
    means = (DWELLS[0], dwell)

    def geometric(rng: np.random.Generator, k: int) -> int:
        return int(rng.geometric(1.0 / means[k]))

    law = hsmm.poisson_dwell([mean - 1.0 for mean in means]) if kind == "poisson" else geometric
    rng = np.random.default_rng([seed, int(gap), int(dwell), KINDS.index(kind)])
    return hsmm.recurring(_LENGTH, (-0.5 * gap, 0.5 * gap), 1.0, law, rng)


def run(progress: Progress, quick: bool = False) -> Outcome:
    gaps, dwells, sets = ((2.0, 4.0), (5.0, 65.0), 1) if quick else (GAPS, DWELLS, 1)
    numbers: dict[str, Any] = {"gaps": gaps, "dwells": dwells, "data_sets": sets, "score": {}}
    total = len(KINDS) * len(gaps) * len(dwells) * sets
    done = 0
    progress.step("two states", total)
    for kind in KINDS:
        score = {name: np.zeros((len(gaps), len(dwells))) for name in MODELS}
        for i, gap in enumerate(gaps):
            for j, dwell in enumerate(dwells):
                for seed in range(sets):
                    series = data(kind, gap, dwell, seed)
                    for name, model in models(kind).items():
                        score[name][i, j] += _score(series, model) / sets
                    done += 1
                    progress.reach(done, total)
        numbers["score"][kind] = score
    return Outcome(_judge(numbers), numbers, {"comparison": _draw(numbers)})


def _score(series: hsmm.SimulatedSeries, model: hs.Model) -> float:
    posterior = hs.sample(series.y, model, draws=50, burn_in=500, chains=2, seed=1)
    chosen = np.linspace(0, len(posterior) - 1, _SCORED).astype(int)
    states = posterior.states
    return float(np.mean([adjusted_mutual_information(states[i], series.states) for i in chosen]))


def _judge(numbers: dict[str, Any]) -> list[Claim]:
    claims = []
    for kind in KINDS:
        score = numbers["score"][kind]
        mean = {name: float(np.mean(values)) for name, values in score.items()}
        for other in MODELS[1:]:
            better = np.asarray(score["ied"]) - np.asarray(score[other])
            wins = int((better > 0).sum())
            ours = f"mean AMI {mean['ied']:.3f} against {mean[other]:.3f}, better at {wins} of {better.size}"
            claims.append(
                judged(f"{kind} durations: the IED-HMM is closer to the truth than {other}", ours, better.mean() > 0)
            )
        wide = np.asarray(score["ied"])[-1] - np.asarray(score["ied"])[0]
        claims.append(
            judged(
                f"{kind} durations: emissions farther apart help",
                f"AMI {wide.mean():+.2f} from closest to farthest",
                wide.mean() > 0,
            )
        )
    return claims


def _draw(numbers: dict[str, Any]) -> Figure:
    figure = style.new_figure(5.6, "Agreement with the true states (AMI): two states, the first of 5 steps on average")
    rows = figure.subplots(len(KINDS), len(MODELS) + 1, squeeze=False, width_ratios=[1, 1, 1, 1.25])
    gaps, dwells = numbers["gaps"], numbers["dwells"]
    for kind, panels in zip(KINDS, rows, strict=True):
        score = numbers["score"][kind]
        for panel, name in zip(panels, MODELS, strict=False):
            title = {"ied": "IED-HMM", "hdp_hmm": "HDP-HMM", "sticky_hdp_hmm": "sticky HDP-HMM"}[name]
            image = panel.imshow(score[name], origin="lower", aspect="auto", cmap="cividis", vmin=0.0, vmax=1.0)
            _axes(panel, f"{title}, {kind}", gaps, dwells)
            panel.set_xlabel("second dwell" if kind == KINDS[-1] else "", fontsize=style.FONT)
            panel.set_ylabel("distance of the means" if name == MODELS[0] else "", fontsize=style.FONT)
            for (i, j), value in np.ndenumerate(np.asarray(score[name])):
                panel.text(j, i, f"{value:.2f}"[1:] if value < 0.995 else "1", ha="center", va="center",
                           fontsize=6.5, color="white" if value < 0.55 else "black")  # fmt: skip
        bar = figure.colorbar(image, ax=panels[len(MODELS) - 1], shrink=0.9)
        bar.ax.tick_params(labelsize=style.FONT - 2.0)
        panel = style.tidy(panels[-1], title="IED minus the others", x="second dwell" if kind == KINDS[-1] else "")
        for name, colour in zip(MODELS[1:], (style.BLUE, style.ORANGE), strict=True):
            better = np.asarray(score["ied"]) - np.asarray(score[name])
            panel.plot(dwells, better.mean(axis=0), color=colour, marker="o", markersize=3.5, linewidth=1.3, label=name)
        panel.axhline(0.0, color="#999999", linewidth=0.8)
        panel.legend(frameon=False, fontsize=style.FONT - 2.0)
    return figure


def _axes(panel: Any, title: str, gaps: Any, dwells: Any) -> None:
    style.tidy(panel, title=title)
    panel.grid(visible=False)
    panel.set_xticks(range(len(dwells)), [f"{dwell:g}" for dwell in dwells])
    panel.set_yticks(range(len(gaps)), [f"{gap:g}" for gap in gaps])
