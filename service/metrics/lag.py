"""Records that wait, by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

Lags = Callable[[], Mapping[tuple[str, int], int]]  # by topic and partition


class LagSeries(Collector):
    """``ishsmm_lag_records``: measured at each scrape, so that partitions that went have no series left."""

    def __init__(self) -> None:
        self.measure: Lags = dict

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "ishsmm_lag_records", "Records that are there and not committed", labels=("topic", "partition")
        )
        for (topic, partition), lag in self.measure().items():
            family.add_metric((topic, str(partition)), lag)
        yield family
