"""``check-config`` and ``schema`` on the command line."""

import json
import os

import pytest

from service import cli

MODEL = "[[rules]]\n[rules.model]\n"


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch):
    for name in [name for name in os.environ if name.startswith("ISHSMM_")]:
        monkeypatch.delenv(name)


def test_it_says_what_it_understood(tmp_path, capsys):
    path = tmp_path / "service.toml"
    path.write_text(
        '[kafka]\ntopics = ["plant"]\n[kafka.security]\nprotocol = "sasl_plaintext"\nusername = "u"\n'
        'password = "hunter2"\n[mapping]\nformat = "json"\nsensor = "device"\nvalues = ["a", "b"]\n'
        '[incidents]\ngroup_by = "site"\n'
        '[[rules]]\nmatch = "x*"\ntransform = "log"\nlabels.site = "north"\n[rules.model]\nkind = "ied"\n'
    )
    assert cli.main(["check-config", "--config", str(path)]) == 0
    said = capsys.readouterr().out
    for words in (
        "plant",
        "ishsmm.events",
        "as u (SCRAM-SHA-256)",
        "not keyed by sensor",
        "ied of normal",
        "site north",
        "3 or more sensors within 600 s, in groups by label site; 1 a week by chance",
    ):
        assert words in said
    assert "x*: " in said
    assert "*: model auto" in said
    assert "hunter2" not in said


def test_without_a_file_there_are_defaults_and_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("ISHSMM_KAFKA__TOPICS", "a,b")
    assert cli.main(["check-config"]) == 0
    assert "reads         a, b" in capsys.readouterr().out


def test_it_says_what_it_understood_of_sources_without_a_broker(tmp_path, capsys):
    path = tmp_path / "service.toml"
    path.write_text(
        '[source]\nkinds = ["file", "http"]\n[source.file]\npath = "a.csv"\nfollow = true\n[http]\ntoken = "hunter2"\n'
    )
    assert cli.main(["check-config", "--config", str(path)]) == 0
    said = capsys.readouterr().out
    for words in ("a.csv and what is appended", "POST /v1/readings", "CSV under a header", "ishsmm-state.sqlite"):
        assert words in said
    assert "9108, with a token" in said
    assert "hunter2" not in said
    assert cli.main(["topics", "create", "--config", str(path)]) == 2
    assert "this needs Kafka" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[kafka]\nbotstrap = 1", "kafka.botstrap is unknown; did you mean 'bootstrap'?"),
        (MODEL + "kind = 'ilr'\nemission = {family = 'normal', meen = 3}", "model.emission.meen is unknown"),
        (MODEL + "kind = 'ilr'\nemission = {family = 'normal', scale = -3}", "model.emission.scale must be"),
        (MODEL + "kind = 'ilr'\nhyperparameters = {alpha = 3}", "model.hyperparameters.alpha is unknown"),
        (MODEL + "kind = 'ied'\nhyperparameters = {c = 'x'}", "model.hyperparameters.c takes a number"),
        (MODEL + "kind = 'ied'\nhyperparameters = {c = -1}", "model.hyperparameters.c must be"),
        (MODEL + "kind = 'ilr'\nemission = {family = 'categorical'}", "emission.concentration is missing"),
        (MODEL + "kind = 'ied'\n[rules.detector]\noutliers = 0.1", "hazard and outliers are for models"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, capsys, text, said):
    path = tmp_path / "service.toml"
    path.write_text(text)
    assert cli.main(["check-config", "--config", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_schema_prints_all_or_one(capsys):
    assert cli.main(["schema"]) == 0
    own = {"change", "alarm", "state_event", "state", "dictionary", "notice", "incident", "summary", "dead_letter"}
    control = {"mute", "acknowledgement", "acceptance", "reset", "forget", "state_name"}
    assert set(json.loads(capsys.readouterr().out)) == own | control
    assert cli.main(["schema", "notice"]) == 0
    assert "Notice" in json.loads(capsys.readouterr().out)["$defs"]
    assert cli.main(["schema", "x"]) == 2
