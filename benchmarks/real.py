"""How well alarms work on real sensors: their rate against the promise, and which faults they find.

    python benchmarks/real.py --data FOLDER [--quick] [--only SECTION ...] [--readings N]

The folder has subfolders, each optional: ``nab`` (CSV files in one subfolder per group, windows.json, peers.json),
``streams`` (CSV files, every numeric column is a series), ``skab`` (the fault-free run, anomaly-free.csv) and
``telemetry`` (one channel per CSV file, labels.json). Files may be gzipped. Without the folder only sections with
synthetic streams run. One detector follows one column.

Sections: nab, telemetry (labelled faults); rate, synthetic, reliability, cold (realised against promised rates);
planted, planted-long (faults planted in real and in synthetic backgrounds).

At 3 microseconds per reading the section synthetic takes about 35 minutes of CPU time: 20 kinds of 34 million readings.
``--readings 2e6`` takes 5 minutes. The other sections take 5 minutes together, ``--quick`` 20 seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import alarm_power
import alarm_rates
import recordings
from sections import Line, Setup
from table import Table

Section = Callable[[Setup], list[Line]]
SECTIONS: dict[str, tuple[Section, str]] = {  # the section, and the data that it needs
    "nab": (alarm_power.nab, "nab"),
    "telemetry": (alarm_power.telemetry, "telemetry"),
    "rate": (alarm_rates.rate, "series"),
    "synthetic": (alarm_rates.synthetic, ""),
    "reliability": (alarm_rates.reliability, ""),
    "cold": (alarm_rates.cold, ""),
    "planted": (alarm_power.planted, "series"),
    "planted-long": (alarm_power.planted_long, ""),
}


def has(setup: Setup, needed: str) -> bool:
    """Return whether the data that a section needs are there."""
    if needed == "series":
        return bool(setup.series)
    return not needed or setup.folder(needed) is not None


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of recordings; without it only synthetic sections run")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, the figures are noise")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument(
        "--readings", type=float, default=3e7,
        help="most readings per kind and budget in the section synthetic (default 3e7)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data {options.data}: no such folder")
    series = recordings.load(options.data) if options.data is not None else []
    setup = Setup(options.data, options.quick, options.readings, series)
    lines = []
    for name in options.only or SECTIONS:
        section, needed = SECTIONS[name]
        if not has(setup, needed):
            print(f"{name}: skipped, --data has no {needed}\n")
            continue
        begin = time.perf_counter()
        lines += section(setup)
        print(f"({name}: {time.perf_counter() - begin:.1f} s)\n")
    table = Table("SUMMARY", figure_of=-56, measured=-34, goal=-40)
    for line in lines:
        table.row(*line)


if __name__ == "__main__":
    main()
