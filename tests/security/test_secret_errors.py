"""Errors about settings do not repeat secrets, however wrong the settings are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from canaries import given, secret_options, variable

from service import settings

CANARY = "canary-5up3r"
WEBHOOK = '[[sinks]]\nkind = "webhook"\nname = "pager"\n'
PLAIN = [place for place in secret_options() if not place[-1].endswith(("_file", "_variable"))]
FILES = [place for place in secret_options() if place[-1].endswith("_file")]


def error_of(folder: Path, text: str, environ: dict[str, str] | None = None) -> str:
    path = folder / "service.toml"
    path.write_text(text, encoding="utf-8")
    try:
        settings.load(path, environ or {}).check(environ or {})
    except ValueError as error:
        return str(error)
    return ""


def section(place: tuple[str, ...], line: str) -> str:
    """A file with one option, and what it needs beside it."""
    if place[0] == "sinks":
        address = "" if place[-1].startswith("url") else 'url = "https://host/x"\n'
        return f"{WEBHOOK}{address}{line}\n"
    beside = {"metrics": "port = 9999\n", "kafka": 'protocol = "sasl_ssl"\nusername = "u"\n'}.get(place[0], "")
    return f"[{'.'.join(place[:-1])}]\n{beside}{line}\n"


@pytest.mark.parametrize("place", secret_options(), ids=".".join)
@pytest.mark.parametrize(
    "value",
    [
        f'["{CANARY}"]',
        f'{{ x = "{CANARY}" }}',
        f'[["{CANARY}"], 3]',
        f'"{CANARY}\\n{CANARY}"',
        f'"{CANARY}\\u0000"',
        f'"{CANARY} ü"',
        f'"{CANARY}',
        f'"{CANARY}" x',
        "5115115115",
        "true",
    ],
)
def test_a_wrong_value_of_a_secret_is_not_repeated(tmp_path, place, value):
    said = error_of(tmp_path, section(place, f"{place[-1]} = {value}"))
    # a path, and the name of a variable, are no secrets
    is_name = place[-1].endswith("_file") and value.startswith('"') and "\\u0000" not in value
    assert is_name or CANARY not in said
    assert "5115115115" not in said


@pytest.mark.parametrize("place", [place for place in PLAIN if place[0] != "sinks"], ids=".".join)
@pytest.mark.parametrize("value", [f"{CANARY}\nx", f"{CANARY} x", f"{CANARY}\0", f"{CANARY}ü", ""])
def test_a_wrong_secret_in_the_environment_is_not_repeated(tmp_path, place, value):
    said = error_of(tmp_path, section(place, ""), {variable(place): value})
    assert CANARY not in said
    assert place[0] == "kafka" or (said.startswith(".".join(place)) and "\n" not in said)


@pytest.mark.parametrize("place", FILES, ids=".".join)
@pytest.mark.parametrize("content", [f"{CANARY}\n{CANARY}\n", f"{CANARY}\0", f"{CANARY}\x7f", f"{CANARY}\nü"])
def test_a_wrong_secret_in_a_file_is_not_repeated(tmp_path, place, content):
    file = tmp_path / "secret"
    file.write_text(content, encoding="utf-8")
    said = error_of(tmp_path, section(place, f'{place[-1]} = "{file}"'))
    assert CANARY not in said
    if place[-1] != "key_file":
        assert said, "two lines are no secret"


@pytest.mark.parametrize("content", ["abc def\n", " abc\n", "abc\t\n", "äbc\n", "\ufeffabc\n", "a\nb\n"])
@pytest.mark.parametrize("name", ["http", "metrics"])
def test_a_token_that_no_header_can_hold_is_refused_at_the_start(tmp_path, name, content):
    file = tmp_path / "token"
    file.write_text(content, encoding="utf-8")
    said = error_of(tmp_path, section((name, "token_file"), f'token_file = "{file}"'))
    assert said.startswith(f"{name}.token_file {file}")
    assert "takes one line" in said
    assert "abc" not in said


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_end_of_the_line_is_no_part_of_a_token(tmp_path, end):
    file = tmp_path / "token"
    file.write_bytes(f"abc{end}".encode())
    path = tmp_path / "service.toml"
    path.write_text(f'[http]\ntoken_file = "{file}"', encoding="utf-8")
    assert settings.load(path, {}).http.read_token() == "abc"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'sinks = ["{CANARY}"]', "sinks[0] takes a table, got a text"),
        (f'sinks = "{CANARY}"', "sinks takes a list, each a table, got a text"),
        (f'[sinks]\nurl = "{CANARY}"', "sinks takes a list, each a table, got a table"),
        (f'sinks = [["{CANARY}"]]', "sinks[0] takes a table, got a list"),
        (f'http = "{CANARY}"', "http takes a table, got a text"),
        (f'metrics = ["{CANARY}"]', "metrics takes a table, got a list"),
        (f'[kafka]\nsecurity = "{CANARY}"', "kafka.security takes a table, got a text"),
        (f'kafka = [{{ security = {{ password = "{CANARY}" }} }}]', "kafka takes a table, got a list"),
        (f'{WEBHOOK}url = "https://h/x"\ntoken_variable = "{CANARY}"', "sinks[0].token_variable takes the name of an"),
        (f'{WEBHOOK}url = "https://u:{CANARY}@h/x"', "sinks[0].url takes no user and password"),
    ],
)
def test_what_stands_in_place_of_a_table_with_secrets_is_not_repeated(tmp_path, text, said):
    found = error_of(tmp_path, text)
    assert CANARY not in found
    assert said in found


@pytest.mark.parametrize(
    "value", [json.dumps({"url": CANARY}), json.dumps([CANARY]), f'["{CANARY}"', f"sinks = {CANARY}"]
)
def test_wrong_sinks_in_the_environment_are_not_repeated(tmp_path, value):
    said = error_of(tmp_path, "", {"ISHSMM_SINKS": value})
    assert said
    assert CANARY not in said


def test_a_section_of_the_file_is_not_repeated_because_of_a_variable(tmp_path):
    said = error_of(tmp_path, f'http = "{CANARY}"', {"ISHSMM_HTTP__PORT": "1"})
    assert said == "http takes a table, got a text"


@pytest.mark.parametrize("what", ["token", "secret"])
@pytest.mark.parametrize("value", [f"{CANARY}\nX-Other: 1", f"{CANARY}\0", " \n"])
def test_a_wrong_secret_of_a_sink_in_a_variable_is_not_repeated(tmp_path, what, value):
    text = f'{WEBHOOK}url = "https://host/x"\n{what}_variable = "PAGER"'
    said = error_of(tmp_path, text, {"PAGER": value})
    assert f"{what}_variable: the variable PAGER takes one line of text" in said
    assert CANARY not in said


def test_every_canary_is_accepted_where_nothing_is_wrong(tmp_path):
    """The errors above are not about something else."""
    for place in [place for place in PLAIN if place[0] != "sinks"]:
        found = given(place, tmp_path, {})
        assert error_of(tmp_path, section(place, f'{place[-1]} = "{found.value}"')) == ""
