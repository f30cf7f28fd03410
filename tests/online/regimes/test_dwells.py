"""The law of dwells against scipy and against numerical integration over its rate."""

import itertools

import numpy as np
import pytest
from scipy import integrate, special, stats

from ishsmm_stream.online.regimes import beliefs, dwells, transitions
from ishsmm_stream.online.regimes.chains import DWELL_LOGS, DWELL_N, DWELL_SUM, EXITS, READINGS, TIME, make_chains

VISITS = {0: [12, 30, 9, 14], 1: [100, 80], 2: []}


def chain(shape=1.4, visits=None):
    """One chain whose complete visits to its states had these lengths."""
    visits = VISITS if visits is None else visits
    chains = make_chains(1, 8, 0)
    chains.count[0] = len(visits)
    chains.weight[0] = 1.0
    chains.shape_at[0] = int(np.argmin(np.abs(dwells.SHAPES - shape)))
    for k, lengths in visits.items():
        own = chains.dwells[0, k]
        own[DWELL_N], own[DWELL_SUM], own[DWELL_LOGS] = len(lengths), sum(lengths), np.log([*lengths, 1.0]).sum()
        chains.life[0, k, EXITS], chains.life[0, k, READINGS] = len(lengths), sum(lengths) + 1
    return chains


def rate_law(chains, k):
    """Shape and rate of a state's rate given its visits."""
    shape = dwells.SHAPES[chains.shape_at[0]]
    mean = dwells.mean_dwell(chains.dwells[0], chains.count[0])
    own = chains.dwells[0, k]
    return shape, 1.0 + own[DWELL_N] * shape, mean / shape + own[DWELL_SUM]


def survival(chains, k, length):
    """P(dwell >= length), by integrating over the rate."""
    shape, a, b = rate_law(chains, k)

    def integrand(rate):
        return stats.gamma.sf(length, shape, scale=1.0 / rate) * stats.gamma.pdf(rate, a, scale=1.0 / b)

    knots = stats.gamma.ppf([1e-13, 1e-4, 0.01, 0.5, 0.99, 1.0 - 1e-13], a, scale=1.0 / b)
    return sum(integrate.quad(integrand, *ends)[0] for ends in itertools.pairwise(knots))


@pytest.mark.parametrize("a", [0.35, 1.0, 4.0, 32.0])
@pytest.mark.parametrize("b", [1.0, 3.7, 250.0])
def test_the_tails_of_the_beta_law_are_those_of_scipy(a, b):
    for x in (1e-6, 0.01, 0.3, 0.5, 0.9, 0.999):
        assert dwells.beta_tail(a, b, x, False) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-14)
        assert dwells.beta_tail(a, b, x, True) == pytest.approx(special.betaincc(a, b, x), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("shape", [0.35, 1.4, 8.0])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_tails_and_hazards_integrate_the_rate_out(shape, k):
    chains = chain(shape)
    for length in (3, 20, 120):
        assert dwells.tail(chains, 0, k, length, True) == pytest.approx(
            survival(chains, k, length - 0.5), rel=1e-6, abs=1e-9
        )
        shorter = 1.0 - survival(chains, k, length + 0.5)
        assert dwells.tail(chains, 0, k, length, False) == pytest.approx(shorter, rel=1e-5, abs=1e-8)
        expected = 1.0 - survival(chains, k, length + 0.5) / survival(chains, k, length - 0.5)
        assert dwells.hazard(chains, 0, k, length) == pytest.approx(expected, rel=1e-4)


def test_the_usual_dwell_is_between_the_quantiles_of_simulated_ones():
    chains = chain(4.0)
    shape, a, b = rate_law(chains, 0)
    rng = np.random.default_rng(0)
    simulated = rng.gamma(shape, 1.0, 400_000) / rng.gamma(a, 1.0 / b, 400_000)
    assert dwells.usual(chains, 0, 0) == pytest.approx(np.quantile(simulated, [0.05, 0.5, 0.95]), rel=0.01)


@pytest.mark.parametrize("shape", [0.35, 1.0, 4.0, 32.0])
def test_what_remains_of_a_visit_is_the_median_of_those_that_last_so_long(shape):
    chains = chain(shape)
    chains.clock[TIME], chains.run_start[0] = 112, 100
    if shape == 1.0:
        expected = np.log(0.5) / np.log1p(-transitions.hazard(chains, 0, 0))
    else:
        c, a, b = rate_law(chains, 0)
        rng = np.random.default_rng(0)
        simulated = rng.gamma(c, 1.0, 4_000_000) / rng.gamma(a, 1.0 / b, 4_000_000)
        expected = np.median(simulated[simulated > 12.0]) - 12.0
    assert beliefs.remaining(chains) == pytest.approx(expected, rel=0.02)


def test_the_evidence_of_a_shape_integrates_every_states_rate_out():
    chains = chain()
    mean = dwells.mean_dwell(chains.dwells[0], 3)

    def direct(shape):
        score = stats.norm.logpdf(np.log(shape)) + 0.5 * np.log(2.0 * np.pi)
        for lengths in (VISITS[0], VISITS[1]):
            top = np.sum([stats.gamma.logpdf(x, shape, scale=np.mean(lengths) / shape) for x in lengths])
            value = integrate.quad(
                lambda rate, lengths=lengths, top=top: (
                    np.exp(sum(stats.gamma.logpdf(x, shape, scale=1.0 / rate) for x in lengths) - top)
                    * stats.expon.pdf(rate, scale=shape / mean)
                ),
                0.0,
                20.0 * shape / np.mean(lengths),
                limit=200,
                points=[shape / np.mean(lengths)],
            )[0]
            score += np.log(value) + top
        return score

    ours = np.array([dwells.log_evidence(chains.dwells[0], 3, at, mean) for at in (1, 3, 6)])
    theirs = np.array([direct(dwells.SHAPES[at]) for at in (1, 3, 6)])
    # the direct one has the factor prod(x ** -1) that no shape changes
    assert ours - ours[0] == pytest.approx(theirs - theirs[0], abs=1e-5)


def test_a_regular_dwell_ends_when_it_is_due():
    """Visits of 20 readings each: the hazard is small at first and large near 20."""
    chains = chain(32.0, {0: [20] * 30, 1: [20] * 30})
    assert dwells.hazard(chains, 0, 0, 5) < 1e-4
    assert dwells.hazard(chains, 0, 0, 25) > 0.2
    early, late = dwells.tail(chains, 0, 0, 3, False), dwells.tail(chains, 0, 0, 60, True)
    assert early < 1e-6
    assert late < 1e-6


def test_a_hazard_over_missing_readings_is_that_of_all_of_them():
    chains = chain(1.0)
    chains.clock[TIME] = 50
    once = transitions.hazard(chains, 0, 0)
    assert transitions.hazard(chains, 0, 3) == pytest.approx(1.0 - (1.0 - once) ** 4)
