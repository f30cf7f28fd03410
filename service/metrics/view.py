"""What a view counts: incidents."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class ViewMetrics:
    """The view's metrics, in a registry of its own or in the embedded worker's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._open = Gauge("ishsmm_incidents_open", "Incidents that are open", registry=registry)
        self._opened = Counter("ishsmm_incidents_total", "Incidents that were opened", registry=registry)
        self._counted = 0

    def incidents(self, open_count: int, opened_total: int) -> None:
        """So many are open, and so many were opened ever. A total that falls, as after a merge, counts nothing."""
        self._open.set(open_count)
        self._opened.inc(max(0, opened_total - self._counted))
        self._counted = max(self._counted, opened_total)
