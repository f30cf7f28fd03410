"""Numbers that are functions of a key: uniform, independent between keys, and the laws that are built on them."""

import numpy as np
import pytest
from scipy import stats

from ishsmm_stream.online.particles import counter_random as cr

SEED = cr.seed_words(7)


def first_uniforms(times, slots, purpose=0, seed=SEED):
    stream = cr.make_stream()
    values = []
    for time in times:
        for slot in slots:
            cr.key(stream, seed, time, slot, purpose)
            values.append(cr.uniform(stream))
    return np.array(values).reshape(len(times), len(slots))


def along_a_stream(draw, count, *arguments):
    stream = cr.make_stream()
    cr.key(stream, SEED, 5, 3, cr.BIRTH)
    return np.array([draw(stream, *arguments) for _ in range(count)])


def is_uniform(values):
    """Chi-square over 64 bins; false alarms 1e-4."""
    counts = np.histogram(values, bins=64, range=(0.0, 1.0))[0]
    return stats.chisquare(counts).pvalue > 1e-4


def test_numbers_along_a_stream_and_over_keys_are_uniform():
    assert is_uniform(along_a_stream(cr.uniform, 20_000))
    assert is_uniform(first_uniforms(range(300), range(60)).ravel())
    assert is_uniform(first_uniforms(range(2**33, 2**33 + 5_000), [0]).ravel())


def test_neighbouring_keys_are_uncorrelated():
    """|z| < 4.5 in each of five correlations: false alarms 3e-5."""
    values = first_uniforms(range(200), range(100)) - 0.5
    other_purpose = first_uniforms(range(200), range(100), purpose=1) - 0.5
    other_seed = first_uniforms(range(200), range(100), seed=cr.seed_words(8)) - 0.5
    later = first_uniforms(range(2**32, 2**32 + 200), range(100)) - 0.5
    pairs = [(values[1:], values[:-1]), (values[:, 1:], values[:, :-1])]
    pairs += [(values, other) for other in (other_purpose, other_seed, later)]
    for a, b in pairs:
        assert abs(np.mean(a * b) * 12.0 * np.sqrt(a.size)) < 4.5


def test_a_key_gives_the_same_numbers_again():
    assert np.array_equal(first_uniforms(range(5), range(5)), first_uniforms(range(5), range(5)))


def test_seeds_of_any_size_are_taken():
    words = {tuple(cr.seed_words(seed)) for seed in (0, 1, 2**32, 2**64, 2**200)}
    assert len(words) == 5
    assert all(0 <= word < 2**32 for pair in words for word in pair)


@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.0, 50.0])
def test_gamma_variates_have_their_law(shape):
    """Kolmogorov and Smirnov, false alarms 1e-4."""
    values = along_a_stream(cr.draw_log_gamma, 4_000, shape)
    assert stats.kstest(values, lambda x: stats.gamma.cdf(np.exp(x), shape)).pvalue > 1e-4


def test_beta_variates_have_their_law_and_vanishing_parameters_are_a_coin():
    """Kolmogorov and Smirnov, false alarms 1e-4; the coin's share within 5 standard errors."""
    pairs = along_a_stream(cr.draw_log_beta, 4_000, np.log(0.3), np.log(2.0))
    assert np.allclose(np.exp(pairs).sum(axis=1), 1.0)
    assert stats.kstest(np.exp(pairs[:, 0]), stats.beta(0.3, 2.0).cdf).pvalue > 1e-4
    coin = along_a_stream(cr.draw_log_beta, 4_000, -2000.0, -2000.0 + np.log(3.0))
    assert abs(np.mean(coin[:, 0] == 0.0) - 0.25) < 5.0 * np.sqrt(0.25 * 0.75 / 4_000)
    assert np.isfinite(coin).all()


def test_a_shuffle_puts_every_order_equally_often():
    """Chi-square over the 6 orders of 3; false alarms 1e-4."""
    stream = cr.make_stream()
    cr.key(stream, SEED, 0, 0, cr.RESAMPLING)
    counts: dict[tuple, int] = {}
    for _ in range(6_000):
        items = np.arange(3)
        cr.shuffle(stream, items, 3)
        counts[tuple(items)] = counts.get(tuple(items), 0) + 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4
    assert len(counts) == 6
