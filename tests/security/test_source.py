"""What the packages' source must not hold: ways in which data becomes code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("ishsmm_stream/**/*.py"), *ROOT.glob("service/**/*.py")])

# Reading bytes with these runs what the bytes say. Numba keeps its kernels so, see docs/security.md.
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "yaml"}
CALLS = {"eval", "exec", "compile", "__import__"}
# of modules: what reads pickles, and what gives a text to a shell
ATTRIBUTES = {"numpy.load", "np.load", "pandas.read_pickle", "os.system", "os.popen"}


def complaints(source: str) -> list[str]:
    """Lines of a source that can make code out of data."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").split(".")[0]]
        else:
            names = []
        found += [f"line {node.lineno}: imports {name}" for name in names if name in MODULES]
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in CALLS:
            found.append(f"line {node.lineno}: calls {called.id}")
        if isinstance(called, ast.Attribute) and ast.unparse(called) in ATTRIBUTES:
            found.append(f"line {node.lineno}: calls {ast.unparse(called)}")
        if any(word.arg == "shell" and not is_false(word.value) for word in node.keywords):
            found.append(f"line {node.lineno}: starts a shell")
    return found


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_no_data_becomes_code():
    assert len(SOURCES) > 100
    told = {str(path.relative_to(ROOT)): complaints(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: lines for path, lines in told.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import loads", "eval('1')", "exec(text)", "np.load(path)", "os.system(line)",
        "subprocess.run(line, shell=True)", "def f():\n    import marshal",
    ],
)  # fmt: skip
def test_each_way_is_found(source):
    assert complaints(source)


def test_what_only_looks_like_it_is_let_through():
    assert complaints("re.compile('a')\nsubprocess.run(line, shell=False)\njson.load(file)") == []


def test_every_test_that_the_threat_model_names_exists():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")))
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named <= found, named - found
