"""Drift detectors for river. They need it: pip install 'ishsmm-stream[river]'."""

from __future__ import annotations

from ishsmm_stream import _checks
from ishsmm_stream.model import durations, emissions
from ishsmm_stream.model.presets import Model, ilr
from ishsmm_stream.online.alarms import AlarmPolicy
from ishsmm_stream.online.detector import OnlineDetector

try:
    from river import base
except ImportError:
    raise ImportError("drift detectors need river: pip install 'ishsmm-stream[river]'") from None

# A rate of errors, anything from 0 to 1, that changes about once in 500.
_ERRORS = ilr(emissions.Categorical(1.0, 2), durations.Geometric(1.0, 500.0))
# A warning starts a model on recent data: a change further back that is still in doubt is no reason for one.
_RECENT = 50


class ChangePointDetector(base.DriftAndWarningDetector):
    """Drift in any numbers, by ``OnlineDetector``; for the errors of a classifier see ``ErrorRateDetector``.

    A drift is detected at the observation at which a change is announced: where the probability of a change since the
    last announced one first exceeds ``threshold``. There is a warning if the probability of such a change within the
    last 50 observations exceeds ``warning_threshold``; never together with a drift, as river's retraining classes
    expect.
    Nothing is forgotten after a drift: the detector goes on with what it has learned. NaN is a missing observation.

    ``model``: "auto", or a model such as those that ``ishsmm_stream.ilr`` makes. ``signal``: "change", or "alarm" to
    signal a drift when something is unusual for this stream, at most once in ``every`` observations on average.

    >>> import random
    >>> rng = random.Random(0)
    >>> detector = ChangePointDetector(threshold=0.99)
    >>> for t in range(300):
    ...     detector.update(rng.gauss(0.0 if t < 200 else 1.5, 1.0))
    ...     if detector.drift_detected:
    ...         print(f"at {t}: changed at {detector.detector.announced_changes[-1].index}")
    at 215: changed at 200
    """

    def __init__(
        self,
        threshold: float = 0.98,
        warning_threshold: float = 0.5,
        model: Model | str = "auto",
        seed: int = 0,
        signal: str = "change",
        every: float = 1000.0,
    ) -> None:
        super().__init__()
        self.threshold = threshold
        self.warning_threshold = warning_threshold
        self.model = model
        self.seed = seed
        if not 0.0 < _checks.number("warning_threshold", warning_threshold) < 1.0:
            raise ValueError(f"warning_threshold must lie between 0 and 1, got {warning_threshold!r}")
        self.signal = _checks.one_of("signal", signal, ("change", "alarm"))
        self.every = every
        self._policy = AlarmPolicy(threshold=threshold, retract=min(0.5, threshold), every=every)
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._detector = OnlineDetector(self.model, seed=self.seed, alarm_policy=self._policy)

    @property
    def detector(self) -> OnlineDetector:
        """What is behind it, for its change points, its state and its forecasts."""
        return self._detector

    def update(self, x: float) -> None:
        """Take one observation in."""
        events = self._detector.update(x)
        kind = "alarm" if self.signal == "alarm" else "raised"
        self._drift_detected = any(event.kind == kind for event in events)
        self._warning_detected = not self._drift_detected and self._change_probability() > self.warning_threshold

    def _change_probability(self) -> float:
        """P(a change of late and since the last announced one)."""
        announced = [alarm.index for alarm in self._detector.announced_changes if alarm.status != "retracted"]
        first = (announced[-1] if announced else 0) + self._policy.min_segment
        last = min(self._detector.time - first, _RECENT)
        return self._detector.change_probability(last) if last > 0 else 0.0


class ErrorRateDetector(ChangePointDetector):
    """Drift in a stream of 0 and 1, such as the errors of a classifier: their rate rises or falls.

    >>> import random
    >>> rng = random.Random(0)
    >>> detector = ErrorRateDetector()
    >>> for t in range(600):
    ...     detector.update(rng.random() < (0.05 if t < 500 else 0.6))
    ...     if detector.drift_detected:
    ...         print(f"at {t}: changed at {detector.detector.announced_changes[-1].index}")
    at 511: changed at 500
    """

    def __init__(self, threshold: float = 0.98, warning_threshold: float = 0.5) -> None:
        super().__init__(threshold, warning_threshold, model=_ERRORS)
