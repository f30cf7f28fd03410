"""Memory for the states of many detectors, side by side, so that one compiled call serves many of them.

A pool has slabs, and a slab has slots, one for each detector. A slab's arrays are those of one detector with one more
dimension, the slot. A detector works with views of its slot. A slot is free again when its detector is gone.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

_LARGEST = 64  # slots of a slab; the first of a pool has one, each further one twice as many


def _mapped(function: Callable[..., Any], state: Any, *others: Any) -> Any:
    """Apply a function to all arrays of a state: a NamedTuple of arrays, or of such NamedTuples."""
    if isinstance(state, np.ndarray):
        return function(state, *others)
    return type(state)(*(_mapped(function, *parts) for parts in zip(state, *others, strict=True)))


class Slab:
    """Memory for several states like ``empty``."""

    def __init__(self, empty: Any, slots: int) -> None:
        self.arrays = _mapped(lambda array: np.empty((slots, *array.shape), array.dtype), empty)
        self.free = list(range(slots))


class Slot:
    """One detector's part of a slab; all of its ``state`` is views."""

    def __init__(self, slab: Slab, number: int) -> None:
        self.slab = slab
        self.number = number
        self.state = _mapped(lambda array: array[number], slab.arrays)


class Pool:
    """The slabs of one kind of state. ``make_empty`` makes a state that has seen nothing."""

    def __init__(self, make_empty: Callable[[], Any]) -> None:
        self._empty = make_empty()
        self._slabs: list[Slab] = []
        self._lock = threading.Lock()

    def take_slot(self, state: Any = None) -> Slot:
        """Return a free slot with a copy of ``state`` in it, or with a state that has seen nothing."""
        with self._lock:
            slab = next((slab for slab in self._slabs if slab.free), None)
            if slab is None:
                slab = Slab(self._empty, min(_LARGEST, 2 ** len(self._slabs)))
                self._slabs.append(slab)
            slot = Slot(slab, slab.free.pop())
        weakref.finalize(slot, slab.free.append, slot.number)
        _mapped(np.copyto, slot.state, self._empty if state is None else state)
        return slot
