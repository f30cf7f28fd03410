"""The report that a person reads on the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ishsmm_stream.model.catalogue import PRESETS, RECURRING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST_ROWS = 40
_LEAST_SHARE = 0.005
_STATES_TITLE = "States (posterior mean, 90% interval)"


def make_console() -> Console:
    """Stdout, wide enough for tables where it is a file."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 110, highlight=False, markup=False, emoji=False)


def print_report(console: Console, result: dict[str, Any]) -> None:
    """Settings, change points, states and how far to trust them."""
    settings = result["settings"]
    columns = ", ".join(settings["columns"])
    console.print(f"{result['model']}: {result['n_observations']} observations of {columns}")
    for part in ("emission", "duration"):
        if settings[part]:
            console.print(f"  {part}: {described(settings[part])}", soft_wrap=True)
    preset = PRESETS["hdp_hsmm" if result["model"] == RECURRING else result["model"]]
    names = preset.hyperparameters.values()
    hyperparameters = [f"{name} = {_hyperparameter(settings[name])}" for name in names]
    console.print(f"  hyperparameters: {', '.join(hyperparameters)}\n", soft_wrap=True)
    print_change_points(console, result)
    _print_states(console, result)
    print_numbers(console, "change points", result["n_changes"])
    if result["model"] != "ilr":
        print_numbers(console, "states", result["n_states"])
    if result["log_evidence"] is not None:
        console.print(f"log evidence: {result['log_evidence']:.3f}")
    _print_diagnostics(console, result)


def print_change_points(
    console: Console, result: dict[str, Any], place: str = "index", name: Callable[[int], str] = str
) -> None:
    """The listed change points; ``name`` says where an index is."""
    points = result["change_points"]
    if not points:
        console.print("no change points with a probability of 50% or more\n")
    else:
        table = make_table("change point", "probability", "90% interval", title=f"Change points (first {place} after)")
        for point in points[:MOST_ROWS]:
            interval = f"{name(point['low'])} to {name(point['high'])}"
            table.add_row(name(point["index"]), percent(point["probability"]), interval)
        print_table(console, table, len(points))
    likeliest = max(result["n_changes"], key=lambda k: result["n_changes"][k])
    found = str(len(result["map"]["change_points"]))
    if result["log_evidence"] is not None and likeliest != found:
        console.print(
            f"note: the most probable segmentation has {found}, but {likeliest} change points are more probable "
            f"({percent(result['n_changes'][likeliest])} against {percent(result['n_changes'].get(found, 0.0))}); "
            f"the probability of each {place} shows where the others may be\n"
        )


def print_numbers(console: Console, what: str, shares: dict[str, float]) -> None:
    """P(number of ...) on one line."""
    likely = [f"{k}: {percent(share)}" for k, share in shares.items() if share >= _LEAST_SHARE]
    console.print(f"number of {what}:  {'   '.join(likely)}")


def _print_states(console: Console, result: dict[str, Any]) -> None:
    """A line a state; where that is too wide for the terminal, a line a parameter."""
    states = result["states"]
    firsts = [result["map"]["states"].index(state["state"]) for state in states]
    table = make_table("state", "from", "occupancy", *states[0]["parameters"], "mean dwell", title=_STATES_TITLE)
    for state, first in zip(states[:MOST_ROWS], firsts, strict=False):
        cells = [_with_interval(numbers) for numbers in (*state["parameters"].values(), state["dwell"])]
        table.add_row(str(state["state"]), str(first), percent(state["occupancy"]), *cells)
    if console.measure(table, options=console.options.update(max_width=10_000)).maximum > console.width:
        table = make_table("state", "from", "occupancy", "parameter", "mean, interval", title=_STATES_TITLE)
        for state, first in zip(states[:MOST_ROWS], firsts, strict=False):
            head = [str(state["state"]), str(first), percent(state["occupancy"])]
            for name, numbers in {**state["parameters"], "mean dwell": state["dwell"]}.items():
                table.add_row(*head, name, _with_interval(numbers))
                head = ["", "", ""]
    print_table(console, table, len(states))


def _print_diagnostics(console: Console, result: dict[str, Any]) -> None:
    quantities = result["diagnostics"]
    shown = ("log_joint", "n_changes") if result["model"] == "ilr" else tuple(quantities)
    parts = [f"{name} {quantities[name]['ess']:.0f} / {quantities[name]['rhat']:.3f}" for name in shown]
    console.print(f"effective draws / R-hat:  {'   '.join(parts)}")
    for warning in result["warnings"]:
        console.print(f"warning: {warning}", style="bold yellow")


def make_table(*columns: str, title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def print_table(console: Console, table: Table, rows: int) -> None:
    console.print(table)
    if rows > MOST_ROWS:
        console.print(f" ... and {rows - MOST_ROWS} more, which --out writes")
    console.print()


def described(part: dict[str, Any]) -> str:
    numbers = ", ".join(f"{name} = {_value(value)}" for name, value in part.items() if name != "family")
    return f"{part['family']} ({numbers})"


def _hyperparameter(value: Any) -> str:
    if not isinstance(value, dict):
        return _value(value)
    return f"{value['prior']}({', '.join(_value(number) for name, number in value.items() if name != 'prior')})"


def _value(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_value, value))})"
    return str(value) if isinstance(value, bool) else f"{value:g}"


def _with_interval(numbers: dict[str, float]) -> str:
    if math.isnan(numbers["mean"]):
        return "-"
    return f"{numbers['mean']:.3g} [{numbers['low']:.3g}, {numbers['high']:.3g}]"


def percent(share: float) -> str:
    return f"{100.0 * share:.1f}%"
