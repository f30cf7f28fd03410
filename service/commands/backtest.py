"""``ishsmm-stream backtest``: the alarms and changes of a configuration on readings that are there already."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from service.sources.arguments import add_file_arguments

if TYPE_CHECKING:
    from service.settings import Settings
    from service.tools.backtest.report import Trial
    from service.tools.backtest.scoring import Labels, Margin
    from service.wire.decoding import Decoder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")
    parser.add_argument("--file", type=Path, metavar="FILE", help="replay this file; default: the configured source")
    parser.add_argument("--topic", metavar="NAME", help="replay this topic; nothing is committed")
    parser.add_argument("--from", dest="begin", metavar="TIME", help="records of the topic from then on, RFC 3339")
    parser.add_argument("--to", dest="end", metavar="TIME", help="records of the topic before then, RFC 3339")
    judging = parser.add_argument_group("judging")
    judging.add_argument(
        "--labels", type=Path, metavar="FILE", help="CSV with sensor, and time or index, of true changes"
    )
    judging.add_argument(
        "--margin", default="10", metavar="SIZE", help="how far off is still right: readings, or 30s, 5min, 2h (10)"
    )
    judging.add_argument(
        "--alarm-margin", metavar="SIZE", help="how long after a label an alarm may begin (ten times --margin)"
    )
    judging.add_argument(
        "--thresholds", metavar="P,P,...", help="count changes with each of these in place of the rules' thresholds"
    )
    judging.add_argument("--compare", type=Path, metavar="FILE", help="another configuration, side by side")
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="FOLDER", help="events, report.json, and a page with pictures")
    output.add_argument("--pictures", type=int, default=None, metavar="N", help="at most so many (24; 0: none)")
    output.add_argument("--all", action="store_true", help="a table for every sensor, however many")
    add_file_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay, judge, print, write."""
    from service.settings import load
    from service.tools.backtest import report, scoring
    from service.tools.backtest.replay import with_threshold
    from service.tools.terminal import console

    settings = load(arguments.config, os.environ)
    settings.check()
    margin = scoring.read_margin(arguments.margin)
    late = margin._replace(size=10.0 * margin.size)
    if arguments.alarm_margin is not None:
        late = scoring.read_margin(arguments.alarm_margin, "--alarm-margin")
    labels = scoring.read_labels(arguments.labels) if arguments.labels else None
    thresholds = _thresholds(arguments.thresholds)
    compared = load(arguments.compare, os.environ) if arguments.compare else None
    if compared is not None:
        compared.check()
    if arguments.pictures is not None and arguments.pictures < 0:
        raise ValueError(f"--pictures takes a number from 0, got {arguments.pictures}")
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    tries = _Tries(arguments, labels, margin, late)

    name = arguments.config.name if arguments.config else "the defaults"
    source = tries.source(settings)
    trials = [tries.take(name, settings)]
    out = console()
    report.print_trial(out, trials[0], source.name, arguments.all)
    steps = [report.Step(p, tries.take(f"{p:g}", with_threshold(settings, p))) for p in thresholds]
    if steps:
        report.print_sweep(out, steps)
    if compared is not None:
        other = arguments.compare.name if arguments.compare.name != name else str(arguments.compare)
        trials.append(tries.take(other, compared))
        report.print_comparison(out, trials[0], trials[1], margin, None if arguments.all else 40)
    if arguments.out is not None:
        _write(arguments, trials, steps, source.name, margin, labels)
    return 0


class _ReplaySource(NamedTuple):
    records: Iterable[Any]
    decode: Decoder
    through_readings: bool
    name: str


