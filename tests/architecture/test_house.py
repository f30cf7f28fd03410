"""Rules of the house that a linter does not know; the directions of imports are in pyproject.toml."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import ishsmm_stream as hs

ROOT = Path(__file__).parents[2]
# Names that users write, with the module before them: hs.emissions.Poisson, hs.durations.Poisson
QUALIFIED = {"Poisson"}


def sources(package: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def names_of(tree: ast.Module) -> Iterator[str]:
    """The classes of a module, and its names for types, without leading underscores."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id.lstrip("_")
            if name[:1].isupper() and not name.isupper():
                yield name


def repeated(modules: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in modules:
        for name in names_of(ast.parse(text)):
            places[name].append(path)
    return {name: found for name, found in places.items() if len(found) > 1 and name not in QUALIFIED}


@pytest.mark.parametrize("package", ["ishsmm_stream", "service"])
def test_no_class_name_stands_twice_in_a_package(package):
    assert repeated(sources(package)) == {}


def test_a_repeated_name_would_be_found():
    modules = iter([("a.py", "class Window: ..."), ("b.py", "_Window = tuple[int, int]")])
    assert repeated(modules) == {"Window": ["a.py", "b.py"]}


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        # SQL
        (r"\bsqlite3\b|\bSELECT\b|\bINSERT INTO\b", r"service/embedded/|service/runtime/snapshot_store\.py"),
        # parsing of ISO times
        (r"\bfromisoformat\b|\bstrptime\b", r"service/wire/"),
        # which of the two logs
        (r"\bis_kafka\b", r"service/deployment\.py|service/settings/"),
    ],
)
def test_what_stands_in_one_place_only(pattern, allowed):
    found = [path for path, text in sources("service") if re.search(pattern, text)]
    assert [path for path in found if re.match(allowed, path)]  # the rule is about something
    assert [path for path in found if not re.match(allowed, path)] == []


def test_the_service_uses_the_librarys_public_names_only():
    public = set(hs.__all__) | {"emissions", "durations", "plots", "__version__", "__path__", "__file__"}
    public.add("ishsmm_stream.model.catalogue")  # imported as it is: through ``hs``, settings would wait for numba
    used = defaultdict(set)
    for path, text in sources("service"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id in ("hs", "ishsmm_stream"):
                    used[node.attr].add(path)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ishsmm_stream"):
                names = {alias.name for alias in node.names} if node.module == "ishsmm_stream" else {node.module}
                for name in names:
                    used[name].add(path)
    assert "OnlineDetector" in used
    assert {name: sorted(paths) for name, paths in used.items() if name not in public} == {}


def test_an_import_in_the_wrong_direction_is_found(tmp_path):
    """Proof that the contract of ``make lint`` bites: a copy in which the wire asks the worker."""
    for package in ("service", "ishsmm_stream"):
        subprocess.run(["cp", "-r", ROOT / package, tmp_path], check=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    wrong = tmp_path / "service/wire/readings.py"
    wrong.write_text(wrong.read_text(encoding="utf-8") + "\nimport service.runtime.worker\n", encoding="utf-8")
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [program, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "service.wire.readings -> service.runtime.worker" in done.stdout
