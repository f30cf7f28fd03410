"""``ishsmm-stream fit``: a series in a CSV file, its change points and states."""

from __future__ import annotations

import argparse
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ishsmm_stream.commands import _models, _read, _report, _result, _terminal
from ishsmm_stream.model.catalogue import OFFERED_DURATIONS, OFFERED_EMISSIONS, PRESETS, RECURRING, WITH_STATES

if TYPE_CHECKING:
    from ishsmm_stream import Model, Posterior

METHODS = ("auto", "beam")
SLICES = ("transition", "paper")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("data", metavar="DATA.csv", help="CSV file with a header; - for stdin")
    parser.add_argument(
        "--column", action="append", default=[], metavar="NAME",
        help="column to fit; several, repeated or comma separated, are one multivariate series "
        "(default: the only numeric column). Empty cells, nan and NA are missing",
    )  # fmt: skip
    model = parser.add_argument_group("model")
    model.add_argument(
        "--model",
        default="ilr",
        metavar="NAME",
        help=f"{', '.join(PRESETS)}; or {RECURRING}, which needs no priors (default: ilr)",
    )
    model.add_argument("--states", type=int, metavar="K", help=f"states of {' and '.join(WITH_STATES)}")
    model.add_argument(
        "--emission", metavar="NAME",
        help=f"{', '.join(OFFERED_EMISSIONS)} (default: normal, multivariate_normal for several columns)",
    )  # fmt: skip
    model.add_argument("--duration", metavar="NAME", help=f"{', '.join(OFFERED_DURATIONS)} (default: poisson)")
    model.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="a number of a prior, such as emission.shape=2, duration.scale=50, alpha1=3 or 'alpha1=gamma(2,1)'; "
        "repeatable (default: scaled to the data)",
    )  # fmt: skip
    sampler = parser.add_argument_group("sampler")
    sampler.add_argument("--draws", type=int, default=1000, help="draws kept of each chain (default: 1000)")
    sampler.add_argument("--burn-in", type=int, default=100, help="sweeps before them (default: 100)")
    sampler.add_argument("--chains", type=int, default=4, help="chains (default: 4)")
    sampler.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    sampler.add_argument("--temperature", type=float, default=3.0, help="reach of the slices (default: 3)")
    sampler.add_argument("--slice", metavar="NAME", help=f"{' or '.join(SLICES)} (default: by model)")
    sampler.add_argument(
        "--method", default="auto", metavar="NAME", help="auto: exact draws for ilr; beam: the sampler (default: auto)"
    )
    sampler.add_argument("--max-states", type=int, default=512, help="stop where more are needed (default: 512)")
    sampler.add_argument(
        "--rungs", type=int, default=1,
        help="with each chain go this many less one that see fewer readings, for chains that disagree (default: 1)",
    )  # fmt: skip
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="FILE.json", help="write everything to this file")
    output.add_argument("--plot", metavar="FILE.png", help="write a picture to this file")
    output.add_argument("--quiet", action="store_true", help="no progress and no notes on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Fit, write, print."""
    from ishsmm_stream import __version__

    request = _models.Request(
        arguments.model, arguments.emission, arguments.duration, arguments.states, arguments.settings
    )
    _models.check_request(request)
    _check_sampler(arguments)
    out = _terminal.check_output("--out", arguments.out)
    picture = _terminal.check_output("--plot", arguments.plot)
    plots = _terminal.import_plots("--plot", picture) if picture else None
    columns = [name.strip() for given in arguments.column for name in given.split(",")]
    series = _read.read_series(arguments.data, columns)
    built = _models.build_model(request, series)

    draws_exactly = built.model.is_renewal and arguments.method == "auto"
    _terminal.note_compilation(built.model, draws_exactly, arguments.quiet)
    with _terminal.ProgressBar(arguments.quiet) as bar:
        fit = _fit(series, built.model, arguments, bar)
        bar.step("summing up")
        settings = {
            "data": arguments.data,
            "columns": series.columns,
            **built.settings,
            **{name: getattr(arguments, name) for name in _SAMPLER_SETTINGS},
            "version": __version__,
        }
        result = _result.make_result(fit, settings)
        if out:
            _terminal.write_whole(out, lambda path: _result.write_json(path, result))
        if picture and plots:
            bar.step("drawing")
            _terminal.write_whole(
                picture, lambda path: plots.plot_posterior(*fit, y_label=list(series.columns), path=path)
            )
    _report.print_report(_report.make_console(), result)
    for path in filter(None, (out, picture)):
        _terminal.note(f"wrote {path}", arguments.quiet)
    return 0


_SAMPLER_SETTINGS = ("draws", "burn_in", "chains", "seed", "temperature", "slice", "method", "max_states", "rungs")


def _check_sampler(arguments: argparse.Namespace) -> None:
    from ishsmm_stream import _checks

    for name, at_least in (("draws", 1), ("burn_in", 0), ("chains", 1), ("seed", 0), ("max_states", 1), ("rungs", 1)):
        _checks.whole(f"--{name.replace('_', '-')}", getattr(arguments, name), at_least)
    _checks.positive("--temperature", arguments.temperature)
    _checks.one_of("--method", arguments.method, METHODS)
    if arguments.slice is not None:
        _checks.one_of("--slice", arguments.slice, SLICES)


def _fit(series: _read.Series, model: Model, arguments: argparse.Namespace, bar: _terminal.ProgressBar) -> _result.Fit:
    """Draws by the method asked for; where no state returns, the exact posterior with them."""
    import ishsmm_stream as hs

    if not model.is_renewal:
        return _result.Fit(_sample(series, model, arguments, bar), None)
    bar.step("exact posterior")
    exact = hs.exact_posterior(series.values, model)
    bar.step("draws")
    drawn = exact.draw(arguments.draws, arguments.seed, arguments.chains)
    if arguments.method == "auto":
        return _result.Fit(drawn, exact)
    # The states are told of the most probable segmentation, which is known here and need not be among the draws.
    posterior = _sample(series, model, arguments, bar)
    posterior.reference = drawn.reference
    return _result.Fit(posterior, exact)


def _sample(series: _read.Series, model: Model, arguments: argparse.Namespace, bar: _terminal.ProgressBar) -> Posterior:
    """``sample`` in a thread of its own, so that Ctrl-C stops the chains at their next sweep."""
    import ishsmm_stream as hs

    stopped = threading.Event()

    def report(done: int, total: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        bar.reach(done, total)

    warnings.simplefilter("ignore", hs.ConvergenceWarning)  # the report has it

    def work() -> Any:
        return hs.sample(
            series.values, model, draws=arguments.draws, burn_in=arguments.burn_in, chains=arguments.chains,
            seed=arguments.seed, temperature=arguments.temperature, slice=arguments.slice, method=arguments.method,
            progress=report, max_states=arguments.max_states, rungs=arguments.rungs,
        )  # fmt: skip

    bar.step("sampling", total=arguments.chains * (arguments.burn_in + arguments.draws))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            stopped.set()
            raise
        except hs.StateLimitError as error:
            raise ValueError(f"{error} (--max-states, --temperature, --slice)") from None
