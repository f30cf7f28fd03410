"""The paper's uncorrected formulas fail the joint-distribution test that ours pass.

Each formula is put back into a copy of the package, which runs the same test in a process of its own.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCORES = """
import json
import ishsmm_stream as hs
import joint_distribution
prior = hs.priors.Gamma(5.0, 3.0)
model = getattr(hs, {model!r})(
    hs.emissions.Normal(mean=0.0, mean_weight=0.5, shape=3.0, scale=2.0), hs.durations.Poisson(shape=2.0, scale=1.0),
    alpha0=prior, alpha1=prior, c=prior,
)
scores = joint_distribution.z_scores(model, length={length}, sweeps={sweeps}, seed=20, **{settings!r})
print(json.dumps({{name: float(z) for name, z in scores.items()}}))
"""

# what it is, the file, our line, the paper's, the run that tells them apart, and the quantities whose law is then wrong
FORMULAS = {
    "left-to-right gamma has the L of later rows": (
        "batch/hierarchy.py",
        "                if rules.allowed[row, k]:\n                    exposure[k] = log_add(exposure[k], log_l)",
        "                if row > 0 and k < row - 1:\n                    exposure[k] = log_add(exposure[k], log_l)",
        {"model": "ilr", "length": 10, "sweeps": 4_000, "settings": {"paper_slice": True}},
        ("segments", "c"),
    ),
    "a new state's share of gamma is Beta(1, alpha0 w_+)": (
        "batch/weights.py",
        "draw_log_beta(rng, log_alpha0 + weights.log_w[count], log_alpha0 + weights.tail[TAIL_W])",
        "draw_log_beta(rng, 0.0, log_alpha0 + weights.tail[TAIL_W])",
        {"model": "ilr", "length": 10, "sweeps": 4_000, "settings": {"paper_slice": True}},
        ("c",),
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if i > 0 else []) for i, name in enumerate(FORMULAS)]
)
def test_the_papers_formula_fails_where_ours_passes(name, tmp_path):
    file, ours, papers, run, wrong = FORMULAS[name]
    shutil.copytree(ROOT / "ishsmm_stream", tmp_path / "ishsmm_stream")
    source = (tmp_path / "ishsmm_stream" / file).read_text()
    assert source.count(ours) == 1, "the formula has moved: find its line again"
    (tmp_path / "ishsmm_stream" / file).write_text(source.replace(ours, papers))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}", "NUMBA_CACHE_DIR": str(tmp_path)}
    finished = subprocess.run(
        [sys.executable, "-c", SCORES.format(**run)],
        capture_output=True, text=True, env=environment, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    scores = json.loads(finished.stdout)
    assert all(abs(scores[quantity]) > 5.0 for quantity in wrong), scores
