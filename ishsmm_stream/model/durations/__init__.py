"""Duration families: how long a state is kept. A segment lasts r + 1 observations."""

from ishsmm_stream.model.durations.delayed_geometric import DelayedGeometric, Geometric
from ishsmm_stream.model.durations.fixed import Fixed
from ishsmm_stream.model.durations.negative_binomial import NegativeBinomial
from ishsmm_stream.model.durations.poisson import Poisson

__all__ = ["DelayedGeometric", "Fixed", "Geometric", "NegativeBinomial", "Poisson"]
