"""Models and settings that the joint-distribution tests go through."""

import dataclasses

import ishsmm_stream as hs

NORMAL = hs.emissions.Normal(mean=0.0, mean_weight=0.5, shape=3.0, scale=2.0)
REGRESSION = hs.emissions.Autoregressive(order=1, intercept_variance=2.0, lag_mean=0.3, lag_variance=0.2, shape=3.0)
ALTERNATING = hs.emissions.Autoregressive(order=1, intercept_variance=4.0, lag_mean=-0.6, lag_variance=0.1, shape=4.0)
REVERTING = hs.emissions.MeanReverting(phi=0.6, mean=0.0, spread=4.0, noise=0.5, shape=3.0)
GRIDS = (("phi", (-0.4, 0.0, 0.6, 0.9)), ("noise", (0.2, 1.0, 4.0)), ("spread", (2.0, 8.0)))
COUNTS = hs.emissions.Poisson(shape=2.0, rate=0.5)
DWELL = hs.durations.Poisson(shape=2.0, scale=1.0)
PRIOR = hs.priors.Gamma(5.0, 3.0)
ALL = {"alpha0": PRIOR, "alpha1": PRIOR, "c": PRIOR}

CASES = {
    "ied": (hs.ied(NORMAL, DWELL, **ALL), {"temperature": 3.0}),
    "ied with discount": (
        hs.ied(NORMAL, DWELL, **ALL, d=hs.priors.Beta(1.0, 30.0)),
        {"temperature": 1.0, "max_states": 4096},
    ),
    "ied, paper's slice": (hs.ied(COUNTS, DWELL, **ALL), {"temperature": 3.0, "paper_slice": True}),
    "ied, other durations": (
        hs.ied(NORMAL, hs.durations.DelayedGeometric(a=2.0, b=2.0, max_delay=3), **ALL),
        {"temperature": 2.5},
    ),
    "ied, autoregressive": (hs.ied(REGRESSION, DWELL, **ALL), {"temperature": 3.0, "given": 1}),
    "ied, mixed families": (
        hs.ied(hs.emissions.Mixed((REGRESSION, ALTERNATING), weights=(0.6, 0.4)), DWELL, **ALL),
        {"temperature": 3.0, "given": 1},
    ),
    "ied, mean reverting, paper's slice": (
        hs.ied(REVERTING, DWELL, **ALL),
        {"temperature": 3.0, "paper_slice": True},
    ),
    "hdp_hsmm, mean reverting, shared numbers": (
        dataclasses.replace(hs.hdp_hsmm(REVERTING, DWELL, alpha1=PRIOR, c=PRIOR), shared=GRIDS),
        {"temperature": 3.0},
    ),
    "hdp_hsmm, mean reverting, outliers": (
        dataclasses.replace(
            hs.hdp_hsmm(REVERTING, DWELL, alpha1=PRIOR, c=PRIOR),
            shared=GRIDS[:1],
            outliers=hs.priors.Outliers(0.2, 0.5, 2.0),
        ),
        {"temperature": 3.0},
    ),
    "ied, normal, shared number": (
        dataclasses.replace(hs.ied(NORMAL, DWELL, **ALL), shared=(("scale", (0.5, 2.0, 8.0)),)),
        {"temperature": 3.0},
    ),
    "ilr, paper's slice": (hs.ilr(NORMAL, DWELL, **ALL), {"temperature": 3.0, "paper_slice": True}),
    "ilr with discount": (
        hs.ilr(NORMAL, DWELL, **ALL, d=hs.priors.Beta(1.0, 30.0)),
        {"temperature": 1.0, "paper_slice": True, "max_states": 4096},
    ),
    "hdp_hmm": (hs.hdp_hmm(NORMAL, alpha1=PRIOR, c=PRIOR), {"temperature": 3.0}),
    "sticky_hdp_hmm": (
        hs.sticky_hdp_hmm(NORMAL, alpha1_plus_kappa=PRIOR, rho=hs.priors.Beta(3.0, 2.0), c=PRIOR),
        {"temperature": 3.0},
    ),
    "hdp_hsmm": (hs.hdp_hsmm(NORMAL, DWELL, alpha1=PRIOR, c=PRIOR), {"temperature": 3.0}),
    "bayesian_hmm": (hs.bayesian_hmm(3, NORMAL, alpha=PRIOR), {"temperature": 1.0}),
    "bayesian_hsmm": (hs.bayesian_hsmm(3, NORMAL, DWELL, alpha=PRIOR), {"temperature": 3.0}),
    "banded": (hs.structured(NORMAL, DWELL, hs.topology.banded(2), **ALL), {"temperature": 1.0, "paper_slice": True}),
    "finite, with a gamma level": (
        hs.structured(NORMAL, DWELL, hs.topology.finite(4, self_transition=False), alpha0=PRIOR, alpha1=PRIOR, c=1.0),
        {"temperature": 3.0},
    ),
    "unrestricted, with durations": (hs.structured(NORMAL, DWELL, hs.topology.unrestricted(), **ALL), {}),
}
