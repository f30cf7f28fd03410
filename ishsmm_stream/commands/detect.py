"""``ishsmm-stream detect``: rows in, from a file or a pipe; changes out, as they are noticed."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ishsmm_stream.commands import _detection, _models, _read, _report, _result, _rows, _sensors, _terminal
from ishsmm_stream.model.catalogue import OFFERED_DURATIONS, OFFERED_EMISSIONS, RECURRING

if TYPE_CHECKING:
    import numpy as np

    from ishsmm_stream import OnlineDetector

AUTO = "auto"
MODELS = (AUTO, RECURRING, "ilr")
MOST_PICTURED = 6
_ROWS_AT_ONCE = 4096
# Of a model other than auto: values of a sensor that its priors are scaled to, and the length its durations expect ten
# changes in.
_FIRST_VALUES = 50
_TYPICAL_LENGTH = 5000
_MOST_CHANGES = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("data", metavar="DATA", help="CSV file with a header, or JSON lines; - for stdin")
    parser.add_argument(
        "--column", action="append", default=[], metavar="NAME",
        help="column to follow; several, repeated or comma separated, are one multivariate series (default: the only "
        "column beside those of sensor and time). Empty cells, nan, NA and null are missing",
    )  # fmt: skip
    parser.add_argument("--sensor-column", metavar="NAME", help="column that names the sensor; each is followed apart")
    parser.add_argument("--time-column", metavar="NAME", help="column to show beside the index")
    parser.add_argument("--format", default=AUTO, metavar="NAME", help="auto, csv or jsonl (default: auto)")
    model = parser.add_argument_group("model")
    model.add_argument(
        "--model", default=AUTO, metavar="NAME",
        help="auto and recurring need no settings; recurring knows states that return. ilr is that of fit, with the "
        "three options below (default: auto)",
    )  # fmt: skip
    model.add_argument("--emission", metavar="NAME", help=f"{', '.join(OFFERED_EMISSIONS)} (default: normal)")
    model.add_argument("--duration", metavar="NAME", help=f"{', '.join(OFFERED_DURATIONS)} (default: poisson)")
    model.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="a number of a prior, such as emission.shape=2 or duration.scale=50; repeatable (default: scaled to the "
        f"first {_FIRST_VALUES} values of each sensor, which are waited for where a number needs them)",
    )  # fmt: skip
    alarms = parser.add_argument_group("alarms and changes")
    alarms.add_argument(
        "--every", type=float, default=1000.0, metavar="N",
        help="budget: at most one alarm in N rows of a sensor, on average (default: 1000)",
    )  # fmt: skip
    alarms.add_argument(
        "--threshold", type=float, metavar="P", help="probability at which a change is announced (default: 0.98)"
    )
    alarms.add_argument("--lag", type=int, default=64, help="rows after which a change is settled (default: 64)")
    alarms.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="FILE.json", help="write everything to this file at the end")
    output.add_argument("--events", metavar="FILE.jsonl", help="write events to this file as they happen, one a line")
    output.add_argument(
        "--plot", metavar="FILE.png", help=f"write a picture to this file at the end, of up to {MOST_PICTURED} sensors"
    )
    output.add_argument("--quiet", action="store_true", help="no progress and no notes on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Follow, print, write."""
    out = _terminal.check_output("--out", arguments.out)
    event_path = _terminal.check_output("--events", arguments.events)
    picture = _terminal.check_output("--plot", arguments.plot)
    plots = _terminal.import_plots("--plot", picture) if picture else None
    columns = [name.strip() for given in arguments.column for name in given.split(",")]
    recipe = _Recipe(arguments, columns)

    with ExitStack() as stack:
        lines = stack.enter_context(_rows.open_lines(arguments.data))
        stack.enter_context(lines.ending_on_interrupt())
        wanted = _rows.Wanted(columns, arguments.sensor_column, arguments.time_column, recipe.whole_below)
        reader = _rows.RowReader(lines, wanted, arguments.format)
        bar = stack.enter_context(_terminal.ProgressBar(arguments.quiet))
        recipe.compile(bar)
        sensors = _sensors.Sensors(recipe.make_detector, recipe.n_first, MOST_PICTURED if picture else 0)
        journal = _detection.Journal(
            _detection.EventPrinter(arguments.sensor_column, arguments.time_column),
            stack.enter_context(open(event_path, "w", encoding="utf-8")) if event_path else None,
            keeps_all=out is not None,
            quiet=arguments.quiet,
        )
        _follow(reader, lines, sensors, journal, bar)
        bar.step("summing up")
        result = _make_result(arguments, reader, lines, sensors, journal)
        if out:
            _terminal.write_whole(out, lambda path: _result.write_json(path, result))
        if picture and plots and sensors.all:
            bar.step("drawing")
            _terminal.write_whole(
                picture, lambda path: _detection.draw(plots, sensors, reader.columns, arguments.time_column, path)
            )
    _detection.print_summary(_report.make_console(), result)
    for path in filter(None, (out, event_path, picture if sensors.all else None)):
        _terminal.note(f"wrote {path}", arguments.quiet)
    if lines.is_interrupted:
        raise KeyboardInterrupt
    return 0


