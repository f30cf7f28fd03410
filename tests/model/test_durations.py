"""The duration families against scipy's distributions, quadrature over the parameter and exact arithmetic.

Statistical tests have fixed seeds. A moment may be 5 standard errors off (false alarm rate 6e-7 each, under 1e-4 for
the file); a chi-square test fails below p = 1e-6.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from decimal import Decimal, localcontext

import numba
import numpy as np
import pytest
from scipy import special, stats

from ishsmm_stream._jit import owning_kernel
from ishsmm_stream.model.durations import DelayedGeometric, Fixed, Geometric, NegativeBinomial, Poisson, family

DRAWS = 300 if numba.config.DISABLE_JIT else 20_000
LARGEST_Q = 1.0 - 2.0**-53
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy.*")  # the oracle at the ends of its range


# Kernels that serve every family: these are what numba compiles here.


@owning_kernel
def collect(prior, counts):
    stats = np.empty(family.stats_size(prior))
    family.clear(prior, stats)
    for r in counts:
        family.add(prior, stats, r)
    return stats


@owning_kernel
def evaluate(prior, stats, params, counts):
    """Rows: ln F, ln predictive pmf, ln predictive survival."""
    out = np.empty((3, counts.shape[0]))
    for i in range(counts.shape[0]):
        out[0, i] = family.log_pmf(prior, params, counts[i])
        out[1, i] = family.log_predictive_pmf(prior, stats, counts[i])
        out[2, i] = family.log_predictive_survival(prior, stats, counts[i])
    return out


@owning_kernel
def tabulate(prior, params, pmf, survival):
    return family.tabulate(prior, params, pmf, survival)


@owning_kernel
def table_length(prior, params, log_threshold):
    return family.table_length(prior, params, log_threshold)


@owning_kernel
def sample_parameters(prior, stats, censored, rng, draws):
    for i in range(draws.shape[0]):
        family.draw_parameters(prior, stats, censored, rng, draws[i])


@owning_kernel
def sample_counts(prior, params, lowest, rng, draws):
    for i in range(draws.shape[0]):
        if lowest < 0:
            draws[i] = family.draw(prior, params, rng)
        else:
            draws[i] = family.draw_beyond(prior, params, lowest, rng)


# One oracle a family: the prior as weighted parameter values (the trapezoidal rule in ln rate or logit q is exact to
# doubles), and F by scipy.stats.


class PoissonOracle:
    def __init__(self, prior):
        t = np.linspace(-60.0, 12.0, 7201)
        rate = np.exp(t)
        self.params = rate[:, np.newaxis]
        self.weights = np.exp(stats.gamma.logpdf(rate, prior.shape, scale=prior.scale) + t) * (t[1] - t[0])

    def law(self, params):
        return stats.poisson(params[..., 0])


def beta_nodes(a, b):
    t = np.linspace(-100.0, 100.0, 8001)
    log_density = a * special.log_expit(t) + b * special.log_expit(-t) - special.betaln(a, b)
    return special.expit(t), special.expit(-t), np.exp(log_density) * (t[1] - t[0])


class NegativeBinomialOracle:
    def __init__(self, prior):
        q, p, weights = beta_nodes(prior.a, prior.b)
        sizes = prior.size
        self.params = np.array([(size, value) for size in sizes for value in q])
        self.complement = np.tile(p, len(sizes))
        self.weights = np.tile(weights, len(sizes)) / len(sizes)

    def law(self, params):
        return stats.nbinom(params[..., 0], self.complement if params is self.params else 1.0 - params[..., 1])


class DelayedGeometricOracle:
    def __init__(self, prior):
        q, _, weights = beta_nodes(prior.a, prior.b)
        delays = range(prior.max_delay + 1)
        self.params = np.array([(delay, value) for delay in delays for value in q])
        self.weights = np.tile(weights, len(delays)) / len(delays)

    def law(self, params):
        return stats.geom(params[..., 1], loc=params[..., 0] - 1)


class FixedOracle:
    def __init__(self, prior):
        self.params = np.array([[float(prior.remaining)]])
        self.weights = np.ones(1)

    def law(self, params):
        return stats.randint(params[..., 0], params[..., 0] + 1)


class Case:
    """A prior, its oracle, counts that it may have produced, and parameters from ordinary to extreme."""

    def __init__(self, prior, oracle, complete, censored, params):
        self.prior = prior
        self.oracle = oracle(prior)
        self.complete = np.array(complete, dtype=np.int64)
        self.censored = censored
        self.params = [np.array(values, dtype=np.float64) for values in params]

    def posterior(self, complete, censored=-1):
        """Weights of ``oracle.params`` given the data, and their sum: the marginal likelihood."""
        law = self.oracle.law(self.oracle.params)
        weights = self.oracle.weights.copy()
        for r in complete:
            weights = weights * law.pmf(r)
        if censored > 0:
            weights = weights * law.sf(censored - 1)
        return weights / weights.sum(), weights.sum()


CASES = {
    "poisson": Case(
        Poisson(2.0, 6.0), PoissonOracle, [4, 2, 9], 14, [[7.3], [0.3], [0.0], [1e-300], [900.0], [3000.0], [5e4]]
    ),
    "negative_binomial": Case(
        NegativeBinomial(2.5, 2.0, 1.5),
        NegativeBinomialOracle,
        [4, 2, 9],
        30,
        [[2.5, 0.8], [0.3, 0.97], [2.5, 1e-300], [40.0, 0.96], [1500.0, 0.7], [2.5, LARGEST_Q], [1e4, 0.9]],
    ),
    "negative_binomial_grid": Case(
        NegativeBinomial((0.5, 2.0, 7.0), 1.5, 2.0), NegativeBinomialOracle, [4, 2, 9, 0], 25, [[7.0, 0.6]]
    ),
    "delayed_geometric": Case(
        DelayedGeometric(1.5, 4.0, 6),
        DelayedGeometricOracle,
        [4, 3, 9],
        12,
        [[3.0, 0.15], [0.0, 1e-300], [6.0, 1.0], [2.0, LARGEST_Q], [5.0, 1e-5]],
    ),
    "geometric": Case(Geometric(2.0, 3.0), DelayedGeometricOracle, [4, 0, 9], 12, [[0.0, 0.2]]),
    "fixed": Case(Fixed(3), FixedOracle, [3, 3], 2, [[3.0], [0.0]]),
}


@pytest.fixture(params=list(CASES))
def case(request):
    return CASES[request.param]


def table(prior, params, length):
    pmf, survival = np.full(length, np.nan), np.full(length, np.nan)
    low, high = tabulate(prior, params, pmf, survival)
    return pmf, survival, low, high


def test_log_pmf_is_the_law(case):
    counts = np.concatenate([np.arange(200), [999, 10_000, 100_000, 1_000_000]])
    for params in case.params:
        got = evaluate(case.prior, collect(case.prior, case.complete), params, counts)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            want = case.oracle.law(params).logpmf(counts)
        fine = np.isfinite(want)
        np.testing.assert_allclose(got[fine], want[fine], rtol=1e-12, atol=1e-8)  # scipy's digits at r = 1e6
        assert np.all(got[np.isneginf(want)] < -600.0)  # impossible, or q^r with q = 1e-300, which scipy rounds to 0
        assert not np.isnan(got).any()


@pytest.mark.parametrize("length", [0, 1, 4, 60, 850, 4000])
def test_table_holds_the_law_wherever_it_ends(case, length):
    for params in case.params:
        pmf, survival, low, high = table(case.prior, params, length)
        assert 0 <= low <= high <= length
        inside = np.arange(low, high)
        stats_ = collect(case.prior, case.complete[:0])
        log_pmf = evaluate(case.prior, stats_, params, np.arange(length))[0]
        np.testing.assert_allclose(pmf[inside], np.exp(log_pmf[inside]), rtol=1e-10)
        assert np.all(log_pmf[:low] < family.LOG_NEGLIGIBLE + 1e-9)
        assert np.all(log_pmf[high:] < family.LOG_NEGLIGIBLE + 1e-9)
        assert np.isnan(pmf[:low]).all()
        assert np.isnan(pmf[high:]).all()
        tails = case.oracle.law(params).sf(np.arange(high) - 1)
        np.testing.assert_allclose(survival[:high], tails, rtol=1e-9, atol=1e-290)


def test_table_and_the_mass_beyond_it_sum_to_one(case):
    for params in case.params:
        if case.oracle.law(params).mean() < 5000:
            pmf, survival, low, high = table(case.prior, params, 5001)
            below = pmf[low : min(high, 5000)].sum()
            beyond = survival[5000] if high > 5000 else 0.0
            assert below + beyond == pytest.approx(1.0, abs=1e-10)
            tails = np.cumsum(pmf[low:high][::-1])[::-1]
            end = survival[high - 1] - pmf[high - 1]
            np.testing.assert_allclose(survival[low:high], tails + end, rtol=1e-10)


def test_table_length_is_the_smallest(case):
    for params in case.params:
        for log_threshold in (-1e-9, -0.5, -3.0, -30.0, -300.0, -700.0):
            length = table_length(case.prior, params, log_threshold)
            assert 0 <= length <= family.LARGEST_COUNT
            if length < 20_000:
                everything = np.arange(length + 2000)
                log_pmf = evaluate(case.prior, collect(case.prior, case.complete), params, everything)[0]
                above = np.flatnonzero(log_pmf >= log_threshold)
                assert length == (above[-1] + 1 if above.size else 0)


def test_table_length_stops_for_every_law():
    never_ends = np.array([2.5, LARGEST_Q])
    assert 1e15 < table_length(CASES["negative_binomial"].prior, never_ends, -60.0) <= family.LARGEST_COUNT
    assert table_length(Poisson(), np.array([1e200]), -1e300) == family.LARGEST_COUNT
    assert table_length(Poisson(), np.array([0.0]), -np.inf) == family.LARGEST_COUNT
    assert table_length(Geometric(), np.array([0.0, 1e-300]), -700.0) == family.LARGEST_COUNT


@pytest.mark.parametrize("seen", ["nothing", "complete"])
def test_predictive_is_the_integral_over_the_parameter(case, seen):
    complete = case.complete if seen == "complete" else case.complete[:0]
    weights, _ = case.posterior(complete)
    counts = np.array([0, 1, 2, 3, 4, 5, 8, 13, 40, 150, 1000])
    _, log_pmf, log_survival = evaluate(case.prior, collect(case.prior, complete), case.params[0], counts)
    law = case.oracle.law(case.oracle.params)
    pmf = [weights @ law.pmf(r) for r in counts]
    survival = [weights @ law.sf(r - 1) for r in counts]
    np.testing.assert_allclose(np.exp(log_pmf), pmf, rtol=1e-9, atol=1e-290)
    np.testing.assert_allclose(np.exp(log_survival), survival, rtol=1e-9, atol=1e-290)


def test_predictive_sums_to_one(case):
    counts = np.arange(401)
    _, log_pmf, log_survival = evaluate(case.prior, collect(case.prior, case.complete), case.params[0], counts)
    tails = np.cumsum(np.exp(log_pmf[:400])[::-1])[::-1] + np.exp(log_survival[400])
    np.testing.assert_allclose(np.exp(log_survival[:400]), tails, rtol=1e-11)
    assert log_survival[0] == pytest.approx(0.0, abs=1e-12)


def test_predictive_does_not_depend_on_the_order(case):
    def chain(counts):
        total = 0.0
        for i, r in enumerate(counts):
            seen = collect(case.prior, counts[:i])
            total += evaluate(case.prior, seen, case.params[0], np.array([r]))[1, 0]
        return total

    forward = chain(case.complete)
    assert chain(case.complete[::-1].copy()) == pytest.approx(forward, abs=1e-12)
    assert np.exp(forward) == pytest.approx(case.posterior(case.complete)[1], rel=1e-9)


@pytest.mark.parametrize("seen", ["nothing", "complete", "censored", "censored_soon", "censored_late", "both"])
def test_draws_of_the_parameter_have_the_posterior_moments(case, seen):
    complete = case.complete if seen in ("complete", "both") else case.complete[:0]
    censored = {"nothing": -1, "complete": 0, "censored_soon": 2, "censored_late": 8 * case.censored}.get(
        seen, case.censored
    )
    if isinstance(case.prior, Fixed):
        censored = min(censored, case.prior.remaining)
    weights, _ = case.posterior(complete, censored)
    draws = np.empty((DRAWS, family.params_size(case.prior)))
    sample_parameters(case.prior, collect(case.prior, complete), censored, np.random.default_rng(7), draws)
    for power in (1, 2, "product"):
        got = draws.prod(axis=1, keepdims=True) if power == "product" else draws**power
        values = case.oracle.params
        values = values.prod(axis=1, keepdims=True) if power == "product" else values**power
        mean = weights @ values
        sd = np.sqrt(np.maximum(weights @ (values - mean) ** 2, 0.0))
        for column in range(mean.shape[0]):
            if sd[column] < 1e-9:
                np.testing.assert_allclose(got[:, column], mean[column], rtol=1e-9)
            else:
                assert abs(got[:, column].mean() - mean[column]) < 5.0 * sd[column] / np.sqrt(DRAWS)


@pytest.mark.parametrize("lowest", [-1, 0, 2, 15, 60])
def test_draws_of_counts_have_the_law(case, lowest):
    params = case.params[0]
    if isinstance(case.prior, Fixed):
        lowest = min(lowest, 3)
    draws = np.empty(DRAWS, dtype=np.int64)
    sample_counts(case.prior, params, lowest, np.random.default_rng(11), draws)
    law = case.oracle.law(params)
    first = max(lowest, 0)
    assert draws.min() >= first
    expected = law.pmf(np.arange(first, first + 2000)) / law.sf(first - 1) * DRAWS
    observed = np.bincount(draws - first, minlength=2000)
    # neighbouring counts are pooled until 10 draws are expected in each cell
    edges, mass = [0], 0.0
    for i, value in enumerate(expected):
        mass += value
        if mass >= 10.0 and expected[i + 1 :].sum() >= 10.0:
            edges.append(i + 1)
            mass = 0.0
    if len(edges) == 1:
        assert isinstance(case.prior, Fixed)
        assert np.all(draws == 3)
    else:
        assert stats.chisquare(np.add.reduceat(observed, edges), np.add.reduceat(expected, edges)).pvalue > 1e-6


@pytest.mark.parametrize(
    ("name", "params", "lowest"),
    [
        ("poisson", [7.3], 1000),
        ("poisson", [1e-300], 3),
        ("poisson", [0.0], 3),
        ("poisson", [1e6], 1_009_000),
        ("negative_binomial", [2.5, 0.8], 100_000),
        ("negative_binomial", [0.3, 1e-300], 5),
        ("negative_binomial", [2.5, LARGEST_Q], 10),
        ("delayed_geometric", [3.0, 1.0], 10),
        ("delayed_geometric", [3.0, 1e-300], 10),
        ("fixed", [3.0], 10),
    ],
)
def test_draw_beyond_far_in_the_tail(name, params, lowest):
    case = CASES[name]
    draws = np.empty(200, dtype=np.int64)
    sample_counts(case.prior, np.array(params), lowest, np.random.default_rng(3), draws)
    assert draws.min() >= lowest
    assert draws.max() <= 2 * family.LARGEST_COUNT
    ratio = {"poisson": params[0] / (lowest + 1)}.get(name, params[-1])
    if name in ("poisson", "negative_binomial") and ratio < 0.9:  # F beyond is geometric, nearly
        error = ratio**0.5 / (1.0 - ratio) / 200**0.5
        assert draws.mean() - lowest == pytest.approx(ratio / (1.0 - ratio), abs=6.0 * error)


def test_draws_stay_whole_numbers_for_every_law():
    draws = np.empty(100, dtype=np.int64)
    for name, params in [
        ("poisson", [1e200]),
        ("negative_binomial", [1e6, LARGEST_Q]),
        ("delayed_geometric", [3.0, 1e-300]),
    ]:
        for lowest in (-1, 5):
            sample_counts(CASES[name].prior, np.array(params), lowest, np.random.default_rng(5), draws)
            assert draws.min() > 1e14


def exact_log_tail(size, a, b, r):
    """ln P(R >= r) of the beta negative binomial with a whole ``size``, summed in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        a, b = Decimal(a), Decimal(b)
        mass, below = Decimal(1), Decimal(0)
        for i in range(size):
            mass *= (b + i) / (a + b + i)
        for j in range(r):
            below += mass
            mass *= (size + j) * (a + j) / ((j + 1) * (a + b + size + j))
        return float((1 - below).ln())


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize("a", [0.01, 1.5, 200.0, 1e6])
@pytest.mark.parametrize("b", [0.02, 1.5, 30.0, 1e5])
def test_polynomial_tails_are_exact(size, a, b):
    prior = NegativeBinomial(size, a, b)
    nothing = collect(prior, np.empty(0, dtype=np.int64))
    scale = min(size * a / b, 3000.0)
    counts = np.array([1, 2, 30, 1500, int(0.5 * scale) + 1, int(scale) + 1, int(3.0 * scale) + 1])
    got = evaluate(prior, nothing, np.array([size, 0.5]), counts)[2]
    want = np.array([exact_log_tail(size, a, b, int(r)) for r in counts])
    resolved = want > -80.0  # 60 digits of 1 - below
    np.testing.assert_allclose(got[resolved], want[resolved], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("r", [100_000, 1_000_000])
@pytest.mark.parametrize(("size", "a", "b"), [(0.3, 0.8, 0.4), (2.5, 1.0, 3.0), (7.0, 5e4, 2.2), (40.0, 9e3, 60.0)])
def test_polynomial_tails_at_large_counts(size, a, b, r):
    """Against the integral over q of the regularised incomplete beta function."""
    prior = NegativeBinomial(size, a, b)
    _, log_pmf, log_survival = evaluate(
        prior, collect(prior, np.empty(0, dtype=np.int64)), np.array([size, 0.5]), np.array([r, r + 1])
    )
    q, p, weights = beta_nodes(a, b)
    tail = weights @ np.where(q < 0.5, special.betainc(r, size, q), special.betaincc(size, r, p)) / weights.sum()
    assert np.exp(log_survival[0]) == pytest.approx(tail, rel=1e-10)
    assert np.exp(log_pmf[0]) == pytest.approx(-np.exp(log_survival[0]) * np.expm1(np.diff(log_survival)[0]), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 0.2, 5.0, 1e3, 1e7])
