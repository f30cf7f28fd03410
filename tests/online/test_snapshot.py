"""A detector as bytes: it goes on as if nothing had happened, and bytes that are no snapshot are refused."""

import copy
import pickle
import struct
import zlib

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.online import snapshot
from ishsmm_stream.online.renewal import adaptive
from online import engines

NORMAL = hs.emissions.Normal(20.0, 0.1, 1.0, 1.0)
DWELL = hs.durations.Poisson(1.0, 40.0)
LENGTH = 120


def _stream():
    rng = np.random.default_rng(0)
    y = 20.0 + np.repeat([0.0, 6.0, -2.0, 3.0], 30) + rng.normal(size=LENGTH)
    y[[4, 33, 34]] = np.nan
    return y


def _vectors():
    y = np.stack([_stream(), -2.0 * _stream() + np.random.default_rng(1).normal(size=LENGTH)], axis=1)
    y[50, 1] = np.nan
    return y


STREAM, VECTORS = _stream(), _vectors()
CONSTANT = np.concatenate([np.full(70, 3.0), STREAM[:50]])
COUNTS = np.random.default_rng(2).poisson(np.repeat([1.0, 6.0, 2.0], 40)).astype(float)

CASES = {
    "auto": (hs.OnlineDetector, STREAM),
    "auto, small": (lambda: hs.OnlineDetector(lag=12, max_hypotheses=6, keep=2, warm_up=30), STREAM),
    "auto, constant at first": (hs.OnlineDetector, CONSTANT),
    "auto, vectors": (hs.OnlineDetector, VECTORS),
    "auto, told of effects": (lambda: hs.OnlineDetector(alarm_policy=hs.AlarmPolicy(min_effect_sd=2.0)), STREAM),
    "recurring": (lambda: hs.OnlineDetector("recurring", lag=20), STREAM),
    "recurring, counts": (lambda: hs.OnlineDetector("recurring", chains=5), COUNTS),
    "normal": (lambda: hs.OnlineDetector(hs.ilr(NORMAL, DWELL), threshold=0.9), STREAM),
    "normal, outliers": (lambda: hs.OnlineDetector(hs.ilr(NORMAL, DWELL), outliers=0.02), STREAM),
    "normal, learned hazard": (
        lambda: hs.OnlineDetector(hs.ilr(NORMAL, DWELL), hazard=hs.priors.Beta(1.0, 50.0), min_dwell=3),
        STREAM,
    ),
    "counts": (lambda: hs.OnlineDetector(hs.ilr(hs.emissions.Poisson(1.0, 0.5), DWELL)), COUNTS),
    "autoregression": (
        lambda: hs.OnlineDetector(
            hs.ilr(hs.emissions.Autoregressive(order=2, trend=True, lag_mean=0.3), hs.durations.Poisson(1.0, 60.0))
        ),
        STREAM,
    ),
}


def said(detector):
    """Everything that a detector says, with all digits."""
    return (
        detector.time,
        detector.change_points,
        detector.announced_changes,
        detector.log_evidence,
        detector.discarded,
        detector.run_length(),
        detector.change_probability(20),
    )


@pytest.mark.parametrize("name", CASES)
def test_a_restored_detector_goes_on_as_the_original_from_every_point_on(name):
    make, y = CASES[name]
    original, taken, told, answers = make(), [], [], []
    for t in range(LENGTH):
        taken.append(original.snapshot())
        told.append(original.update(y[t]))
        answers.append(said(original))
    for t, data in enumerate(taken):
        restored = hs.OnlineDetector.restore(data)
        assert restored.update_many(y[t:]) == [event for events in told[t:] for event in events], t
        assert said(restored) == answers[-1], t


@pytest.mark.parametrize("name", CASES)
def test_a_restored_detector_says_and_writes_the_same(name):
    make, y = CASES[name]
    detector = make()
    for t in range(0, LENGTH, 7):
        detector.update_many(y[t : t + 7])
        data = detector.snapshot()
        restored = hs.OnlineDetector.restore(data)
        assert said(restored) == said(detector)
        assert restored.snapshot() == detector.snapshot() == data


def test_settings_come_back():
    policy = hs.AlarmPolicy(0.9, 0.3, 7, 4, 0.5, 0.25)
    detector = hs.OnlineDetector(
        hs.ilr(NORMAL, DWELL),
        seed=5,
        alarm_policy=policy,
        prior="auto",
        hazard=hs.priors.Beta(2.0, 30.0),
        min_dwell=2,
        outliers=0.05,
        lag=20,
        max_hypotheses=11,
        chains=7,
        keep=3,
        warm_up=12,
    )
    restored = hs.OnlineDetector.restore(detector.snapshot())
    names = (
        "seed", "threshold", "alarm_policy", "prior", "hazard", "min_dwell", "outliers", "lag", "max_hypotheses",
        "chains", "keep", "warm_up",
    )  # fmt: skip
    assert {name: getattr(restored, name) for name in names} == {name: getattr(detector, name) for name in names}
    assert restored.model.emission == NORMAL
    assert restored.model.duration == DWELL


