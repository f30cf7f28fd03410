"""British coal-mining disasters, 1851 to 1962: the ILR-HMM with Poisson emissions and durations.

The paper does not give the numbers of its priors: Gamma(1, rate 1) emissions and Gamma(1, scale a_d) durations here,
with a_d from 20 to 1000; its default elsewhere is 1000.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import ishsmm_stream as hs
from ishsmm_stream.experiments import live, style
from ishsmm_stream.experiments.outcome import Claim, Outcome, Progress, judged, listed, percent

SCALES = (20.0, 50.0, 100.0, 200.0, 1000.0)
PAPERS_DEFAULT = 1000.0
LIKE_THE_PAPER = 100.0  # where the exact answer is most like the paper's
_DRAWS = 1000
_MOST = 16
_YEARS_IN_DOUBT = 6  # it is not certain in which year the rate fell


def model(scale: float = LIKE_THE_PAPER) -> hs.Model:
    return hs.ilr(hs.emissions.Poisson(shape=1.0, rate=1.0), hs.durations.Poisson(shape=1.0, scale=scale))


def run(progress: Progress, quick: bool = False) -> Outcome:
    years, counts = hs.datasets.coal_disasters()
    progress.step("exact posteriors")
    exact = {scale: hs.exact_posterior(counts, model(scale)) for scale in SCALES}
    chosen = exact[LIKE_THE_PAPER]
    posterior = chosen.draw(_DRAWS, seed=1)
    paths = [_path(draw, len(counts)) for draw in posterior.draws]
    progress.step("the paper's sampler")
    beam = hs.sample(
        counts, model(), method="beam", draws=60 if quick else 1000, burn_in=40 if quick else 100, chains=4, seed=1,
        progress=progress.reach,
    )  # fmt: skip
    numbers: dict[str, Any] = {
        "years": years,
        "counts": counts,
        "n_changes_by_scale": {scale: answer.n_changes[:_MOST] for scale, answer in exact.items()},
        "log_evidence_by_scale": {scale: answer.log_evidence for scale, answer in exact.items()},
        "change_probability": chosen.change_probability,
        "sampled_change_probability": posterior.change_probability,
        "paths": paths[:5],
        "mean_path": np.mean(paths, axis=0),
        "beam_n_changes": np.bincount(beam.n_changes, minlength=_MOST)[:_MOST] / len(beam),
        "beam_effective_draws": beam.summary()["log_joint"]["ess"],
    }
    numbers["places"] = _places(chosen.change_probability)
    modes = [place["mode"] for place in numbers["places"]]
    numbers["live"] = live.follow(progress, "live", counts, model(), modes, margin=_YEARS_IN_DOUBT)
    batch = {
        "levels": numbers["mean_path"],
        "change_probability": chosen.change_probability,
        "number": int(np.argmax(chosen.n_changes)),
    }
    title = "Coal-mining disasters, live (observation 0 is 1851)"
    figures = {
        "coal": _draw(numbers),
        "coal_live": live.draw(title, counts, numbers["live"], batch, "disasters a year", recurs=False),
    }
    return Outcome(_judge(numbers), numbers, figures)


def _path(draw: Any, length: int) -> np.ndarray:
    """The rate of each year under one draw."""
    return np.repeat(np.exp(draw.theta[draw.labels, 0]), np.diff(draw.starts, append=length))


def _places(probability: np.ndarray) -> list[dict[str, Any]]:
    """For the two places of the paper, 40 and 100 years: the probability of a change within ten years, and the mode."""
    found = []
    for year in (40, 100):
        window = np.arange(year - 10, min(year + 11, len(probability)))
        mode = int(window[np.argmax(probability[window])])
        found.append({"year": year, "expected": float(probability[window].sum()), "mode": mode})
    return found


def _judge(numbers: dict[str, Any]) -> list[Claim]:
    by_scale = {scale: np.asarray(count) for scale, count in numbers["n_changes_by_scale"].items()}
    chosen, default = by_scale[LIKE_THE_PAPER], by_scale[PAPERS_DEFAULT]
    considered = [k for k, p in enumerate(chosen) if p >= 0.01]
    modes = {scale: int(np.argmax(count)) for scale, count in by_scale.items()}
    error = float(np.abs(np.asarray(numbers["beam_n_changes"]) - chosen).max())
    places = numbers["places"]
    return [
        judged("two change points, with high probability", f"{percent(chosen[2])} at a_d = 100", chosen[2] > 0.8),
        judged("two are the most probable number (a_d = 100)", listed(dict(enumerate(chosen))), np.argmax(chosen) == 2),
        judged("two, with the default prior a_d = 1000", listed(dict(enumerate(default))), np.argmax(default) == 2),
        judged(
            "from one to five change points are considered",
            f"{considered[0]} to {considered[-1]} have 1% or more at a_d = 100",
            considered == [1, 2, 3, 4, 5],
        ),
        judged(
            "results are similar for a_d from 20 to 200 (said of the synthetic data)",
            "most probable number: " + ", ".join(f"{k} at {scale:g}" for scale, k in modes.items()),
            len({k for scale, k in modes.items() if scale <= 200.0}) == 1,
        ),
        *(
            judged(
                f"a change near {place['year']} years",
                f"{place['expected']:.2f} expected within ten, most probable in {1851 + place['mode']} "
                f"(year {place['mode']})",
                place["expected"] > 0.5 and abs(place["mode"] - place["year"]) <= 5,
            )
            for place in places
        ),
        judged(
            "the sampler agrees with the exact posterior",
            f"largest error of P(number) {error:.3f} with {numbers['beam_effective_draws']:.0f} effective draws",
            error < 0.08,
        ),
        live.delay_claim(numbers["live"], f"the changes of {' and '.join(str(1851 + p['mode']) for p in places)}"),
    ]


def _draw(numbers: dict[str, Any]) -> Figure:
    figure = style.new_figure(6.2, "Coal-mining disasters, ILR-HMM with Poisson emissions and durations")
    grid = figure.add_gridspec(2, 5, height_ratios=[3.0, 1.5])
    years, counts = np.asarray(numbers["years"]), np.asarray(numbers["counts"])
    panel = style.tidy(figure.add_subplot(grid[0, :4]), x="year", y="disasters")
    panel.scatter(years, counts, s=12.0, color=style.TRUTH, linewidths=0.0, label="data", zorder=3.0)
    for k, path in enumerate(numbers["paths"]):
        label = "five posterior paths" if k == 0 else None
        panel.step(years, path, where="post", color=style.RED, linewidth=1.1, alpha=0.75, label=label)
    share = np.asarray(numbers["sampled_change_probability"])
    height = 1.6 / share[1:].max()
    panel.bar(years[1:], share[1:] * height, color=style.BLUE, width=0.9, label="changes at each year (relative)")
    panel.margins(x=0.01)
    style.legend(panel)
    panel = style.tidy(figure.add_subplot(grid[0, 4]), title="a_d = 100")
    style.bars(panel, dict(enumerate(numbers["n_changes_by_scale"][LIKE_THE_PAPER])), mark=2)
    style.marks(panel, numbers["beam_n_changes"], "paper's sampler")
    for place, (scale, count) in enumerate(numbers["n_changes_by_scale"].items()):
        panel = style.tidy(figure.add_subplot(grid[1, place]), title=f"a_d = {scale:g}", x="change points")
        style.bars(panel, dict(enumerate(count)), least=0.01)
        panel.tick_params(labelleft=place == 0)
    return figure
