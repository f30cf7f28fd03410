"""One table on the terminal, printed row by row so that a long run shows what it has."""

from __future__ import annotations

import textwrap


class Table:
    """What the columns mean, in words; then columns by name and width, a negative width setting text to the left."""

    def __init__(self, meaning: str, **columns: int) -> None:
        self.widths = list(columns.values())
        print(textwrap.fill(meaning, 120))
        self.row(*(name.replace("_", " ") for name in columns))

    def row(self, *cells: str) -> None:
        texts = [f"{cell:>{w}}" if w > 0 else f"{cell:<{-w}}" for cell, w in zip(cells, self.widths, strict=True)]
        print("  ".join(texts).rstrip(), flush=True)
