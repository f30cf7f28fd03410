"""Live Bayesian change-point and regime detection for sensor streams.

import ishsmm_stream as hs
model = hs.ilr(hs.emissions.Poisson(shape=1.0, rate=1.0), hs.durations.Poisson(shape=1.0, scale=100.0))
hs.exact_posterior(hs.datasets.coal_disasters().counts, model).map_change_points
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ishsmm_stream._public import *  # noqa: F403
else:
    # Numba takes a second or two to import, and the commands' help needs none of it: names come when they are used.

    def __getattr__(name):
        if name == "__all__" or not name.startswith("_"):
            from ishsmm_stream import _public

            if hasattr(_public, name):
                return getattr(_public, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        from ishsmm_stream import _public

        return ["__version__", *_public.__all__]
