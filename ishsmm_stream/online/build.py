"""Which engine follows a model, and with which settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ishsmm_stream.model.durations import Fixed
from ishsmm_stream.model.emissions import MultivariateNormal
from ishsmm_stream.model.emissions import family as emission_family
from ishsmm_stream.model.presets import Model
from ishsmm_stream.model.priors import Beta
from ishsmm_stream.online import rarity
from ishsmm_stream.online.engine import Engine
from ishsmm_stream.online.particles import chains
from ishsmm_stream.online.particles.engine import ParticleEngine
from ishsmm_stream.online.regimes import engine as regimes
from ishsmm_stream.online.regimes.engine import RegimesEngine
from ishsmm_stream.online.renewal import adaptive, hazard
from ishsmm_stream.online.renewal import engine as renewal
from ishsmm_stream.online.renewal.engine import RenewalEngine
from ishsmm_stream.online.validation import LARGEST_STATE, require

if TYPE_CHECKING:
    from ishsmm_stream.online.detector import OnlineDetector

AUTO, RECURRING = "auto", "recurring"
BY_NAME = (AUTO, RECURRING)  # models that need no priors
CHAINS = 100  # of models whose states return, if their priors are given
# Priors of "auto" for several channels, in units of the standardised stream.
_LEVEL_WEIGHT = 0.1
_DEFAULT_HAZARD = Beta(1.0, 500.0)
_DEFAULT_MIN_DWELL = 4  # shorter excursions are outliers
# Stands for the durations of a model whose hazard is learned.
_NO_DURATION = Fixed(0)
# How many parents of a start are remembered for smoothing, and the least share of one that is.
PARENTS = 13
LEAST_SHARE = 1e-3
MAX_STATES = 16  # of a chain; the one least likely to return makes room


def make_engine(detector: OnlineDetector, channels: int) -> Engine:
    """Return a new engine with a detector's settings, for this many channels."""
    model = detector.model
    if model == RECURRING:
        if channels != 1:
            raise ValueError(
                f"model='recurring' follows one channel, the values have {channels}: "
                "use 'auto', or one detector per channel"
            )
        return RegimesEngine(chains=detector.chains, lag=detector.lag, seed=detector.seed)
    if isinstance(model, Model) and not model.is_renewal:
        return ParticleEngine(
            model,
            chains=detector.chains,
            lag=detector.lag,
            max_states=MAX_STATES,
            seed=detector.seed,
        )
    learned = _learned_hazard(detector)
    duration = model.duration if isinstance(model, Model) else _NO_DURATION
    return RenewalEngine(
        _emission(detector, channels),
        duration,
        hazard.learned_hazard(learned, _min_dwell(detector)) if learned else hazard.duration_hazard(duration),
        _size(detector, channels),
        least_share=LEAST_SHARE,
    )


def _learned_hazard(detector: OnlineDetector) -> Beta | None:
    return detector.hazard or (_DEFAULT_HAZARD if detector.model == AUTO else None)


def _min_dwell(detector: OnlineDetector) -> int:
    return detector.min_dwell or (_DEFAULT_MIN_DWELL if detector.model == AUTO else 1)


def _size(detector: OnlineDetector, channels: int) -> renewal.Size:
    grid = hazard.GRID_SIZE if _learned_hazard(detector) else 1
    cap = detector.max_hypotheses
    return renewal.Size(grid, cap, detector.lag, min(PARENTS, cap), channels)


def _emission(detector: OnlineDetector, channels: int) -> Any:
    if isinstance(detector.model, Model):
        emission = detector.model.emission
        return adaptive.with_outliers(emission, float(detector.outliers)) if detector.outliers else emission
    if channels == 1:
        outliers = adaptive.OUTLIERS if detector.outliers is None else float(detector.outliers)
        return adaptive.automatic(outliers, detector.constants)
    identity = tuple(tuple(float(i == j) for j in range(channels)) for i in range(channels))
    return MultivariateNormal((0.0,) * channels, _LEVEL_WEIGHT, float(channels + 2), identity)


def check_size(detector: OnlineDetector, channels: int, arrays: dict[str, np.ndarray]) -> None:
    """Raise SnapshotError unless an engine with a detector's settings fits into memory, and to a snapshot's arrays.

    Without ``arrays``, the stream has not begun.
    """
    # "auto" has a matrix for each hypothesis of several channels
    require(8 * detector.max_hypotheses * channels**2 <= LARGEST_STATE, f"there cannot be {channels} channels")
    model = detector.model
    if model == RECURRING:
        require(channels == 1, "model 'recurring' has one channel")
        needed = regimes.state_bytes(detector.chains, detector.lag) + rarity.tracker_bytes(1)
    elif isinstance(model, Model) and not model.is_renewal:
        if arrays:
            size, recent = arrays["recent_uid"].shape
            require(size == detector.chains and recent > detector.lag, "chains and lag are those of the settings")
        needed = chains.state_bytes(
            model, size=detector.chains, lag=detector.lag, max_states=MAX_STATES
        ) + rarity.tracker_bytes(emission_family.channels(model.emission))
    else:
        needed = renewal.state_bytes(_emission(detector, channels), _size(detector, channels))
    require(needed <= LARGEST_STATE, f"its settings ask for {needed} bytes, at most {LARGEST_STATE} are made")
