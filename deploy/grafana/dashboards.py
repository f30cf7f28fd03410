"""Writes the dashboards beside this file: ``python deploy/grafana/dashboards.py``, or ``make dashboards``.

Three of them: the fleet, the sensors that have series of their own, and the workers. They share their variables, their
look and their links, hence this file; ``docs/metrics.md`` says what the metrics mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import bargauge, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "ishsmm"
# The page of `ishsmm-stream view` or `make run`, where every sensor can be looked at
PAGE = "http://127.0.0.1:8000"
WIDTH = 24


class Query(NamedTuple):
    """What is drawn: in an expression JOB stands for the jobs that were chosen, SENSOR for these and the sensors."""

    expr: str
    legend: str = ""

    def built(self, number: int, instant: bool) -> prometheus.Dataquery:
        expr = self.expr.replace("SENSOR", 'sensor=~"$sensor", JOB').replace("JOB", 'job=~"$job"')
        query = prometheus.Dataquery().expr(expr).ref_id(chr(ord("A") + number)).datasource(SOURCE)
        if self.legend:
            query = query.legend_format(self.legend)
        return query.instant() if instant else query.range()


def quantiles(metric: str, *shares: float) -> list[Query]:
    """Quantiles of a histogram over all workers."""
    rates = f"sum by (le) (rate({metric}_bucket{{JOB}}[$__rate_interval]))"
    return [Query(f"histogram_quantile({share:g}, {rates})", f"{share:.0%}") for share in shares]


# Panels


def _filled(panel: Any, title: str, queries: list[Query], unit: str, says: str, width: int, height: int) -> Any:
    panel = panel.title(title).datasource(SOURCE).span(width).height(height)
    if unit:
        panel = panel.unit(unit)
    if says:
        panel = panel.description(says)
    is_instant = not isinstance(panel, timeseries.Panel)
    for number, query in enumerate(queries):
        panel = panel.with_target(query.built(number, is_instant))
    return panel


def lines(title: str, *queries: Query, unit: str = "short", says: str = "", width: int = 12) -> Any:
    """Values over time."""
    panel = timeseries.Panel().fill_opacity(8).min(0) if unit != "none" else timeseries.Panel()
    return _filled(panel, title, list(queries), unit, says, width, 8)


def number(title: str, query: Query, unit: str = "short", says: str = "", width: int = 4) -> Any:
    """One value as it is now."""
    return _filled(stat.Panel(), title, [query], unit, says, width, 4)


def bars(title: str, query: Query, link: Any, unit: str = "percentunit", says: str = "", width: int = 12) -> Any:
    """A few values as they are now, each with a link."""
    panel = bargauge.Panel().min(0).max(1).data_links([link])
    return _filled(panel, title, [query], unit, says, width, 8)


def rows(title: str, *queries: Query, says: str = "", width: int = 12) -> Any:
    """Labels as they are now, and the values of the queries that have a legend, which is the column's heading."""
    panel = _filled(table.Panel(), title, [], "", says, width, 8)
    for number, query in enumerate(queries):
        panel = panel.with_target(query.built(number, True).format(PromQueryFormat.TABLE))
    headings = {
        f"Value #{chr(ord('A') + number)}": query.legend for number, query in enumerate(queries) if query.legend
    }
    if not headings:
        return panel
    tidy = {"excludeByName": {"Time": True}, "renameByName": headings}
    panel = panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    return panel.with_transformation(DataTransformerConfig(id_val="organize", options=tidy))


def section(title: str) -> dashboard.Row:
    """A heading for the panels after it."""
    return dashboard.Row(title)


# Dashboards


def _link(title: str, url: str) -> Any:
    return dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(True)


def _choice(name: str, label: str, query: str) -> Any:
    variable = dashboard.QueryVariable(name).label(label).datasource(SOURCE).query(query)
    variable = variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).multi(True).include_all(True)
    return variable.all_value(".+")