@pytest.mark.parametrize("shape", [0.01, 1.0, 2.5, 300.0])
def test_poisson_marginal_survives_short_and_long_scales(shape, scale):
    prior = Poisson(shape, scale)
    mean = shape * scale
    counts = np.array([1, 2, 7, int(0.5 * mean) + 1, int(mean) + 1, int(4.0 * mean) + 1, 1_000_000])
    got = evaluate(prior, collect(prior, np.empty(0, dtype=np.int64)), np.array([1.0]), counts)[2]
    with localcontext() as context:  # the odds (1 - q) / q = 1 / scale, in more digits than scale itself has
        context.prec = 40
        p = float(1 / (1 + Decimal(scale)))
    want = np.where(p > 0.5, special.betainc(counts, shape, 1.0 - p), special.betaincc(shape, counts, p))
    seen = want > 1e-280
    np.testing.assert_allclose(np.exp(got[seen]), want[seen], rtol=1e-11 / min(shape, 1.0))
    assert np.all(got[~seen] < -600.0)


def extreme_priors():
    highest = 1e5 if numba.config.DISABLE_JIT else 1e9
    for a in (1e-300, 1.0, highest):
        yield Poisson(a, 1e-300), [a * 1e-300]
        yield Poisson(a, highest), [a * highest]
        for b in (1e-300, 1.0, highest):
            yield DelayedGeometric(a, b, 6), [6.0, 1e-300]
            yield DelayedGeometric(a, b, 6), [0.0, 1.0]
            for size in (1e-300, 1.0, 1e6):
                yield NegativeBinomial(size, a, b), [size, 1e-300]
                yield NegativeBinomial(size, a, b), [size, LARGEST_Q]


