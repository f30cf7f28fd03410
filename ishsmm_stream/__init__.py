"""Live Bayesian change-point and regime detection for sensor streams.

import ishsmm_stream as hs
model = hs.ilr(hs.emissions.Poisson(shape=1.0, rate=1.0), hs.durations.Poisson(shape=1.0, scale=100.0))
hs.exact_posterior(hs.datasets.coal_disasters().counts, model).map_change_points
"""

from ishsmm_stream import datasets
from ishsmm_stream.batch.chain import StateLimitError
from ishsmm_stream.batch.exact import ExactPosterior, exact_posterior
from ishsmm_stream.batch.posterior import Posterior, Segmentation
from ishsmm_stream.batch.sample import sample
from ishsmm_stream.model import durations, emissions, priors, topology
from ishsmm_stream.model.generate import Generated, generate
from ishsmm_stream.model.presets import (
    Model,
    bayesian_hmm,
    bayesian_hsmm,
    hdp_hmm,
    hdp_hsmm,
    ied,
    ilr,
    sticky_hdp_hmm,
    structured,
)

__version__ = "0.1.0"

__all__ = [
    "ExactPosterior",
    "Generated",
    "Model",
    "Posterior",
    "Segmentation",
    "StateLimitError",
    "bayesian_hmm",
    "bayesian_hsmm",
    "datasets",
    "durations",
    "emissions",
    "exact_posterior",
    "generate",
    "hdp_hmm",
    "hdp_hsmm",
    "ied",
    "ilr",
    "priors",
    "sample",
    "sticky_hdp_hmm",
    "structured",
    "topology",
]
