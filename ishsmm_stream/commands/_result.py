"""A fit and what is told about it: the numbers of the JSON file, from which the report is printed too."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from ishsmm_stream import ExactPosterior, Posterior

HIGHEST_RHAT = 1.05
LOWEST_ESS = 100.0
# Numbers of change points less probable than this are left out.
_NEGLIGIBLE = 1e-6


class Fit(NamedTuple):
    """Draws, and the exact posterior where the model has one."""

    posterior: Posterior
    exact: ExactPosterior | None


def make_result(fit: Fit, settings: dict[str, Any]) -> dict[str, Any]:
    """Everything the fit says, in the format of the README."""
    from ishsmm_stream.batch.change_points import list_change_points, shares

    posterior, exact = fit
    summary = posterior.summary()
    if exact is None:
        probability = posterior.change_probability
        n_changes = shares(posterior.n_changes)
        n_states = shares(posterior.n_states)
    else:
        probability = exact.change_probability
        n_changes = {k: float(p) for k, p in enumerate(exact.n_changes) if p >= _NEGLIGIBLE}
        n_states = {k + 1: p for k, p in n_changes.items()}
    best = posterior.map
    points = list_change_points(best.change_points, probability)
    return {
        "model": posterior.model.name,
        "settings": settings,
        "n_observations": len(posterior.y),
        "change_points": [point._asdict() for point in points],
        "change_probability": probability.tolist(),
        "n_changes": {str(k): p for k, p in n_changes.items()},
        "n_states": {str(k): p for k, p in n_states.items()},
        "states": _states(posterior),
        "map": {
            "change_points": list(best.change_points),
            "states": best.states.tolist(),
            "log_joint": best.log_joint,
        },
        "diagnostics": summary,
        "warnings": _warnings(posterior, summary),
        "log_evidence": None if exact is None else exact.log_evidence,
    }


def write_json(path: Path, result: dict[str, Any]) -> None:
    path.write_text(json.dumps(_without_nan(result), allow_nan=False, indent=1) + "\n", encoding="utf-8")


def _states(posterior: Posterior) -> list[dict[str, Any]]:
    """The states of the most probable segmentation, over all draws that have them."""
    import numpy as np

    states = posterior.states
    result = []
    for k, draws in enumerate(posterior.state_parameters()):
        if k not in posterior.map.states:
            continue
        parameters = {name: _interval(values) for name, values in draws.items()}
        result.append(
            {
                "state": k,
                "occupancy": float(np.mean(states == k)),
                "dwell": parameters.pop("dwell"),
                "parameters": parameters,
            }
        )
    return result


def _interval(values: np.ndarray) -> dict[str, float]:
    """Posterior mean and 5% and 95% quantiles; a Mixed emission's unused parameters are NaN and left out."""
    import numpy as np

    known = values[~np.isnan(values)]
    if len(known) == 0:
        return {"mean": math.nan, "low": math.nan, "high": math.nan}
    low, high = np.quantile(known, [0.05, 0.95])
    return {"mean": float(known.mean()), "low": float(low), "high": float(high)}


def _warnings(posterior: Posterior, summary: dict[str, dict[str, float]]) -> list[str]:
    """What speaks against trusting the draws. NaN, from a handful of draws, speaks too."""
    found = posterior.disagreements(lambda name: "--" + name.replace("_", "-"))
    worst = max(summary, key=lambda name: _or_infinity(summary[name]["rhat"]))
    rhat = summary[worst]["rhat"]
    if not found and not rhat <= HIGHEST_RHAT:
        found.append(f"the chains disagree: R-hat of {worst} is {rhat:.2f}; raise --burn-in and --draws")
    fewest = min(summary, key=lambda name: summary[name]["ess"])
    ess = summary[fewest]["ess"]
    if not ess >= LOWEST_ESS:
        found.append(f"few effective draws: {fewest} has {ess:.0f}; raise --draws")
    return found


def _or_infinity(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _without_nan(value: Any) -> Any:
    """``value`` as JSON can say it: null for what is not a number or not finite, lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return value
