"""What the experiments are made of: data, scores, decoding, verdicts."""

import numpy as np
import pytest

from ishsmm_stream.experiments import hsmm, live, morse, telegraph
from ishsmm_stream.experiments.labels import adjusted_mutual_information, mean_run, runs
from ishsmm_stream.experiments.outcome import FAILS, HOLDS, judged, plain


def test_a_verdict_follows_from_the_numbers():
    assert judged("a", "b", np.bool_(True)).verdict == HOLDS
    assert judged("a", "b", 0).verdict == FAILS


def test_numbers_become_json_and_what_is_not_finite_none():
    given = {1: np.array([1.0, np.nan]), "b": (np.int64(2), np.bool_(True), 1 / 3, "x", None)}
    assert plain(given) == {"1": [1.0, None], "b": [2, True, 0.333333, "x", None]}


def test_agreement_is_one_for_renamed_states_and_none_by_chance():
    rng = np.random.default_rng(0)
    states = rng.integers(3, size=2000)
    assert adjusted_mutual_information(states, 7 - states) == pytest.approx(1.0)
    assert abs(adjusted_mutual_information(states, rng.integers(3, size=2000))) < 0.01
    assert adjusted_mutual_information([0, 0, 0], [4, 4, 4]) == 1.0


def test_runs_of_states():
    starts, lengths, states = runs([2, 2, 0, 1, 1, 1])
    assert (starts.tolist(), lengths.tolist(), states.tolist()) == ([0, 2, 3], [2, 1, 3], [2, 0, 1])
    assert mean_run([2, 2, 0, 1, 1, 1]) == 2.0


def test_recurring_data_have_the_durations_asked_for_and_no_state_follows_itself():
    series = hsmm.recurring(
        20_000, (0.0, 1.0, 2.0), 0.1, hsmm.poisson_dwell((4.0, 9.0, 19.0)), np.random.default_rng(0)
    )
    _, lengths, states = runs(series.states)
    for k, expected in enumerate((5.0, 10.0, 20.0)):
        chosen = lengths[:-1][states[:-1] == k]
        assert chosen.mean() == pytest.approx(expected, abs=4.0 * chosen.std() / np.sqrt(len(chosen)))
    assert len(series.change_points) == len(lengths) - 1


def test_telegraph_noise_has_one_long_state_and_short_ones():
    described = telegraph._described(*([telegraph.data(20_000).states] * 2), telegraph.data(20_000).levels)
    dwells = {round(state["level"], 1): state["mean_dwell"] for state in described["by_state"].values()}
    assert 300 <= dwells.pop(0.5) <= 400
    assert all(8.0 < dwell < 12.0 for dwell in dwells.values())


# Morse code


def test_the_text_is_keyed_by_the_rules():
    assert "".join(map(str, morse.keyed("AE T"))) == "10111" + "000" + "1" + "0000000" + "111"


def test_the_recording_is_as_long_as_the_papers():
    assert len(morse.audio()) / morse.RATE == pytest.approx(9.46, abs=0.1)


def test_the_coefficient_is_high_with_the_key_down():
    y = morse.first_cepstral_coefficient(morse.audio())
    down = morse._key_down(len(y)).astype(bool)
    assert y[down].mean() - y[~down].mean() > 1.4


def true_answer():
    """The states of one who knows: 0 silence, 1 dot, 2 dash."""
    down = morse._key_down(590)
    _, lengths, is_on = runs(down)
    states = np.repeat(np.where(is_on == 1, 1 + (lengths > 8), 0), lengths)
    return states, np.where(states > 0, 1.0, -1.0)


def test_the_true_states_read_as_the_text():
    assert morse.decoded(*true_answer()) == morse.TEXT


def test_states_that_do_not_tell_dots_from_dashes_do_not_read_as_the_text():
    states, levels = true_answer()
    assert morse.decoded(np.minimum(states, 1), levels) != morse.TEXT
    assert morse.decoded(np.zeros(50, dtype=int), np.full(50, -1.0)) == ""


def test_the_verdict_on_dots_and_dashes_looks_at_every_tone():
    states, levels = true_answer()
    assert morse.tells_marks_apart(states, levels)
    assert morse.joined_tones(states, levels) == 0
    assert not morse.tells_marks_apart(np.minimum(states, 1), levels)
    one_wrong = states.copy()
    start, length, _ = (part[1] for part in runs(states))
    one_wrong[start : start + length] = 3 - one_wrong[start]
    assert not morse.tells_marks_apart(one_wrong, levels)
    one_wrong[start] = 3 - one_wrong[start]
    assert morse.joined_tones(one_wrong, levels) == 1


# Live


def test_delays_are_told_and_a_change_that_is_never_known_fails():
    assert live.delay_claim({"delays": [0, 3, 8]}).verdict == HOLDS
    assert "median 3 observations after, after 0, 3, 8" in live.delay_claim({"delays": [8, 0, 3]}).ours
    assert live.delay_claim({"delays": [1, None]}).verdict == FAILS
    assert live.delay_claim({"delays": [None]}).verdict == FAILS


def test_the_live_answer_is_compared_with_the_batch_answer_both_ways():
    assert live.agreement_claim({"change_points": [10, 51]}, [10, 50]).verdict == HOLDS
    assert live.agreement_claim({"change_points": [10]}, [10, 50, 80]).verdict == FAILS
    assert live.agreement_claim({"change_points": [10, 50, 80]}, [10]).verdict == FAILS
