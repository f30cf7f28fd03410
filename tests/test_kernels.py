"""What compiled code allocates it frees: kernels that do not count references may neither make nor be handed arrays."""

import gc

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import _nrt_python, rtsys

import ishsmm_stream as hs
from ishsmm_stream._jit import kernel, owning_kernel

NORMAL = hs.emissions.Normal(0.0, 0.1, 1.0, 1.0)
VECTOR = hs.emissions.MultivariateNormal((0.0, 0.0), 0.1, 4.0, ((1.0, 0.0), (0.0, 1.0)))
DWELL = hs.durations.Poisson(1.0, 20.0)
MODELS = {
    "auto": "auto",
    "normal": hs.ilr(NORMAL, DWELL),
    "autoregressive": hs.ilr(hs.emissions.Autoregressive(order=1), DWELL),
    "vector": hs.ilr(VECTOR, DWELL),
    "ied": hs.ied(NORMAL, DWELL),
}

OTHERS = ("normal", "autoregressive", "vector")


def stream(model):
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(level, 1.0, 60) for level in (0.0, 5.0, 0.0, 9.0)])
    return np.column_stack([y, -y]) if getattr(model, "emission", None) is VECTOR else y


def left_over(work) -> int:
    """How many allocations the second of two runs leaves behind; the first one compiles."""
    _nrt_python.memsys_enable_stats()
    try:
        work()
        gc.collect()
        before = rtsys.get_allocation_stats()
        work()
        gc.collect()
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.mi_alloc > before.mi_alloc
    return (after.alloc - before.alloc - (after.free - before.free)) + (
        after.mi_alloc - before.mi_alloc - (after.mi_free - before.mi_free)
    )


@pytest.mark.parametrize("name", ["auto", "ied", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_a_detector_leaves_nothing_behind(name):
    y = stream(MODELS[name])

    def work():
        detector, other = (hs.OnlineDetector(MODELS[name], chains=10) for _ in range(2))
        detector.update_many(y[:100])
        detector.update(y[100])
        hs.update_fleet([detector, other], [y[101:], y])
        detector = hs.OnlineDetector.restore(detector.snapshot())
        assert detector.state.visits > 0
        assert 0.0 <= detector.change_probability(last=5) <= 1.0
        assert len(detector.change_points) < len(y)
        assert detector.forecast(3) is not None

    assert left_over(work) == 0


@pytest.mark.parametrize("slice", ["transition", "paper"])
def test_a_batch_run_leaves_nothing_behind(slice):
    y = stream(MODELS["ied"])[:120]
    assert left_over(lambda: hs.sample(y, MODELS["ied"], draws=5, burn_in=2, chains=1, slice=slice)) == 0


def test_an_exact_posterior_leaves_nothing_behind():
    y = stream(None)

    def work():
        exact = hs.exact_posterior(y, MODELS["normal"])
        assert exact.map_change_points
        assert exact.n_changes.size
        assert exact.draw(3) is not None

    assert left_over(work) == 0


def test_what_a_kernel_makes_and_does_not_own_is_seen():
    """The test of the tests: a kernel that throws away an array that it was handed leaks it."""
    make = owning_kernel(lambda size: np.empty(size))
    throw_away = kernel(lambda size: make(size).shape[0])

    assert left_over(lambda: make(3)) == 0
    assert left_over(lambda: throw_away(3)) > 0


def test_any_number_of_channels_is_served_by_the_same_kernels():
    def run(channels):
        detector = hs.OnlineDetector()
        detector.update_many(np.random.default_rng(0).normal(size=(30, channels)))
        assert detector.state is not None
        detector.forecast(1)
        hs.OnlineDetector.restore(detector.snapshot())

    def signatures():
        kernels = (one for one in gc.get_objects() if issubclass(type(one), Dispatcher))
        return {(one.__module__, one.__name__, *one.signatures) for one in kernels}

    run(2)
    before = signatures()
    for channels in (3, 7, 64):
        run(channels)
    assert signatures() == before
