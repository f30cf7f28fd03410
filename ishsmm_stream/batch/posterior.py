"""What the draws say."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ishsmm_stream.batch.chain import Draw
from ishsmm_stream.batch.diagnostics import effective_sample_size, rhat
from ishsmm_stream.batch.weights import HYPERPARAMETERS
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.model.presets import Model

_HIGHEST_RHAT = 1.1
_FEWEST_DRAWS = 20  # of a chain, before it is judged
_NEAR = 3.0  # nats of ln mass between chains that may have found the same
# How far means of chains may lie apart before it matters: R-hat alone is large, too, for a number that hardly varies.
_MATERIAL = {"log_joint": 3.0, "log_mass": 1.5, "n_states": 0.5, "n_changes": 1.0}


class ConvergenceWarning(UserWarning):
    """Chains of a sampler disagree: averages over their draws depend on the seed."""


class Segmentation(NamedTuple):
    """One explanation of the data, written for people."""

    change_points: tuple[int, ...]
    states: np.ndarray  # (T,) the state of each observation
    parameters: tuple[dict[str, float], ...]  # a state's emission parameters and mean dwell, by state
    log_joint: float


class Posterior:
    """Draws from a posterior, all chains. Made by ``sample`` and ``ExactPosterior.draw``.

    A change point is an index whose state differs from the one before it.
    """

    def __init__(self, model: Model, y: np.ndarray, chains: list[list[Draw]], reference: Draw | None = None) -> None:
        self.model = model
        self.y = y
        self.chains = chains
        self.draws = [draw for chain in chains for draw in chain]
        # The most probable explanation that is known; states are numbered after it.
        self.reference = reference or max(self.draws, key=lambda draw: draw.log_joint)

    def __len__(self) -> int:
        return len(self.draws)

    def __repr__(self) -> str:
        shape = f"{len(self.chains)} x {len(self.chains[0])} draws"
        return f"Posterior({self.model.name}, {len(self.y)} observations, {shape})"

    # Quantities of each draw, all chains one after the other

    @cached_property
    def change_points(self) -> tuple[np.ndarray, ...]:
        """The change points of each draw."""
        return tuple(_change_points(draw) for draw in self.draws)

    @cached_property
    def n_changes(self) -> np.ndarray:
        """The number of change points of each draw."""
        return np.array([len(points) for points in self.change_points])

    @cached_property
    def n_states(self) -> np.ndarray:
        """The number of states in use in each draw."""
        return np.array([len(np.unique(draw.labels)) for draw in self.draws])

    @cached_property
    def log_joint(self) -> np.ndarray:
        """ln p(y, segments, labels | gamma, hyperparameters) of each draw; without labels where no state returns."""
        return np.array([draw.log_joint for draw in self.draws])

    @cached_property
    def log_mass(self) -> np.ndarray:
        """An estimate, for each draw, of ln of the posterior mass of its explanation and those around it, unnormalised.

        ``log_joint`` less ln P(trajectory | parameters, y). It varies by one or two between draws of chains that have
        found the same; a chain that lies far below another has got stuck.
        """
        return np.array([draw.log_mass for draw in self.draws])

    def hyperparameter(self, name: str) -> np.ndarray:
        """alpha0, alpha1, c, d or rho of each draw (sticky: alpha1 is alpha1 + kappa), or a number that states share.

        The latter are those of ``Model.shared``.
        """
        if name not in HYPERPARAMETERS:
            return np.array([getattr(draw.emission, name) for draw in self.draws])
        return np.array([draw.hyper[HYPERPARAMETERS.index(name)] for draw in self.draws])

    # Averages

    @cached_property
    def change_probability(self) -> np.ndarray:
        """P(a change at t | y); entry 0 is 1, the start of the first segment."""
        total = np.zeros(len(self.y))
        for points in self.change_points:
            total[points] += 1.0
        total[0] = len(self)
        return total / len(self)

    @cached_property
    def outlier_probability(self) -> np.ndarray:
        """P(reading t belongs to no state | y), for models with outliers."""
        total = np.zeros(len(self.y))
        for draw in self.draws:
            total[draw.outliers] += 1.0
        return total / len(self)

    @cached_property
    def map(self) -> Segmentation:
        """The explanation with the highest joint log-probability: the best draw, or the exact one where it is known."""
        return self._segmentation(self.reference)

    # Consistent labels

    @cached_property
    def _relabelled(self) -> list[np.ndarray]:
        """For each draw, its states' numbers in the reference draw: the assignment with the largest overlap in time.
        States that match none get numbers of their own beyond the reference's."""
        from scipy.optimize import linear_sum_assignment

        size = len(self.reference.theta)
        reference = self.reference.states(len(self.y))
        result = []
        for draw in self.draws:
            overlap = np.zeros((len(draw.theta), size))
            np.add.at(overlap, (draw.states(len(self.y)), reference), 1.0)
            new = np.full(len(draw.theta), -1)
            ours, theirs = linear_sum_assignment(-overlap)
            new[ours] = np.where(overlap[ours, theirs] > 0.0, theirs, -1)
            unmatched = new < 0
            new[unmatched] = size + np.arange(unmatched.sum())
            result.append(new)
        return result

    @cached_property
    def states(self) -> np.ndarray:
        """(draws, T): the state of each observation, numbered consistently with ``map``."""
        rows = [new[draw.states(len(self.y))] for draw, new in zip(self.draws, self._relabelled, strict=True)]
        return np.array(rows, dtype=np.int32)

    def state_parameters(self) -> tuple[dict[str, np.ndarray], ...]:
        """For each state of ``map``, its emission parameters and mean dwell in every draw that has it."""
        names = self._parameter_names()
        found: list[list[tuple[float, ...]]] = [[] for _ in range(len(self.reference.theta))]
        for draw, new in zip(self.draws, self._relabelled, strict=True):
            used = np.unique(draw.labels)
            for k in used:
                if new[k] < len(found):
                    found[new[k]].append(self._numbers(draw, k))
        return tuple(
            dict(zip(names, np.array(rows).T, strict=True)) if rows else {name: np.empty(0) for name in names}
            for rows in found
        )

    def _parameter_names(self) -> tuple[str, ...]:
        return (*emissions.parameter_names(self.model.emission), "dwell")

    def _numbers(self, draw: Draw, k: int) -> tuple[float, ...]:
        described = emissions.describe(draw.emission, draw.theta[k])
        return (*(float(v) for v in described), float(durations.mean(self.model.duration, draw.lam[k])))

    def _segmentation(self, draw: Draw) -> Segmentation:
        names = self._parameter_names()
        parameters = tuple(dict(zip(names, self._numbers(draw, k), strict=True)) for k in range(len(draw.theta)))
        points = tuple(int(t) for t in _change_points(draw))
        return Segmentation(points, draw.states(len(self.y)), parameters, draw.log_joint)

    # Reports

    def _scalars(self) -> dict[str, np.ndarray]:
        """Scalar quantities that chains can be judged by, (chains, draws) each."""
        shape = (len(self.chains), len(self.chains[0]))
        scalars = {
            "log_joint": self.log_joint,
            "log_mass": self.log_mass,
            "n_states": self.n_states,
            "n_changes": self.n_changes,
        }
        for name in HYPERPARAMETERS:
            if isinstance(getattr(self.model, name), tuple):
                scalars[name] = self.hyperparameter(name)
        for name, _ in self.model.shared:
            scalars[name] = self.hyperparameter(name)
        return {name: values.reshape(shape) for name, values in scalars.items()}

    def summary(self) -> dict[str, dict[str, float]]:
        """Mean, sd, 5% and 95% quantiles, effective sample size and R-hat of the scalar quantities."""
        result = {}
        for name, values in self._scalars().items():
            low, high = np.quantile(values, [0.05, 0.95])
            result[name] = {
                "mean": float(values.mean()),
                "sd": float(values.std()),
                "5%": float(low),
                "95%": float(high),
                "ess": effective_sample_size(values),
                "rhat": rhat(values),
            }
        return result

    def disagreements(self, option: Callable[[str], str] = str) -> list[str]:
        """Return a sentence if chains disagree on what does not depend on labels, and what to do; else nothing.

        ``option`` is how an option of ``sample`` is written.
        """
        if len(self.chains) < 2 or len(self.chains[0]) < _FEWEST_DRAWS:
            return []
        scalars = self._scalars()
        apart = [name for name, least in _MATERIAL.items() if np.ptp(scalars[name].mean(axis=1)) > least]
        found = {name: rhat(scalars[name]) for name in apart}
        worst = max(found, key=lambda name: found[name], default=None)
        if worst is None or found[worst] <= _HIGHEST_RHAT:
            return []
        masses = scalars["log_mass"].mean(axis=1)
        behind = np.flatnonzero(masses < masses.max() - _NEAR)
        stuck = ""
        if len(behind):
            chains = f"chain {behind[0] + 1} lies" if len(behind) == 1 else f"{len(behind)} chains lie"
            stuck = f" ({chains} up to {np.ptp(masses):.0f} nats behind the best in log_mass)"
        tempering = "" if self.model.outliers else f", or set {option('rungs')} to 4"
        return [
            f"the chains disagree: R-hat of {worst} is {found[worst]:.2f}{stuck}; raise {option('burn_in')} and "
            f"{option('draws')}{tempering}. The best explanation of all chains is in map"
        ]

    def to_dataframe(self) -> Any:
        """A pandas DataFrame, one row a draw."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "to_dataframe needs pandas: pip install 'ishsmm-stream[plots]' or pip install pandas"
            ) from None
        scalars = self._scalars()
        chains, draws = next(iter(scalars.values())).shape
        index = {"chain": np.repeat(np.arange(chains), draws), "draw": np.tile(np.arange(draws), chains)}
        columns = {name: values.ravel() for name, values in scalars.items()}
        return pandas.DataFrame({**index, **columns, "change_points": [p.tolist() for p in self.change_points]})

    def to_arviz(self) -> Any:
        """An arviz InferenceData: the scalar quantities and the states, with the observations."""
        try:
            import arviz
        except ImportError:
            raise ImportError("to_arviz needs arviz: pip install 'ishsmm-stream[plots]' or pip install arviz") from None
        scalars = self._scalars()
        shape = next(iter(scalars.values())).shape
        posterior = {**scalars, "states": self.states.reshape(*shape, len(self.y))}
        return arviz.from_dict(posterior=posterior, observed_data={"y": self.y})


def _change_points(draw: Draw) -> np.ndarray:
    """Starts whose state differs from the one before."""
    return draw.starts[1:][draw.labels[1:] != draw.labels[:-1]]