@pytest.mark.parametrize("settings", [
    {"threshold": np.float32(0.9)},
    {"outliers": np.float32(0.01)},
    {"seed": np.int64(3), "lag": np.int32(40), "keep": np.int64(5), "min_dwell": np.int64(2)},
], ids=str)  # fmt: skip
def test_numpy_settings_can_be_written(settings):
    detector = hs.OnlineDetector(**settings)
    detector.update_many(STREAM)
    assert said(hs.OnlineDetector.restore(detector.snapshot())) == said(detector)


def test_taking_snapshots_changes_nothing():
    """Weak changes under a short lag, where most of what a path went through has been forgotten."""
    rng = np.random.default_rng(0)
    normal = hs.emissions.Normal(0.0, 0.1, 2.0, 2.0)
    different = []
    for trial in range(60):
        policy = hs.AlarmPolicy(
            threshold=float(rng.choice([0.6, 0.8, 0.95])),
            confirm_after=int(rng.choice([2, 20, 60])),
            min_segment=int(rng.choice([2, 5, 10])),
        )
        model = hs.ilr(normal, hs.durations.Poisson(1.0, float(rng.choice([30.0, 200.0]))))
        y = engines.levels(rng, 400, 45, 0.8) + rng.normal(size=400)
        quiet = hs.OnlineDetector(model, lag=8, alarm_policy=policy)
        watched = hs.OnlineDetector(model, lag=8, alarm_policy=policy)
        events = []
        for rows in np.array_split(y, 80):
            events += watched.update_many(rows)
            watched.snapshot()
        if events != quiet.update_many(y) or said(quiet) != said(watched):
            different.append(trial)
    assert different == []


@pytest.mark.parametrize("name", ["auto", "normal", "auto, vectors", "counts"])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda detector: pickle.loads(pickle.dumps(detector))])
@pytest.mark.parametrize("at", [5, 60])
def test_a_copy_goes_on_as_the_original(name, duplicate, at):
    make, y = CASES[name]
    detector = make()
    detector.update_many(y[:at])
    twin = duplicate(detector)
    assert twin.update_many(y[at:]) == detector.update_many(y[at:])
    assert said(twin) == said(detector)


# Sets of constants


def _under_first_constants():
    detector = hs.OnlineDetector()
    detector._constants = 1
    return detector


def _as_written_before_constants_had_numbers(data):
    """The snapshot without the number of the set."""
    header, arrays = snapshot.read(data)
    del header["constants"]
    return snapshot.write(header, arrays)


def test_a_new_detector_has_the_newest_constants():
    assert hs.OnlineDetector().constants == adaptive.NEWEST == max(adaptive.CONSTANTS) == 3
    newest, first = hs.OnlineDetector(), _under_first_constants()
    for detector in (newest, first):
        detector.update_many(STREAM)
    assert newest.log_evidence != first.log_evidence


@pytest.mark.parametrize("make", [_under_first_constants, hs.OnlineDetector])
@pytest.mark.parametrize("at", [0, 4, 40, LENGTH])
def test_constants_survive_a_snapshot_and_a_copy(make, at):
    detector = make()
    detector.update_many(STREAM[:at])
    for twin in (hs.OnlineDetector.restore(detector.snapshot()), copy.deepcopy(detector)):
        assert twin.constants == detector.constants
        again = hs.OnlineDetector.restore(twin.snapshot())
        assert again.constants == detector.constants
        expected = copy.deepcopy(detector)
        assert again.update_many(STREAM[at:]) == expected.update_many(STREAM[at:])
        assert said(again) == said(expected)


@pytest.mark.parametrize("at", [0, 4, 12, 40, 75])
def test_a_snapshot_without_a_number_continues_under_the_first_constants(at):
    detector = _under_first_constants()
    detector.update_many(STREAM[:at])
    restored = hs.OnlineDetector.restore(_as_written_before_constants_had_numbers(detector.snapshot()))
    assert restored.constants == 1
    assert restored.update_many(STREAM[at:]) == detector.update_many(STREAM[at:])
    assert said(restored) == said(detector)
    assert restored.forecast(3).mean.tolist() == detector.forecast(3).mean.tolist()


