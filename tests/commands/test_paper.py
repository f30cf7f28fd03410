"""The paper command as a user calls it."""

import json
import sys

from ishsmm_stream.commands import paper
from service.cli import main


def failure(capsys, *arguments):
    assert main(["paper", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("ishsmm-stream: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_an_experiment_prints_its_claims_and_writes_figure_and_numbers(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert main(["paper", "prior", "--quick", "--quiet", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "does not hold" in captured.out
    assert sorted(path.name for path in out.iterdir()) == ["claims.md", "prior.json", "prior.png"]
    numbers = json.loads((out / "prior.json").read_text())
    for claim in numbers["claims"]:
        assert f"| {claim['paper']} | {claim['ours']} | {claim['verdict']} |" in (out / "claims.md").read_text()


def test_an_unknown_experiment_is_refused_with_the_nearest_name(tmp_path, capsys):
    message = failure(capsys, "cole", "--out", tmp_path / "out")
    assert "no experiment 'cole', there are ied, ilr, coal" in message
    assert "did you mean 'coal'?" in message
    assert not (tmp_path / "out").exists()


def test_an_out_that_is_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert "file" in failure(capsys, "coal", "--out", tmp_path / "file")


def test_missing_plots_are_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    assert "pictures need matplotlib: pip install" in failure(capsys, "coal", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_all_experiments_are_run_unless_some_are_named():
    assert paper._checked([]) == list(paper.EXPERIMENTS)
    assert paper._checked(["coal", "ied", "coal"]) == ["coal", "ied"]
