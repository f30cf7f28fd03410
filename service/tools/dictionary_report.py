"""A sensor's state dictionary, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from service.operations.dictionary import ShownDictionary, ShownState
from service.sensors.wording import duration_words
from service.tools.terminal import lasting, share, table
from service.tools.terminal import show as show_table

_LIKELY = 0.01


def show(out: Console, found: ShownDictionary) -> None:
    """Print the states as a table, and what is expected next."""
    made = table(
        "state", "name", "level", "noise", "usual visit", "share", "visits", "last seen", "",
        left=("name", "last seen", ""),
    )  # fmt: skip
    for state in found.states:
        made.add_row(
            str(state.id), state.name or "", _number(state.level), _number(state.noise),
            visit_words(state.dwell, found.interval_s), share(state.share), f"{state.visits:,}",
            _last_seen(state, found), ", ".join(_marks(state)),
        )  # fmt: skip
    show_table(out, made)
    out.print()
    for line in outlook_words(found):
        out.print(line, soft_wrap=True)


def visit_words(dwell: Sequence[float | None] | None, interval_s: float | None) -> str:
    """Return the usual length of a visit, as time if the interval between readings is known.

    >>> visit_words([8.2, 11.0, 14.4], None), visit_words([8.0, 11.0, 14.0], 60.0), visit_words(None, 60.0)
    ('8 to 14 readings', '8 min to 14 min', '-')
    """
    if not dwell or dwell[0] is None or dwell[-1] is None:
        return "-"
    low, high = dwell[0], dwell[-1]
    if interval_s is None:
        return f"{low:.0f} to {high:.0f} readings"
    return f"{lasting(low * interval_s)} to {lasting(high * interval_s)}"


def outlook_words(found: ShownDictionary) -> list[str]:
    """Return what is known of the current state and of what comes after it, in sentences."""
    if found.state is None:
        return ["The current state is not known."]
    names = {state.id: state.name for state in found.states}
    lines = [f"Now in state {_called(found.state, names.get(found.state))}."]
    if found.novelty is not None:
        lines.append(f"Probability that it is new: {_chance(found.novelty)}.")
    if found.remaining is not None:
        span = "" if found.interval_s is None else f", about {duration_words(found.remaining * found.interval_s)}"
        lines.append(f"Expected to last {found.remaining:.0f} more readings{span}.")
    likely = [
        f"{'a new state' if one.id is None else _called(one.id, one.name)} {_chance(one.probability)}"
        for one in found.next
        if (one.probability or 0.0) >= _LIKELY
    ]
    if likely:
        lines.append(f"Next: {', '.join(likely)}.")
    return lines


def _chance(probability: float | None) -> str:
    return "< 1 %" if probability is not None and probability < _LIKELY else share(probability)


def _called(state: int, name: str | None) -> str:
    return f"{state} ({name})" if name else str(state)


def _last_seen(state: ShownState, found: ShownDictionary) -> str:
    back = found.index - state.last_seen
    if back <= 0:
        return "now"
    if found.interval_s is None:
        return f"{back:,} readings ago"
    return f"{duration_words(back * found.interval_s)} ago"


def _marks(state: ShownState) -> list[str]:
    merged = f"with {', '.join(map(str, state.merged))}" if state.merged else ""
    return [mark for mark in ("new" if state.new else "", "retired" if state.retired else "", merged) if mark]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