def test_the_first_constants_answer_as_they_did_when_they_were_the_only_ones():
    """The numbers were printed by the version before the second set."""
    detector = _under_first_constants()
    detector.update_many(STREAM)
    assert detector.log_evidence == pytest.approx(-185.44899076382242, rel=1e-12)


def test_unknown_constants_are_refused():
    header, arrays = snapshot.read(hs.OnlineDetector().snapshot())
    header["constants"] = 1000
    with pytest.raises(snapshot.SnapshotError, match="constants 1000 are unknown"):
        hs.OnlineDetector.restore(snapshot.write(header, arrays))


# Bytes that are no snapshot


@pytest.fixture(scope="module")
def data():
    detector = hs.OnlineDetector()
    detector.update_many(STREAM)
    return detector.snapshot()


def test_a_damaged_snapshot_is_refused_wherever_the_damage_is(data):
    for position in np.unique(np.linspace(0, len(data) - 1, 60).astype(int)).tolist() + list(range(18)):
        for flipped in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= flipped
            with pytest.raises(hs.SnapshotError, match="snapshot"):
                hs.OnlineDetector.restore(bytes(damaged))


def test_a_snapshot_that_was_cut_off_is_refused(data):
    for length in [*range(40), *range(40, len(data), 100), len(data) - 1]:
        with pytest.raises(hs.SnapshotError, match=r"not a snapshot|damaged or cut off"):
            hs.OnlineDetector.restore(data[:length])
    with pytest.raises(hs.SnapshotError, match="damaged"):
        hs.OnlineDetector.restore(data + b"\x00")


@pytest.mark.parametrize("foreign", [
    b"", b"\x80\x04\x95", pickle.dumps({"a": 1}), b"{}", b"\x00" * 1000, np.random.default_rng(0).bytes(5000),
])  # fmt: skip
def test_foreign_bytes_are_refused(foreign):
    with pytest.raises(hs.SnapshotError, match="not a snapshot of a detector"):
        hs.OnlineDetector.restore(foreign)


@pytest.mark.parametrize("foreign", [None, "text", 5, [1, 2]])
def test_what_is_not_bytes_is_refused(foreign):
    with pytest.raises(hs.SnapshotError, match="a snapshot is bytes, got"):
        hs.OnlineDetector.restore(foreign)


def test_another_version_is_refused_by_its_number(data):
    newer = data[:8] + struct.pack("<H", snapshot.VERSION + 1) + data[10:]
    with pytest.raises(hs.SnapshotError, match=f"version {snapshot.VERSION + 1}.*version {snapshot.VERSION}"):
        hs.OnlineDetector.restore(newer)


def test_the_number_of_an_earlier_version_does_not_make_it_one(data):
    with pytest.raises(hs.SnapshotError, match="hold something else"):
        hs.OnlineDetector.restore(data[:8] + struct.pack("<H", 1) + data[10:])


@pytest.mark.parametrize("rest", [b"", b"\x00\x00", struct.pack("<I", 0), struct.pack("<I", 3) + b"abc"])
def test_a_right_checksum_over_something_else_is_refused(data, rest):
    with pytest.raises(hs.SnapshotError):
        hs.OnlineDetector.restore(data[:10] + struct.pack("<I", zlib.crc32(rest)) + rest)


def test_bytes_of_any_kind_are_read(data):
    for same in (bytearray(data), memoryview(data)):
        assert hs.OnlineDetector.restore(same).snapshot() == data


def test_a_snapshot_of_something_else_is_refused():
    """Well-formed and with a right checksum, but no detector in it."""
    for header, arrays in (({}, {}), ({"settings": {}}, {}), ([1, 2], {}), ({"settings": {"model": "other"}}, {})):
        with pytest.raises(hs.SnapshotError):
            hs.OnlineDetector.restore(snapshot.write(header, arrays))


def test_a_snapshot_holds_no_code(data):
    """No pickle: nothing is executed, and the file is smaller than the arrays in memory."""
    assert not data.startswith(b"\x80")
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(data)


def test_what_is_written_is_read_bit_for_bit():
    rng = np.random.default_rng(3)
    arrays = {
        "floats": rng.normal(size=(3, 5)),
        "odd": np.array([np.nan, np.inf, -0.0, 5e-324]),
        "small": rng.normal(size=7).astype(np.float32),
        "whole": rng.integers(-(2**62), 2**62, (2, 2, 2)),
        "int32": np.arange(5, dtype=np.int32),
        "flags": np.array([True, False]),
        "nothing": np.empty((0, 4)),
        "strided": np.arange(20.0).reshape(4, 5)[:, ::2],
    }
    header, back = snapshot.read(snapshot.write({"a": [1, None, "ä"]}, arrays))
    assert header == {"a": [1, None, "ä"]}
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == np.ascontiguousarray(array).tobytes()
