"""What is in deploy/ passes its linters, and each linter finds a mistake that is planted: one that finds none would be
no proof."""

from __future__ import annotations

import configparser
import re
import shutil
from pathlib import Path

import pytest
from deploy_tools import DEPLOY, ROOT, run
from prometheus_helpers import run_promtool

from service.cli import USER_ERROR
from service.kafka.consumer import MemberReplaced
from service.runtime import watchdog

UNITS = sorted(DEPLOY.glob("systemd/*.service"))
SCRIPTS = sorted([*DEPLOY.rglob("*.sh"), ROOT / ".ci/run"])
YAML = sorted(path for path in DEPLOY.rglob("*.y*ml") if "templates" not in path.parts)
# systemd's own measure of what a unit is exposed to, in tenths: 0 is nothing, 96 a unit without any hardening
MOST_EXPOSED = 15


def with_mistake(path: Path, folder: Path, right: str, wrong: str) -> Path:
    """A copy of a file in which one thing is wrong."""
    text = path.read_text(encoding="utf-8")
    assert right in text
    copy = folder / path.name
    copy.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    return copy


# Dockerfile


def test_dockerfile():
    done = run("hadolint", DEPLOY / "Dockerfile")
    assert done.returncode == 0, done.stdout


def test_hadolint_finds_a_mistake(tmp_path):
    wrong = with_mistake(DEPLOY / "Dockerfile", tmp_path, "WORKDIR /src", "WORKDIR src")
    assert "DL3000" in run("hadolint", wrong).stdout


def test_the_image_runs_without_rights_and_asks_for_its_health():
    last_stage = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    assert "\nUSER 10001:10001\n" in last_stage
    assert "\nHEALTHCHECK " in last_stage


# Shell


def test_shell():
    assert SCRIPTS
    done = run("shellcheck", *SCRIPTS)
    assert done.returncode == 0, done.stdout


def test_shellcheck_finds_a_mistake(tmp_path):
    wrong = with_mistake(DEPLOY / "image/entrypoint.sh", tmp_path, 'mkdir -p "$NUMBA_CACHE_DIR"', "mkdir $1")
    assert "SC2086" in run("shellcheck", wrong).stdout


# YAML


def yamllint(*paths: Path):
    return run("yamllint", "--strict", "--config-file", DEPLOY / "yamllint.yaml", *paths)


def test_yaml():
    done = yamllint(*YAML)
    assert done.returncode == 0, done.stdout


def test_yamllint_finds_a_mistake(tmp_path):
    wrong = with_mistake(DEPLOY / "compose.yaml", tmp_path, "  worker-2:\n", "  worker-1:\n")
    assert "duplication of key" in yamllint(wrong).stdout


# systemd


def verify(folder: Path, *units: Path):
    """The program that units start need not be installed here: another one stands in for it."""
    copies = []
    for unit in units:
        copies.append(folder / unit.name.replace("@.", "@9121."))
        text = unit.read_text(encoding="utf-8").replace("/opt/ishsmm/bin/ishsmm-stream", shutil.which("true"))
        copies[-1].write_text(text, encoding="utf-8")
    return run("systemd-analyze", "verify", "--man=no", *copies)


def exposed(*units: Path):
    return run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", *units)


def test_systemd_units(tmp_path):
    assert len(UNITS) == 2
    done = verify(tmp_path, *UNITS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [("NoNewPrivileges=yes", "NoNewPriviledges=yes", "Unknown key"), ("Type=exec", "Type=exc", "Failed to parse")],
)
def test_systemd_finds_a_mistake(tmp_path, right, wrong, told):
    """A misspelt key is only told on stderr, with exit code 0."""
    wrong_unit = with_mistake(UNITS[0], tmp_path, right, wrong)
    folder = tmp_path / "copies"
    folder.mkdir()
    assert told in verify(folder, wrong_unit).stderr


def settings_of(unit: Path) -> dict[str, dict[str, str]]:
    """The keys of a unit file by section; the last one of a name."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.read_text(encoding="utf-8"))
    return {section: dict(parser[section]) for section in parser.sections()}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_try_for_ever_at_a_bounded_pace(unit):
    """Brokers that are away for a minute end every start with 2: with a limit on starts the unit would stay down."""
    settings = settings_of(unit)
    assert settings["Unit"]["StartLimitIntervalSec"] == "0"
    assert settings["Service"]["Restart"] == "on-failure"
    # a worker has 10 s to be back before its partitions move; with 5 s it was too late on busy cores
    longest = 2 if "worker" in unit.name else 5
    assert 1 <= float(settings["Service"]["RestartSec"]) <= longest


def test_a_worker_that_was_replaced_is_not_started_again():
    """Two workers under one kafka.member would end each other for ever. All other ends are followed by a start."""
    (worker,) = [unit for unit in UNITS if unit.name.startswith("ishsmm-worker")]
    prevented = settings_of(worker)["Service"]["RestartPreventExitStatus"].split()
    assert prevented == [str(MemberReplaced.exit_code)]
    assert not {str(USER_ERROR), str(watchdog.EXIT_CODE)} & set(prevented)


def test_the_runbook_lists_every_exit_code_of_a_worker():
    operations = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", operations, re.MULTILINE)]
    assert listed == [0, 1, USER_ERROR, MemberReplaced.exit_code, watchdog.EXIT_CODE]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_units_are_hardened(unit):
    done = exposed(unit)
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_unit_with_less_hardening_is_found(tmp_path):
    assert exposed(with_mistake(UNITS[0], tmp_path, "CapabilityBoundingSet=\n", "")).returncode != 0


def test_the_user_of_the_units_can_be_made(tmp_path):
    assert run("systemd-sysusers", "--dry-run", DEPLOY / "systemd/ishsmm.sysusers").returncode == 0
    wrong = with_mistake(DEPLOY / "systemd/ishsmm.sysusers", tmp_path, "u ishsmm", "z ishsmm")
    assert run("systemd-sysusers", "--dry-run", wrong).returncode != 0


# Prometheus of compose; its rules have tests of their own


def test_prometheus_of_compose(tmp_path):
    config = DEPLOY / "compose/prometheus.yml"
    done = run_promtool("check", "config", "--syntax-only", config)
    assert done.returncode == 0, done.stderr
    wrong = with_mistake(config, tmp_path, "scrape_interval", "scrap_interval")
    assert run_promtool("check", "config", "--syntax-only", wrong).returncode != 0
