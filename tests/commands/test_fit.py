"""The fit command as a user calls it: through the program's entry, with files."""

import io
import json
import math
import os
import signal
import sys
import time

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.batch.change_points import list_change_points
from ishsmm_stream.commands import _models, _read, _result, _terminal, demo
from ishsmm_stream.model.catalogue import OFFERED_DURATIONS, OFFERED_EMISSIONS, PRESETS, WITH_STATES
from service.cli import main

PRIORS = ["--set", "emission.rate=1", "--set", "duration.scale=100"]


def no_constant(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture
def coal(tmp_path):
    """The coal-mining disasters as a CSV file with two numeric columns and a gap."""
    years, counts = hs.datasets.coal_disasters()
    cells = [str(count) for count in counts]
    cells[5], cells[60], cells[100] = "", "NaN", "NA"
    path = tmp_path / "coal.csv"
    path.write_text("year,count\n" + "".join(f"{year},{cell}\n" for year, cell in zip(years, cells, strict=True)))
    values = counts.astype(float)
    values[[5, 60, 100]] = np.nan
    return path, values


@pytest.fixture
def regimes(tmp_path):
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(mean, 1.0, 25) for mean in (-4.0, 4.0, -4.0)]).round(3)
    path = tmp_path / "regimes.csv"
    path.write_text("value\n" + "".join(f"{value}\n" for value in y))
    return path, y


def run(*arguments):
    return main(["fit", *map(str, arguments)])


