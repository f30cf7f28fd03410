"""The image's pins: everything that pyproject.toml asks for, at versions that it allows, each with hashes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from deploy_tools import DEPLOY, ROOT, program
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PINS = DEPLOY / "requirements.txt"


def pinned(text: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}


def unmet(pins: dict[str, str], asked: list[str]) -> list[str]:
    """What is asked for and not pinned, or pinned at another version."""
    requirements = [Requirement(one) for one in asked]
    return [
        str(one)
        for one in requirements
        if not one.specifier.contains(pins.get(canonicalize_name(one.name), "0"), prereleases=True)
    ]


def asked() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["service"]]


def test_pins_are_what_the_project_asks_for():
    assert unmet(pinned(PINS.read_text(encoding="utf-8")), asked()) == []


def test_a_pin_that_does_not_fit_is_found():
    pins = pinned(PINS.read_text(encoding="utf-8"))
    assert unmet({**pins, "kafka-python": "3.0.11"}, asked()) == ["kafka-python==3.0.12"]
    del pins["uvicorn"]
    assert [one.split(">")[0] for one in unmet(pins, asked())] == ["uvicorn"]


@pytest.mark.parametrize("path", [PINS, DEPLOY / "build-requirements.txt"], ids=lambda path: path.name)
def test_every_pin_has_hashes(path):
    blocks = re.split(r"\n(?=[\w])", path.read_text(encoding="utf-8").strip())
    assert blocks
    assert [block for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.deploy
def test_pins_are_a_whole_resolution(tmp_path: Path):
    """The resolver, told to keep what is pinned, has nothing to add or to change."""
    copy = Path(shutil.copy(PINS, tmp_path / "requirements.txt"))
    options = ["--python-version", "3.11", "--python-platform", "linux", "--generate-hashes", "--no-header"]
    line = [program("uv"), "pip", "compile", "--quiet", *options, "--extra", "service", "pyproject.toml"]
    subprocess.run([*line, "--output-file", copy], cwd=ROOT, check=True)
    assert pinned(copy.read_text(encoding="utf-8")) == pinned(PINS.read_text(encoding="utf-8"))
