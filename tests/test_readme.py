"""The README does what it says."""

import inspect
import json
import re
import shlex
from pathlib import Path

import numpy as np

import ishsmm_stream as hs
from service.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_python_runs_and_prints_what_its_comments_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks("python"))
    exec(compile(code, "README.md", "exec"), {})
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert len(expected) >= 4
    assert capsys.readouterr().out.splitlines() == expected
    assert (tmp_path / "coal.png").stat().st_size > 20_000


def without_draws(lines):
    """The lines that are computed exactly; those from draws have the same words, their digits may differ elsewhere."""
    return [re.sub(r"-?[\d.]+", "0", line) if "[" in line or "R-hat" in line else line for line in map(squeezed, lines)]


def squeezed(line):
    return re.sub(r"[ ─]+", " ", line)


def test_the_command_runs_and_prints_what_is_shown(tmp_path, monkeypatch, capsys):
    (line,) = [
        line for block in blocks("console") for line in block.splitlines() if line.startswith("ishsmm-stream fit")
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    assert main([*shlex.split(line)[1:], "--quiet"]) == 0
    (shown,) = [block for block in blocks("text") if block.startswith("ilr: ")]
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert without_draws(printed) == without_draws(shown.splitlines())
    assert (tmp_path / "result.png").stat().st_size > 20_000

    documented = README.split("### The JSON file")[1].split("\n## ")[0]
    keys = set(re.findall(r"^\| `(\w+)` \|", documented, re.MULTILINE))
    assert keys == set(json.loads((tmp_path / "result.json").read_text()))


def test_the_streaming_command_runs_and_prints_what_is_shown(tmp_path, monkeypatch, capsys):
    (line,) = [
        line for block in blocks("console") for line in block.splitlines() if line.startswith("ishsmm-stream detect")
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    assert main([*shlex.split(line)[1:], "--quiet"]) == 0
    (shown,) = [block for block in blocks("text") if block.lstrip().startswith("at ")]
    printed = [squeezed(line).rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed[:-1] == [squeezed(line).rstrip() for line in shown.splitlines()]
    assert (tmp_path / "stream.png").stat().st_size > 20_000


def test_the_example_file_is_the_data_set():
    columns = np.loadtxt(ROOT / "docs" / "coal.csv", delimiter=",", skiprows=1, dtype=int).T
    np.testing.assert_array_equal(columns, hs.datasets.coal_disasters())
    (example,) = [block for block in blocks("text") if block.startswith("year,")]
    assert (ROOT / "docs" / "coal.csv").read_text().startswith(example)


def test_every_public_name_is_listed():
    listed = README.split("## The public names")[1].split("\n## ")[0]
    topologies = [
        name
        for name, function in inspect.getmembers(hs.topology, inspect.isfunction)
        if function.__module__ == hs.topology.__name__ and not name.startswith(("_", "is_"))
    ]
    for name in (*hs.__all__, *hs.emissions.__all__, *hs.durations.__all__, *topologies):
        assert re.search(rf"\b{name}\b", listed), name


def test_the_picture_is_there_and_small():
    assert 20_000 < (ROOT / "docs" / "coal.png").stat().st_size < 150_000
