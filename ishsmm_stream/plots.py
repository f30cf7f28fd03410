"""Pictures of posteriors and of streams. Needs matplotlib: pip install 'ishsmm-stream[plots]'.

Figures are made without pyplot: nothing global is changed and no display is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream.batch.change_points import ChangePoint, list_change_points, shares
from ishsmm_stream.batch.exact import ExactPosterior
from ishsmm_stream.batch.posterior import Posterior
from ishsmm_stream.model.emissions import Autoregressive, Categorical, MeanReverting, Mixed
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.online.results import Alarm

try:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec
    from matplotlib.ticker import MaxNLocator
except ImportError:
    raise ImportError("pictures need matplotlib: pip install 'ishsmm-stream[plots]'") from None

# Okabe and Ito's colours, which the colour-blind can tell apart.
_BLUE, _ORANGE, _GREEN, _RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
STATE_COLOURS = (_BLUE, _ORANGE, _GREEN, "#CC79A7", _RED, "#56B4E9", "#8C6D31", "#555555")
_GREY = "#6b6b6b"
_SHADES = LinearSegmentedColormap.from_list("shades", ["#ffffff", "#cfe3f1", "#56a0cf", _BLUE])

_DPI = 150
_WIDTH = 9.0  # inches
_DATA_WIDTH = 6.7  # of them for the panels over time, about
_FONT = 9.0  # points
_MOST_CHANNELS = 8
# More values of a stream than this are drawn as the range that they fill.
_MOST_DOTS = 20_000
_RANGES = 1200
# Values of the location path that are worth computing: draws x observations.
_MOST_VALUES = 2_000_000


def plot_posterior(
    posterior: Posterior | ExactPosterior,
    exact: ExactPosterior | None = None,
    *,
    x: Any = None,
    title: str | None = None,
    x_label: str | None = None,
    y_label: str | Sequence[str] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """The data with what the posterior says about their level, and where it sees changes.

    Above, for every channel (of many, the first eight): the observations, the posterior mean of the level with a band
    that holds it with 90% probability, and the levels of the most probable segmentation, in colours of the states where
    states recur.
    Categories are shaded by their probability instead; an autoregression's level is its prediction one step ahead.
    Below: the probability of a change at each observation, with the listed change points and their 90% intervals.
    At the side: the number of change points, or of states where they recur.

    ``posterior``: what ``sample`` or ``exact_posterior`` gave. ``exact``: beside draws of a left-to-right model, the
    exact posterior to take the probabilities from. ``x``: places of the observations, numbers or datetimes that ascend.
    ``y_label``: a name, or one a channel. ``path``: where to write the figure, in the format of its suffix.
    """
    if isinstance(posterior, ExactPosterior):
        exact = posterior
        posterior = exact.draw(1000)
    places, labels = _places(x, len(posterior.y))
    channels = min(posterior.y.shape[1], _MOST_CHANNELS)
    names = [y_label] * channels if isinstance(y_label, str) else y_label
    if names is not None and len(names) < channels:
        raise ValueError(f"y_label must be a name, or one a channel, {channels}, got {y_label!r}")
    probability = posterior.change_probability if exact is None else exact.change_probability
    starts = posterior.map.change_points if exact is None else exact.map_change_points
    points = list_change_points(starts, probability)
    recurs = not posterior.model.is_renewal

    figure, data_panels, lower, side = _layout(channels)
    _mark_changes(data_panels, places, points)
    if isinstance(posterior.model.emission, Categorical):
        _draw_categories(data_panels[0], posterior, places)
    else:
        states = posterior.map.states if recurs else np.searchsorted(starts, np.arange(len(places)), side="right")
        _draw_levels(data_panels, posterior, places, states, recurs)
    _draw_changes(lower, places, labels, probability, points)
    _draw_number(side, posterior, exact, recurs)

    for panel, name in zip(data_panels, names or [], strict=False):
        panel.set_ylabel(name, fontsize=_FONT)
    lower.set_xlabel(x_label or ("observation" if x is None else ""), fontsize=_FONT)
    margin = 0.01 * (places[-1] - places[0]) or 1.0
    lower.set_xlim(places[0] - margin, places[-1] + margin)
    return _finished(figure, lower, _is_datetime(x), title, path)


def _finished(figure: Figure, panel: Axes, is_dated: bool, title: str | None, path: str | Path | None) -> Figure:
    """Add dates and the title, and write the figure to ``path``; the last three are optional."""
    if is_dated:
        locator = AutoDateLocator()
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    if title:
        figure.suptitle(title, fontsize=_FONT + 2.0, x=0.01, ha="left")
    if path is not None:
        figure.savefig(path)
    return figure


def _is_datetime(x: Any) -> bool:
    return x is not None and bool(np.issubdtype(np.asarray(x).dtype, np.datetime64))


def _places(x: Any, length: int) -> tuple[np.ndarray, list[str]]:
    """Where the observations lie on the axis, and their names."""
    if x is None:
        return np.arange(length, dtype=float), [str(t) for t in range(length)]
    given = np.asarray(x)
    if given.shape != (length,):
        raise ValueError(f"x must have one entry an observation, {length}, got shape {given.shape}")
    if _is_datetime(x):
        places = np.asarray(date2num(given), dtype=float)
        labels = [label.replace("T", " ") for label in np.datetime_as_string(given, unit="auto").tolist()]
    else:
        places = given.astype(float)
        labels = [f"{value:g}" if isinstance(value, float) else str(value) for value in given.tolist()]
    if not (np.diff(places) > 0.0).all():
        raise ValueError("x must ascend")
    return places, labels


# The layout


def _layout(channels: int) -> tuple[Figure, list[Axes], Axes, Axes]:
    """A figure, a panel a channel, the one below them and the one at the side."""
    heights = [2.9 if channels == 1 else 1.7] * channels + [1.5]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.6), dpi=_DPI, layout="constrained")
    grid = GridSpec(channels + 1, 2, figure=figure, width_ratios=[5.6, 1.0], height_ratios=heights)
    lower = figure.add_subplot(grid[channels, 0])
    data_panels = [figure.add_subplot(grid[channel, 0], sharex=lower) for channel in range(channels)]
    side = figure.add_subplot(grid[0, 1])
    for panel in (*data_panels, lower, side):
        _tidy(panel)
    for panel in data_panels:
        panel.tick_params(labelbottom=False)
    return figure, data_panels, lower, side


def _tidy(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color("#999999")
    panel.grid(axis="y", color="#e8e8e8", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=_FONT - 1.0, color="#999999", length=3.0)


# The panels over time


def _mark_changes(panels: list[Axes], places: np.ndarray, points: Sequence[ChangePoint]) -> None:
    alpha = 0.8 if len(points) <= 12 else 0.35
    for panel in panels:
        for point in points:
            place = places[point.index]
            panel.axvline(place, color=_GREY, linewidth=0.7, linestyle=(0, (2, 2)), alpha=alpha, zorder=1.5)


def _draw_levels(
    panels: list[Axes], posterior: Posterior, places: np.ndarray, states: np.ndarray, recurs: bool
) -> None:
    mean, low, high = _levels(posterior)
    steady = not _varies_inside_segments(posterior.model.emission)
    size = float(np.clip(2400.0 / len(places), 2.0, 14.0))
    colours = np.array([STATE_COLOURS[k % len(STATE_COLOURS)] for k in states]) if recurs else _GREY
    for channel, panel in enumerate(panels):
        values = posterior.y[:, channel]
        panel.scatter(places, values, s=size, c=colours, alpha=0.75, linewidths=0.0, zorder=2.0)
        panel.fill_between(
            places, low[:, channel], high[:, channel], color=_BLUE, alpha=0.22, linewidth=0.0, label="90% band"
        )
        name = "posterior mean" if steady else "posterior mean prediction"
        panel.plot(places, mean[:, channel], color="black" if recurs else _BLUE, linewidth=1.3, label=name)
        if steady:
            _draw_steps(panel, places, values, states, recurs)
    panels[0].legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False, fontsize=_FONT - 1.0,
        handlelength=1.6, borderaxespad=0.1, columnspacing=1.4,
    )  # fmt: skip


def _draw_steps(panel: Axes, places: np.ndarray, values: np.ndarray, states: np.ndarray, recurs: bool) -> None:
    """The mean of the observations of each state of the most probable segmentation."""
    observed = ~np.isnan(values)
    edges = _edges(places)
    begins = np.flatnonzero(np.diff(states, prepend=states[0] - 1))
    label: str | None = "most probable segments"
    for begin, end in zip(begins, [*begins[1:], len(states)], strict=True):
        members = observed & (states == states[begin])
        if not members.any():
            continue
        colour = STATE_COLOURS[states[begin] % len(STATE_COLOURS)] if recurs else _RED
        level = values[members].mean()
        style: Any = "-" if recurs else (0, (4, 2))
        panel.plot(
            [edges[begin], edges[end]], [level, level], color=colour, linewidth=2.6 if recurs else 1.5, linestyle=style,
            alpha=0.8, solid_capstyle="butt", zorder=2.5, label=label,
        )  # fmt: skip
        label = None


def _draw_categories(panel: Axes, posterior: Posterior, places: np.ndarray) -> None:
    probabilities = _average_probabilities(posterior)
    categories = probabilities.shape[1]
    mesh = panel.pcolormesh(
        _edges(places), np.arange(categories + 1) - 0.5, probabilities.T, cmap=_SHADES, vmin=0.0, vmax=1.0, zorder=1.0
    )
    size = float(np.clip(2400.0 / len(places), 2.0, 14.0))
    panel.scatter(places, posterior.y[:, 0], s=size, color="black", alpha=0.75, linewidths=0.0, zorder=2.0)
    panel.grid(visible=False)
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_ylim(-0.5, categories - 0.5)
    bar = panel.figure.colorbar(mesh, ax=panel, location="top", shrink=0.35, aspect=30, pad=0.02, anchor=(1.0, 0.0))
    bar.set_label("posterior mean probability of the category", fontsize=_FONT - 1.0)
    bar.set_ticks([0.0, 0.5, 1.0])
    bar.ax.tick_params(labelsize=_FONT - 2.0, length=2.0)
    bar.outline.set_linewidth(0.4)


def _draw_changes(
    panel: Axes, places: np.ndarray, labels: list[str], probability: np.ndarray, points: Sequence[ChangePoint]
) -> None:
    width = max(0.9, 0.8 * _DATA_WIDTH * 72.0 / len(places))
    seen = np.flatnonzero(probability[1:] > 0.002) + 1
    panel.vlines(places[seen], 0.0, probability[seen], color=_BLUE, linewidth=width)
    height = 1.12
    for point in points:
        panel.hlines(height, places[point.low], places[point.high], color=_RED, linewidth=1.6)
        panel.plot(places[point.index], height, marker="D", markersize=3.2, color=_RED, linestyle="none")
    for point in _labelled(points, places, labels):
        panel.annotate(
            labels[point.index], (places[point.index], height), xytext=(0.0, 4.0), textcoords="offset points",
            ha="center", va="bottom", fontsize=_FONT - 1.0, color=_RED,
        )  # fmt: skip
    panel.set_ylim(0.0, 1.42 if points else 1.05)
    panel.set_yticks([0.0, 0.5, 1.0])
    panel.set_ylabel("P(change)", fontsize=_FONT)


def _labelled(points: Sequence[ChangePoint], places: np.ndarray, labels: list[str]) -> list[ChangePoint]:
    """The points whose labels do not run into each other, the most probable first."""
    inch = (places[-1] - places[0] or 1.0) / _DATA_WIDTH
    kept: list[ChangePoint] = []
    for point in sorted(points, key=lambda point: -point.probability):
        room = inch * (len(labels[point.index]) + 1.5) * 0.6 * _FONT / 72.0
        if all(abs(places[point.index] - places[other.index]) > room for other in kept):
            kept.append(point)
    return kept


# The panel at the side


def _draw_number(panel: Axes, posterior: Posterior, exact: ExactPosterior | None, recurs: bool) -> None:
    if recurs:
        share = shares(posterior.n_states)
    else:
        share = shares(posterior.n_changes) if exact is None else dict(enumerate(exact.n_changes.tolist()))
    likely = [k for k, probability in share.items() if probability >= 0.005]
    first, last = min(likely), max(likely)
    numbers = np.arange(max(0, first - 1), last + 2)
    panel.bar(numbers, [share.get(k, 0.0) for k in numbers.tolist()], color=_BLUE, width=0.75)
    panel.set_xticks(numbers[:: -(-len(numbers) // 6)])
    panel.set_xlim(numbers[0] - 0.6, numbers[-1] + 0.6)
    panel.set_ylim(bottom=0.0)
    panel.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    panel.set_title("P(states)" if recurs else "P(change points)", fontsize=_FONT)


# What the draws say about the level


def _varies_inside_segments(emission: Any) -> bool:
    """Whether the expected value depends on more than the state."""
    return isinstance(emission, (Autoregressive, MeanReverting, Mixed))


def _levels(posterior: Posterior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior mean and 5% and 95% quantiles of the expected observation, (T, channels) each."""
    paths = np.array([_level(posterior, draw) for draw in _some_draws(posterior)])
    result = np.full((3, *posterior.y.shape), np.nan)
    known = ~np.isnan(paths).all(axis=0)
    result[0, known] = np.nanmean(paths[:, known], axis=0)
    result[1:, known] = np.nanquantile(paths[:, known], [0.05, 0.95], axis=0)
    return result[0], result[1], result[2]


