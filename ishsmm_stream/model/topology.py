"""Topologies: which states can follow which (paper: the restricting sets V_m).

A topology is a rule for the sets V_m of an infinite or finite state space. All of them are served by the same spatial
normalised gamma process; what differs is only the table that ``Topology.tables`` makes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks


class TopologyTables(NamedTuple):
    """A topology written out for the first ``capacity`` states. Row 0 is the start, row m + 1 belongs to state m."""

    allowed: np.ndarray  # (capacity + 1, capacity): whether state k can follow
    reaches_tail: np.ndarray  # (capacity + 1,): whether V_m holds every state beyond the row's horizon, or none
    horizon: np.ndarray  # (capacity + 1,): membership in V_m is the same for all states from this one on


@dataclass(frozen=True)
class Topology:
    """V_m = {k : allows(m, k)}, states counted from 0. Every state can come first.

    ``reach``: for k > m + reach, ``allows(m, k)`` no longer depends on k. The infinite tail of states is kept as one
    lump, so each V_m must hold all of it or none of it once the states up to m + reach are known one by one.
    ``states``: size of a finite state space, None for an infinite one.
    ``exchangeable``: the rule only asks whether k == m, so states carry no order and unused ones can be forgotten.
    ``never_returns``: a state once left cannot be reached again, which makes exact inference possible.
    """

    name: str
    allows: Callable[[int, int], bool]
    reach: int = 0
    states: int | None = None
    exchangeable: bool = False
    never_returns: bool = False

    def __post_init__(self) -> None:
        _checks.whole("reach", self.reach, at_least=0)
        if self.states is not None:
            _checks.whole("states", self.states, at_least=1)
        if not callable(self.allows):
            raise ValueError(f"allows must be a function of two states (m, k), got {self.allows!r}")

    @functools.lru_cache(maxsize=8)  # noqa: B019 (topologies are few and small)
    def tables(self, capacity: int) -> TopologyTables:
        """The rule evaluated for ``capacity`` states (a finite space ignores states that it does not have).

        The arrays are shared: do not change them.
        """
        size = capacity if self.states is None else self.states
        allowed = np.ones((size + 1, size), dtype=np.bool_)
        reaches_tail = np.full(size + 1, self.states is None)
        horizon = np.zeros(size + 1, dtype=np.int64)
        for m in range(size):
            allowed[m + 1] = self._row(m, size)
            if self.states is None:
                horizon[m + 1] = m + self.reach + 1
                reaches_tail[m + 1] = bool(self.allows(m, m + self.reach + 1))
                beyond = allowed[m + 1, m + self.reach + 1 :]
                after = bool(self.allows(m, m + self.reach + 2))
                if after != reaches_tail[m + 1] or (beyond != reaches_tail[m + 1]).any():
                    raise ValueError(
                        f"reach = {self.reach} is too small for topology {self.name!r}: from state {m}, the states "
                        f"beyond {m + self.reach} are not all in or all out"
                    )
            if not allowed[m + 1].any() and not reaches_tail[m + 1]:
                within = "" if self.states is None else f" of the {self.states} states"
                raise ValueError(f"topology {self.name!r}: no state{within} can follow state {m}")
        if self.exchangeable:  # no order, so nothing needs to be known one by one
            horizon[:] = 0
        return TopologyTables(allowed, reaches_tail, horizon)

    def _row(self, m: int, size: int) -> Any:
        """Which of the first ``size`` states can follow m: in one call if the rule takes arrays, else one by one."""
        try:
            return np.broadcast_to(np.asarray(self.allows(m, np.arange(size)), dtype=np.bool_), size)  # type: ignore
        except (TypeError, ValueError):
            return [bool(self.allows(m, k)) for k in range(size)]


def _differs(m: int, k: int) -> bool:
    return k != m


def _is_later(m: int, k: int) -> bool:
    return k > m


def _is_any(m: int, k: int) -> bool:
    return True


def no_self_transition() -> Topology:
    """V_m = all but m: the explicit-duration models (IED-HMM)."""
    return Topology("no_self_transition", _differs, exchangeable=True)


def left_to_right() -> Topology:
    """V_m = {m+1, m+2, ...}: a state is never visited again (ILR-HMM)."""
    return Topology("left_to_right", _is_later, never_returns=True)


def is_left_to_right(topology: Topology) -> bool:
    """Whether this is ``left_to_right`` itself, for which the sampler has a move of its own."""
    return topology.allows is _is_later


def unrestricted() -> Topology:
    """V_m = all states (HDP-HMM)."""
    return Topology("unrestricted", _is_any, exchangeable=True)


def finite(states: int, self_transition: bool = True) -> Topology:
    """V_m = {0, ..., states-1}, with or without m itself."""
    count = _checks.whole("states", states, at_least=1)
    if not self_transition and count < 2:
        raise ValueError(f"states must be at least 2 where a state cannot follow itself, got {states!r}")
    return Topology("finite", _is_any if self_transition else _differs, states=count)


def banded(width: int) -> Topology:
    """V_m = {k : 0 < |k - m| <= width}: neighbours at most ``width`` states away."""
    limit = _checks.whole("width", width, at_least=1)
    return Topology(f"banded({limit})", lambda m, k: 0 < abs(k - m) <= limit, reach=limit)