def board(uid: str, title: str, says: str, panels: list[Any], *variables: Any) -> dashboard.Dashboard:
    """A dashboard with what all have in common."""
    made = dashboard.Dashboard(title).uid(f"ishsmm-{uid}").tags([TAG]).description(says).readonly()
    made = made.refresh("10s").time("now-1h", "now").timezone("browser")
    made = made.with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    made = made.with_variable(
        _choice("job", "Job", "label_values({__name__=~'ishsmm_ready|ishsmm_incidents_open'}, job)")
    )
    for variable in variables:
        made = made.with_variable(variable)
    made = made.with_variable(dashboard.TextBoxVariable("page").label("Page").default_value(PAGE))
    made = made.link(_link("All sensors: the page", "${page}/"))
    made = made.link(
        dashboard.DashboardLink("Dashboards").type(DashboardLinkType.DASHBOARDS).tags([TAG]).keep_time(True)
    )
    for place, panel in enumerate(panels, 1):
        add = made.with_row if isinstance(panel, dashboard.Row) else made.with_panel
        made = add(panel.id(place))
    return made


def fleet() -> dashboard.Dashboard:
    """Are there alarms and changes, and where."""
    suspicious = _link("${__field.labels.sensor} on the page", "${page}/?sensor=${__field.labels.sensor:percentencode}")
    changes = 'status=~"provisional|relocated|confirmed|retracted"'

    def ratio(above: str, below: str, span: str) -> str:
        one, other = (f"sum by (rule) (increase({name}{{JOB}}[{span}]))" for name in (above, below))
        return f"{one} / ({other} > 0)"

    def per_week(which: str, span: str) -> str:
        return f"604800 * {ratio(f'ishsmm_alarms_{which}_total', 'ishsmm_observed_seconds_total', span)}"

    # of the rules that have sensors
    observed = "sum by (rule) (increase(ishsmm_observed_seconds_total{JOB}[7d]))"
    budget = f"max by (rule) (ishsmm_alarm_budget_per_week{{JOB}}) and on (rule) {observed} > 0"
    return board(
        "fleet",
        "ishsmm: fleet",
        "Alarms and changes, and the sensors they are found in.",
        [
            number("Sensors", Query("sum(ishsmm_sensors{JOB})"), width=3),
            number("Active", Query("sum(ishsmm_active_sensors{JOB})"), says="Not fallen silent.", width=3),
            number(
                "Silent",
                Query("sum(ishsmm_silent_sensors{JOB})"),
                says="For longer than their rule's silent_after_s.",
                width=3,
            ),
            number(
                "Alarms in 1 h",
                Query('sum(increase(ishsmm_events_total{JOB, status="raised"}[1h]))'),
                says="Raised: unusual for their sensor.",
            ),
            number("Incidents open", Query("max(ishsmm_incidents_open{JOB})"), width=3),
            number("Incidents in 24 h", Query("max(increase(ishsmm_incidents_total{JOB}[24h]))")),
            number(
                "Changes in 1 h",
                Query('sum(increase(ishsmm_events_total{JOB, status="provisional"}[1h]))'),
                says="Said for the first time.",
            ),
            section("Alarms: promised against delivered"),
            *(
                lines(
                    f"Delivered / promised in {span[:-1]} {span[-1]}",
                    Query(ratio("ishsmm_alarms_raised_total", "ishsmm_alarms_promised_total", span), "{{rule}}"),
                    says="By rule: alarms raised over those that the sensors' budgets allow for their readings. The "
                    "promise is kept if this is at most 1 on average; with few alarms it varies widely.",
                    width=8,
                )
                for span in ("1h", "1d", "7d")
            ),
            rows(
                "Alarms per sensor-week",
                Query(budget, "budget"),
                *(Query(per_week("raised", span), f"delivered, {span}") for span in ("1h", "1d", "7d")),
                Query(per_week("promised", "7d"), "promised, 7d"),
                says="By rule. Promised is less than the budget if 1,000 readings of a sensor take longer than the "
                "time that the budget gives one alarm.",
            ),
            lines(
                "Alarms per sensor-week over 7 days",
                Query(per_week("raised", "7d"), "{{rule}}"),
                Query(budget, "{{rule}}: budget"),
                says="By rule, with the configured budget.",
            ),
            section("Alarms, changes and readings"),
            lines(
                "Alarms raised and cleared",
                Query(
                    'sum by (status) (increase(ishsmm_events_total{JOB, status=~"raised|cleared"}[5m]))', "{{status}}"
                ),
                says="In 5 minutes.",
            ),
            lines(
                "Changes by status",
                Query(f"sum by (status) (increase(ishsmm_events_total{{JOB, {changes}}}[5m]))", "{{status}}"),
                says="In 5 minutes. A change is provisional first, then confirmed, relocated or retracted.",
            ),
            bars(
                "The most suspicious sensors",
                Query("topk(10, ishsmm_top_sensor_change_probability{JOB})", "{{sensor}}"),
                suspicious,
                says="Probability that a sensor changed within its last window. Each worker shows its metrics.top.",
            ),
            lines(
                "Readings",
                Query("sum by (result) (rate(ishsmm_readings_total{JOB}[$__rate_interval]))", "{{result}}"),
                unit="reqps",
            ),
            lines(
                "Refused, by reason",
                Query("sum by (reason) (rate(ishsmm_dead_letters_total{JOB}[$__rate_interval])) > 0", "{{reason}}"),
                unit="reqps",
            ),
            lines(
                "Silent, back, begun afresh",
                Query(
                    'sum by (status) (increase(ishsmm_events_total{JOB, status=~"silent|back|new_generation"}[5m]))',
                    "{{status}}",
                ),
                says="In 5 minutes.",
            ),
            lines(
                "Changes that were taken back",
                Query(
                    'sum(increase(ishsmm_events_total{JOB, status="retracted"}[24h]))'
                    ' / sum(increase(ishsmm_events_total{JOB, status="provisional"}[24h]))',
                    "share in 24 h",
                ),
                unit="percentunit",
            ),
        ],
    )


