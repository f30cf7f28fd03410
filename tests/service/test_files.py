"""Files with readings or events in them are for the service's own user and group."""

from __future__ import annotations

import os
import stat

import pytest

from service.embedded.database import Database
from service.runtime.snapshot_store import SnapshotStore
from service.sensors.crashes import CrashJournal
from service.sinks.lines import LinesSink


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("make", "mode"),
    [
        (lambda folder: Database(folder / "state.sqlite"), 0o600),
        (lambda folder: SnapshotStore(folder / "store.sqlite"), 0o600),
        (lambda folder: CrashJournal(folder / "worker.crash"), 0o600),
        (lambda folder: LinesSink(folder / "events.jsonl"), 0o640),
    ],
    ids=["state", "store", "journal", "lines"],
)
def test_files_are_made_for_the_service_alone(tmp_path, make, mode):
    made = make(tmp_path)
    found = modes(tmp_path)
    made.close()
    assert found
    assert set(found.values()) == {mode}, found


def test_the_permissions_of_a_file_that_is_there_are_left_alone(tmp_path):
    path = tmp_path / "events.jsonl"
    path.touch(0o644)
    LinesSink(path).close()
    assert modes(tmp_path) == {"events.jsonl": 0o644}
