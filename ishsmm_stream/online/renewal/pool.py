"""Where the states of detectors lie: those of one kind side by side, so that one compiled call serves many of them.

A block has rooms, one a detector. Its arrays are those of one detector with a dimension more, the room, and what a
detector works with are views of its room. A room is free again when its detector is gone.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

_LARGEST = 64  # rooms of a block; the first of a kind has one, each further one twice as many


def _stacked(state: Any, rooms: int) -> Any:
    """Arrays for so many states like this one."""
    if isinstance(state, np.ndarray):
        return np.empty((rooms, *state.shape), state.dtype)
    return type(state)(*(_stacked(part, rooms) for part in state))


def _view(arrays: Any, room: int) -> Any:
    if isinstance(arrays, np.ndarray):
        return arrays[room]
    return type(arrays)(*(_view(part, room) for part in arrays))


def _fill(state: Any, source: Any) -> None:
    if isinstance(state, np.ndarray):
        state[...] = source
    else:
        for part, other in zip(state, source, strict=True):
            _fill(part, other)


class Block:
    """Room for several states of one kind: ``arrays`` is a NamedTuple of arrays, or of such NamedTuples."""

    def __init__(self, empty: Any, rooms: int) -> None:
        self.arrays = _stacked(empty, rooms)
        self.free = list(range(rooms))


class Room:
    """A place in a block with its ``state``, which is all views."""

    def __init__(self, block: Block, number: int) -> None:
        self.block = block
        self.number = number
        self.state = _view(block.arrays, number)


class House:
    """The blocks of one kind of state. ``make_empty`` makes a state that has seen nothing."""

    def __init__(self, make_empty: Callable[[], Any]) -> None:
        self._empty = make_empty()
        self._blocks: list[Block] = []
        self._lock = threading.Lock()

    def room(self, state: Any = None) -> Room:
        """A free room with a copy of ``state`` in it, or with a state that has seen nothing."""
        with self._lock:
            block = next((block for block in self._blocks if block.free), None)
            if block is None:
                block = Block(self._empty, min(_LARGEST, 2 ** len(self._blocks)))
                self._blocks.append(block)
            room = Room(block, block.free.pop())
        weakref.finalize(room, block.free.append, room.number)
        _fill(room.state, self._empty if state is None else state)
        return room