def sensors() -> dashboard.Dashboard:
    """The sensors on the allow-list, one by one."""
    return board(
        "sensors",
        "ishsmm: listed sensors",
        "Sensors with series of their own: metrics.sensors, and rules with labels.critical. The page has the others.",
        [
            lines(
                "Probability of a change",
                Query("ishsmm_sensor_change_probability{SENSOR}", "{{sensor}}"),
                unit="percentunit",
                says="Within the sensor's last window of readings.",
            ),
            lines("Observations since the last change", Query("ishsmm_sensor_run_length{SENSOR}", "{{sensor}}")),
            lines(
                "Level, and two standard deviations of the noise",
                Query("ishsmm_sensor_level{SENSOR}", "{{sensor}}"),
                Query("ishsmm_sensor_level{SENSOR} - 2 * ishsmm_sensor_noise{SENSOR}", "{{sensor}} low"),
                Query("ishsmm_sensor_level{SENSOR} + 2 * ishsmm_sensor_noise{SENSOR}", "{{sensor}} high"),
                unit="none",
                says="Of the present state, in the detector's units: after the rule's transform.",
                width=WIDTH,
            ),
            lines(
                "Events",
                Query(
                    "sum by (sensor, status) (increase(ishsmm_sensor_events_total{SENSOR}[5m])) > 0",
                    "{{sensor}} {{status}}",
                ),
                says="In 5 minutes.",
            ),
            lines(
                "Age of the newest reading",
                Query("time() - max by (sensor) (ishsmm_sensor_last_reading_timestamp_seconds{SENSOR})", "{{sensor}}"),
                unit="s",
            ),
            lines(
                "Silent",
                Query("max by (sensor) (ishsmm_sensor_silent{SENSOR})", "{{sensor}}"),
                says="1: silent.",
                width=WIDTH,
            ),
        ],
        _choice("sensor", "Sensor", 'label_values(ishsmm_sensor_silent{job=~"$job"}, sensor)'),
    )