class _Tries:
    """Runs configurations on the source that the line names."""

    def __init__(self, arguments: argparse.Namespace, labels: Labels | None, margin: Margin, late: Margin) -> None:
        if arguments.file is not None and arguments.topic is not None:
            raise ValueError("--file and --topic are given: keep one of them")
        self._arguments = arguments
        self._labels, self._margin, self._late = labels, margin, late

    def take(self, name: str, settings: Settings) -> Trial:
        from service.tools.backtest import report, scoring
        from service.tools.backtest.replay import replay
        from service.tools.progress import Progress

        source = self.source(settings)
        with Progress(name) as progress:
            result = replay(
                settings, source.records, source.decode, through_readings=source.through_readings, progress=progress
            )
        if self._labels is None:
            return report.Trial(name, result, None)
        sensors = result.sensors.values()
        times = {sensor.name: sensor.times for sensor in sensors}
        changes = {sensor.name: sensor.changes for sensor in sensors}
        alarms = {sensor.name: sensor.alarms for sensor in sensors}
        return report.Trial(
            name, result, scoring.score(changes, times, self._labels, self._margin, result.days),
            scoring.score(alarms, times, self._labels, self._margin, result.days, self._late),
        )  # fmt: skip

    def source(self, settings: Settings) -> _ReplaySource:
        """What is replayed, as the configuration reads it."""
        from service.deployment import deployment_of
        from service.sources.arguments import FileRecords, file_source

        arguments, path = self._arguments, self._arguments.file
        if path is None and arguments.topic is None and deployment_of(settings).mode == "embedded":
            path = settings.source.file.path
            if "file" not in settings.source.kinds or path is None:
                raise ValueError("the configuration's source keeps no readings to replay: give --file or --topic")
        if path is not None:
            if arguments.begin or arguments.end:
                raise ValueError("--from and --to are for topics")
            records = FileRecords(file_source(arguments, path, settings.source.file), settings)
            return _ReplaySource(records, records.decode, False, records.name)
        return self._topics(settings)

    def _topics(self, settings: Settings) -> _ReplaySource:
        from service.kafka.input import connection_of, reads_directly
        from service.tools.backtest.topics import TopicRecords, topics_that_match
        from service.wire.decoding import decoder

        arguments, connection = self._arguments, connection_of(settings)
        begin, end = _moment("--from", arguments.begin), _moment("--to", arguments.end)
        if arguments.topic is not None:
            topics = [arguments.topic]
            direct = settings.mapping.is_keyed_by_sensor
        elif settings.kafka.topics_pattern is not None:
            topics, direct = topics_that_match(connection, settings.kafka.topics_pattern), False
        else:
            topics, direct = list(settings.kafka.topics), reads_directly(settings)
        records = TopicRecords(connection, topics, begin, end, merged=not direct)
        decode = decoder(settings.mapping, settings.limits.record_bytes)
        return _ReplaySource(records, decode, not direct, ", ".join(topics))


def _thresholds(text: str | None) -> list[float]:
    found = []
    for part in (text or "").split(","):
        if not part.strip():
            continue
        try:
            threshold = float(part)
        except ValueError:
            threshold = -1.0
        if not 0.0 < threshold < 1.0:
            raise ValueError(f"--thresholds takes probabilities such as .9,.98,.999, got {part.strip()!r}")
        found.append(threshold)
    return found


def _moment(option: str, text: str | None) -> int | None:
    from service.tools.backtest.scoring import read_time

    return None if text is None else read_time(text, option) // 1000


def _write(
    arguments: argparse.Namespace, trials: list[Any], steps: list[Any], source: str, margin: Margin,
    labels: Labels | None,
) -> None:  # fmt: skip
    from service.tools.backtest import page, pictures, scoring
    from service.tools.progress import Progress

    result = trials[0].result
    known = scoring.places(labels or {}, {sensor.name: sensor.times for sensor in result.sensors.values()})
    most = pictures.MOST_PICTURES if arguments.pictures is None else arguments.pictures
    with Progress("drawing") as progress:
        drawn = pictures.draw(result, arguments.out, most, known, progress)
    page.write(arguments.out, trials, steps, source, margin, drawn)
    left_out = len(result.sensors) - len(drawn)
    rest = f"; --pictures {len(result.sensors)} draws the other {left_out} sensors too" if left_out and most else ""
    print(
        f"wrote {arguments.out / 'index.html'}, report.json, events.jsonl, {len(drawn)} pictures{rest}", file=sys.stderr
    )
