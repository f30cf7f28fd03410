"""Incidents as Prometheus sees them."""

from prometheus_client import CollectorRegistry

from service.metrics.view import ViewMetrics


def test_incidents_open_and_ever():
    registry = CollectorRegistry()
    metrics = ViewMetrics(registry)
    value = registry.get_sample_value
    assert (value("ishsmm_incidents_open"), value("ishsmm_incidents_total")) == (0, 0)
    metrics.incidents(2, 3)
    assert (value("ishsmm_incidents_open"), value("ishsmm_incidents_total")) == (2, 3)
    metrics.incidents(1, 2)  # two were merged
    assert (value("ishsmm_incidents_open"), value("ishsmm_incidents_total")) == (1, 3)
    metrics.incidents(0, 4)
    assert (value("ishsmm_incidents_open"), value("ishsmm_incidents_total")) == (0, 4)
