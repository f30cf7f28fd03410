"""Emission families: how a state produces observations, each with its conjugate prior."""

from ishsmm_stream.model.emissions.autoregressive import Autoregressive
from ishsmm_stream.model.emissions.categorical import Categorical
from ishsmm_stream.model.emissions.family import block_log_marginal
from ishsmm_stream.model.emissions.mean_reverting import MeanReverting
from ishsmm_stream.model.emissions.mixed import Mixed
from ishsmm_stream.model.emissions.multivariate_normal import MultivariateNormal
from ishsmm_stream.model.emissions.normal import Normal
from ishsmm_stream.model.emissions.poisson import Poisson

__all__ = [
    "Autoregressive",
    "Categorical",
    "MeanReverting",
    "Mixed",
    "MultivariateNormal",
    "Normal",
    "Poisson",
    "block_log_marginal",
]