def workers() -> dashboard.Dashboard:
    """Does it keep up, and is what it says sound."""
    rate = "[$__rate_interval]"
    return board(
        "workers",
        "ishsmm: workers",
        "Whether workers keep up, what it costs, and how good the inference is.",
        [
            rows("Workers", Query("ishsmm_build_info{JOB} * on (job, instance) group_left () ishsmm_ready{JOB}")),
            lines("Ready", Query("ishsmm_ready{JOB}", "{{instance}}"), says="0: starting, restoring or stopping."),
            lines(
                "Lag",
                Query("ishsmm_lag_records{JOB}", "{{instance}} {{topic}}[{{partition}}]"),
                says="Records that are there and not committed.",
            ),
            lines(
                "Lag of the whole job",
                Query("job:ishsmm_lag_records:sum{JOB}", "{{job}}"),
                says="From the recording rules.",
            ),
            lines(
                "From record to commit",
                *quantiles("ishsmm_end_to_end_seconds", 0.5, 0.99),
                unit="s",
                says="The oldest record of each partition and cycle; by the records' own timestamps.",
            ),
            lines(
                "Processing",
                *quantiles("ishsmm_cycle_seconds", 0.5, 0.99),
                unit="s",
                says="From the records of a cycle in hand to their commit.",
            ),
            lines("Commits", *quantiles("ishsmm_commit_seconds", 0.5, 0.99), unit="s", says="How long they take."),
            lines("Commits a second", Query(f"rate(ishsmm_commits_total{{JOB}}{rate})", "{{instance}}"), unit="ops"),
            lines(
                "A detector's step",
                Query(
                    f"rate(ishsmm_inference_step_seconds_sum{{JOB}}{rate})"
                    f" / rate(ishsmm_inference_step_seconds_count{{JOB}}{rate})",
                    "{{instance}}",
                ),
                unit="s",
                says="Per reading.",
            ),
            lines(
                "Queues",
                Query("ishsmm_queue_fill_ratio{JOB}", "{{instance}} {{queue}}"),
                unit="percentunit",
                says="poll: 100 % means that more records wait than a cycle takes.",
            ),
            lines(
                "Rolled back, rebalanced, restored",
                Query("increase(ishsmm_aborts_total{JOB}[5m])", "{{instance}} rolled back"),
                Query("increase(ishsmm_rebalances_total{JOB}[5m])", "{{instance}} rebalanced"),
                Query("increase(ishsmm_restores_total{JOB}[5m])", "{{instance}} restored"),
                says="In 5 minutes; rebalances with Kafka only.",
            ),
            lines(
                "Restores",
                Query("ishsmm_restore_seconds_sum{JOB} / ishsmm_restore_seconds_count{JOB}", "{{instance}}"),
                unit="s",
                says="Of a partition, mean since the start.",
            ),
            lines(
                "Sensors",
                Query("sum by (instance) (ishsmm_sensors{JOB})", "{{instance}} known"),
                Query("sum by (instance) (ishsmm_detectors{JOB})", "{{instance}} in memory"),
                Query("sum by (instance) (ishsmm_evicted_sensors{JOB})", "{{instance}} on disk"),
            ),
            lines("Moved to disk", Query(f"rate(ishsmm_evictions_total{{JOB}}{rate})", "{{instance}}"), unit="ops"),
            lines("Snapshots", Query(f"rate(ishsmm_changelog_bytes_total{{JOB}}{rate})", "{{instance}}"), unit="Bps"),
            lines(
                "Size of a snapshot",
                Query(
                    "increase(ishsmm_changelog_bytes_total{JOB}[1h]) / increase(ishsmm_snapshots_total{JOB}[1h])",
                    "{{instance}}",
                ),
                unit="bytes",
            ),
            lines(
                "Mass that exact filters drop",
                *quantiles("ishsmm_discarded_mass_ratio", 0.5, 0.99),
                unit="short",
                says="Per observation. Above 0.001, raise detector.max_hypotheses.",
            ),
            lines(
                "Effective sample size of chains",
                *quantiles("ishsmm_effective_sample_size_ratio", 0.05, 0.5),
                unit="percentunit",
                says="Per chain; the lowest 5 % first. Below 10 %, raise detector.chains.",
            ),
            lines("Memory", Query("process_resident_memory_bytes{JOB}", "{{instance}}"), unit="bytes"),
            lines("CPU", Query(f"rate(process_cpu_seconds_total{{JOB}}{rate})", "{{instance}}"), unit="percentunit"),
            lines(
                "Sinks",
                Query(f"sum by (sink, outcome) (rate(ishsmm_sink_events_total{{JOB}}{rate}))", "{{sink}} {{outcome}}"),
                unit="ops",
                says="What became of events.",
            ),
            lines(
                "Sinks: further attempts",
                Query(f"rate(ishsmm_sink_retries_total{{JOB}}{rate})", "{{sink}}"),
                unit="ops",
            ),
        ],
    )


def written() -> dict[str, str]:
    """The dashboards by the names of their files."""
    made = {"fleet": fleet(), "sensors": sensors(), "workers": workers()}
    encoder = JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False)
    return {f"{name}.json": encoder.encode(one.build()) + "\n" for name, one in made.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in written().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"{FOLDER / name}")