def test_nothing_is_nan_at_the_ends_of_the_range():
    counts = np.array([0, 1, 50, 1000, 1_000_000])
    for prior, params in extreme_priors():
        draws = np.empty((20, len(params)))
        for complete in (counts[:0], counts[:1], counts[2:]):
            seen = collect(prior, complete)
            values = evaluate(prior, seen, np.array(params), counts)
            assert not np.isnan(values).any(), (prior, complete)
            assert values.max() < 1e-9, (prior, complete)
            assert np.all(np.diff(values[2]) <= 1e-8), (prior, complete)
            sample_parameters(prior, seen, -1, np.random.default_rng(1), draws)
            assert np.isfinite(draws).all(), (prior, complete)
        _, survival, _, high = table(prior, np.array(params), 100)
        assert not np.isnan(survival[:high]).any()


def test_censored_draws_are_finite_where_tails_are_heaviest():
    for prior in (NegativeBinomial(2.0, 1.0, 0.01), NegativeBinomial((0.1, 5.0), 1e-3, 0.05), Geometric(0.01, 1.0)):
        draws = np.empty((300, 2))
        sample_parameters(prior, collect(prior, np.array([0])[:0]), 1_000_000, np.random.default_rng(2), draws)
        assert np.isfinite(draws).all()
        assert np.all(draws[:, 1] > 0.0)
        assert np.all(draws[:, 1] < 1.0)


