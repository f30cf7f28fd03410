"""The compiled detector and the same code as plain Python say the same, bit for bit."""

import json
import os
import subprocess
import sys

import pytest

RUN = """
import json
import numpy as np
import ishsmm_stream as hs
rng = np.random.default_rng(0)
y = np.repeat([0.0, 5.0, -3.0], (30, 25, 25)) + rng.normal(size=80)
y[[3, 40]] = np.nan
y[20] = 300.0
normal, dwell = hs.emissions.Normal(0.0, 0.2, 1.5, 1.0), hs.durations.Poisson(2.0, 15.0)
small = {"lag": 32, "max_hypotheses": 12}
detectors = {
    "auto": (hs.OnlineDetector(**small), y),
    "auto, vectors": (hs.OnlineDetector(**small), np.stack([y, rng.normal(size=80)], axis=1)),
    "normal": (hs.OnlineDetector(hs.ilr(normal, dwell), **small), y),
    "normal, outliers": (hs.OnlineDetector(hs.ilr(normal, dwell), outliers=0.02, **small), y),
    "recurring": (hs.OnlineDetector("recurring", chains=5, lag=32), y),
    "effects": (hs.OnlineDetector(alarm_policy=hs.AlarmPolicy(min_effect_sd=2.0), **small), y),
}
result = {}
for name, (detector, values) in detectors.items():
    events = detector.update_many(values)
    result[name] = {
        "events": [[*event[:4], event.probability.hex(), *event[5:]] for event in events],
        "change_points": [[c.index, c.probability.hex(), c.low, c.high] for c in detector.change_points],
        "log_evidence": detector.log_evidence.hex(),
        "discarded": detector.discarded.hex(),
        "change_probability": detector.change_probability(20).hex(),
        "snapshot": detector.snapshot().hex(),
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
def test_the_compiled_detector_says_what_the_python_code_says():
    compiled, plain = run(), run(NUMBA_DISABLE_JIT="1")
    for name, answers in compiled.items():
        for part, values in answers.items():
            assert values == plain[name][part], (name, part)
    assert compiled["auto"]["events"]
    assert compiled["auto"]["change_points"]
