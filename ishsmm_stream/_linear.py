"""Small dense linear algebra, written out: a kernel and its ``.py_func`` agree exactly, and no LAPACK is called."""

from __future__ import annotations

import math

from ishsmm_stream._jit import kernel


@kernel
def cholesky(matrix):
    """Replace the lower triangle of a positive definite ``matrix`` by its factor L, matrix = L L'.

    Only the lower triangle is read and written. A pivot that rounding has brought below 1e-15 of its diagonal entry is
    taken as that: a matrix that is singular to working precision gives a finite factor.
    """
    size = matrix.shape[0]
    for i in range(size):
        diagonal = matrix[i, i]
        pivot = diagonal
        for j in range(i):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            entry = total / matrix[j, j]
            matrix[i, j] = entry
            pivot -= entry * entry
        matrix[i, i] = math.sqrt(max(pivot, 1e-15 * diagonal))


@kernel
def log_determinant(factor):
    """ln |L L'| of a lower triangular factor L."""
    total = 0.0
    for i in range(factor.shape[0]):
        total += math.log(factor[i, i])
    return 2.0 * total


@kernel
def solve_lower(factor, vector):
    """Replace ``vector`` by the x with L x = vector; only the lower triangle of ``factor`` is read."""
    for i in range(factor.shape[0]):
        total = vector[i]
        for j in range(i):
            total -= factor[i, j] * vector[j]
        vector[i] = total / factor[i, i]


@kernel
def solve_lower_transposed(factor, vector):
    """Replace ``vector`` by the x with L' x = vector; only the lower triangle of ``factor`` is read."""
    size = factor.shape[0]
    for i in range(size - 1, -1, -1):
        total = vector[i]
        for j in range(i + 1, size):
            total -= factor[j, i] * vector[j]
        vector[i] = total / factor[i, i]