def everything():
    """Every number that the families give, for the comparison of compiled and plain Python."""
    rng = np.random.default_rng(17)
    numbers = []
    for case in CASES.values():
        seen = collect(case.prior, case.complete)
        numbers.append(seen)
        for params in case.params:
            numbers.append(evaluate(case.prior, seen, params, np.array([0, 3, 5, 40, 1000, 100_000])).ravel())
            pmf, survival, low, high = table(case.prior, params, 300)
            numbers += [pmf[low:high], survival[:high], [low, high, table_length(case.prior, params, -50.0)]]
            counts = np.empty(20, dtype=np.int64)
            for lowest in (-1, 3, 2000):
                sample_counts(case.prior, params, lowest, rng, counts)
                numbers.append(counts.astype(np.float64))
        draws = np.empty((10, len(case.params[0])))
        for censored in (-1, case.censored, 3000):
            sample_parameters(case.prior, seen, censored, rng, draws)
            numbers.append(draws.ravel().copy())
    return np.concatenate(numbers)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled in this run")
def test_compiled_equals_plain_python_exactly(tmp_path):
    path = tmp_path / "plain.npy"
    environment = dict(os.environ, NUMBA_DISABLE_JIT="1", PYTHONPATH=os.pathsep.join(sys.path))
    subprocess.run([sys.executable, __file__, str(path)], check=True, env=environment)
    np.testing.assert_array_equal(everything(), np.load(path))


