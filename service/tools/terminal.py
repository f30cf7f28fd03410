"""Tables and words for people at a terminal; the same without colours where the output is a file."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from rich import box
from rich.console import Console
from rich.table import Table

_WIDTH_OF_FILES = 140


def console() -> Console:
    """Stdout, wide enough for tables where it is a file."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES, highlight=False, markup=False, emoji=False)


def table(*heads: str, left: tuple[str, ...] = (), wraps: tuple[str, ...] = ()) -> Table:
    """A table with these columns, numbers to the right but for those ``left``."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        is_left = head in left or head in wraps
        made.add_column(head, justify="left" if is_left else "right", no_wrap=head not in wraps)
    return made


def show(out: Console, made: Table) -> None:
    """Print a table without blanks at the ends of its lines, which rich leaves there."""
    if out.is_terminal:
        out.print(made)
        return
    with out.capture() as captured:
        out.print(made)
    for line in captured.get().splitlines():
        out.print(line.rstrip(), soft_wrap=True)


def several(count: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun.

    >>> several(1, "alarm"), several(1200, "alarm")
    ('1 alarm', '1,200 alarms')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def moment(time: int) -> str:
    """Microseconds since the epoch as a date in UTC, to the second.

    >>> moment(1_700_000_000_250_000)
    '2023-11-14 22:13:20'
    """
    return datetime.fromtimestamp(time // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def lasting(seconds: float) -> str:
    """A duration in the unit that suits it.

    >>> lasting(0.25), lasting(90), lasting(5400), lasting(200_000)
    ('0.25 s', '90 s', '90 min', '2.3 d')
    """
    for size, unit in ((86_400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(seconds) >= 2.0 * size:
            return f"{seconds / size:.2g} {unit}" if abs(seconds) < 10.0 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.3g} s"


def rate(number: float | None) -> str:
    """A number of things per something.

    >>> rate(0.0333), rate(12.34), rate(None)
    ('0.033', '12', '-')
    """
    if number is None:
        return "-"
    return f"{number:.2g}" if number < 10.0 else f"{number:,.0f}"


def share(number: float | None) -> str:
    """A share in percent.

    >>> share(0.875), share(None)
    ('88 %', '-')
    """
    return "-" if number is None else f"{100.0 * number:.0f} %"


def two_digits(number: float | None) -> str:
    """A score between 0 and 1.

    >>> two_digits(0.666), two_digits(None)
    ('0.67', '-')
    """
    return "-" if number is None else f"{number:.2f}"
