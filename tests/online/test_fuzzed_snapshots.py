"""Forged snapshots with a right checksum: refused by SnapshotError, or as good as any other. See fuzz_snapshots.py."""

import fuzz_snapshots
import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online import snapshot


@pytest.fixture(scope="module")
def snapshots():
    y = np.random.default_rng(0).normal(size=300) + np.repeat([0.0, 8.0, 0.0], 100)
    normal, dwell = hs.emissions.Normal(0.0, 0.1, 1.0, 1.0), hs.durations.Poisson(1.0, 40.0)
    detectors = {
        "auto": hs.OnlineDetector(),
        "hours": hs.OnlineDetector(),
        "ied": hs.OnlineDetector(hs.ied(normal, dwell), chains=4, lag=16),
        "recurring": hs.OnlineDetector("recurring", chains=4, lag=16),
    }
    for name, detector in detectors.items():
        detector.update_many(y, 1_767_225_600.0 + 900.0 * np.arange(300) if name == "hours" else None)
    return {name: snapshot.read(detector.snapshot()) for name, detector in detectors.items()}


def _forged(snapshots, name, field, change):
    header, arrays = snapshots[name]
    arrays = {key: array.copy() for key, array in arrays.items()}
    arrays[field] = change(arrays[field])
    return snapshot.write(header, arrays)


def _entry(place, value):
    def change(array):
        array.reshape(-1)[place] = value
        return array

    return change


def _all(value):
    def change(array):
        array[...] = value
        return array

    return change


def _empty(array):
    return array[:0]


FORGERIES = [
    ("auto", "engine.order", _entry(3, 10**6)),
    ("auto", "engine.order", _entry(3, -(10**6))),
    ("auto", "engine.order", _all(0)),
    ("auto", "engine.slot", _entry(0, 2**30)),
    ("auto", "engine.slot_parent", _entry(10, 2**30)),
    ("auto", "engine.slot_parent", _all(5)),  # a path that goes round in circles
    ("auto", "engine.slot_start", _all(7)),
    ("auto", "engine.record_slot", _entry(0, 2**30)),
    ("auto", "engine.record_reference", _entry(0, 2**30)),
    ("auto", "engine.parent_count", _entry(0, 2**30)),
    ("auto", "engine.parent_slot", _entry(0, 2**30)),
    ("auto", "engine.start", _entry(0, 2**62)),
    ("auto", "engine.mass", _all(np.nan)),
    ("auto", "engine.mass", _all(0.0)),
    ("auto", "engine.mass", _empty),
    ("auto", "engine.table", _all(np.nan)),
    ("auto", "engine.table", _entry(13 * 32, -1.0)),
    ("auto", "rarity.sums", _all(1e9)),
    ("auto", "rarity.sums", _all(-1e9)),
    ("auto", "rarity.numbers", _all(1e308)),
    ("auto", "rarity.ints", _all(2**62)),
    ("auto", "rarity.kinds", _empty),
    ("hours", "rarity.hours", _all(1e6)),
    ("auto", "settled", _all(np.inf)),
    ("auto", "places", _empty),
    ("auto", "held", _all(np.inf)),
    *(("auto", "engine.clock", _entry(place, value)) for place in (0, 1, 3) for value in (-1, 2**31, 2**62)),
    *(("ied", "engine.clock", _entry(place, value)) for place in (0, 1) for value in (-1, 2**40)),
    ("ied", "engine.count", _all(10**6)),
    ("ied", "engine.state", _all(10**6)),
    ("ied", "engine.state", _all(-5)),
    ("ied", "engine.stats_at", _all(10**6)),
    ("ied", "engine.start", _all(2**40)),
    ("ied", "engine.log_weight", _all(-np.inf)),
    ("ied", "engine.log_row", _all(-np.inf)),
    ("ied", "engine.pool", _all(-1.0)),
    ("ied", "engine.dwells", _all(-1e18)),
    ("ied", "engine.hyper", _all(0.0)),
    ("ied", "engine.recent_uid", _all(-5)),
    ("ied", "engine.counts", _all(2**31 - 1)),
    *(("recurring", "engine.clock", _entry(place, value)) for place in (0, 1) for value in (-1, 2**40)),
    ("recurring", "engine.slots", _all(3)),
    ("recurring", "engine.slots", _entry(0, 2**20)),
    ("recurring", "engine.of_a_chain", _all(10**6)),
    ("recurring", "engine.of_a_chain", _all(-1)),
    ("recurring", "engine.weight", _all(np.nan)),
    ("recurring", "engine.sums", _all(-1e18)),
    ("recurring", "engine.life", _all(-1)),
    ("recurring", "engine.tables", _all(0.0)),
    ("recurring", "engine.moves", _empty),
    ("recurring", "engine.recent", _empty),
    ("recurring", "engine.uid", _all(-1)),
    ("recurring", "engine.run_start", _all(2**40)),
]


