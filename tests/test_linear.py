"""Triangular factors and solves against numpy's."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from ishsmm_stream import _linear
from ishsmm_stream._jit import owning_kernel


@owning_kernel
def exercise(matrix, lower, upper):
    """Factor ``matrix`` in place, and solve with L and L'."""
    _linear.cholesky(matrix)
    _linear.solve_lower(matrix, lower)
    _linear.solve_lower_transposed(matrix, upper)
    return _linear.log_determinant(matrix)


def random_problem(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(size)
    root = rng.standard_normal((size, size))
    return root @ root.T + 0.1 * np.eye(size), rng.standard_normal(size)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_factor_solves_and_determinant_are_numpy_s(size):
    matrix, vector = random_problem(size)
    factor, lower, upper = matrix.copy(), vector.copy(), vector.copy()
    log_determinant = exercise(factor, lower, upper)
    expected = np.linalg.cholesky(matrix)
    np.testing.assert_allclose(np.tril(factor), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(np.triu(factor, 1), np.triu(matrix, 1))  # not touched
    np.testing.assert_allclose(lower, np.linalg.solve(expected, vector), rtol=1e-9)
    np.testing.assert_allclose(upper, np.linalg.solve(expected.T, vector), rtol=1e-9)
    assert log_determinant == pytest.approx(np.linalg.slogdet(matrix).logabsdet, rel=1e-11)


def test_a_singular_matrix_has_a_finite_factor():
    matrix = np.ones((3, 3))
    lower, upper = np.ones(3), np.ones(3)
    assert np.isfinite(exercise(matrix, lower, upper))
    np.testing.assert_allclose(np.tril(matrix) @ np.tril(matrix).T, np.ones((3, 3)), atol=1e-7)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_compiled_functions_and_python_agree_exactly():
    matrix, vector = random_problem(5)
    compiled = (matrix.copy(), vector.copy(), vector.copy())
    _linear.cholesky(compiled[0])
    _linear.solve_lower(compiled[0], compiled[1])
    _linear.solve_lower_transposed(compiled[0], compiled[2])
    python = (matrix.copy(), vector.copy(), vector.copy())
    _linear.cholesky.py_func(python[0])
    _linear.solve_lower.py_func(python[0], python[1])
    _linear.solve_lower_transposed.py_func(python[0], python[2])
    for ours, theirs in zip(compiled, python, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert _linear.log_determinant(compiled[0]) == _linear.log_determinant.py_func(compiled[0])
