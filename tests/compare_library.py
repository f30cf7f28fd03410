"""Print what the library's samplers and detectors return on fixed streams, one JSON line per result.

``compare.py`` runs this file with the PYTHONPATH of each tree. It uses public names only, so both trees can run it.

    python tests/compare_library.py FOLDER    # FOLDER: where the packages must come from
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import ishsmm_stream as hs

NORMAL = hs.emissions.Normal(mean=5.0, mean_weight=0.1)
VECTOR = hs.emissions.MultivariateNormal((0.0, 0.0), 0.1, 4.0, ((1.0, 0.0), (0.0, 1.0)))
COUNTS = hs.emissions.Poisson(shape=1.0, rate=0.2)
LETTERS = hs.emissions.Categorical((1.0, 1.0, 1.0, 1.0))
DWELL = hs.durations.Poisson(shape=1.0, scale=60.0)
SPREAD = hs.durations.NegativeBinomial(size=2.0, a=1.0, b=30.0)
DELAYED = hs.durations.DelayedGeometric(a=1.0, b=60.0)


def streams() -> dict[str, np.ndarray]:
    """Levels that change and return, with missing readings; by their kind."""
    rng = np.random.default_rng(7)
    levels = np.repeat([0.0, 6.0, 0.0, 12.0, 6.0], 70)
    y = levels + rng.normal(size=levels.size)
    y[[40, 41, 200]] = np.nan
    three = np.stack([y, -y + rng.normal(size=y.size), rng.normal(size=y.size)], axis=1)
    return {
        "numbers": y,
        "two": three[:, :2],
        "three": three,
        "counts": rng.poisson(levels + 1.0).astype(float),
        "letters": ((levels / 6.0).astype(int) + (rng.random(levels.size) < 0.1)).astype(float),
        "still": np.concatenate([np.full(60, 3.0), y[100:250], np.full(80, 1.0)]),
    }


# name: stream, model, settings of the detector
DETECTORS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "auto": ("numbers", "auto", {"threshold": 0.95}),
    "auto, still": ("still", "auto", {"alarm_policy": hs.AlarmPolicy(every=200)}),
    "auto, small": ("numbers", "auto", {"lag": 12, "max_hypotheses": 6, "keep": 2, "warm_up": 30}),
    "auto, two channels": ("two", "auto", {"threshold": 0.95}),
    "auto, three channels": ("three", "auto", {}),
    "ilr normal": ("numbers", hs.ilr(NORMAL, DWELL), {"prior": "auto"}),
    "ilr normal, hazard": (
        "numbers",
        hs.ilr(NORMAL, DWELL),
        {"hazard": hs.priors.Beta(1.0, 80.0), "min_dwell": 3, "outliers": 0.02},
    ),
    "ilr poisson": ("counts", hs.ilr(COUNTS, DWELL), {}),
    "ilr categorical": ("letters", hs.ilr(LETTERS, SPREAD), {}),
    "ilr vector": ("two", hs.ilr(VECTOR, DWELL), {}),
    "ilr autoregressive": ("numbers", hs.ilr(hs.emissions.Autoregressive(order=1), DWELL), {}),
    "ied normal": ("numbers", hs.ied(NORMAL, DWELL), {"chains": 30}),
    "ied normal, few": ("numbers", hs.ied(NORMAL, DWELL), {"chains": 20, "seed": 3}),
    "recurring": ("numbers", "recurring", {"seed": 3}),
    "ied poisson, negative binomial": ("counts", hs.ied(COUNTS, SPREAD), {"chains": 30}),
    "ied categorical, delayed": ("letters", hs.ied(LETTERS, DELAYED), {"chains": 30}),
    "ied vector": ("two", hs.ied(VECTOR, DWELL), {"chains": 20}),
    "hdp_hsmm normal": ("numbers", hs.hdp_hsmm(NORMAL, DWELL), {"chains": 30}),
    "hdp_hmm normal": ("numbers", hs.hdp_hmm(NORMAL), {"chains": 30}),
    "sticky_hdp_hmm categorical": ("letters", hs.sticky_hdp_hmm(LETTERS), {"chains": 30}),
    "bayesian_hmm normal": ("numbers", hs.bayesian_hmm(3, NORMAL), {"chains": 30}),
    "bayesian_hsmm poisson": ("counts", hs.bayesian_hsmm(3, COUNTS, DWELL), {"chains": 30}),
}
# name: stream, model, arguments
SAMPLES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "ilr poisson": ("counts", hs.ilr(COUNTS, DWELL), {}),
    "ilr normal, beam": ("numbers", hs.ilr(NORMAL, DWELL), {"method": "beam"}),
    "ied normal": ("numbers", hs.ied(NORMAL, DWELL), {}),
    "ied normal, paper": ("numbers", hs.ied(NORMAL, DWELL), {"slice": "paper"}),
    "hdp_hsmm normal": ("numbers", hs.hdp_hsmm(NORMAL, DWELL), {}),
    "sticky_hdp_hmm categorical": ("letters", hs.sticky_hdp_hmm(LETTERS), {}),
    "bayesian_hsmm poisson": ("counts", hs.bayesian_hsmm(3, COUNTS, DWELL), {}),
}


def followed(y: np.ndarray, model: Any, settings: dict[str, Any]) -> list[Any]:
    """Return everything that a detector reports, and its snapshot halfway and at the end."""
    detector = hs.OnlineDetector(model, **settings)
    half = len(y) // 2
    events = list(detector.update_many(y[:half]))
    snapshot = detector.snapshot()
    detector = hs.OnlineDetector.restore(snapshot)
    for at in range(half, len(y), 37):
        events += detector.update_many(y[at : at + 37])
    return [
        *(event._asdict() for event in events),
        {"change_points": detector.change_points, "state": detector.state, "rarity": detector.rarity},
        {"run_length": detector.run_length(), "change_probability": detector.change_probability(20)},
        {"forecast": detector.forecast(3), "discarded": detector.discarded},
        {"half": base64.b64encode(snapshot).decode(), "end": base64.b64encode(detector.snapshot()).decode()},
    ]


def drawn(y: np.ndarray, model: Any, arguments: dict[str, Any]) -> list[Any]:
    """Return the draws of a batch posterior."""
    posterior = hs.sample(y, model, draws=25, burn_in=10, seed=11, **arguments)
    summary = {
        "change_probability": posterior.change_probability,
        "map": posterior.map,
        "alpha1": posterior.hyperparameter("alpha1"),
    }
    return [
        *(
            {"change_points": points, "log_joint": joint}
            for points, joint in zip(posterior.change_points, posterior.log_joint, strict=True)
        ),
        summary,
    ]


def plain(value: Any) -> Any:
    """Return an answer as something that JSON can hold with all digits."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return getattr(value, "__dict__", None) or repr(value)


def main() -> None:
    """Print a line for every result."""
    assert Path(hs.__file__).is_relative_to(sys.argv[1]), f"ishsmm_stream is imported from {hs.__file__}"
    y = streams()
    for kind, cases, run in (("detector", DETECTORS, followed), ("sample", SAMPLES, drawn)):
        for name, (stream, model, settings) in cases.items():
            for number, result in enumerate(run(y[stream], model, settings)):
                line = json.dumps(result, default=plain)
                print(json.dumps([f"{kind} {name}", number, line]), flush=True)


if __name__ == "__main__":
    main()
