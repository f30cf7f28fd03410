"""One detector, two threads: an error in place of memory that two compiled calls write to at once."""

import copy
import pickle
import threading
import time

import numpy as np
import pytest

import ishsmm_stream as hs

STREAM = np.random.default_rng(0).normal(size=300)


def held_elsewhere(detector):
    """Let another thread be inside the detector; returns how to let it go."""
    is_inside, may_go = threading.Event(), threading.Event()

    def stay():
        with detector._lock:
            is_inside.set()
            may_go.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    assert is_inside.wait(30)

    def let_go():
        may_go.set()
        thread.join(30)

    return let_go


CALLS = {
    "update": lambda detector: detector.update(1.0),
    "update_many": lambda detector: detector.update_many(STREAM),
    "update_many with times": lambda detector: detector.update_many(STREAM, np.arange(300.0) * 60.0),
    "update_to_event": lambda detector: detector.update_to_event(STREAM),
    "update_fleet": lambda detector: hs.update_fleet([hs.OnlineDetector(), detector], [STREAM, STREAM]),
    "update_fleet_to_event": lambda detector: hs.update_fleet_to_event([detector], [STREAM]),
    "accept": lambda detector: detector.accept(),
    "snapshot": lambda detector: detector.snapshot(),
    "forecast": lambda detector: detector.forecast(),
    "state": lambda detector: detector.state,
    "change_points": lambda detector: detector.change_points,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_refused_while_another_thread_is_inside(name):
    detector = hs.OnlineDetector()
    detector.update_many(STREAM)
    before = detector.snapshot()
    let_go = held_elsewhere(detector)
    try:
        with pytest.raises(RuntimeError, match=r"another thread is using this detector.*threading\.Lock"):
            CALLS[name](detector)
    finally:
        let_go()
    assert detector.snapshot() == before
    CALLS[name](detector)


def test_a_refused_fleet_lets_the_others_go():
    free, used = hs.OnlineDetector(), hs.OnlineDetector()
    let_go = held_elsewhere(used)
    try:
        with pytest.raises(RuntimeError, match="another thread"):
            hs.update_fleet([free, used], [STREAM, STREAM])
    finally:
        let_go()
    assert free.time == 0
    elsewhere = threading.Thread(target=free.update_many, args=(STREAM,))
    elsewhere.start()
    elsewhere.join()
    assert free.time == len(STREAM)


def test_a_detector_given_twice_to_a_fleet_is_refused():
    detector = hs.OnlineDetector()
    with pytest.raises(ValueError, match="one of them twice"):
        hs.update_fleet([detector, detector], [STREAM, STREAM])


def test_threads_that_share_a_detector_get_errors_and_not_crashes():
    detector = hs.OnlineDetector()
    detector.update_many(STREAM)
    outcomes: list[str] = []
    until = time.monotonic() + 1.0

    def work():
        while time.monotonic() < until:
            try:
                detector.update_many(STREAM)
                _ = detector.state
                detector.snapshot()
                outcomes.append("done")
            except RuntimeError:
                outcomes.append("refused")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) == {"done", "refused"}
    assert detector.time % len(STREAM) == 0


def test_an_error_inside_a_call_lets_the_detector_go():
    detector = hs.OnlineDetector()
    with pytest.raises(ValueError, match="infinite"):
        detector.update_many([1.0, np.inf])
    elsewhere = threading.Thread(target=detector.update_many, args=(STREAM,))
    elsewhere.start()
    elsewhere.join()
    assert detector.time == len(STREAM)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda detector: pickle.loads(pickle.dumps(detector))])
def test_a_copy_is_not_held_by_who_holds_the_original(duplicate):
    detector = hs.OnlineDetector()
    detector.update_many(STREAM)
    let_go = held_elsewhere(detector)
    try:
        duplicate(detector).update_many(STREAM)
    finally:
        let_go()
