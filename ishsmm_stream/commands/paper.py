"""``ishsmm-stream paper``: the paper's experiments, its claims beside what was measured, figures and numbers."""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ishsmm_stream.commands import _report, _terminal
from ishsmm_stream.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ishsmm_stream.experiments.outcome import Claim, Outcome

CLAIMS = "claims.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(EXPERIMENTS)} (default: all of them)")
    parser.add_argument(
        "--out", default="out/paper", metavar="FOLDER", help="folder for figures and numbers (default: out/paper)"
    )
    parser.add_argument("--quick", action="store_true", help="reduced sizes: a look, not a measurement")
    parser.add_argument("--quiet", action="store_true", help="no progress and no notes on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Run the experiments one after the other; each prints its table and writes its files as it ends."""
    from ishsmm_stream import ConvergenceWarning

    names = _checked(arguments.names)
    _terminal.import_plots()
    folder = Path(arguments.out)
    os.makedirs(folder, exist_ok=True)
    _terminal.check_output("--out", str(folder / CLAIMS))
    console = _report.make_console()
    warnings.simplefilter("ignore", ConvergenceWarning)  # whether chains agree is among the claims
    _terminal.note("kernels are compiled on the first run, which takes a minute or two", arguments.quiet)
    sections = []
    for name in names:
        begin = time.monotonic()
        module_name, summary = EXPERIMENTS[name]
        with _terminal.ProgressBar(arguments.quiet) as bar:
            bar.step(name)
            outcome: Outcome = importlib.import_module(module_name).run(_Named(bar, name), arguments.quick)
            bar.step(f"{name}: writing")
            _write(folder, name, outcome)
        _print_claims(console, f"{name}: {summary}", outcome.claims)
        _terminal.note(f"{name} took {time.monotonic() - begin:.0f} s", arguments.quiet)
        sections.append(_markdown(name, summary, outcome.claims))
    _terminal.write_whole(folder / CLAIMS, lambda path: _write_text(path, "\n".join(sections)))
    console.print(f"Figures, the numbers behind them and these tables ({CLAIMS}) are in {folder}")
    return 0


def _checked(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in EXPERIMENTS:
            near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no experiment {name!r}, there are {', '.join(EXPERIMENTS)}{hint}")
    return list(dict.fromkeys(names)) or list(EXPERIMENTS)


class _Named:
    """The bar, with the experiment's name before each step."""

    def __init__(self, bar: _terminal.ProgressBar, name: str) -> None:
        self._bar = bar
        self._name = name

    def step(self, description: str, total: int | None = None) -> None:
        self._bar.step(f"{self._name}: {description}", total)

    def reach(self, done: int, total: int | None) -> None:
        self._bar.reach(done, total)


def _write(folder: Path, name: str, outcome: Outcome) -> None:
    from ishsmm_stream.experiments.outcome import plain

    for picture, figure in outcome.figures.items():
        _terminal.write_whole(folder / f"{picture}.png", figure.savefig)
    numbers = {"claims": [claim._asdict() for claim in outcome.claims], **outcome.numbers}
    text = json.dumps(plain(numbers), allow_nan=False) + "\n"
    _terminal.write_whole(folder / f"{name}.json", lambda path: _write_text(path, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _print_claims(console: Console, title: str, claims: Sequence[Claim]) -> None:
    from ishsmm_stream.experiments.outcome import HOLDS

    table = _report.make_table(title=title)
    for column, ratio in (("claim", 5), ("ours", 6), ("verdict", 2)):
        table.add_column(column, ratio=ratio)
    table.expand = True
    for claim in claims:
        table.add_row(claim.paper, claim.ours, claim.verdict, style="" if claim.verdict == HOLDS else "bold yellow")
    console.print(table)
    console.print()


def _markdown(name: str, summary: str, claims: Sequence[Claim]) -> str:
    rows: list[Any] = [f"| {claim.paper} | {claim.ours} | {claim.verdict} |" for claim in claims]
    return "\n".join([f"## {name}: {summary}", "", "| claim | ours | verdict |", "|---|---|---|", *rows, ""])
