"""A sensor's state and the board of all, from topics beside a worker."""

from __future__ import annotations

import time

import numpy as np
import pytest
from running import committed, readings, running, send, settings_for, wait_for

from service import cli
from service.deployment import deployment_of
from service.tools.inspection import UnknownSensor, inspect
from service.tools.watch.board import Board


def jump(sensor, size, seed):
    rng = np.random.default_rng(seed)
    return readings(sensor, np.r_[rng.normal(0.0, 1.0, 60), rng.normal(size, 1.0, 60)].tolist())


def accepted(settings):
    """Readings of the sensor that a detector has taken; asked for now and then, as asking takes the worker's time."""
    time.sleep(0.5)
    try:
        return inspect(settings, "a").posterior.accepted
    except UnknownSensor:
        return 0


@pytest.mark.parametrize("keyed", [True, False])
def test_beside_a_worker_it_says_what_the_snapshot_says_after_it(connection, tmp_path, keyed):
    """While the worker runs the state is in no snapshot: it is made from the input. After its end it is in one."""
    settings = settings_for(connection, tmp_path, mapping={"partitioned_by_sensor": keyed})
    send(settings, [*jump("a", 8.0, 1), *jump("b", -5.0, 2)], 1)
    with running(settings):
        wait_for(lambda: committed(settings) == 240, 120)
        wait_for(lambda: accepted(settings) == 120, 120)
        during = inspect(settings, "a")
    after = inspect(settings, "a")
    assert during.posterior == after.posterior
    assert during.replayed > 0
    assert after.replayed == 0
    assert after.snapshot_offset is not None
    assert after.place.startswith(settings.topics.changelog)
    assert [change.status for change in after.posterior.changes] == ["confirmed"]


def test_an_unknown_sensor_and_a_board_of_all(connection, tmp_path, monkeypatch, capsys):
    settings = settings_for(connection, tmp_path)
    send(settings, [*jump("pump-1", 8.0, 1), *jump("pump-2", -5.0, 2)])
    with running(settings):
        wait_for(lambda: committed(settings) == 240, 120)
    monkeypatch.setattr("service.settings.load", lambda *_: settings)
    assert cli.main(["inspect", "pmp-1"]) == 2
    assert "no sensor 'pmp-1': did you mean pump-1" in capsys.readouterr().err

    board = Board()
    for value in deployment_of(settings).messages(with_states=True, earlier=200, is_over=lambda: False):
        if value is not None:
            board.take(value)
        elif len(board) == 2 and len(board.events) == 4 and all(row.state for row in board.rows):
            break
    assert {row.sensor: row.change.status for row in board.rows} == {"pump-1": "confirmed", "pump-2": "confirmed"}
    assert cli.main(["watch", "--seconds", "8", "--sensor", "pump-2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2:4] for line in lines] == [["pump-2", "provisional"], ["pump-2", "confirmed"]]
