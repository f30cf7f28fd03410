"""The nearest known name, for messages about unknown ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"``, or the known names where none is near.

    >>> nearest("treshold", ["threshold", "retract"])
    "; did you mean 'threshold'?"
    >>> nearest("zzz", ["threshold", "retract"])
    '; known are retract, threshold'
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(names))}"
