"""``check-config --against-live``: which sensors would start afresh."""

from __future__ import annotations

import msgspec
from running import committed, readings, running, send, settings_for, wait_for

from service import cli
from service.settings import Rule
from service.tools.live import live_sensors


def test_another_model_starts_afresh_and_another_alarm_policy_does_not(connection, tmp_path, monkeypatch, capsys):
    settings = settings_for(connection, tmp_path)
    for number, names in enumerate((("boiler-1", "pump-1"), ("boiler-2",))):
        send(settings, [record for name in names for record in readings(name, [1.0, 2.0, 3.0])], number)
    with running(settings):
        wait_for(lambda: committed(settings) == 9)
    assert [(one.sensor, one.keeps_state) for one in live_sensors(settings)] == [
        ("boiler-1", True), ("boiler-2", True), ("pump-1", True)
    ]  # fmt: skip

    rules = (
        Rule(match="boiler*", transform="log"),
        msgspec.convert({"match": "pump*", "alarms": {"threshold": 0.9}}, Rule),
    )
    changed = msgspec.structs.replace(settings, rules=rules)
    assert live_sensors(changed) == [
        ("boiler-1", "boiler*", 0, False), ("boiler-2", "boiler*", 0, False), ("pump-1", "pump*", 0, True)
    ]  # fmt: skip
    monkeypatch.setattr("service.settings.load", lambda *_: changed)
    assert cli.main(["check-config", "--against-live"]) == 0
    said = capsys.readouterr().out
    assert "2 start a new generation" in said
    assert "rule boiler*: boiler-1 (0 -> 1), boiler-2 (0 -> 1)" in said
    assert "rule pump*: pump-1" in said

    # what it says is what happens
    send(settings, readings("boiler-1", [4.0], 1_760_000_100.0) + readings("pump-1", [4.0], 1_760_000_100.0))
    with running(changed):
        wait_for(lambda: committed(settings) == 11)
    generations = {one.sensor: one.generation for one in live_sensors(changed)}
    assert generations == {"boiler-1": 1, "boiler-2": 0, "pump-1": 0}