def test_mean_and_names(case):
    for params in case.params:
        if case.oracle.law(params).mean() < 1e6:
            want = case.oracle.law(params).mean() + 1.0
            assert family.mean(case.prior, params) == pytest.approx(want, rel=1e-9)
    assert len(family.parameter_names(case.prior)) == family.params_size(case.prior) == len(case.params[0])
    assert len(collect(case.prior, case.complete)) == family.stats_size(case.prior)


def test_priors_keep_their_arguments():
    assert NegativeBinomial(2, 1.0, 3.0) == ((2.0,), 1.0, 3.0)
    assert NegativeBinomial(np.array([1, 2])).size == (1.0, 2.0)
    assert Geometric(2.0, 3.0) == DelayedGeometric(2.0, 3.0, max_delay=0)
    assert DelayedGeometric().max_delay == 30
    assert repr(Fixed()) == "Fixed(remaining=0)"
    for case in CASES.values():
        assert pickle.loads(pickle.dumps(case.prior)) == case.prior
        assert type(pickle.loads(pickle.dumps(case.prior))) is type(case.prior)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Poisson(shape=0.0), "shape must be greater than 0, got 0.0"),
        (lambda: Poisson(scale=1e-305), "scale must lie between 1e-300 and 1e\\+09, got 1e-305"),
        (lambda: Poisson(scale=float("nan")), "scale must be finite, got nan"),
        (lambda: NegativeBinomial(-1.0), "size must be greater than 0, got -1.0"),
        (lambda: NegativeBinomial("3"), "size must be a number, got '3'"),
        (lambda: NegativeBinomial(()), "size must be a positive number or a sequence of at least one"),
        (lambda: NegativeBinomial((1.0, 0.0)), "size must be greater than 0, got 0.0"),
        (lambda: NegativeBinomial((1.0, 1)), "size must not repeat a value, got \\(1.0, 1\\)"),
        (lambda: NegativeBinomial(1e7), "size must lie between 1e-300 and 1e\\+06, got 10000000.0"),
        (lambda: NegativeBinomial(1.0, a=0), "a must be greater than 0, got 0"),
        (lambda: NegativeBinomial(1.0, b="x"), "b must be a number, got 'x'"),
        (lambda: DelayedGeometric(a=-1.0), "a must be greater than 0, got -1.0"),
        (lambda: DelayedGeometric(b=None), "b must be a number, got None"),
        (lambda: DelayedGeometric(max_delay=-1), "max_delay must be at least 0, got -1"),
        (lambda: DelayedGeometric(max_delay=2.5), "max_delay must be a whole number, got 2.5"),
        (lambda: Geometric(a=0.0), "a must be greater than 0, got 0.0"),
        (lambda: Fixed(-1), "remaining must be at least 0, got -1"),
        (lambda: Fixed(2**61), "remaining must be below 2\\*\\*60"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


if __name__ == "__main__":
    np.save(sys.argv[1], everything())