def _some_draws(posterior: Posterior) -> list[Any]:
    """Draws from all of the chains, as many as are worth their time."""
    wanted = max(50, min(400, _MOST_VALUES // posterior.y.size))
    chosen = np.linspace(0, len(posterior.draws) - 1, min(wanted, len(posterior.draws)))
    return [posterior.draws[i] for i in chosen.astype(int)]


def _level(posterior: Posterior, draw: Any) -> np.ndarray:
    """The expected observation under one draw, (T, channels)."""
    emission, y = draw.emission, posterior.y
    lengths = np.diff(draw.starts, append=len(y))
    if not _varies_inside_segments(emission):
        levels = np.array([emissions.location(emission, theta, y, 0, 0) for theta in draw.theta])
        return np.repeat(levels[draw.labels], lengths, axis=0)
    path = np.empty(y.shape)
    for start, length, label in zip(draw.starts, lengths, draw.labels, strict=True):
        for position in range(length):
            t = start + position
            path[t] = emissions.location(emission, draw.theta[label], y, t, position)
    return path


def _average_probabilities(posterior: Posterior) -> np.ndarray:
    """Posterior mean of each category's probability, (T, categories)."""
    draws = _some_draws(posterior)
    total = np.zeros((len(posterior.y), len(posterior.model.emission.concentration)))
    for draw in draws:
        total += np.repeat(np.exp(draw.theta)[draw.labels], np.diff(draw.starts, append=len(total)), axis=0)
    return total / len(draws)


def _edges(places: np.ndarray) -> np.ndarray:
    """Where the cells around the observations meet, one more than there are observations."""
    if len(places) == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    inner = 0.5 * (places[1:] + places[:-1])
    return np.concatenate([[2.0 * places[0] - inner[0]], inner, [2.0 * places[-1] - inner[-1]]])


# Streams


class StreamLevel(NamedTuple):
    """The level and the noise of each channel, as they were believed at an observation."""

    index: int  # type: ignore[assignment]
    level: Sequence[float]
    noise: Sequence[float]


class Stream(NamedTuple):
    """Values that a detector has seen, and what it says about them."""

    values: np.ndarray  # (length,) or (length, channels)
    change_points: Sequence[ChangePoint]
    alarms: Sequence[Alarm] = ()
    name: str = ""
    labels: Sequence[str] = ()  # of the channels
    first: int = 0  # index of the first value
    x: Any = None  # places of the values, numbers or datetimes in order
    levels: Sequence[StreamLevel] = ()  # drawn in place of the means of the segments
    known: Sequence[int] = ()  # changes that somebody knows of


def plot_streams(
    streams: Sequence[Stream], *, title: str | None = None, x_label: str | None = None, path: str | Path | None = None
) -> Figure:
    """Streams one below the other: the values, the mean of each segment, change points and alarms.

    The band around a change point is its 90% interval; a line above leads from it to the triangle where the alarm was
    raised. Where a stream has ``levels``, these are drawn as they were believed at the time, with a band of twice the
    noise. Triangles below are changes that are known. At most eight panels are drawn, one a channel.
    """
    panels = [(stream, channel) for stream in streams for channel in range(_channels(stream))][:_MOST_CHANNELS]
    height = 3.0 if len(panels) == 1 else 1.7
    figure = Figure(figsize=(_WIDTH, height * len(panels) + 0.7), dpi=_DPI, layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (stream, channel) in zip(axes, panels, strict=True):
        _tidy(panel)
        panel.margins(x=0.01)
        _draw_stream(panel, stream, channel)
        if channel == 0 and stream.name:
            panel.set_title(stream.name, fontsize=_FONT, loc="left", pad=10.0)
        if stream.labels:
            panel.set_ylabel(stream.labels[channel], fontsize=_FONT)
    axes[-1].set_xlabel(x_label or "", fontsize=_FONT)
    figure.align_ylabels(list(axes))
    named = {label: handle for panel in axes for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(
        named.values(), named.keys(), loc="outside upper right", ncols=len(named), frameon=False, fontsize=_FONT - 1.0
    )
    return _finished(figure, axes[-1], any(_is_datetime(stream.x) for stream in streams), title, path)


def _channels(stream: Stream) -> int:
    return 1 if np.ndim(stream.values) == 1 else np.shape(stream.values)[1]


def _draw_stream(panel: Axes, stream: Stream, channel: int) -> None:
    values = np.asarray(stream.values, dtype=float).reshape(-1, _channels(stream))[:, channel]
    places = np.arange(len(values)) + float(stream.first)
    if stream.x is not None:
        places = np.asarray(date2num(stream.x) if _is_datetime(stream.x) else stream.x, dtype=float)
    _draw_values(panel, places, values)

    def place(index: int) -> float:
        return float(places[min(max(index - stream.first, 0), len(places) - 1)])

    seen = [point for point in stream.change_points if point.index >= stream.first]
    width = 1.1 if len(seen) <= 20 else 0.5
    label: str | None = "change point, 90% interval"
    for point in seen:
        panel.axvspan(place(point.low), place(point.high), color=_RED, alpha=0.2, linewidth=0.0, zorder=1.0)
        panel.axvline(place(point.index), color=_RED, linewidth=width, zorder=1.5, label=label)
        label = None
    if stream.levels:
        _draw_believed(panel, stream, channel, place)
    else:
        _draw_means(panel, places, values, [point.index - stream.first for point in seen])
    _draw_known(panel, stream.known, place)
    _draw_alarms(panel, [alarm for alarm in stream.alarms if alarm.raised_at >= stream.first], place)


def _draw_values(panel: Axes, places: np.ndarray, values: np.ndarray) -> None:
    if len(values) <= _MOST_DOTS:
        size = float(np.clip(4000.0 / len(values), 1.0, 12.0))
        panel.scatter(places, values, s=size, color=_GREY, alpha=0.6, linewidths=0.0, zorder=2.0)
        return
    begins = np.linspace(0, len(values), _RANGES, endpoint=False).astype(int)
    low, high = np.fmin.reduceat(values, begins), np.fmax.reduceat(values, begins)
    panel.fill_between(places[begins], low, high, color=_GREY, alpha=0.5, linewidth=0.4, step="post", zorder=2.0)


def _draw_means(panel: Axes, places: np.ndarray, values: np.ndarray, changes: Sequence[int]) -> None:
    label: str | None = "mean of the segment"
    for begin, end in zip([0, *changes], [*changes, len(values)], strict=True):
        if np.isnan(values[begin:end]).all():
            continue
        level = np.nanmean(values[begin:end])
        ends = [places[begin], places[min(end, len(places) - 1)]]
        panel.plot(ends, [level, level], color=_BLUE, linewidth=1.8, zorder=2.5, label=label)
        label = None


def _draw_believed(panel: Axes, stream: Stream, channel: int, place: Callable[[int], float]) -> None:
    """A step wherever the level was said anew, up to the last value."""
    said = [*stream.levels, stream.levels[-1]._replace(index=stream.first + len(stream.values) - 1)]
    where = np.array([place(level.index) for level in said])
    level = np.array([level.level[channel] for level in said], dtype=float)
    noise = np.array([level.noise[channel] for level in said], dtype=float)
    panel.fill_between(
        where, level - 2.0 * noise, level + 2.0 * noise, step="post", color=_BLUE, alpha=0.16, linewidth=0.0,
        zorder=1.2, label="± 2 noise",
    )  # fmt: skip
    panel.plot(where, level, drawstyle="steps-post", color=_BLUE, linewidth=1.6, zorder=2.5, label="level as believed")


def _draw_known(panel: Axes, known: Sequence[int], place: Callable[[int], float]) -> None:
    below = panel.get_xaxis_transform()
    label: str | None = "known change"
    for index in known:
        x = place(index)
        panel.axvline(x, color=_GREEN, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1.4)
        panel.plot(
            [x], [0.0], transform=below, clip_on=False, marker="^", markersize=6.0, linestyle="none", color=_GREEN,
            zorder=3.0, label=label,
        )  # fmt: skip
        label = None


def _draw_alarms(panel: Axes, alarms: Sequence[Alarm], place: Callable[[int], float]) -> None:
    """Triangles above the panel, hollow where the alarm was taken back, each with a line from its change."""
    above = panel.get_xaxis_transform()
    named = set()
    for alarm in alarms:
        taken_back = alarm.status == "retracted"
        label = "alarm taken back" if taken_back else "alarm"
        x = place(alarm.raised_at)
        panel.plot(
            [place(alarm.index), x], [1.03, 1.03], transform=above, clip_on=False, color="black", linewidth=0.8,
            alpha=0.3 if taken_back else 1.0,
        )  # fmt: skip
        panel.plot(
            [x], [1.03], transform=above, clip_on=False, marker="v", markersize=6.0, linestyle="none", color="black",
            fillstyle="none" if taken_back else "full", label=None if label in named else label,
        )  # fmt: skip
        named.add(label)
