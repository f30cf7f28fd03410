"""The program's entry: help, errors and signals."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ishsmm_stream
from service import cli

ROOT = Path(cli.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_and_version_import_neither_numba_nor_the_library(arguments):
    done = run_python(
        "import sys\nfrom service.cli import main\n"
        f"code = main({arguments})\n"
        "print([name for name in ('numba', 'numpy', 'rich', 'ishsmm_stream') if name in sys.modules])\n"
        "sys.exit(code)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_a_commands_help_imports_nothing_heavy(name):
    done = run_python(
        "import sys\nfrom service.cli import main\n"
        f"code = main([{name!r}, '--help'])\n"
        "print([name for name in ('numba', 'numpy', 'scipy', 'rich', 'matplotlib') if name in sys.modules])\n"
        "sys.exit(code)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_lists_the_commands(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, (_, summary) in cli.COMMANDS.items():
        assert name in text
        assert summary in " ".join(text.split())


def test_version_is_the_librarys(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"ishsmm-stream {ishsmm_stream.__version__}\n"


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_help(name, capsys):
    assert cli.main([name, "--help"]) == 0
    assert f"usage: ishsmm-stream {name}" in capsys.readouterr().out


def test_an_unknown_command_is_one_line_with_the_nearest_name(capsys):
    assert cli.main(["fti", "data.csv"]) == 2
    assert capsys.readouterr().err == (
        f"ishsmm-stream: error: no command 'fti', there are {', '.join(cli.COMMANDS)}; did you mean 'fit'?\n"
    )


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (ValueError("two\nlines"), 2, "ishsmm-stream: error: two lines\n"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "error: x.csv: No such file or directory\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_failures_are_exit_codes_and_at_most_one_line(raised, code, message, monkeypatch, capsys):
    from ishsmm_stream.commands import demo

    def run(arguments):
        raise raised

    monkeypatch.setattr(demo, "run", run)
    assert cli.main(["demo"]) == code
    captured = capsys.readouterr()
    assert captured.err.endswith(message)
    assert captured.err.count("\n") == (1 if message else 0)


def test_a_defect_of_ours_keeps_its_traceback(monkeypatch):
    from ishsmm_stream.commands import demo

    def run(arguments):
        raise TypeError("not the user's fault")

    monkeypatch.setattr(demo, "run", run)
    with pytest.raises(TypeError):
        cli.main(["demo"])


def test_a_reader_that_goes_away_is_no_event():
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "--help"], env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


def test_the_library_never_imports_the_service():
    for path in (ROOT / "ishsmm_stream").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) service\b", path.read_text(encoding="utf-8"), re.MULTILINE), path
