"""A real Prometheus scrapes a worker on Kafka: what only such a worker has."""

from __future__ import annotations

from http_helpers import free_port
from prometheus_helpers import KAFKA_ONLY, as_grafana_sends, dashboard_expressions, scraping
from running import readings, running, send, settings_for, wait_for

# Of topics whose records are not keyed by sensor, so that readings go through the internal one
NOT_KEYED = {"partitioned_by_sensor": False}


def test_lag_rebalances_and_forwarded_readings_are_scraped(connection, tmp_path):
    port = free_port()
    settings = settings_for(connection, tmp_path, metrics={"port": port, "sensors": ["s*"]}, mapping=NOT_KEYED)
    send(settings, readings("s1", [0.0, 0.1, -0.1] * 10), 0)
    send(settings, readings("s2", [0.0, 0.1, -0.1] * 10), 1)
    with scraping(tmp_path, port) as prometheus, running(settings):

        def value(expression: str) -> list[float]:
            return [number for _, number in prometheus.query(expression)]

        wait_for(lambda: value('sum(ishsmm_readings_total{result="accepted"})') == [60.0], 90)
        assert value('sum(ishsmm_readings_total{result="forwarded"})') == [60.0]
        assert value("ishsmm_records_total") == [120.0]
        # both topics, and the ends of the transactions in the internal one are no records that wait
        wait_for(lambda: value("ishsmm_lag_records") == [0.0] * 4)
        topics = {labels["topic"] for labels, _ in prometheus.query("ishsmm_lag_records")}
        assert topics == {settings.kafka.topics[0], settings.topics.readings}
        assert len(value('ishsmm_queue_fill_ratio{queue="producer"}')) == 1
        assert value("ishsmm_rebalances_total > 0")
        assert value("sum(ishsmm_sensor_events_total)") == [0.0]
        assert value('ishsmm_build_info{mode="kafka"}') == [1.0]
        only_here = [expr for expr in dashboard_expressions().values() if KAFKA_ONLY in expr]
        assert only_here
        for expression in only_here:
            wait_for(lambda expression=expression: prometheus.says(as_grafana_sends(expression)))
