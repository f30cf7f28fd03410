"""What the priors say before any data: transition matrices and trajectories of four models.

As in the paper's figure: 20 x 20 corners of transition matrices and three trajectories of 100 steps, of the HDP-HMM,
the sticky one, the IED-HMM and the ILR-HMM. The dwell is ten steps on average, in the sticky model by its kappa.
Where the models have a gamma process the sticks are GEM(10): many states that alpha0 then chooses from; the HDP models'
sticks are GEM(alpha0).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ishsmm_stream.experiments import style
from ishsmm_stream.experiments.labels import runs
from ishsmm_stream.experiments.outcome import Claim, Outcome, Progress, judged

MODELS = ("HDP-HMM", "sticky HDP-HMM", "IED-HMM", "ILR-HMM")
SETTINGS = ((1.0, 1.0), (1.0, 10.0), (10.0, 1.0), (10.0, 10.0))  # (alpha0, alpha1)
DWELL = 10.0
_STICKS = 10.0
_STATES = 250  # that are drawn
_SHOWN = 20
_STEPS = 100


def run(progress: Progress, quick: bool = False) -> Outcome:
    repeats = 20 if quick else 300
    rng = np.random.default_rng(1)
    numbers: dict[str, Any] = {"settings": SETTINGS, "examples": {}, "summary": {}}
    total = len(SETTINGS) * len(MODELS)
    progress.step("draws from the priors", total)
    for i, setting in enumerate(SETTINGS):
        for j, name in enumerate(MODELS):
            drawn = [_draw_one(name, *setting, rng) for _ in range(repeats)]
            key = f"{name} {setting[0]:g} {setting[1]:g}"
            rows, _, _ = drawn[0]
            numbers["examples"][key] = {"rows": rows[:_SHOWN, :_SHOWN], "paths": [path for _, _, path in drawn[:3]]}
            numbers["summary"][key] = {
                "states": float(np.mean([len(np.unique(path)) for _, _, path in drawn])),
                "dwell": _STEPS * repeats / sum(len(runs(path)[0]) for _, _, path in drawn),
                "variability": float(np.mean([_distance(rows, base) for rows, base, _ in drawn])),
                "successors": float(np.mean([_successors(rows) for rows, _, _ in drawn])),
            }
            progress.reach(i * len(MODELS) + j + 1, total)
    return Outcome(_judge(numbers), numbers, {"prior": _draw(numbers)})


def _draw_one(name: str, alpha0: float, alpha1: float, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """(transition rows, the measures that they are drawn around, a trajectory)."""
    is_hdp = name.endswith("HDP-HMM")
    log_weights = _log_sticks(alpha0 if is_hdp else _STICKS, rng)
    if not is_hdp:
        log_weights = _log_gamma_variables(alpha0 * np.exp(log_weights), rng)
    allowed = np.ones((_STATES, _STATES), dtype=bool)
    if name == "IED-HMM":
        np.fill_diagonal(allowed, False)
    elif name == "ILR-HMM":
        allowed = np.triu(allowed, 1)
        allowed[-1, -1] = True  # the last one drawn has nowhere to go
    base = _normalised(np.where(allowed, log_weights, -np.inf))
    rows = _dirichlet(alpha1 * base, rng)
    if name == "sticky HDP-HMM":  # kappa / (alpha1 + kappa) = 1 - 1 / dwell on the state itself
        kappa = alpha1 * (DWELL - 1.0)
        moved = _dirichlet(alpha1 * base + kappa * np.eye(_STATES), rng)
        off_diagonal = np.where(np.eye(_STATES, dtype=bool), 0.0, moved)
        rows = off_diagonal / np.maximum(off_diagonal.sum(axis=1, keepdims=True), 1e-300)
        return rows, base, _walk(moved, _dirichlet(alpha1 * _normalised(log_weights), rng), None, rng)
    first = _dirichlet(alpha1 * _normalised(log_weights), rng)
    rates = None if name == "HDP-HMM" else rng.gamma(1.0, DWELL - 1.0, _STATES)
    return rows, base, _walk(rows, first, rates, rng)


def _log_sticks(c: float, rng: np.random.Generator) -> np.ndarray:
    """ln w of GEM(c)."""
    v = rng.beta(1.0, c, _STATES)
    return np.log(v) + np.concatenate([[0.0], np.cumsum(np.log1p(-v))[:-1]])


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    """Rows that sum to 1."""
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _dirichlet(concentration: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of Dirichlet variables."""
    return _normalised(_log_gamma_variables(concentration, rng))


