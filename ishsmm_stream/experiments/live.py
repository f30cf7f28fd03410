"""The same data one observation at a time: how the online detector's answer forms, beside the batch answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

import ishsmm_stream as hs
from ishsmm_stream.experiments import style
from ishsmm_stream.experiments.outcome import Claim, Progress, judged

# A change is known once the probability that there has been one, at it or since, reaches this.
KNOWN = 0.9
_SHOWN_AFTER = 30  # observations after a change whose probabilities are kept
_COLUMNS = 300  # moments at which the believed change points are kept, about


def follow(
    progress: Progress, what: str, y: Any, model: hs.Model, changes: Sequence[int], margin: int = 2, **settings: Any
) -> dict:
    """Run the detector over ``y`` and keep what it believed at each moment.

    ``changes``: the changes whose delay is counted, the true ones where these are known. The delay of a change is 0
    where its first observation was enough. ``margin``: how many observations too early it may be believed to be.
    """
    detector = hs.OnlineDetector(model, **settings)
    level_name = "rate" if isinstance(model.emission, hs.emissions.Poisson) else "mean"
    stride = max(1, len(y) // _COLUMNS)
    levels, n_states, n_changes, believed = [], [], [], []
    curves: list[list[float]] = [[] for _ in changes]
    delays: list[int | None] = [None] * len(changes)
    progress.step(what)
    for t, value in enumerate(y):
        detector.update(value)
        points = detector.change_points
        state = detector.state
        assert state is not None
        levels.append(state.parameters[level_name])
        n_states.append(detector.n_states)
        n_changes.append(len(points))
        if t % stride == 0 or t == len(y) - 1:
            believed += [(t, point.index, point.probability) for point in points]
        for i, change in enumerate(changes):
            if change <= t <= change + _SHOWN_AFTER or (t > change and delays[i] is None):
                probability = detector.change_probability(last=t + 1 - change + margin)
                if t <= change + _SHOWN_AFTER:
                    curves[i].append(probability)
                if delays[i] is None and probability >= KNOWN:
                    delays[i] = t - change
        progress.reach(t + 1, len(y))
    return {
        "changes": list(changes),
        "delays": delays,
        "probability_after_change": curves,
        "believed": believed,
        "levels": levels,
        "n_states": n_states,
        "n_changes": n_changes,
        "change_points": [point.index for point in detector.change_points],
        "log_evidence": detector.log_evidence,
    }


def delay_claim(live: dict, what: str = "changes") -> Claim:
    """How many observations after each change it was known; holds where each one was."""
    known = sorted(delay for delay in live["delays"] if delay is not None)
    missed = len(live["delays"]) - len(known)
    if not known:
        return judged(f"live: {what} are known as they happen", f"none of {missed} was known by the end", False)
    each = f"after {', '.join(map(str, known))}" if len(known) <= 8 else f"{known[-1]} at most"
    ours = f"{len(known)} of {len(known) + missed} known, median {np.median(known):g} observations after, {each}"
    return judged(f"live: {what} are known as they happen", ours, missed == 0)


def agreement_claim(live: dict, batch: Sequence[int], margin: int = 3) -> Claim:
    """Whether the change points that the detector ends with are those of the batch answer."""
    ours, theirs = live["change_points"], list(batch)
    met = sum(any(abs(a - b) <= margin for b in theirs) for a in ours)
    found = sum(any(abs(a - b) <= margin for a in ours) for b in theirs)
    text = (
        f"{found} of {len(theirs)} batch changes within {margin}, {len(ours) - met} of {len(ours)} live ones elsewhere"
    )
    total = len(ours) + len(theirs)
    return judged("live: ends with the batch answer's change points", text, total == 0 or (met + found) / total >= 0.9)


def states_claim(live: dict, batch: int) -> Claim:
    """Whether the detector ends with as many states as the batch answer."""
    ours = f"{live['n_states'][-1]} at the end, batch {batch}"
    return judged("live: ends with the batch answer's number of states", ours, live["n_states"][-1] == batch)


def draw(title: str, y: Any, live: dict, batch: dict, y_label: str = "y", recurs: bool = True) -> Figure:
    """``batch``: "levels", "change_probability" and, where states recur, "n_states" (the most probable number)."""
    figure = style.new_figure(8.2, title)
    grid = figure.add_gridspec(3, 2, width_ratios=[5.2, 1.0], height_ratios=[2.2, 3.4, 1.9])
    data = figure.add_subplot(grid[0, 0])
    answer = figure.add_subplot(grid[1, 0], sharex=data)
    beside = figure.add_subplot(grid[1, 1], sharey=answer)
    lower = grid[2, :].subgridspec(1, 2)
    _draw_levels(style.tidy(data, y=y_label), y, live, batch)
    _draw_believed(answer, beside, live, batch, len(y))
    _draw_curves(figure.add_subplot(lower[0, 0]), live)
    _draw_numbers(figure.add_subplot(lower[0, 1]), live, batch, recurs)
    return figure


def _draw_levels(panel: Axes, y: Any, live: dict, batch: dict) -> None:
    x = np.arange(len(y))
    style.dots(panel, x, y)
    panel.plot(x, batch["levels"], color=style.TRUTH, linewidth=1.0, label="batch answer")
    panel.plot(x, live["levels"], color=style.RED, linewidth=1.2, label="live: state at that moment", alpha=0.9)
    style.legend(panel)
    panel.margins(x=0.01)
    panel.tick_params(labelbottom=False)


def _draw_believed(panel: Axes, beside: Axes, live: dict, batch: dict, length: int) -> None:
    """Where changes were believed to be, against the time of knowing; beside it what the batch says in the end."""
    style.tidy(panel, x="time of knowledge (observations seen)", y="place of the change")
    shades = LinearSegmentedColormap.from_list("shades", ["#cfe3f1", style.SKY, style.BLUE])
    if live["believed"]:
        seen, places, probability = np.array(live["believed"]).T
        size = float(np.clip(1200.0 / length, 1.2, 9.0))
        dots = panel.scatter(
            seen, places, c=probability, s=size, marker="s", cmap=shades, vmin=0.5, vmax=1.0, linewidths=0
        )
        bar = panel.figure.colorbar(dots, ax=panel, location="top", shrink=0.3, aspect=28, pad=0.01, anchor=(1.0, 0.0))
        bar.set_label("live: P(change there), as believed then", fontsize=style.FONT - 1.0)
        bar.ax.tick_params(labelsize=style.FONT - 2.0, length=2.0)
        bar.outline.set_linewidth(0.4)
    panel.plot([0, length], [0, length], color="#bbbbbb", linewidth=0.8, linestyle=(0, (2, 2)))
    panel.set_ylim(0, length)
    style.tidy(beside, title="batch", x="P(change)")
    probability = np.asarray(batch["change_probability"])
    places = np.flatnonzero(probability[1:] > 0.002) + 1
    beside.hlines(places, 0.0, probability[places], color=style.BLUE, linewidth=1.2)
    beside.tick_params(labelleft=False)
    beside.set_xlim(0.0, 1.05)


def _draw_curves(panel: Axes, live: dict) -> None:
    style.tidy(panel, x="observations after the change", y="P(changed)", title="when each change was known")
    for curve in live["probability_after_change"]:
        panel.plot(range(len(curve)), curve, color=style.BLUE, linewidth=0.9, alpha=0.55)
    panel.axhline(KNOWN, color=style.RED, linewidth=0.8, linestyle=(0, (3, 2)))
    known = [delay for delay in live["delays"] if delay is not None]
    if known:
        panel.axvline(float(np.median(known)), color=style.RED, linewidth=1.2, label=f"median {np.median(known):g}")
        style.legend(panel)
    panel.set_ylim(0.0, 1.03)
    panel.set_xlim(-0.3, min(_SHOWN_AFTER, max([10, *(d + 4 for d in known)])))


def _draw_numbers(panel: Axes, live: dict, batch: dict, recurs: bool) -> None:
    name, values = ("states", live["n_states"]) if recurs else ("change points", live["n_changes"])
    style.tidy(panel, x="time of knowledge (observations seen)", title=f"number of {name}")
    panel.plot(values, color=style.RED, linewidth=1.4, drawstyle="steps-post", label="live")
    panel.axhline(
        batch["number"], color=style.TRUTH, linewidth=1.0, linestyle=(0, (3, 2)), label="batch, most probable"
    )
    panel.set_ylim(0.0, max([*values, batch["number"]]) + 1.0)
    style.whole_numbers(panel.yaxis)
    style.legend(panel)
