"""Settings from a TOML file and the environment. Every failure is a ValueError of one line that names the key."""

from __future__ import annotations

import json
import re
import tomllib
import typing
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import msgspec

from service.settings.nearest import nearest
from service.settings.settings import Settings

PREFIX = "ISHSMM_"
BETWEEN = "__"
# Lists of tables: each has a variable of its own.
LISTS = {"ISHSMM_RULES": "rules", "ISHSMM_SINKS": "sinks"}
# Options whose values are not repeated in messages.
_SECRET = re.compile("password|token|secret|url|key")


def load(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings in a file, if there is one, with what the environment says in its place."""
    table = {} if path is None else _read(path)
    for name, text in sorted(environ.items()):
        _take_variable(table, name, text)
    settings: Settings = _convert(Settings, table, "")
    return settings


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the file is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: no TOML: {error}") from None


# The environment


class _FromEnvironment(str):
    """A text that stands for a value of any type, and the variable that it is from."""

    variable: str


def variables() -> dict[str, tuple[str, ...]]:
    """The variables that are read, but for ``ISHSMM_RULES`` and ``ISHSMM_SINKS``, with the places of what they set."""
    return {PREFIX + BETWEEN.join(place).upper(): place for place in _options(Settings)}


def _options(struct: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    """The places of all single options outside of the rules and the sinks."""
    found: list[tuple[str, ...]] = []
    for field in msgspec.structs.fields(struct):
        section = _struct_in(field.type)
        if section is not None:
            found += [(field.encode_name, *place) for place in _options(section)]
        elif field.encode_name not in LISTS.values():
            found.append((field.encode_name,))
    return found


def _take_variable(table: dict[str, Any], name: str, text: str) -> None:
    if name in LISTS:
        table[LISTS[name]] = _tables(name, text)
        return
    if not name.startswith(PREFIX):
        return
    known = variables()
    if name not in known:
        _refuse_variable(name, text, known)
        return
    *sections, key = known[name]
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise ValueError(f"{section} takes a table, got {_kind_of(table)}")
    table[key] = _FromEnvironment(text)
    table[key].variable = name


def _refuse_variable(name: str, text: str, known: Mapping[str, Any]) -> None:
    """Raise ValueError for a variable that looks like ours.

    Kubernetes sets variables such as ISHSMM_WORKER_PORT=tcp://... for a service named ishsmm-worker: those without the
    double underscore are left alone unless they are an option's with a single one.
    """
    if BETWEEN in name:
        raise ValueError(f"environment variable {name} is unknown{nearest(name, known)}")
    meant = {variable.replace(BETWEEN, "_"): variable for variable in known}
    if name in meant and not text.startswith("tcp://"):
        raise ValueError(f"environment variable {name} is unknown; did you mean {meant[name]!r}?")


def _tables(name: str, text: str) -> Any:
    """Rules, say, as a JSON list, or as TOML with [[rules]]."""
    key = LISTS[name]
    if text.lstrip().startswith(("[[", key)):
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{name}: no TOML: {error}") from None
        if list(found) != [key]:
            raise ValueError(f"{name} takes [[{key}]] and nothing else, got {', '.join(found)}")
        return found[key]
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} takes a JSON list or TOML with [[{key}]]: {error}") from None


# From tables to structures


def _convert(kind: Any, value: Any, place: str) -> Any:
    """``value`` as the type ``kind``; ``place``: its key, for messages."""
    struct = _struct_in(kind)
    if struct is not None and isinstance(value, dict):
        return _structure(struct, value, place)
    members = _struct_in_tuple(kind)
    if members is not None and isinstance(value, list):
        return tuple(_convert(members, entry, f"{place}[{i}]") for i, entry in enumerate(value))
    if struct is not None and not isinstance(value, str):
        raise ValueError(f"{place} takes a table, got {_shown(value, place, kind)}")
    return _plain(kind, value, place)


def _structure(struct: type[msgspec.Struct], table: dict[str, Any], place: str) -> Any:
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for key in table:
        if key not in fields:
            raise ValueError(f"{_joined(place, key)} is unknown{nearest(key, fields)}")
    for key, field in fields.items():
        if field.required and key not in table:
            raise ValueError(f"{_joined(place, key)} is missing: it takes {_takes(field.type)}")
    given = {fields[key].name: _convert(fields[key].type, value, _joined(place, key)) for key, value in table.items()}
    try:
        return struct(**given)
    except ValueError as error:
        raise ValueError(_joined(place, str(error))) from None


def _plain(kind: Any, value: Any, place: str) -> Any:
    from_environment = isinstance(value, _FromEnvironment)
    given: Any = str(value) if from_environment else value
    if from_environment and typing.get_origin(kind) is tuple:
        given = [part.strip() for part in given.split(",") if part.strip()]
    if isinstance(value, (datetime, date, time)):  # TOML has times of its own
        given = value.isoformat()
    _check_whole_numbers(given, place)
    try:
        # numbers and truth values are texts in the environment only
        return msgspec.convert(given, kind, strict=not from_environment, dec_hook=_path)
    except msgspec.ValidationError:
        name = f"{place} ({value.variable})" if isinstance(value, _FromEnvironment) else place
        raise ValueError(f"{name} takes {_takes(kind)}, got {_shown(value, place, kind)}") from None


def _check_whole_numbers(value: Any, place: str) -> None:
    """TOML's whole numbers have 64 bits, but Python's reader takes any; tables of a model hold them unchecked."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{place} takes whole numbers of up to 19 digits, got one of more")
    if isinstance(value, list):
        for i, entry in enumerate(value):
            _check_whole_numbers(entry, f"{place}[{i}]")
    if isinstance(value, dict):
        for key, entry in value.items():
            _check_whole_numbers(entry, _joined(place, key))


