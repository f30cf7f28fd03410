"""Where one sensor stands, from the file of a service without a broker."""

from __future__ import annotations

import json

import numpy as np
import pytest

from service import cli
from service.composition import EmbeddedService
from service.settings import load
from service.tools.inspection import inspect

BEGIN = 1_767_225_600


def values(seed):
    rng = np.random.default_rng(seed)
    return np.r_[rng.normal(0.0, 1.0, 60), rng.normal(9.0, 1.0, 90)].round(3)


@pytest.fixture
def config(tmp_path):
    lines = [
        "time,tank/level,tank/flow",
        *(f"{BEGIN + i},{a},{b}" for i, (a, b) in enumerate(zip(values(0), values(1), strict=True))),
    ]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    path = tmp_path / "service.toml"
    path.write_text(
        f'[source]\nkinds = ["file"]\nuntil_end = true\nstate = "{tmp_path}/state.sqlite"\n'
        f'[source.file]\npath = "{tmp_path}/data.csv"\n[http]\nport = 0\n[worker]\ncycle_s = 0.01\n'
        '[[rules]]\nlabels = { unit = "m" }\nalarms = { threshold = 0.98 }\n'
    )
    return path


def serve(config):
    assert cli.main(["serve", "--config", str(config), "--log-level", "ERROR"]) == 0


def test_it_says_what_the_services_own_detector_says(config):
    serve(config)
    settings = load(config, {})
    found = inspect(settings, "tank/flow")
    service = EmbeddedService(settings)
    asked = []

    class Asking:
        def committed(self, cycle):
            self.idle()

        def idle(self):
            asked.append(service.sensors.one("tank/flow"))

    service.observers.append(Asking())
    service.run()
    assert found.posterior == asked[-1]
    assert found.posterior.accepted == 150
    assert (found.snapshot_offset, found.replayed) == (151, 0)


def test_a_state_without_a_snapshot_is_made_from_the_input_since(config):
    """A worker that is killed leaves snapshots behind that are older than what it has committed."""
    serve(config)
    settings = load(config, {})
    whole = inspect(settings, "tank/flow")
    settings.source.state.unlink()
    killed = EmbeddedService(settings)
    killed.worker._leave = lambda: None  # type: ignore[method-assign]
    killed.run()
    found = inspect(settings, "tank/flow")
    assert found.snapshot_offset is None
    assert found.replayed == 150
    assert found.posterior == whole.posterior


def test_for_people(config, capsys):
    serve(config)
    assert cli.main(["inspect", "tank/level", "--config", str(config)]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = {line[:15].strip(): line[15:] for line in lines if line[:15].strip()}
    assert told["sensor"] == "tank/level"
    assert told["newest"] == "2026-01-01 00:02:29 UTC, index 149; 150 readings, generation 0"
    assert told["state"].startswith("mean 9.")
    assert told["state"].endswith(" m")
    assert told["since"].startswith("2026-01-01 00:01:00, index 60, with probability ")
    assert told["run length"].startswith("90 observations")
    assert "alarms 1 per week, changes above 0.98" in told["rule"]
    assert told["unusual now"] == "not known yet: 350 readings are still to come"
    assert "open alarm" not in told
    assert any(line.split()[:2] == ["change", "announced"] for line in lines)  # under their own name
    assert not any(line.startswith("alarm ") for line in lines)
    assert told["state saved"].endswith("up to offset 151; nothing came since")
    assert any(line.split()[:2] == ["60", "2026-01-01"] for line in lines)
    assert any(line.endswith("confirmed") for line in lines)


def test_alarms_stand_beside_changes(config, capsys):
    noise = np.random.default_rng(2).normal(size=1230).round(3)
    noise[1200:] += 40.0
    lines = ["time,tank/level", *(f"{BEGIN + i},{value}" for i, value in enumerate(noise))]
    (config.parent / "data.csv").write_text("\n".join(lines) + "\n")
    config.write_text(config.read_text().replace("threshold = 0.98", 'threshold = 0.98, per_sensor = "1 per hour"'))
    serve(config)
    (alarm,) = inspect(load(config, {}), "tank/level").posterior.unusual
    assert alarm.is_open
    assert 1200 <= alarm.raised_at.index < 1210
    assert cli.main(["inspect", "tank/level", "--config", str(config)]) == 0
    out = capsys.readouterr().out
    told = {line[:15].strip(): line[15:] for line in out.splitlines()}
    assert (
        f"since 2026-01-01 00:20:{alarm.raised_at.index - 1200:02}, index {alarm.raised_at.index}" in told["open alarm"]
    )
    assert told["unusual now"].startswith("1 in ")
    (row,) = [line for line in out.splitlines() if line.startswith(alarm.id)]
    assert row.endswith("open")
    assert " readings" in row


def test_another_model_would_start_a_new_generation_and_the_saved_state_is_shown(config, capsys):
    serve(config)
    config.write_text(config.read_text().replace("[[rules]]", "[[rules]]\ndetector = { lag = 32 }"))
    assert cli.main(["inspect", "tank/level", "--config", str(config)]) == 0
    out = capsys.readouterr().out
    assert "the next reading starts generation 1" in out
    assert "150 readings, generation 0" in out


def test_as_json(config, capsys):
    serve(config)
    assert cli.main(["inspect", "tank/level", "--config", str(config), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["posterior"]["change_points"][0]["index"] == 60
    assert found["keeps_state"] is True
    assert found["posterior"]["changes"] == found["posterior"]["alarms"] != []
    assert (found["posterior"]["unusual"], found["posterior"]["learning"]) == ([], 350)
    assert len(found["posterior"]["forecast"]["median"]) == 10


def test_an_unknown_name_gets_the_nearest_ones(config, capsys):
    serve(config)
    assert cli.main(["inspect", "tank/levle", "--config", str(config)]) == 2
    assert "no sensor 'tank/levle': did you mean tank/level" in capsys.readouterr().err
    assert cli.main(["inspect", "zzz", "--config", str(config)]) == 2
    assert "no sensor 'zzz': there are 2: tank/flow, tank/level" in capsys.readouterr().err