class _Recipe:
    """How detectors are made. ValueError where the options are not in order, whatever the data are."""

    def __init__(self, arguments: argparse.Namespace, columns: Sequence[str]) -> None:
        from ishsmm_stream import _checks

        _checks.one_of("--model", arguments.model, MODELS)
        _checks.one_of("--format", arguments.format, _rows.FORMATS)
        _checks.whole("--lag", arguments.lag, 8)
        _checks.whole("--seed", arguments.seed, 0)
        if arguments.threshold is not None and not 0.0 < arguments.threshold < 1.0:
            raise ValueError(f"--threshold must lie between 0 and 1, got {arguments.threshold:g}")
        if not 100.0 <= arguments.every < math.inf:
            raise ValueError(f"--every must be at least 100 rows, got {arguments.every:g}")
        self._arguments = arguments
        self._columns = tuple(columns) or ("value",)
        self._request = None
        self.n_first = 0
        self.whole_below: float | None = None
        if arguments.model == "ilr":
            self._request = _models.Request(
                arguments.model, arguments.emission, arguments.duration, None, arguments.settings
            )
            self.whole_below = self._highest_count()
            is_set = self._build(self._two_rows(0.0)).model == self._build(self._two_rows(1.0)).model
            self.n_first = 0 if is_set else _FIRST_VALUES
        elif arguments.emission or arguments.duration or arguments.settings:
            raise ValueError(
                f"--emission, --duration and --set are for --model ilr; {arguments.model} needs no settings"
            )

    def _highest_count(self) -> float | None:
        """What values must stay below where they are whole numbers."""
        assert self._request is not None
        emission = self._build(self._two_rows()).model.emission
        if self._request.emission == "poisson":
            return math.inf
        if self._request.emission != "categorical":
            return None
        if not any(re.match(r"\s*emission\.(categories|concentration=.*,)", text) for text in self._request.settings):
            raise ValueError("--emission categorical needs --set emission.categories=K: a stream may have more to come")
        return float(len(emission.concentration))

    def make_detector(self, first: np.ndarray) -> tuple[OnlineDetector, dict[str, Any]]:
        """A detector, with priors scaled to ``first`` where the model has some, and all of their numbers."""
        import ishsmm_stream as hs

        model: Any = self._arguments.model
        settings: dict[str, Any] = {}
        if self._request is not None:
            model, settings = self._build(first if len(first) else self._two_rows())
        arguments = self._arguments
        policy = hs.AlarmPolicy(every=arguments.every)
        if arguments.threshold is not None:
            policy = hs.AlarmPolicy(
                threshold=arguments.threshold, retract=min(0.5, arguments.threshold), every=arguments.every
            )
        detector = hs.OnlineDetector(
            model, alarm_policy=policy, lag=arguments.lag, seed=arguments.seed, keep=_MOST_CHANGES
        )
        return detector, settings

    def compile(self, bar: _terminal.ProgressBar) -> None:
        """Compile the kernels before the first row needs them."""
        import numpy as np

        from ishsmm_stream.model.emissions import MultivariateNormal
        from ishsmm_stream.online.regimes.chains import RegimeChains
        from ishsmm_stream.online.renewal.adaptive import Adaptive

        detector, _ = self.make_detector(self._two_rows())
        family: type = MultivariateNormal if len(self._columns) > 1 else Adaptive
        if self._request is not None:
            family = type(detector.model.emission)  # type: ignore[union-attr]
        if self._arguments.model == RECURRING:
            family = RegimeChains
        if _terminal.cache_is_cold("online", "engine.*", [family]):
            _terminal.note(_terminal.COMPILING, self._arguments.quiet)
        bar.step("preparing kernels")
        detector.update_many(np.zeros((12, len(self._columns))))

    def _build(self, first: np.ndarray) -> _models.Built:
        assert self._request is not None
        series = _read.Series("data", self._columns, first, ())
        return _models.build_model(self._request, series, _TYPICAL_LENGTH)

    def _two_rows(self, step: float = 0.0) -> np.ndarray:
        """Data to try things out on."""
        import numpy as np

        return np.array([[0.0] * len(self._columns), [step] * len(self._columns)])


def _follow(
    reader: _rows.RowReader, lines: _rows.Lines, sensors: _sensors.Sensors, journal: _detection.Journal,
    bar: _terminal.ProgressBar,
) -> None:  # fmt: skip
    """All rows, as many at once as are at hand."""
    bar.step("following")
    batch: list[_rows.Row] = []
    for row in reader:
        if isinstance(row, _rows.BadRow):
            journal.set_aside(row)
        else:
            batch.append(row)
        if len(batch) >= _ROWS_AT_ONCE or not lines.are_at_hand:
            journal.record(sensors.take(batch))
            batch.clear()
            bar.reach(lines.n_bytes, lines.size, f"{sensors.n_rows:,} rows")
    journal.record(sensors.take(batch))
    journal.record(sensors.end())


def _make_result(
    arguments: argparse.Namespace, reader: _rows.RowReader, lines: _rows.Lines, sensors: _sensors.Sensors,
    journal: _detection.Journal,
) -> dict[str, Any]:  # fmt: skip
    """Everything, as --out writes it."""
    from ishsmm_stream import __version__

    names = ("data", "sensor_column", "time_column", "model", "every", "threshold", "lag", "seed")
    return {
        "settings": {
            **{name: getattr(arguments, name) for name in names},
            "format": reader.format,
            "columns": reader.columns,
            "version": __version__,
        },
        "n_observations": sensors.n_rows,
        "n_bad_rows": journal.n_bad_rows,
        "is_interrupted": lines.is_interrupted,
        "sensors": [sensor.summary() for sensor in sensors.all.values()],
        "events": journal.events,
        "bad_rows": [row._asdict() for row in journal.bad_rows],
    }
