"""What a configuration was understood to mean, in words."""

from __future__ import annotations

import math
import textwrap

from service.deployment import deployment_of
from service.settings import IncidentPolicy, Rule, Settings
from service.settings.alarm_budget import CHANGES_PER_DAY, AlarmBudget, Critical
from service.settings.sinks import SinkSettings
from service.sources.registry import describe
from service.tools.live import LiveSensor

MOST_NAMES = 40


def described_live(sensors: list[LiveSensor], every: bool = False) -> list[str]:
    """What becomes of the sensors that are live, by rule."""
    if not sensors:
        return ["live          no sensor has a state yet"]
    lines = [f"live          {len(sensors):,} sensors have a state"]
    kinds = (
        (False, "start a new generation: their model, prior, transform, season or detector is another one"),
        (True, "keep their state"),
    )
    for keeps, what in kinds:
        chosen = [one for one in sensors if one.keeps_state == keeps]
        lines.append(f"  {len(chosen):,} {what}")
        for rule in dict.fromkeys(one.rule for one in chosen):
            names = [_name(one) for one in chosen if one.rule == rule]
            lines += _listed(f"    rule {rule}: ", names, every)
    return lines


def _name(one: LiveSensor) -> str:
    if one.generation is None:
        return f"{one.sensor} (its state cannot be read)"
    return one.sensor if one.keeps_state else f"{one.sensor} ({one.generation} -> {one.generation + 1})"


def _listed(head: str, names: list[str], every: bool) -> list[str]:
    rest = 0 if every else max(0, len(names) - MOST_NAMES)
    text = ", ".join(names[: len(names) - rest]) + (f", ... and {rest:,} more, with --all" if rest else "")
    return textwrap.wrap(text, 120, initial_indent=head, subsequent_indent=" " * 6, break_on_hyphens=False)


def described(settings: Settings) -> list[str]:
    """What was understood, a line each. No secrets."""
    http = settings.http
    token = "with a token" if http.token or http.token_file else "without a token"
    lines = _kafka_words(settings) if deployment_of(settings).mode == "kafka" else _source_words(settings)
    lines += [
        *(f"sink          {_sink_words(sink)}" for sink in settings.sinks_in_force),
        f"API           {f'http://{http.host}:{http.port}, {token}' if http.port else 'none'}",
        f"metrics       {_metrics_words(settings)}",
        f"limits        {settings.limits.sensors} sensors, {settings.limits.memory_mb} MB, "
        f"records of {settings.limits.record_bytes} bytes",
        f"alarms        {_budget_words(settings.alarms)}; critical sensors {_budget_words(settings.alarms.critical)}",
        f"incidents     {_incident_words(settings.incidents)}",
        *(f"deprecated    {sentence}" for sentence in settings.deprecations),
        *(f"note          {sentence}" for sentence in settings.notes),
        "rules         the first that matches a sensor is its own",
    ]
    *rules, implied = settings.rules_in_force
    lines += [f"  {_rule_words(rule)}" for rule in rules]
    if not rules or rules[-1].match != implied.match:
        lines.append(f"  {_rule_words(implied)} (implied)")
    return lines


def _source_words(settings: Settings) -> list[str]:
    source = settings.source
    lines = [f"reads         {', '.join(describe(kind, settings) for kind in source.kinds)}; no Kafka"]
    if {"file", "stdin"} & set(source.kinds):
        lines.append(f"records       {'CSV under a header' if source.file.is_csv else _mapping_words(settings)}")
    return [*lines, f"state         {source.state}"]