@pytest.mark.parametrize(
    ("name", "field", "change"),
    FORGERIES,
    ids=[f"{i} {name} {field}" for i, (name, field, _) in enumerate(FORGERIES)],
)
def test_a_forged_field_is_refused(snapshots, name, field, change):
    """Each of these once crashed a kernel, hung it, or changed answers silently."""
    if field == "held":
        change = lambda array: np.full((1, 1), np.inf)  # noqa: E731
    with pytest.raises(hs.SnapshotError, match="snapshot"):
        hs.OnlineDetector.restore(_forged(snapshots, name, field, change))


def test_the_snapshots_that_were_forged_are_good(snapshots):
    for header, arrays in snapshots.values():
        assert hs.OnlineDetector.restore(snapshot.write(header, arrays)).time == 300


def test_a_removed_and_an_added_field_are_refused(snapshots):
    header, arrays = snapshots["auto"]
    for name in arrays:
        with pytest.raises(hs.SnapshotError, match="snapshot"):
            hs.OnlineDetector.restore(snapshot.write(header, {key: arrays[key] for key in arrays if key != name}))
    for name in ("other", "engine.other", "rarity.other"):
        with pytest.raises(hs.SnapshotError, match="does not know"):
            hs.OnlineDetector.restore(snapshot.write(header, {**arrays, name: np.zeros(3)}))
    with pytest.raises(hs.SnapshotError, match="does not know"):
        hs.OnlineDetector.restore(snapshot.write({**header, "other": 1}, arrays))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("lag", 10**12), ("max_hypotheses", 10**12), ("chains", 10**12), ("lag", 2**70),
        ("min_dwell", 2**70), ("keep", 2**70), ("channels", 10**6), ("time", 2**70), ("repeats", True),
    ],
)  # fmt: skip
def test_a_header_cannot_ask_for_gigabytes(snapshots, setting, value):
    for name in ("auto", "ied", "recurring"):
        header, arrays = snapshots[name]
        if name == "auto" and setting == "chains":
            continue  # of no account there
        place = header["settings"] if setting in header["settings"] else header
        with pytest.raises(hs.SnapshotError):
            hs.OnlineDetector.restore(snapshot.write(_with(header, place is header, setting, value), arrays))


def _with(header, is_top, name, value):
    return {**header, name: value} if is_top else {**header, "settings": {**header["settings"], name: value}}


