"""Compiled kernels and the same code as plain Python give the same draws, bit for bit."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

RUN = """
import json, sys
import numpy as np
import ishsmm_stream as hs
normal, dwell = hs.emissions.Normal(0.0, 0.5, 2.0, 1.0), hs.durations.Poisson(2.0, 2.0)
models = {
    "ied": (hs.ied(normal, dwell), {"temperature": 3.0}),
    "ied paper": (hs.ied(normal, dwell, d=hs.priors.Beta(1.0, 30.0)), {"temperature": 1.0, "slice": "paper"}),
    "ilr beam": (hs.ilr(normal, dwell), {"method": "beam"}),
    "mean reverting": (hs.ied(hs.emissions.MeanReverting(0.7), dwell), {}),
    "sticky": (hs.sticky_hdp_hmm(normal), {"temperature": 2.5}),
    "hsmm": (hs.hdp_hsmm(normal, hs.durations.DelayedGeometric(2.0, 2.0, 3)), {}),
    "exact": (hs.ilr(normal, dwell), {}),
}
y = np.repeat([0.0, 3.0, -2.0, 0.0], 4) + np.random.default_rng(0).normal(size=16)
y[5] = np.nan
models["recurring"] = (hs.recurring(y), {})
result = {}
for name, (model, settings) in models.items():
    drawn = hs.sample(y, model, draws=6, burn_in=14, chains=1, seed=4, **settings)
    result[name] = {
        "log_joint": [value.hex() for value in drawn.log_joint.tolist()],
        "theta": [value.hex() for draw in drawn.draws for value in draw.theta.ravel().tolist()],
        "lam": [value.hex() for draw in drawn.draws for value in draw.lam.ravel().tolist()],
        "hyper": [value.hex() for draw in drawn.draws for value in draw.hyper.tolist()],
        "outliers": [int(value) for draw in drawn.draws for value in draw.outliers],
        "starts": [int(value) for draw in drawn.draws for value in draw.starts],
    }
print(json.dumps(result))
"""


def run(**environment):
    finished = subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="needs the compiler to compare with")
def test_the_compiled_sampler_draws_what_the_python_code_draws():
    compiled, plain = run(), run(NUMBA_DISABLE_JIT="1")
    for name, draws in compiled.items():
        for part, values in draws.items():
            assert values == plain[name][part], (name, part)
    assert np.unique(compiled["ied"]["log_joint"]).size > 1
