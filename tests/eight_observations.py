"""A series so short that its posterior is known by enumeration."""

import ishsmm_stream as hs

# The T = 8 series and its figures: every segmentation times every partition of the segments into states.
Y8 = [-1.2, -0.9, 1.6, 1.2, 2.0, -1.1, -0.8, 0.4]
MODEL8 = hs.ied(
    hs.emissions.Normal(mean=0.0, mean_weight=0.5, shape=2.0, scale=1.0),
    hs.durations.Poisson(shape=2.0, scale=0.6),
    alpha0=4.0, alpha1=3.0, c=3.0, d=0.0,
)  # fmt: skip
CHANGE8 = [0.158, 0.916, 0.130, 0.128, 0.929, 0.223, 0.628]
STATES8 = [0.001, 0.350, 0.476, 0.154, 0.018]
LOG_EVIDENCE8 = -13.366
