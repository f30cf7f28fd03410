"""How the figures look: one size, one set of colours, quiet axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ishsmm_stream.plots import STATE_COLOURS

BLUE, ORANGE, GREEN, PINK, RED, SKY = STATE_COLOURS[:6]
DATA = "#9a9a9a"
TRUTH = "black"
FONT = 9.0
_WIDTH = 9.0
_DPI = 110


def new_figure(height: float, title: str) -> Figure:
    """A figure of ``height`` inches and the common width."""
    figure = Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")
    figure.suptitle(title, fontsize=FONT + 2.0, x=0.01, ha="left")
    return figure


def tidy(panel: Axes, title: str = "", x: str = "", y: str = "") -> Axes:
    """Quiet axes with a title and labels."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color("#999999")
    panel.grid(axis="y", color="#e8e8e8", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=FONT - 1.0, color="#999999", length=3.0)
    panel.set_title(title, fontsize=FONT, loc="left")
    panel.set_xlabel(x, fontsize=FONT)
    panel.set_ylabel(y, fontsize=FONT)
    return panel


def legend(panel: Axes, **where: Any) -> None:
    """A legend without a frame; above the panel at its right unless told otherwise."""
    settings: dict[str, Any] = {
        "loc": "lower right",
        "bbox_to_anchor": (1.0, 1.0),
        "ncols": 4,
        "borderaxespad": 0.1,
    } | where
    panel.legend(frameon=False, fontsize=FONT - 1.0, handlelength=1.4, columnspacing=1.2, **settings)


def whole_numbers(axis: Any, most: int = 6) -> None:
    """Ticks at whole numbers only."""
    axis.set_major_locator(MaxNLocator(nbins=most, integer=True))


def dots(panel: Axes, x: Any, y: Any, label: str = "data") -> None:
    size = float(np.clip(3000.0 / len(x), 1.5, 12.0))
    panel.scatter(x, y, s=size, color=DATA, linewidths=0.0, label=label, zorder=2.0)


def bars(
    panel: Axes, share: dict[Any, float], least: float = 0.002, colour: str = BLUE, mark: int | None = None
) -> None:
    """Probabilities of whole numbers; the true one, ``mark``, in orange."""
    known = {int(k): p for k, p in share.items()}
    likely = [k for k, p in known.items() if p >= least] + ([] if mark is None else [mark])
    numbers = list(range(max(0, min(likely) - 1), max(likely) + 2))
    colours = [ORANGE if k == mark else colour for k in numbers]
    panel.bar(numbers, [known.get(k, 0.0) for k in numbers], color=colours, width=0.75)
    panel.set_xticks(numbers[:: -(-len(numbers) // 10)])
    panel.set_ylim(0.0, 1.0)


def marks(panel: Axes, share: Any, label: str) -> None:
    """A second answer beside the bars of ``bars``."""
    likely = np.flatnonzero(np.asarray(share) > 0.02)
    left, right = min(panel.get_xlim()[0], likely[0] - 0.6), max(panel.get_xlim()[1], likely[-1] + 0.6)
    panel.plot(
        range(len(share)), share, color="black", marker="_", markersize=11.0, linestyle="none", label=label, zorder=3.0
    )
    panel.set_xlim(left, right)
    whole_numbers(panel.xaxis, 8)
    panel.legend(frameon=False, fontsize=FONT - 1.5, handlelength=1.2, loc="upper right")


def densities(panel: Axes, samples: Sequence[Any], names: Sequence[str], truths: Sequence[float | None]) -> None:
    """A histogram of draws for each of several parameters, the true values as dashed lines."""
    everything = np.concatenate([np.asarray(values) for values in samples])
    low, high = np.quantile(everything, [0.001, 0.999])
    bins = np.linspace(low, high, 121).tolist()
    for k, (values, name, truth) in enumerate(zip(samples, names, truths, strict=True)):
        colour = STATE_COLOURS[k % len(STATE_COLOURS)]
        panel.hist(values, bins=bins, density=True, histtype="stepfilled", color=colour, alpha=0.55, label=name)
        if truth is not None:
            panel.axvline(truth, color=TRUTH, linewidth=0.9, linestyle=(0, (3, 2)))
    panel.set_yticks([])
