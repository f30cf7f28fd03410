"""The exact engine of models in which no state returns.

``engine`` puts it together. ``run_length`` is the filter over starts of the current segment, ``hazard`` the probability
that a segment ends, and ``predictors`` the density of a reading under each hypothesis. ``normal_predictor`` is faster,
and ``adaptive`` learns its priors; both use ``vectorised``. ``smoothing`` is about the past, ``forecasting`` about the
future. ``pool`` keeps the states of many detectors side by side.
"""