def test_a_bomb_is_refused_before_it_goes_off(monkeypatch):
    monkeypatch.setattr(snapshot, "_LARGEST_BODY", 1 << 20)
    bomb = snapshot.write({}, {"zeros": np.zeros(snapshot._LARGEST_BODY // 8 + 1)})
    assert len(bomb) < snapshot._LARGEST_BODY / 100
    with pytest.raises(hs.SnapshotError, match="asks for"):
        hs.OnlineDetector.restore(bomb)
    nested = fuzz_snapshots._packed(b"[" * 1_000_000, b"")
    with pytest.raises(hs.SnapshotError, match="something else"):
        hs.OnlineDetector.restore(nested)
    long = fuzz_snapshots._packed(b" " * (snapshot._LARGEST_HEADER + 1), b"")
    with pytest.raises(hs.SnapshotError, match="unpacks to more than"):
        hs.OnlineDetector.restore(long)
    whole = b'{"header":{},"arrays":[["a","|u1",[4]]]}'
    with pytest.raises(hs.SnapshotError, match="unpacks to more than 4 bytes"):
        hs.OnlineDetector.restore(fuzz_snapshots._packed(whole, bytes(10**8)))


def test_fuzzed_snapshots_are_refused_or_work():
    result = fuzz_snapshots.run(trials=400, minutes=2.0, seed=20_261_118, short=True)
    assert result.failures == []
    assert result.trials == 400
    outcomes = {outcome for counter in result.counts.values() for outcome in counter}
    assert outcomes == {fuzz_snapshots.REFUSED, fuzz_snapshots.ACCEPTED}


# Snapshots of real runs pass, however odd the stream


def _odd_streams(length):
    rng = np.random.default_rng(5)
    y = rng.normal(size=length) + np.repeat([0.0, 8.0], length // 2)
    yield "extremes", rng.choice([1.7e308, -1.7e308, 0.0, 1.0, np.nan], length)
    yield "outliers", np.where(rng.random(length) < 0.1, 1e300 * y, y)
    yield "denormal", rng.choice([0.0, 5e-324, 1e-310, 1e-300], length)
    yield "missing", np.where(rng.random(length) < 0.9, np.nan, y)
    yield "still", np.repeat(y[: length // 70 + 1], 70)[:length]
    yield "binary", (rng.random(length) < 0.05).astype(float)
    yield "gap", np.concatenate([y[: length // 3], np.full(length - 2 * (length // 3), np.nan), y[: length // 3]])


@pytest.mark.parametrize(
    "make",
    [
        hs.OnlineDetector,
        lambda: hs.OnlineDetector(max_hypotheses=2, lag=8),
        lambda: hs.OnlineDetector(max_hypotheses=3, lag=9, outliers=0.0, keep=1, warm_up=3),
        fuzz_snapshots.RECURRING["ied"].make,
        fuzz_snapshots.RECURRING["recurring"].make,
    ],
    ids=["auto", "two hypotheses", "no outliers", "ied", "recurring"],
)
def test_snapshots_of_odd_streams_are_accepted(make):
    for name, y in _odd_streams(420):
        detector = make()
        for first in range(0, len(y), 35):
            detector.update_many(y[first : first + 35])
            data = detector.snapshot()
            detector = hs.OnlineDetector.restore(data)
            assert detector.snapshot() == data, name


# Seasonal profiles


@pytest.fixture(scope="module")
def season():
    profile = hs.SeasonalProfile(period=24, bins=24)
    for hour in range(100):
        profile.update(hour, [np.sin(hour * np.pi / 12.0)])
    return snapshot.read(profile.snapshot())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bins", 10**9), ("bins", "x"), ("channels", 0), ("period", 0.0), ("period", 1e-300), ("period", None),
        ("first", 10**6), ("first", 1.5), ("current", None), ("count", -1), ("places", -1.0), ("sums", []),
        ("sums", [[0.0, 0.0, -1.0]]), ("sums", [[0.0, 0.0]]),
    ],
)  # fmt: skip
def test_a_forged_header_of_a_season_is_refused(season, name, value):
    header, arrays = season
    with pytest.raises(hs.SnapshotError, match="snapshot"):
        hs.SeasonalProfile.restore(snapshot.write({**header, name: value}, arrays))
    with pytest.raises(hs.SnapshotError, match="snapshot"):
        hs.SeasonalProfile.restore(snapshot.write({key: header[key] for key in header if key != name}, arrays))


@pytest.mark.parametrize("name", ["centre", "window", "scatter", "profile", "deviations"])
def test_a_forged_array_of_a_season_is_refused(season, name):
    header, arrays = season
    assert hs.SeasonalProfile.restore(snapshot.write(header, arrays)).is_known
    for forged in (arrays[name][:0], np.full_like(arrays[name], -np.inf), np.zeros(arrays[name].shape, dtype=np.int32)):
        with pytest.raises(hs.SnapshotError, match="snapshot"):
            hs.SeasonalProfile.restore(snapshot.write(header, {**arrays, name: forged}))
    with pytest.raises(hs.SnapshotError, match="no array"):
        hs.SeasonalProfile.restore(snapshot.write(header, {key: arrays[key] for key in arrays if key != name}))