def _path(kind: type, value: Any) -> Path:
    """The one type of ours that msgspec does not know."""
    if kind is not Path or not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("no path")
    return Path(value)


def _joined(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _shown(value: Any, place: str, kind: Any) -> str:
    """Return a value for a message, or only what it is if it may be a secret, or a table with secrets in it."""
    if _SECRET.search(place.rpartition(".")[2]):
        return "something else"
    struct = _struct_in(kind) or _struct_in_tuple(kind)
    if struct is not None and any(_SECRET.search(option[-1]) for option in _options(struct)):
        return _kind_of(value)
    text = repr(str(value) if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:77] + "..."


def _kind_of(value: Any) -> str:
    """Return what a value is, without the value."""
    if isinstance(value, str):
        return "a text"
    return "a table" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """The Struct that a type is, or may be."""
    for member in (kind, *typing.get_args(kind)):
        if isinstance(member, type) and issubclass(member, msgspec.Struct) and typing.get_origin(kind) is not tuple:
            return member
    return None


def _struct_in_tuple(kind: Any) -> type[msgspec.Struct] | None:
    members = typing.get_args(kind) if typing.get_origin(kind) is tuple else ()
    return _struct_in(members[0]) if members else None


# Types in words


def _takes(kind: Any) -> str:
    """A field's type as people say it."""
    return _words(msgspec.inspect.type_info(kind))


def _words(info: Any) -> str:
    types = msgspec.inspect
    if isinstance(info, types.UnionType):
        return " or ".join(_words(member) for member in info.types if not isinstance(member, types.NoneType))
    if isinstance(info, types.LiteralType):
        return " | ".join(map(repr, info.values))
    if isinstance(info, types.IntType | types.FloatType):
        return f"a {'whole ' if isinstance(info, types.IntType) else ''}number{_bounds(info)}"
    if isinstance(info, types.BoolType):
        return "true or false"
    if isinstance(info, types.StrType):
        return "a text that is not empty" if info.min_length else "a text"
    if isinstance(info, types.VarTupleType):
        return f"a list, each {_words(info.item_type)}"
    if isinstance(info, types.TupleType):
        return f"a list of {len(info.item_types)}, each {_words(info.item_types[0])}"
    if isinstance(info, types.StructType | types.DictType):
        return "a table"
    return "a path" if isinstance(info, types.CustomType) else "something else"


def _bounds(info: Any) -> str:
    bounds = [("from", info.ge), ("above", info.gt), ("up to", info.le), ("below", info.lt)]
    return "".join(f" {word} {bound:g}" for word, bound in bounds if bound is not None)
