"""Canaries: secrets that can be recognised, one for every option that may hold a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from service.settings import Settings
from service.settings.load import BETWEEN, PREFIX, _struct_in, _struct_in_tuple

# An option whose name has one of these in it is taken for a secret, whatever it was meant to be.
_SUSPICIOUS = re.compile(r"password|passphrase|secret|token|credential|cookie|url|key|private|auth|sign")
Place = tuple[str, ...]


def secret_options() -> list[Place]:
    """The places of all options that may hold a secret or lead to one, from the settings' own types."""
    return [place for place in _options(Settings, ()) if _SUSPICIOUS.search(place[-1])]


def _options(struct: type[msgspec.Struct], place: Place) -> Iterator[Place]:
    for field in msgspec.structs.fields(struct):
        inner = _struct_in(field.type) or _struct_in_tuple(field.type)
        if inner is None:
            yield (*place, field.encode_name)
        else:
            yield from _options(inner, (*place, field.encode_name))


class Given(NamedTuple):
    """An option as it is given: its value, and the canary that must not be seen."""

    value: str
    canary: str


def given(place: Place, folder: Path, environment: dict[str, str]) -> Given:
    """A canary for an option, put where the option's name says: into a file, into the environment, or as it is."""
    canary = f"canary-{'-'.join(place)}-5up3r"
    if place[-1].startswith("url"):
        canary = f"https://127.0.0.1:9/{canary}"
    if place[-1].endswith("_file"):
        path = folder / "-".join(place)
        path.write_text(f"{canary}\n", encoding="utf-8")
        return Given(str(path), canary)
    if place[-1].endswith("_variable"):
        variable = "_".join(place).upper()
        environment[variable] = canary
        return Given(variable, canary)
    return Given(canary, canary)


def toml(table: dict[str, Any]) -> str:
    """Sections of plain values, sections in sections, and lists of sections."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: dict[str, Any], place: Place) -> Iterator[str]:
    for key, value in table.items():
        if not isinstance(value, dict) and not _is_tables(value):
            yield f"{key} = {json.dumps(value)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield f"[{'.'.join((*place, key))}]"
            yield from _lines(value, (*place, key))
        elif _is_tables(value):
            for entry in value:
                yield f"[[{'.'.join((*place, key))}]]"
                yield from _lines(entry, (*place, key))


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def variable(place: Place) -> str:
    return PREFIX + BETWEEN.join(place).upper()
