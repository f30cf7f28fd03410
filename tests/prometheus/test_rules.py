"""Rules, scrape configuration and dashboards as files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import dashboards
import local_prometheus
import pytest
from prometheus_client import CollectorRegistry
from prometheus_helpers import alert_names, dashboard_expressions, recorded, run_promtool

from service.metrics import Metrics
from service.metrics.view import ViewMetrics
from service.sinks.delivery import SinkMetrics

HERE = local_prometheus.HERE
ROOT = HERE.parents[1]
GRAFANA = HERE.parent / "grafana"
RULES, ALERTS = sorted(HERE.glob("rules/*.yml")), HERE / "rules" / "alerts.yml"


def known_names() -> set[str]:
    """Every metric that a worker, a view or a sink shows, under the names of its samples, and what rules record."""
    metrics = Metrics()
    ViewMetrics(metrics.registry)
    SinkMetrics(metrics.registry)
    names = {"up", *recorded()}
    for family in metrics.registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}
        names |= {family.name + suffix for suffix in suffixes.get(family.type, ("",))}
    return names


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:ishsmm_\w+|process_\w+|up\b|(?:job|instance):\w+:\w+)", expression))


def rule_expressions() -> list[str]:
    return re.findall(r"expr: (\|?(?:.|\n)+?)(?=\n {6,8}(?:-|\w+:|#)|\Z)", "\n".join(p.read_text() for p in RULES))


# promtool's own checks


def test_promtool_takes_the_configuration_and_the_rules():
    done = run_promtool("check", "config", HERE / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_promtool("check", "rules", "--lint=all", "--lint-fatal", *RULES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("tests", sorted(HERE.glob("tests/*.yml")), ids=lambda path: path.stem)
def test_promtools_unit_tests_pass(tests):
    done = run_promtool("test", "rules", tests)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_promtools_unit_tests_can_fail(tmp_path):
    for path in (*RULES, HERE / "tests" / "alerts.yml"):
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        text = path.read_text().replace("ishsmm_sensor_silent == 1", "ishsmm_sensor_silent == 2")
        (tmp_path / path.relative_to(HERE)).write_text(text)
    done = run_promtool("test", "rules", tmp_path / "tests" / "alerts.yml")
    assert done.returncode == 1
    assert b"IshsmmSensorSilent" in done.stdout + done.stderr


def test_every_alert_and_every_recorded_series_has_a_unit_test():
    assert len(alert_names()) == 12
    tested = (HERE / "tests" / "alerts.yml").read_text()
    for name in alert_names():
        assert f"alertname: {name}\n        exp_alerts:\n          - exp_labels" in tested  # fires
        assert f"alertname: {name}\n        exp_alerts: []" in tested  # and does not
    tested = (HERE / "tests" / "recording.yml").read_text()
    assert all(f"expr: {name}\n" in tested for name in recorded())


def test_a_faster_copy_changes_times_and_the_target_alone(tmp_path):
    config = local_prometheus.render(tmp_path / "copy", "127.0.0.1:4711", faster=100)
    assert "scrape_interval: 150ms" in config.read_text()
    assert "127.0.0.1:4711" in config.read_text()
    alerts = (tmp_path / "copy" / "rules" / "alerts.yml").read_text()
    assert "[9000ms]" in alerts
    assert "for: 6000ms" in alerts
    changed = re.sub(r"\d+ms", "X", alerts)
    assert changed == re.sub(r"(?<=\[)\d+[mh](?=\])|(?<=for: )\d+m", "X", ALERTS.read_text())


# What alerts tell


def test_every_alert_says_what_to_do():
    text, operations = ALERTS.read_text(), (ROOT / "docs" / "operations.md").read_text()
    headings = {re.sub(r"[^a-z0-9-]", "", line[4:].lower()) for line in operations.splitlines() if line[:4] == "### "}
    for part in text.split("- alert: ")[1:]:
        name = part.split("\n")[0]
        assert re.search(r"severity: (critical|warning|info)\n", part)
        assert "summary: " in part
        assert "description: " in part
        assert f"runbook_url: docs/operations.md#{name.lower()}\n" in part
        assert name.lower() in headings


# Names


def test_rules_name_metrics_that_exist():
    expressions = rule_expressions()
    assert len(expressions) == len(alert_names()) + len(recorded())
    for expression in expressions:
        assert names_in(expression)
        assert names_in(expression) <= known_names()


def test_dashboards_name_metrics_that_exist():
    found = dashboard_expressions()
    assert len(found) > 40
    for place, expression in found.items():
        assert names_in(expression), place
        assert names_in(expression) <= known_names(), place


def test_no_expression_hides_what_is_missing():
    for expression in (*rule_expressions(), *dashboard_expressions().values()):
        assert "vector(" not in expression


def test_every_metric_is_documented_and_nothing_else():
    text = (ROOT / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    metrics = Metrics()
    ViewMetrics(metrics.registry)
    SinkMetrics(metrics.registry)
    suffixes = {"counter": "_total", "info": "_info"}
    there = {family.name + suffixes.get(family.type, "") for family in metrics.registry.collect()}
    assert documented == {name for name in there if name.startswith("ishsmm_")}


# Dashboards


def test_the_dashboards_are_up_to_date():
    written = dashboards.written()
    assert {path.name for path in dashboards.FOLDER.glob("*.json")} == set(written)
    for name, text in written.items():
        assert (dashboards.FOLDER / name).read_text(encoding="utf-8") == text, "run: make dashboards"


def test_dashboards_have_what_grafana_needs():
    uids = set()
    for name in dashboards.written():
        board = json.loads((dashboards.FOLDER / name).read_text(encoding="utf-8"))
        uids.add(board["uid"])
        assert [variable["name"] for variable in board["templating"]["list"]][:2] == ["datasource", "job"]
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        for panel in panels:
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
            assert all(target["refId"] and target["expr"] for target in panel["targets"])
        assert any(link.get("url") == "${page}/" for link in board["links"])
    assert len(uids) == 3


def test_the_fleet_has_a_row_on_promised_against_delivered_alarms():
    panels = json.loads((dashboards.FOLDER / "fleet.json").read_text(encoding="utf-8"))["panels"]
    headings = [i for i, panel in enumerate(panels) if panel["type"] == "row"]
    begin = next(i for i in headings if panels[i]["title"] == "Alarms: promised against delivered")
    end = next(i for i in headings if i > begin)
    expressions = [target["expr"] for panel in panels[begin + 1 : end] for target in panel["targets"]]
    for span in ("[1h]", "[1d]", "[7d]"):
        shown = [expr for expr in expressions if span in expr]
        assert any("raised_total" in expr and "promised_total" in expr for expr in shown), span
        assert any("raised_total" in expr and "observed_seconds_total" in expr for expr in shown), span
    assert all("by (rule)" in expr for expr in expressions)
    assert any("ishsmm_alarm_budget_per_week" in expr for expr in expressions)


def test_grafanas_provisioning_points_at_prometheus():
    yaml = (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text()
    assert "type: prometheus" in yaml
    assert "timeInterval: 15s" in yaml
    assert "scrape_interval: 15s" in (HERE / "prometheus.yml").read_text()
    assert Path(GRAFANA / "provisioning" / "dashboards" / "ishsmm.yml").exists()


def test_registries_do_not_clash():
    registry = CollectorRegistry()
    ViewMetrics(registry)
    SinkMetrics(registry)
