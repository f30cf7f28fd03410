"""One thread at a time for each detector.

Compiled code runs without the interpreter's lock, so two threads inside one detector would write over each other's
arrays. A call that finds another thread inside raises RuntimeError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

_Self = TypeVar("_Self")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _refused() -> RuntimeError:
    return RuntimeError(
        "another thread is using this detector; give every thread detectors of its own, or hold a threading.Lock "
        "around all calls of this one"
    )


def alone(
    method: Callable[Concatenate[_Self, _Arguments], _Result],
) -> Callable[Concatenate[_Self, _Arguments], _Result]:
    """Make a method of an object with a reentrant lock ``_lock`` raise RuntimeError while another thread is inside."""

    @functools.wraps(method)
    def guarded(self: Any, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        lock = self._lock
        if not lock.acquire(False):
            raise _refused()
        try:
            return method(self, *arguments, **named)
        finally:
            lock.release()

    return guarded


@contextmanager
def all_alone(users: Sequence[Any]) -> Iterator[None]:
    """The same for many objects at once; none of them is held if one is in use."""
    held = [lock for lock in [user._lock for user in users] if lock.acquire(False)]
    try:
        if len(held) < len(users):
            raise _refused()
        yield
    finally:
        for lock in held:
            lock.release()
