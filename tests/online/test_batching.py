"""What is said depends on the values and never on how they are batched."""

import numpy as np
import pytest

import ishsmm_stream as hs
from online import engines
from online.test_snapshot import CASES, said

LENGTH = 400


def _streams():
    rng = np.random.default_rng(0)
    plain = engines.levels(rng, LENGTH, 60) + rng.normal(size=LENGTH)
    missing = plain.copy()
    missing[rng.random(LENGTH) < 0.2] = np.nan
    begins_missing = np.concatenate([np.full(25, np.nan), plain[:-25]])
    sparse = np.where(np.arange(LENGTH) % 15 == 4, plain, np.nan)
    constant = np.concatenate([np.full(90, plain[0]), plain[:-90]])
    vectors = np.stack([plain, rng.normal(size=LENGTH)], axis=1)
    vectors[[3, 77, 78], [0, 1, 0]] = np.nan
    return {
        "plain": plain,
        "missing": missing,
        "missing at the start": begins_missing,
        "mostly missing": sparse,
        "constant at the start": constant,
        "vectors": vectors,
        "nothing but missing": np.full(LENGTH, np.nan),
    }


STREAMS = _streams()
NORMAL = hs.ilr(hs.emissions.Normal(0.0, 0.1, 1.0, 1.0), hs.durations.Poisson(1.0, 60.0))
PAIRS = [("auto", name) for name in STREAMS] + [
    (model, name) for model in ("normal", "recurring") for name in STREAMS if name != "vectors"
]  # fmt: skip


def fed(model, y, size):
    detector = hs.OnlineDetector(NORMAL if model == "normal" else model)
    events = []
    for at in range(0, len(y), size):
        events += detector.update_many(y[at : at + size])
    return events, said(detector)


@pytest.mark.parametrize(("model", "name"), PAIRS)
def test_batches_of_any_size_say_the_same(model, name):
    y = STREAMS[name]
    events, answers = fed(model, y, len(y))
    if name in ("plain", "missing at the start", "constant at the start", "vectors"):
        assert events, "a stream that raises no alarm proves little"
    for size in (1, 7, 64, 399):
        assert fed(model, y, size) == (events, answers), size


@pytest.mark.parametrize("name", ["counts", "autoregression", "normal, outliers", "normal, learned hazard"])
def test_other_models_do_not_mind_batches_either(name):
    make, y = CASES[name]
    whole, parts = make(), make()
    events = whole.update_many(y)
    found = [event for rows in np.array_split(y, 17) for event in parts.update_many(rows)]
    assert (found, said(parts)) == (events, said(whole))


def test_update_is_update_many_with_one():
    for y in (STREAMS["missing"], STREAMS["vectors"]):
        one, many = hs.OnlineDetector(), hs.OnlineDetector()
        assert [event for row in y for event in one.update(row)] == many.update_many(y)
        assert said(one) == said(many)


def test_lists_columns_and_whole_numbers_are_taken():
    y = np.random.default_rng(0).integers(0, 9, 60)
    expected = hs.OnlineDetector()
    expected.update_many(y.astype(float))
    for form in (y, y.tolist(), y[:, np.newaxis], y.astype(np.int16), np.repeat(y, 2).astype(np.float32)[::2]):
        detector = hs.OnlineDetector()
        detector.update_many(form)
        assert said(detector) == said(expected)


def test_asking_changes_nothing():
    """Also while first values are held back."""
    y = STREAMS["missing at the start"]
    asked, silent = hs.OnlineDetector(), hs.OnlineDetector()
    events = []
    for value in y:
        events += asked.update(value)
        said(asked)
    assert events == silent.update_many(y)
    assert said(asked) == said(silent)


@pytest.mark.parametrize("seen", [1, 2, 5, 29])
def test_answers_while_first_values_are_held_back_are_those_of_their_units(seen):
    """As if the warm-up had ended with the last value."""
    y = STREAMS["plain"][:seen]
    waiting, ready = hs.OnlineDetector(warm_up=30), hs.OnlineDetector(warm_up=max(seen, 2))
    waiting.update_many(y)
    ready.update_many(y)
    assert waiting.change_points == ready.change_points
    assert waiting.run_length() == ready.run_length()
    assert waiting.change_probability(3) == ready.change_probability(3)


def test_the_input_is_not_written_to():
    y = STREAMS["missing"].copy()
    y.flags.writeable = False
    hs.OnlineDetector().update_many(y)
    hs.OnlineDetector(NORMAL).update_many(y)


def test_a_refused_batch_leaves_no_trace():
    y = STREAMS["plain"]
    for model in ("auto", NORMAL):
        detector, expected = hs.OnlineDetector(model), hs.OnlineDetector(model)
        detector.update_many(y[:100])
        expected.update_many(y[:100])
        for wrong in ([1.0, np.inf], [[1.0, 2.0]], ["a"], [[[1.0]]]):
            with pytest.raises(ValueError, match="values"):
                detector.update_many(wrong)
        assert detector.update_many(y[100:]) == expected.update_many(y[100:])
        assert said(detector) == said(expected)


RECURRING = hs.ied(hs.emissions.Normal(0.0, 0.1, 1.0, 1.0), hs.durations.Poisson(2.0, 20.0))


@pytest.mark.parametrize(
    ("make", "name"),
    [(hs.OnlineDetector, name) for name in STREAMS]
    + [(lambda: hs.OnlineDetector(RECURRING, chains=20), name) for name in ("plain", "missing")]
    + [(lambda: hs.OnlineDetector("recurring"), name) for name in STREAMS if name != "vectors"],
)  # fmt: skip
def test_update_to_event_stops_where_one_value_at_a_time_would_have_spoken(make, name):
    y = STREAMS[name]
    one, stopping = make(), make()
    told = [(t, events, said(one)) for t, row in enumerate(y) if (events := one.update(row))]
    found, at = [], 0
    while at < len(y):
        taken, events = stopping.update_to_event(y[at : at + 100])
        at += taken
        if events:
            found.append((at - 1, events, said(stopping)))
    assert found == told
    assert said(stopping) == said(one)
