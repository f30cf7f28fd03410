"""The AsyncAPI document of the service's topics, written from the messages' own types.

``python -m service.tools.asyncapi > deploy/asyncapi.yaml`` writes it anew.
"""

from __future__ import annotations

import json
import re
from typing import Any

import ishsmm_stream
from service.operations import control, names
from service.settings.sections import Topics
from service.wire.messages import MESSAGES, schema_components

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_WORDS_OF_YAML = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
_CHANNELS = {
    "events": (
        ("change", "alarm", "state_event", "notice"),
        "Change points as they are found and revised, alarms, and notices. Keyed by sensor.",
    ),
    "states": (
        ("state", "dictionary"),
        "Where each sensor stands, and the states that it has been in. Keyed by sensor, compacted.",
    ),
    "incidents": (("incident",), "Incidents as they open, change and close. Keyed by id, compacted."),
    "dead_letters": (("dead_letter",), "Records that were not taken, with their bytes."),
    "control": (tuple(control.RECORDS), "What people say of sensors and events. Keyed by kind and name, compacted."),
    "state_names": (tuple(names.RECORDS), "What people call states. Keyed by generation, state and sensor, compacted."),
}


def document() -> dict[str, Any]:
    """The document as plain tables. Topics have their default names."""
    topics, kinds = Topics().names, {**MESSAGES, **control.RECORDS, **names.RECORDS}
    channels, operations = {}, {}
    for key, (messages, description) in _CHANNELS.items():
        channels[key] = {
            "address": topics[key],
            "description": description,
            "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
        }
        operations[f"publish_{key}"] = {"action": "send", "channel": {"$ref": f"#/channels/{key}"}}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "ishsmm-stream",
            "version": ishsmm_stream.__version__,
            "description": "What the service publishes to Kafka. Written by `python -m service.tools.asyncapi`.",
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": {
                name: {"name": name, "payload": {"$ref": f"#/components/schemas/{message.__name__}"}}
                for name, message in kinds.items()
            },
            "schemas": schema_components(kinds),
        },
    }


def as_yaml(value: Any, indent: int = 0) -> str:
    """Plain tables as block YAML. Texts are quoted as in JSON, which is YAML as well.

    >>> print(as_yaml({"a": [1, {"b": "x"}], "c": {}}), end="")
    a:
      - 1
      - b: "x"
    c: {}
    """
    space = " " * indent
    lines = []
    if isinstance(value, dict):
        for key, entry in value.items():
            lines.append(f"{space}{_key(key)}:{_nested(entry, indent + 2)}")
    else:
        for entry in value:
            if isinstance(entry, dict) and entry:
                # the first key stands on the line of the dash
                lines.append(f"{space}- {as_yaml(entry, indent + 2)[indent + 2 :]}")
            else:
                lines.append(f"{space}-{_nested(entry, indent + 2)}")
    return "".join(lines)


def _nested(value: Any, indent: int) -> str:
    if isinstance(value, (dict, list)) and value:
        return "\n" + as_yaml(value, indent)
    return f" {json.dumps(value)}\n"


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS_OF_YAML else json.dumps(key)


if __name__ == "__main__":
    print(as_yaml(document()), end="")
