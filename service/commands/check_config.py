"""``ishsmm-stream check-config``: reads the configuration as the worker would, and says what was understood."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from service.settings import Rule, Settings, load
from service.settings.rules import IMPLIED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; variables ISHSMM_... come on top of it")


def run(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config, os.environ)
    settings.check()
    print("\n".join(described(settings)))
    return 0


def described(settings: Settings) -> list[str]:
    """What was understood, a line each. No secrets."""
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
    written = ", ".join(names[key] for key in ("events", "states", "dead_letters", "changelog"))
    lines += [
        f"writes        {written}",
        f"limits        {settings.limits.sensors} sensors, {settings.limits.memory_mb} MB, "
        f"records of {settings.limits.record_bytes} bytes",
        "rules         the first that matches a sensor is its own",
    ]
    lines += [f"  {_rule_words(rule)}" for rule in settings.rules]
    if not settings.rules or settings.rules[-1].match != IMPLIED.match:
        lines.append(f"  {_rule_words(IMPLIED)} (implied)")
    return lines


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


def _rule_words(rule: Rule) -> str:
    model = rule.model if isinstance(rule.model, str) else f"{rule.model.kind} of {rule.model.emission['family']}"
    parts = [f"model {model}", f"alarm above {rule.policy().threshold:.6g}"]
    if rule.transform != "none":
        parts.append(rule.transform)
    parts.append(f"a state record every {rule.window.readings} readings or {rule.window.max_wait_s:g} s")
    parts += [f"{name} {value}" for name, value in sorted(rule.labels.items())]
    return f"{rule.match}: {', '.join(parts)}; inference {rule.inference_fingerprint()}"
