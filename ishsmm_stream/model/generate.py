"""Draws from a model's prior: hyperparameters, states, durations, parameters and data.

Written from the model's definition alone, row by row and without the sampler's kernels, so that the two check each
other. The transition rows are integrated out (a Polya urn per row).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream import _checks
from ishsmm_stream._special import draw_log_beta, draw_log_gamma
from ishsmm_stream.model import presets
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.priors import Beta, Gamma


class Generated(NamedTuple):
    """Data with everything that produced them. States are numbered as in the infinite state space."""

    y: np.ndarray  # (T, channels)
    states: np.ndarray  # (T,) the state of each observation
    starts: np.ndarray  # (segments,) first index of each segment
    labels: np.ndarray  # (segments,) its state
    theta: dict[int, np.ndarray]  # emission parameters of the states visited
    lam: dict[int, np.ndarray]  # duration parameters of the states visited
    hyperparameters: dict[str, float]
    outliers: np.ndarray  # indices of the readings that belong to no state

    @property
    def change_points(self) -> np.ndarray:
        """Indices whose state differs from the one before."""
        return np.flatnonzero(np.diff(self.states)) + 1


class _StateSpace:
    """Weights above the rows, broken off the tail one state after the other, and the urns of the rows.

    w: sticks v_k ~ Beta(1 - d, c + k d);  gamma_k ~ Gamma(alpha0 w_k, 1), as shares of a Gamma(alpha0) total
    """

    def __init__(self, model: Model, hyper: dict[str, float], rng: np.random.Generator) -> None:
        self.model = model
        self.hyper = hyper
        self.rng = rng
        self.has_gamma = model.hierarchy == presets.GAMMA_PROCESS
        self.log_weights: list[float] = []  # ln gamma_k, or ln w_k where there is no gamma level
        self.log_tail = draw_log_gamma(rng, hyper["alpha0"]) if self.has_gamma else 0.0
        self.log_stick_tail = 0.0
        self.urns: dict[int, dict[int, int]] = {}  # row (-1 is the start) -> state -> how often it followed
        states = model.topology.states
        if states is not None:
            share = hyper["alpha0"] / states
            self.log_weights = [
                draw_log_gamma(rng, share) if self.has_gamma else -math.log(states) for _ in range(states)
            ]
            self.log_tail = -math.inf

    def next_state(self, row: int) -> int:
        """A state from the urn of ``row``."""
        while len(self.log_weights) <= row + self.model.topology.reach and self.model.topology.states is None:
            self._break_off()
        urn = self.urns.setdefault(row, {})
        log_norm = self._log_norm(row)
        weights = [self._base(row, k, log_norm) + urn.get(k, 0) for k in range(len(self.log_weights))]
        tail = 0.0
        if self._reaches_tail(row):
            tail = self._concentration(row) * math.exp(self.log_tail - log_norm)
        target = self.rng.random() * (sum(weights) + tail)
        chosen = len(weights)
        for k, weight in enumerate(weights):
            target -= weight
            if target < 0.0:
                chosen = k
                break
        if chosen == len(weights):
            chosen = self._state_from_tail()
        urn[chosen] = urn.get(chosen, 0) + 1
        return chosen

    def _base(self, row: int, k: int, log_norm: float) -> float:
        """alpha1 beta_mk (+ kappa where k = m)."""
        if not self._allowed(row, k):
            return 0.0
        base = self._concentration(row) * math.exp(self.log_weights[k] - log_norm)
        if k == row:
            base += self.hyper["alpha1"] * self.hyper["rho"]
        return base

    def _concentration(self, row: int) -> float:
        return self.hyper["alpha1"] * (1.0 if row < 0 else 1.0 - self.hyper["rho"])

    def _log_norm(self, row: int) -> float:
        """ln of the sum of gamma over V_m; HDP and flat rows are not normalised over V_m."""
        if not self.has_gamma:
            return 0.0
        reachable = [w for k, w in enumerate(self.log_weights) if self._allowed(row, k)]
        if self._reaches_tail(row):
            reachable.append(self.log_tail)
        return float(np.logaddexp.reduce(reachable))

    def _reaches_tail(self, row: int) -> bool:
        return self.log_tail > -math.inf and self._allowed(row, len(self.log_weights))

    def _allowed(self, row: int, k: int) -> bool:
        return row < 0 or bool(self.model.topology.allows(row, k))

    def _break_off(self) -> float:
        """Instantiate the next state; returns its share of the tail."""
        k = len(self.log_weights) + 1
        c, d = self.hyper["c"], self.hyper["d"]
        log_v, log_rest = draw_log_beta(self.rng, math.log1p(-d), math.log(c + k * d))
        log_w = self.log_stick_tail + log_v
        self.log_stick_tail += log_rest
        log_share = log_v
        if self.has_gamma:
            log_alpha0 = math.log(self.hyper["alpha0"])
            log_share, log_rest = draw_log_beta(self.rng, log_alpha0 + log_w, log_alpha0 + self.log_stick_tail)
        self.log_weights.append(self.log_tail + log_share)
        self.log_tail += log_rest
        return math.exp(log_share)

    def _state_from_tail(self) -> int:
        """A step is known to go to the tail: break states off until it is one of them."""
        while self.rng.random() >= self._break_off():
            pass
        return len(self.log_weights) - 1


def _draw_hyperparameter(value: Any, rng: np.random.Generator) -> float:
    if isinstance(value, Gamma):
        return float(rng.gamma(value.shape, 1.0 / value.rate))
    if isinstance(value, Beta):
        return float(rng.beta(value.a, value.b))
    return float(value)


def draw_hyperparameters(model: Model, rng: np.random.Generator) -> dict[str, float]:
    """alpha0, alpha1, c, d and rho from their priors."""
    return {name: _draw_hyperparameter(getattr(model, name), rng) for name in ("alpha0", "alpha1", "c", "d", "rho")}


def generate(model: Model, length: int, seed: int | np.random.Generator = 0) -> Generated:
    """Draw ``length`` observations from the prior of ``model``, with everything that produced them.

    >>> import ishsmm_stream as hs
    >>> model = hs.ied(hs.emissions.Normal(), hs.durations.Poisson(shape=2.0, scale=5.0))
    >>> hs.generate(model, 100, seed=1).y.shape
    (100, 1)
    """
    if not isinstance(model, Model):
        raise ValueError(f"model must be made by a preset such as ishsmm_stream.ied, got {model!r}")
    _checks.whole("length", length, at_least=1)
    rng = np.random.default_rng(seed)
    hyper = draw_hyperparameters(model, rng)
    shared = {name: float(rng.choice(values)) for name, values in model.shared}
    emission = emissions.with_numbers(model.emission, **shared)
    space = _StateSpace(model, hyper, rng)
    theta: dict[int, np.ndarray] = {}
    lam: dict[int, np.ndarray] = {}
    starts: list[int] = []
    labels: list[int] = []
    y = np.full((length, emissions.channels(model.emission)), np.nan)
    is_outlier = np.zeros(length, dtype=np.bool_)
    if model.outliers:
        is_outlier = rng.random(length) < model.outliers.share
    t, state = 0, -1
    while t < length:
        state = space.next_state(state)
        if state not in theta:
            theta[state], lam[state] = _draw_parameters(emission, model.duration, rng)
        starts.append(t)
        labels.append(state)
        end = min(length, t + int(durations.draw(model.duration, lam[state], rng)) + 1)
        for i in range(t, end):
            emissions.simulate(emission, theta[state], rng, y, i, i - t)
            if is_outlier[i]:
                y[i] = np.nan  # what comes next does not depend on it
        t = end
    if model.outliers:
        y[is_outlier, 0] = model.outliers.location + model.outliers.width * rng.standard_cauchy(is_outlier.sum())
    states = np.repeat(labels, np.diff(starts, append=length))
    return Generated(
        y, states, np.array(starts), np.array(labels), theta, lam, hyper | shared, np.flatnonzero(is_outlier)
    )


def _draw_parameters(emission: Any, duration: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """theta and lambda of a state from their priors."""
    stats = np.empty(emissions.stats_size(emission))
    emissions.clear(emission, stats)
    theta = np.zeros(emissions.params_size(emission))
    emissions.draw_parameters(emission, stats, rng, theta)
    stats = np.empty(durations.stats_size(duration))
    durations.clear(duration, stats)
    lam = np.zeros(durations.params_size(duration))
    durations.draw_parameters(duration, stats, -1, rng, lam)
    return theta, lam
