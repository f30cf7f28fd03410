"""What Prometheus is told. ``docs/metrics.md`` lists every name; they are promises."""

from service.metrics.worker import Metrics

__all__ = ["Metrics"]
