"""``ishsmm-stream demo``: the coal-mining disasters from data to picture."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from ishsmm_stream.commands import _report, _result, _terminal

DRAWS = 2000
_CHUNK = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("--out", default="out", metavar="FOLDER", help="folder for the picture (default: out)")


def run(arguments: argparse.Namespace) -> int:
    """Infer, print the change points in years, write the picture."""
    import ishsmm_stream as hs

    plots = _terminal.import_plots()
    picture = Path(arguments.out) / "coal.png"
    os.makedirs(picture.parent, exist_ok=True)
    _terminal.check_output("--out", str(picture))

    years, counts = hs.datasets.coal_disasters()
    model = hs.ilr(hs.emissions.Poisson(shape=1.0, rate=1.0), hs.durations.Poisson(shape=1.0, scale=100.0))
    console = _report.make_console()
    console.print(
        f"British coal-mining disasters a year, {years[0]} to {years[-1]}: {counts.sum()} in {len(years)} years.\n"
        "Model ilr: each segment of years has its own rate of disasters, a priori Gamma(shape 1, rate 1), and lasts\n"
        f"101 years on average. The posterior is computed exactly; {DRAWS} draws from it are for the picture.\n"
    )
    _terminal.note_compilation(model, exact=True)
    with _terminal.ProgressBar() as bar:
        bar.step("preparing kernels")
        hs.exact_posterior(counts[:3], model).draw(1)
        bar.step("exact posterior")
        exact = hs.exact_posterior(counts, model)
        bar.step("draws", total=DRAWS)
        draws: list[Any] = []
        while len(draws) < DRAWS:
            draws += exact.draw(_CHUNK, seed=len(draws)).draws
            bar.reach(len(draws), DRAWS)
        bar.step("picture")
        posterior = hs.Posterior(model, exact.draw(1).y, [draws])
        _terminal.write_whole(
            picture,
            lambda path: plots.plot_posterior(
                posterior, exact, x=years, title="British coal-mining disasters", y_label="disasters a year", path=path
            ),
        )
    result = _result.make_result(_result.Fit(posterior, exact), {})
    _report.print_change_points(console, result, "year", lambda index: str(years[index]))
    _report.print_numbers(console, "change points", result["n_changes"])
    console.print(f"\nThe picture is in {picture}: data and rate above, the probability of a change each year below.")
    console.print("Your own data: ishsmm-stream fit DATA.csv --plot fit.png (see ishsmm-stream fit --help)")
    return 0
