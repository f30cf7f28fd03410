"""Special functions and draws against scipy. Statistical checks have fixed seeds and a false alarm rate below 1e-6."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from scipy import integrate, special, stats

from ishsmm_stream import _special
from ishsmm_stream._jit import owning_kernel

FALSE_ALARM = 1e-6


@owning_kernel
def tabulate(x):
    """Every deterministic function on a grid, in one compiled function."""
    table = np.empty((len(x), 6))
    for i in range(len(x)):
        table[i, 0] = _special.log_gamma(x[i])
        table[i, 1] = _special.log_add(x[i], 1.0)
        table[i, 2] = _special.log_sigmoid(x[i] - 50.0)
        table[i, 3] = _special.log_student_t(x[i], 3.5, 1.25, 0.49)
        table[i, 4] = _special.log_gamma_ratio(x[i], 0.3)
        table[i, 5] = _special.log_gamma_ratio(x[i] + 0.3, 2.7)
    return table


@owning_kernel
def draw(rng, count, shape, a, b, weights):
    """ln gamma, ln beta with its complement, and indices."""
    drawn = np.empty((count, 4))
    for i in range(count):
        drawn[i, 0] = _special.draw_log_gamma(rng, shape)
        drawn[i, 1], drawn[i, 2] = _special.draw_log_beta(rng, math.log(a), math.log(b))
        drawn[i, 3] = _special.draw_index(rng, weights, len(weights))
    return drawn


GRID = np.concatenate([np.logspace(-8.0, 8.0, 4_001), np.linspace(0.9, 2.1, 241), np.arange(1.0, 21.0)])
WEIGHTS = np.array([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])


def drawn(shape: float, a: float = 1.0, b: float = 1.0, count: int = 20_000) -> np.ndarray:
    return draw(np.random.default_rng(11), count, shape, a, b, WEIGHTS)


def test_log_gamma_is_right_from_1e_8_to_1e8():
    expected = special.gammaln(GRID)
    error = np.abs(tabulate(GRID)[:, 0] - expected)
    # near its zeros at 1 and 2 the error is absolute, elsewhere relative
    assert np.max(error / np.maximum(np.abs(expected), 1.0)) < 2e-14


def test_log_gamma_ratio_keeps_the_digits_that_a_difference_loses():
    """Gamma(x + 3) / Gamma(x) = x (x + 1) (x + 2), in two steps; a difference of log_gamma at 1e8 has 7 digits left."""
    first, second = tabulate(GRID)[:, 4:].T
    np.testing.assert_allclose(first + second, np.log(GRID) + np.log1p(GRID) + np.log(GRID + 2.0), rtol=0, atol=1e-13)
    # and each by itself: at large x the ratio is x^step, to first order
    large = GRID[GRID > 1e7]
    expected = 0.3 * np.log(large) + 0.5 * 0.3 * (0.3 - 1.0) / large
    np.testing.assert_allclose(first[GRID > 1e7], expected, rtol=1e-14)


@pytest.mark.parametrize(("x", "step"), [(2.5, 40.0), (30.0, 1e-9), (1e15, 3.5), (1e15, 1e12)])
def test_log_gamma_ratio_backwards_is_its_negative(x, step):
    assert _special.log_gamma_ratio(x + step, -step) == pytest.approx(-_special.log_gamma_ratio(x, step), rel=1e-15)


def test_log_add_is_right_and_takes_minus_infinity_as_zero():
    np.testing.assert_allclose(tabulate(GRID)[:, 1], np.logaddexp(GRID, 1.0), rtol=1e-14)
    assert _special.log_add(-np.inf, 2.0) == 2.0
    assert _special.log_add(2.0, -np.inf) == 2.0
    assert _special.log_add(-np.inf, -np.inf) == -np.inf


def test_log_sigmoid_is_right_on_both_sides():
    np.testing.assert_allclose(tabulate(GRID)[:, 2], special.log_expit(GRID - 50.0), rtol=1e-13, atol=0.0)


def test_student_t_is_scipy_s():
    np.testing.assert_allclose(tabulate(GRID)[:, 3], stats.t.logpdf(GRID, 3.5, 1.25, 0.7), rtol=1e-12)


@pytest.mark.parametrize("shape", [0.3, 0.99, 1.0, 2.5, 40.0])
def test_log_gamma_variates_have_their_distribution(shape):
    assert stats.kstest(drawn(shape)[:, 0], stats.loggamma(shape).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("shape", [1e-8, 1e-200])
def test_log_gamma_variates_of_tiny_shapes_do_not_underflow(shape):
    """-shape ln G tends to a unit exponential as the shape goes to 0."""
    assert stats.kstest(-shape * drawn(shape)[:, 0], "expon").pvalue > FALSE_ALARM


def test_log_gamma_variates_of_a_small_shape_have_their_moments():
    log_variates = drawn(1e-3)[:, 0]
    expected, variance = special.digamma(1e-3), special.polygamma(1, 1e-3)
    assert abs(log_variates.mean() - expected) < 5.0 * math.sqrt(variance / len(log_variates))
    assert log_variates.min() < -1e3


def test_a_gamma_variate_of_shape_0_is_0():
    assert np.all(drawn(0.0, count=5)[:, 0] == -np.inf)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2.0, 7.0), (1.0, 0.05), (30.0, 4.0)])
def test_log_beta_variates_have_their_distribution(a, b):
    log_x, log_rest = drawn(1.0, a, b)[:, 1:3].T
    np.testing.assert_allclose(np.logaddexp(log_x, log_rest), 0.0, atol=1e-12)
    # Of x and 1 - x the one with the smaller shape: the other may round to 1.
    smaller, expected = (log_x, stats.beta(a, b)) if a < b else (log_rest, stats.beta(b, a))
    assert stats.kstest(np.exp(smaller), expected.cdf).pvalue > FALSE_ALARM


def test_log_beta_variates_of_tiny_shapes_have_their_moments():
    """At 1e-3 most of the mass is at the ends, far below the smallest double."""
    log_x = drawn(1.0, 1e-3, 3e-3)[:, 1]
    expected = special.digamma(1e-3) - special.digamma(4e-3)
    variance = special.polygamma(1, 1e-3) - special.polygamma(1, 4e-3)
    assert abs(log_x.mean() - expected) < 5.0 * math.sqrt(variance / len(log_x))
    assert log_x.min() < -1e3


def test_log_beta_variates_at_the_edges():
    rng = np.random.default_rng(2)
    assert _special.draw_log_beta(rng, -np.inf, 0.0) == (_special.SMALLEST_LOG, 0.0)
    assert _special.draw_log_beta(rng, 0.0, -np.inf) == (0.0, _special.SMALLEST_LOG)


def test_a_beta_with_vanishing_parameters_is_a_coin():
    """P(x = 1) = a / (a + b), here 3/4; 4,000 tosses, false alarm rate 1e-6."""
    rng = np.random.default_rng(2)
    ones = sum(_special.draw_log_beta(rng, -5000.0 + math.log(3.0), -5000.0)[0] == 0.0 for _ in range(4_000))
    assert abs(ones - 3_000) < 5.0 * math.sqrt(750.0)


def test_indices_have_the_probability_of_their_weight():
    counts = np.bincount(drawn(1.0)[:, 3].astype(int), minlength=len(WEIGHTS))
    assert not counts[WEIGHTS == 0.0].any()
    assert stats.chisquare(counts[WEIGHTS > 0.0], 20_000 * WEIGHTS[WEIGHTS > 0.0]).pvalue > FALSE_ALARM


def test_student_t_integrates_to_one():
    area, _ = integrate.quad(lambda y: math.exp(_special.log_student_t(y, 2.2, -1.0, 3.0)), -np.inf, np.inf)
    assert area == pytest.approx(1.0, rel=1e-8)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_compiled_functions_and_python_agree_exactly():
    x = np.logspace(-8.0, 8.0, 201)
    two = [
        (_special.log_gamma, (x,)),
        (_special.log_gamma_ratio, (x, x[::-1])),
        (_special.log_add, (x, x[::-1])),
        (_special.log_sigmoid, (x - 50.0,)),
        (_special.log_student_t, (x, x[::-1], x, x)),
    ]
    for function, arguments in two:
        for values in zip(*(argument.tolist() for argument in arguments), strict=True):
            assert function(*values) == function.py_func(*values), (function, values)
    for function, arguments in [
        (_special.draw_log_gamma, (0.3,)),
        (_special.draw_log_gamma, (3.0,)),
        (_special.draw_log_beta, (-1.6, 1.4)),
        (_special.draw_index, (WEIGHTS, len(WEIGHTS))),
    ]:
        compiled, python = np.random.default_rng(4), np.random.default_rng(4)
        for _ in range(100):
            assert function(compiled, *arguments) == function.py_func(python, *arguments)