def _kafka_words(settings: Settings) -> list[str]:
    kafka, mapping, names = settings.kafka, settings.mapping, settings.topics.names
    security = kafka.security
    user = f" as {security.username} ({security.mechanism})" if security.username else ""
    source = ", ".join(kafka.topics) if kafka.topics_pattern is None else f"topics that match {kafka.topics_pattern}"
    lines = [
        f"brokers       {', '.join(kafka.bootstrap)}, {security.protocol}{user}",
        f"group         {kafka.group}{f', member {kafka.member}' if kafka.member else ''}, {kafka.delivery}",
        f"reads         {source}, from {kafka.start_from} where the group has not read before",
        f"records       {_mapping_words(settings)}",
    ]
    if not mapping.is_keyed_by_sensor:
        lines.append(
            f"              not keyed by sensor: they go through {names['readings']} "
            f"({settings.topics.partitions} partitions)"
        )
    kinds = ["events", "states", "dead_letters", "changelog"] + ([] if mapping.is_keyed_by_sensor else ["readings"])
    written = ", ".join(names[kind] for kind in kinds)
    return [*lines, f"writes        {written}"]


def _mapping_words(settings: Settings) -> str:
    mapping = settings.mapping
    if mapping.format == "ishsmm":
        return "our own format"
    if mapping.format == "number":
        return "bare numbers; sensor from the key"
    time = f"{mapping.time} ({mapping.time_unit})" if mapping.time else "the record's timestamp"
    together = " together" if mapping.together and len(mapping.values) > 1 else ""
    values = ", ".join(mapping.values)
    return f"{mapping.format}; sensor from {mapping.sensor}; time from {time}; values {values}{together}"


def _sink_words(sink: SinkSettings) -> str:
    parts = [f"{sink.name}: {sink.kind} to {sink.where}", ", ".join(sink.only) or _default_words(sink)]
    if sink.sensors != "*":
        parts.append(f"of {sink.sensors}")
    parts += [f"{name} {value}" for name, value in sorted(sink.labels.items())]
    if sink.limit is not None:
        parts.append(f"at most {sink.at_most}")
    parts.append(f"up to {sink.max_age_s:g} s old")
    return ", ".join(parts)


def _default_words(sink: SinkSettings) -> str:
    return "alarms, notices and incidents" if sink.gets_incidents else "alarms and notices"


def _metrics_words(settings: Settings) -> str:
    options = settings.metrics
    token = "with a token" if options.token or options.token_file else "without a token"
    where = f"http://{options.host}:{options.port}, {token}" if options.port else "with the API"
    named = [*options.sensors, *(["critical sensors"] if options.critical else [])]
    listed = f"; of their own for {', '.join(named)}, {options.most_sensors:,} at most" if named else ""
    return f"{where}; series of the {options.top} most suspicious sensors{listed}"


def _budget_words(budget: AlarmBudget | Critical) -> str:
    changes = budget.false_alarms_per_day or CHANGES_PER_DAY
    return f"{budget.per_sensor} and sensor, {changes:g} false changes per day over {budget.expected_sensors:,} sensors"


def _incident_words(policy: IncidentPolicy) -> str:
    groups = "names up to the last /" if policy.group_by is None else f"label {policy.group_by}"
    return (
        f"{policy.min_sensors} or more sensors within {policy.span_s:g} s, in groups by {groups}; "
        f"{policy.false_per_week:g} a week by chance"
    )


def _probability(number: float) -> str:
    """With the first two digits of what it lacks to 1."""
    return f"{number:.{max(2, 1 - math.floor(math.log10(1.0 - number)))}f}".rstrip("0")


def _rule_words(rule: Rule) -> str:
    model = rule.model if isinstance(rule.model, str) else f"{rule.model.kind} of {rule.model.emission['family']}"
    policy = rule.policy()
    parts = [f"model {model}", f"alarm above {_probability(policy.threshold)}"]
    if policy.min_effect:
        parts.append(f"of {policy.min_effect:g} or more")
    if policy.min_effect_sd:
        parts.append(f"of {policy.min_effect_sd:g} noise standard deviations or more")
    parts += rule.transforms
    if rule.season_settings is not None:
        parts.append(f"season of {rule.season_settings.period_s:g} s in {rule.season_settings.bins} bins")
    parts.append(f"a state record every {rule.window.readings} readings or {rule.window.max_wait_s:g} s")
    parts += [f"{name} {value}" for name, value in sorted(rule.labels.items())]
    return f"{rule.match}: {', '.join(parts)}; inference {rule.inference_fingerprint()}"
