"""Priors of the hyperparameters. A plain number in their place is held fixed."""

from __future__ import annotations

from typing import NamedTuple

from ishsmm_stream import _checks


class _GammaFields(NamedTuple):
    shape: float
    rate: float


class Gamma(_GammaFields):
    """Gamma(shape, rate), mean shape / rate."""

    __slots__ = ()

    def __new__(cls, shape: float = 1.0, rate: float = 1.0):
        return super().__new__(cls, _checks.positive("shape", shape), _checks.positive("rate", rate))

    @property
    def mean(self) -> float:
        return self.shape / self.rate


class _OutliersFields(NamedTuple):
    share: float
    location: float
    width: float


class Outliers(_OutliersFields):
    """Readings that belong to no state: each is one with probability ``share``, and then Cauchy(location, width)."""

    __slots__ = ()

    def __new__(cls, share: float, location: float, width: float):
        if not 0.0 < _checks.number("share", share) < 1.0:
            raise ValueError(f"share must be between 0 and 1, got {share!r}")
        return super().__new__(
            cls, float(share), _checks.number("location", location), _checks.positive("width", width)
        )


class _BetaFields(NamedTuple):
    a: float
    b: float


class Beta(_BetaFields):
    """Beta(a, b) on (0, 1), mean a / (a + b)."""

    __slots__ = ()

    def __new__(cls, a: float = 1.0, b: float = 1.0):
        return super().__new__(cls, _checks.positive("a", a), _checks.positive("b", b))

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)