def failure(capsys, *arguments):
    """The one line that a failing call prints."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ishsmm-stream: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


# What it finds


def test_the_files_hold_what_the_library_says(coal, tmp_path, capsys):
    path, values = coal
    out, picture = tmp_path / "result.json", tmp_path / "result.png"
    options = ["--column", "count", "--emission", "poisson", *PRIORS, "--draws", 200, "--seed", 3]
    assert run(path, *options, "--out", out, "--plot", picture, "--quiet") == 0

    result = json.loads(out.read_text(), parse_constant=no_constant)
    model = hs.ilr(hs.emissions.Poisson(1.0, 1.0), hs.durations.Poisson(1.0, 100.0))
    exact = hs.exact_posterior(values, model)
    assert result["model"] == "ilr"
    assert result["n_observations"] == len(values)
    assert result["log_evidence"] == exact.log_evidence
    assert result["change_probability"] == exact.change_probability.tolist()
    assert result["map"]["change_points"] == list(exact.map_change_points)
    assert result["map"]["log_joint"] == pytest.approx(exact.map_log_joint)
    assert {int(k): p for k, p in result["n_changes"].items()} == {
        k: p for k, p in enumerate(exact.n_changes.tolist()) if p >= 1e-6
    }
    listed = list_change_points(exact.map_change_points, exact.change_probability)
    assert result["change_points"] == [point._asdict() for point in listed]
    assert result["diagnostics"] == hs.sample(values, model, draws=200, seed=3).summary()
    assert result["warnings"] == []
    assert [state["state"] for state in result["states"]] == list(range(len(listed) + 1))
    assert result["settings"]["emission"] == {"family": "poisson", "shape": 1.0, "rate": 1.0}
    assert result["settings"]["duration"] == {"family": "poisson", "shape": 1.0, "scale": 100.0}
    assert result["settings"]["seed"] == 3

    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    assert sorted(tmp_path.iterdir()) == sorted([path, out, picture])  # nothing half-written is left
    captured = capsys.readouterr()
    assert captured.err == ""
    for point in listed:
        assert f"{point.low} to {point.high}" in captured.out
    assert "shape = 1, scale = 100" in captured.out


def test_states_that_return_are_told_with_their_parameters(regimes, tmp_path, capsys):
    path, y = regimes
    out = tmp_path / "result.json"
    assert run(path, "--model", "ied", "--draws", 300, "--burn-in", 200, "--out", out, "--quiet") == 0
    result = json.loads(out.read_text(), parse_constant=no_constant)
    assert result["log_evidence"] is None
    assert [point["index"] for point in result["change_points"]] == [25, 50]
    low, high = sorted(result["states"], key=lambda state: state["parameters"]["mean"]["mean"])
    for state, observed in ((low, np.r_[y[:25], y[50:]]), (high, y[25:50])):
        mean = state["parameters"]["mean"]
        assert mean["low"] < observed.mean() < mean["high"]
        assert mean["mean"] == pytest.approx(observed.mean(), abs=0.2)
    assert (low["occupancy"], high["occupancy"]) == (pytest.approx(2 / 3, abs=0.05), pytest.approx(1 / 3, abs=0.05))
    assert sum(result["n_states"].values()) == pytest.approx(1.0)
    assert result["settings"]["alpha1"] == {"prior": "gamma", "shape": 1.0, "rate": 1.0}
    text = capsys.readouterr().out
    assert "number of states:" in text
    assert all(f"warning: {warning}" in " ".join(text.split()) for warning in result["warnings"])


def test_recurring_states_need_no_priors(regimes, tmp_path, capsys):
    path, _ = regimes
    out = tmp_path / "result.json"
    assert run(path, "--model", "recurring", "--draws", 40, "--burn-in", 40, "--out", out, "--quiet") == 0
    result = json.loads(out.read_text(), parse_constant=no_constant)
    assert result["model"] == "recurring"
    assert [point["index"] for point in result["change_points"]] == [25, 50]
    assert result["settings"]["emission"]["family"] == "mean_reverting"
    assert {"phi", "noise", "spread"} <= set(result["diagnostics"])
    assert "hyperparameters: alpha1 = 4, c = 1" in capsys.readouterr().out
    for option, value in (("--emission", "normal"), ("--duration", "poisson"), ("--set", "c=2"), ("--states", 3)):
        assert f"--model recurring needs no priors: leave {option} out" in failure(
            capsys, path, "--model", "recurring", option, value
        )


def test_the_same_seed_gives_the_same_file(regimes, tmp_path):
    path, _ = regimes
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for out in files:
        assert run(path, "--model", "ied", "--draws", 10, "--burn-in", 5, "--seed", 7, "--out", out, "--quiet") == 0
    assert files[0].read_text() == files[1].read_text()


def test_stdin_is_read_and_a_handful_of_draws_is_warned_of(coal, tmp_path, monkeypatch, capsys):
    path, _ = coal
    out = tmp_path / "result.json"
    monkeypatch.setattr(sys, "stdin", io.StringIO(path.read_text()))
    options = ["--column", "count", "--emission", "poisson", "--draws", 3, "--chains", 1, "--out", out]
    assert run("-", *options, "--quiet") == 0
    result = json.loads(out.read_text(), parse_constant=no_constant)
    assert result["diagnostics"]["n_changes"]["rhat"] is None  # not a number, and not in the JSON
    assert "warning: " in capsys.readouterr().out


def test_notes_go_to_stderr_and_quiet_leaves_them_out(coal, tmp_path, capsys):
    path, _ = coal
    out = tmp_path / "result.json"
    options = [path, "--column", "count", "--emission", "poisson", "--draws", 50, "--out", out]
    assert run(*options) == 0
    assert f"wrote {out}\n" in capsys.readouterr().err
    assert run(*options, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_a_cold_cache_is_announced_before_the_work(coal, tmp_path, monkeypatch, capsys):
    from ishsmm_stream import _jit

    path, _ = coal
    monkeypatch.setattr(_jit, "cache_folder", lambda layer: str(tmp_path))  # where nothing has been compiled
    assert run(path, "--column", "count", "--emission", "poisson", "--draws", 50) == 0
    assert capsys.readouterr().err == "compiling kernels (first run only, up to a minute)\n"


def test_interrupting_stops_the_chains_at_their_next_sweep(regimes, monkeypatch):
    pressed = []

    def press(bar, done, total):
        if done == 1:
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_terminal.ProgressBar, "reach", press)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert run(regimes[0], "--model", "ied", "--draws", 1_000_000, "--quiet") == 130
    finally:
        signal.signal(signal.SIGINT, handler)
    assert time.monotonic() - pressed[0] < 20.0  # all draws would take minutes


def test_the_demo_prints_years_and_writes_its_picture(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "new")]) == 0
    picture = tmp_path / "new" / "coal.png"
    assert 20_000 < picture.stat().st_size < 150_000
    text = capsys.readouterr().out
    assert "1892" in text
    assert "number of change points:" in text
    assert "coal.png" in text
    assert f"{demo.DRAWS} draws" in text


# What it refuses, in one line


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b\n1,2\n3,4\n", ["--column", "c"], "has no column 'c'; its columns are a, b"),
        ("a,b\n1,2\n3,4\n", [], "has 2 numeric columns; choose with --column, its columns are a, b"),
        ("a,b\nx,y\n", [], "has no numeric columns"),
        ("a,b\n1,2\n3,x\n", ["--column", "b"], "line 3: 'x' in column 'b' is no number"),
        ('a,b\n"1\n",2\n3,inf\n', ["--column", "b"], "line 4: 'inf' in column 'b' is no number"),
        ("a,b\n1,2\n3\n", ["--column", "b"], "line 3: 1 cells, but the header has 2 columns"),
        ("a,a\n1,2\n", ["--column", "a"], "has more than one column 'a'"),
        ("a,b\n1,2\n", ["--column", "a,a"], "--column a is given twice"),
        ("a\n\nnan\n", [], "column 'a' has no values"),
        ("", [], "is empty"),
        ("a\n", [], "has a header but no data"),
        ("1\n2\n", [], "line 1: a header with column names is needed"),
        ("a\n2\n-1\n", ["--emission", "poisson"], "line 3: -1 in column 'a', but poisson emissions take whole numbers"),
        ("a\n2\n1.5\n", ["--emission", "categorical"], "line 3: 1.5 in column 'a', but categorical"),
        ("a\n2\n1000\n", ["--emission", "categorical"], "category 1000 in column 'a'"),
    ],
)  # fmt: skip
def test_bad_data_is_named_with_its_line(text, columns, message, tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text(text)
    assert message in failure(capsys, path, *columns)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "irl"], "did you mean 'ilr'?"),
        (["--emission", "poison"], "did you mean 'poisson'?"),
        (["--duration", "geometrical"], "did you mean 'geometric'?"),
        (["--model", "hdp_hmm", "--duration", "poisson"], "has no durations"),
        (["--model", "bayesian_hmm"], "needs --states"),
        (["--model", "bayesian_hmm", "--states", 0], "--states must be at least 1, got 0"),
        (["--model", "bayesian_hsmm", "--states", 1], "states must be at least 2"),
        (["--states", 3], "finds the number itself"),
        (["--draws", 0], "--draws must be at least 1"),
        (["--burn-in", -1], "--burn-in must be at least 0"),
        (["--chains", "two"], "argument --chains: invalid int value: 'two'"),
        (["--temperature", 0], "--temperature must be greater than 0"),
        (["--method", "bream"], "did you mean 'beam'?"),
        (["--slice", "papers"], "did you mean 'paper'?"),
        (["--set", "emission.shap=1"], "did you mean 'emission.shape'?"),
        (["--set", "emission.shape"], "--set takes NAME=VALUE"),
        (["--set", "emission.shape=two"], "'two' is no number"),
        (["--set", "emission.shape=-1"], "emission.shape must be greater than 0, got -1"),
        (["--set", "alpha1=beta(1,1)"], "alpha1 must be a positive number or priors.Gamma"),
        (["--emission", "poisson", "--column", "a,b"], "takes one column"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)  # fmt: skip
def test_bad_options_are_one_line(options, message, tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    columns = [] if "--column" in options else ["--column", "a"]
    assert message in failure(capsys, path, *columns, *options)


def test_a_missing_file_is_one_line(tmp_path, capsys):
    assert "nowhere.csv: No such file or directory" in failure(capsys, tmp_path / "nowhere.csv")


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_outputs_that_cannot_be_written_are_refused_before_the_data_are_read(option, tmp_path, capsys):
    data = tmp_path / "nowhere.csv"
    assert "there is no folder" in failure(capsys, data, option, tmp_path / "new" / "result.png")
    assert "is a folder" in failure(capsys, data, option, tmp_path)


def test_a_picture_of_an_unknown_kind_is_refused_before_the_data_are_read(tmp_path, capsys):
    message = failure(capsys, tmp_path / "nowhere.csv", "--plot", tmp_path / "result.xyz")
    assert "must end in one of" in message
    assert ".png" in message


def test_a_picture_without_matplotlib_says_what_to_install_before_the_data_are_read(tmp_path, monkeypatch, capsys):
    for name in ("matplotlib", "matplotlib.backend_bases"):
        monkeypatch.setitem(sys.modules, name, None)
    message = failure(capsys, tmp_path / "nowhere.csv", "--plot", tmp_path / "result.png")
    assert "pip install 'ishsmm-stream[plots]'" in message


def test_a_state_limit_is_one_line(regimes, capsys):
    assert "--max-states" in failure(capsys, regimes[0], "--model", "ied", "--max-states", 1, "--quiet")


def test_a_failing_writer_leaves_the_old_file_as_it_was(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("old")

    def write(target):
        target.write_text("new, but n")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        _terminal.write_whole(path, write)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# Reading


def test_missing_cells_blank_lines_and_byte_order_marks(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"\xef\xbb\xbfa\r\n1\r\n\r\nNA\r\nnan\r\n 2.5 \r\n\r\n\r\n")
    series = _read.read_series(str(path))
    np.testing.assert_array_equal(series.values[:, 0], [1.0, np.nan, np.nan, np.nan, 2.5])
    assert series.lines == (2, 3, 4, 5, 6)


def test_several_columns_are_one_series_in_the_order_asked_for():
    series = _read.parse_series("test", ["a,b,name,c\n", "1,2,x,3\n", "\n", "4,,y,6\n"], ["c", "b"])
    assert series.columns == ("c", "b")
    np.testing.assert_array_equal(series.values, [[3.0, 2.0], [6.0, np.nan]])
    assert series.lines == (2, 4)


def test_the_only_numeric_column_is_found_among_others():
    series = _read.parse_series("test", ["name,Na,empty\n", "x,3,\n", "y,4,NA\n"])
    assert series.columns == ("Na",)


# Models


def series_of(values):
    values = np.asarray(values, dtype=float)
    values = values.reshape(len(values), -1)
    names = tuple("abcdefgh"[: values.shape[1]])
    return _read.Series("test", names, values, tuple(range(2, len(values) + 2)))


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_model_can_be_asked_for_and_its_hyperparameters_set(name):
    states = 3 if name in WITH_STATES else None
    share = {"d": "0.5", "rho": "beta(2,1)"}
    settings = [f"{key}={share.get(key, '2.5')}" for key in PRESETS[name].hyperparameters.values()]
    built = _models.build_model(_models.Request(name, None, None, states, settings), series_of([1.0, 2.0, 4.0]))
    assert built.model.name == name
    for key in PRESETS[name].hyperparameters.values():
        expected = {"d": 0.5, "rho": {"prior": "beta", "a": 2.0, "b": 1.0}}.get(key, 2.5)
        assert built.settings[key] == expected
    assert (built.settings["duration"] is None) == (not PRESETS[name].has_duration)


@pytest.mark.parametrize("duration", OFFERED_DURATIONS)
@pytest.mark.parametrize("emission", OFFERED_EMISSIONS)
@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [3.0], [1.0, np.nan, 2.0], [0, 1, 0, 1, 1, 0, 1, 1]])
def test_defaults_exist_for_every_family_whatever_the_data(emission, duration, values):
    built = _models.build_model(_models.Request("ilr", emission, duration, None, ()), series_of(values))
    assert built.settings["emission"]["family"] == emission
    assert built.settings["duration"]["family"] == duration


def test_defaults_follow_the_units_of_the_data():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(mean, 1.0, 200) for mean in (0.0, 30.0, -10.0)])
    for unit in (1e-6, 1.0, 1e6):
        emission = _models.build_model(_models.Request("ilr", None, None, None, ()), series_of(unit * y)).model.emission
        assert emission.scale == pytest.approx(unit**2, rel=0.25)
        # a segment's mean may lie anywhere among the data
        assert np.sqrt(emission.scale / emission.mean_weight) == pytest.approx(unit * y.std(), rel=0.05)


def test_several_columns_are_multivariate_normal_by_default():
    y = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 100.0]
    built = _models.build_model(_models.Request("ilr", None, None, None, ()), series_of(y))
    prior = built.model.emission
    assert isinstance(prior, hs.emissions.MultivariateNormal)
    expected = np.diag(prior.scale) / (prior.freedom - 3.0)
    np.testing.assert_allclose(expected, [1.0, 1e4], rtol=0.5)


def test_settings_replace_defaults():
    request = _models.Request("ilr", "categorical", "negative_binomial", None, ("emission.concentration=1,2,3,4",))
    assert _models.build_model(request, series_of([0, 1, 0])).model.emission.concentration == (1.0, 2.0, 3.0, 4.0)
    request = request._replace(settings=("emission.categories=5", "duration.size=1,2"))
    model = _models.build_model(request, series_of([0, 1, 0])).model
    assert len(model.emission.concentration) == 5
    assert model.duration.size == (1.0, 2.0)
    request = _models.Request("ilr", "autoregressive", None, None, ("emission.order=2", "emission.trend=true"))
    assert _models.build_model(request, series_of([0.0, 1.0, 0.5])).model.emission[:2] == (2, True)


def test_json_has_no_number_that_json_cannot_say(tmp_path):
    path = tmp_path / "result.json"
    _result.write_json(path, {"a": math.nan, "b": [math.inf, (1.0, 2)], "c": {"d": -math.inf}})
    assert json.loads(path.read_text()) == {"a": None, "b": [None, [1.0, 2]], "c": {"d": None}}