def _log_gamma_variables(shape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """ln of Gamma(shape, 1) variables, where most shapes are tiny: G(a) is G(a + 1) U^(1/a)."""
    possible = np.maximum(shape, 1e-300)
    logs = np.log(rng.standard_gamma(possible + 1.0)) + np.log1p(-rng.random(shape.shape)) / possible
    return np.where(shape > 0.0, logs, -np.inf)


def _walk(rows: np.ndarray, first: np.ndarray, rates: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """A trajectory; with ``rates``, segments of state k last 1 + Poisson(rates[k])."""
    path: list[int] = []
    probabilities = first
    while len(path) < _STEPS:
        state = min(int(np.searchsorted(np.cumsum(probabilities), rng.random())), len(rows) - 1)
        path += [state] * (1 if rates is None else 1 + int(rng.poisson(rates[state])))
        probabilities = rows[state]
    return np.array(path[:_STEPS])


def _distance(rows: np.ndarray, base: np.ndarray) -> float:
    """How far rows are from what they are drawn around: mean total variation of the first twenty."""
    return float(0.5 * np.abs(rows[:_SHOWN] - base[:_SHOWN]).sum(axis=1).mean())


def _successors(rows: np.ndarray) -> float:
    """The effective number of states that can follow a state, the exponential of its row's entropy."""
    shown = np.clip(rows[:_SHOWN], 1e-300, 1.0)
    return float(np.exp(-(shown * np.log(shown)).sum(axis=1)).mean())


def _judge(numbers: dict[str, Any]) -> list[Claim]:
    summary = numbers["summary"]

    def mean(name: str, what: str, alpha0: float | None = None, alpha1: float | None = None) -> float:
        chosen = [(a0, a1) for a0, a1 in SETTINGS if alpha0 in (None, a0) and alpha1 in (None, a1)]
        return float(np.mean([summary[f"{name} {a0:g} {a1:g}"][what] for a0, a1 in chosen]))

    claims = []
    for name in MODELS:
        few, many = (mean(name, "states", alpha0=a) for a in (1.0, 10.0))
        ours = f"{few:.1f} states in {_STEPS} steps at alpha0 = 1, {many:.1f} at 10"
        claims.append(judged(f"{name}: small alpha0, few states", ours, few < 0.9 * many))
    loose, tight = (np.mean([mean(name, "variability", alpha1=a) for name in MODELS]) for a in (1.0, 10.0))
    claims.append(
        judged("large alpha1: rows vary more from the common measure",
               f"total variation from it {loose:.2f} at alpha1 = 1, {tight:.2f} at 10", tight > loose)
    )  # fmt: skip
    sticky, ied, hdp = (mean(name, "dwell") for name in ("sticky HDP-HMM", "IED-HMM", "HDP-HMM"))
    claims += [
        judged("sticky and IED persist alike a priori", f"mean dwell {sticky:.1f} and {ied:.1f} in {_STEPS} steps",
               abs(np.log(sticky / ied)) < np.log(2.0)),
        judged("the HDP-HMM cannot set the dwell", f"mean dwell {hdp:.1f}, the others were asked for {DWELL:g}",
               hdp < 0.5 * min(sticky, ied)),
    ]  # fmt: skip
    narrow, broad = (mean("ILR-HMM", "successors", alpha0=a) for a in (1.0, 10.0))
    claims.append(
        judged("ILR-HMM: at large alpha0 paths differ and skip states",
               f"{narrow:.1f} effective successors of a state at alpha0 = 1, {broad:.1f} at 10", broad > 1.1 * narrow)
    )  # fmt: skip
    return claims


def _draw(numbers: dict[str, Any]) -> Figure:
    figure = style.new_figure(6.3, "Draws from the priors: transition matrices (20 x 20) and three trajectories")
    outer = figure.add_gridspec(len(MODELS), len(SETTINGS))
    for row, name in enumerate(MODELS):
        for column, (alpha0, alpha1) in enumerate(SETTINGS):
            example = numbers["examples"][f"{name} {alpha0:g} {alpha1:g}"]
            inner = outer[row, column].subgridspec(1, 2)
            matrix, paths = figure.add_subplot(inner[0, 0]), figure.add_subplot(inner[0, 1])
            matrix.imshow(np.sqrt(example["rows"]), cmap="Greys", vmin=0.0, vmax=1.0)
            matrix.set_xticks([])
            matrix.set_yticks([])
            if row == 0:
                matrix.set_title(f"alpha0 = {alpha0:g}, alpha1 = {alpha1:g}", fontsize=style.FONT, loc="left")
            if column == 0:
                matrix.set_ylabel(name, fontsize=style.FONT)
            for k, path in enumerate(example["paths"]):
                paths.step(range(len(path)), path, where="post", color=style.STATE_COLOURS[k], linewidth=0.9)
            style.tidy(paths, x="time" if row == len(MODELS) - 1 else "")
            paths.set_box_aspect(1.0)
            paths.set_ylim(-0.7, max(4.0, max(int(np.max(path)) for path in example["paths"]) + 0.7))
            style.whole_numbers(paths.yaxis, 4)
            paths.set_xticks([0, 50, 100])
            paths.tick_params(labelsize=style.FONT - 2.5, pad=1.5)
    return figure
