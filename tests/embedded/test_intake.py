"""The database and the log of records in it: who has it, what a transaction holds, what survives."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from service.embedded import tables
from service.embedded.database import Database
from service.embedded.intake import Intake
from service.runtime.log import Cycle
from service.sensors.records import Outbound
from service.settings import RecordMapping
from service.wire import messages


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "state.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def intake(database):
    opened = Intake(database)
    yield opened
    opened.close()


def test_records_come_out_as_they_went_in(intake):
    number = intake.format_of(RecordMapping())
    assert intake.append("here", number, [b"a", b"b"], received=5).result(10) == 2
    assert intake.append("there", number, [b"c"], received=6, position=b"p").result(10) == 3
    found = intake.new_records(10)
    assert [(one.offset, one.timestamp, one.topic, one.value) for one in found] == [
        (1, 5, "here", b"a"), (2, 5, "here", b"b"), (3, 6, "there", b"c"),
    ]  # fmt: skip
    assert intake.backlog == 3
    assert (intake.position_of("there"), intake.position_of("here")) == (b"p", None)


def test_mappings_are_kept_for_records_of_earlier_configurations(tmp_path):
    mapping = RecordMapping(format="csv", columns=("a", "b"), sensor="a", values=("b",), delimiter=";")
    database = Database(tmp_path / "state.sqlite")
    intake = Intake(database)
    numbers = [intake.format_of(mapping), intake.format_of(RecordMapping()), intake.format_of(mapping)]
    intake.close()
    database.close()
    database = Database(tmp_path / "state.sqlite")
    intake = Intake(database)
    assert numbers[0] == numbers[2] != numbers[1]
    assert intake.mapping_of(numbers[0]) == mapping
    intake.close()
    database.close()


def test_offsets_go_on_although_everything_was_deleted(tmp_path):
    for first in (1, 3):
        database = Database(tmp_path / "state.sqlite")
        intake = Intake(database)
        assert intake.backlog == 0
        assert intake.append("s", 1, [b"x", b"y"]).result(10) == first + 1
        tables.commit(database, Cycle([], {}, [], {}, None), tables.StoredPosition(first + 2, first + 2, 0, 1), 10, 10)
        assert database.reading().execute("SELECT count(*) FROM intake").fetchone() == (0,)
        intake.close()
        database.close()


def test_those_who_wait_together_share_a_transaction(database, intake):
    commits = []
    database._writer.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    with database.writing():  # nobody can commit while this is held
        futures = [intake.append("s", 1, [b"x"] * 10) for _ in range(50)]
        threading.Event().wait(0.2)
        assert not any(future.done() for future in futures[1:])
    assert sorted(future.result(10) for future in futures) == [10 * (i + 1) for i in range(50)]
    # the one held here, the first of the fifty, and all others
    assert len(commits) <= 3


def test_a_position_is_committed_with_its_records_or_not_at_all(database, intake):
    intake.append("s", 1, [b"x"], position=b"1").result(10)
    refused = intake.append("s", None, [b"y"], position=b"2")  # type: ignore[arg-type]  # violates NOT NULL
    with pytest.raises(sqlite3.IntegrityError):
        refused.result(10)
    assert intake.position_of("s") == b"1"
    assert intake.append("s", 1, [b"z"], position=b"3").result(10) == 2
    assert [one.value for one in intake.new_records(10)] == [b"x", b"z"]


def test_only_the_newest_events_and_dead_letters_are_kept(database):
    letter = b'{"type":"dead_letter","version":1,"reason":"late","detail":"","topic":"t","partition":0,"offset":1,'
    letter += b'"timestamp":null,"reading":null,"key":null,"value":null}'
    notice = b'{"type":"notice","version":1,"sensor":"a","labels":{},"generation":0,"kind":"back","index":null,'
    notice += b'"time":"2026-01-01T00:00:00Z","why":""}'
    outputs = [Outbound("events", b"a", messages.decode(notice))] * 7
    outputs += [Outbound("dead_letters", b"", messages.decode(letter))] * 9
    cycle = Cycle([(0, output) for output in outputs], {}, [], {}, None)
    tables.commit(database, cycle, tables.StoredPosition(1, 1, 0, 1), keep_events=5, keep_dead_letters=3)
    assert [event.seq for event in tables.events_between(database, (0, 1000), 100)] == [3, 4, 5, 6, 7]
    assert database.reading().execute("SELECT seq, reason FROM dead_letters").fetchall() == [
        (7, "late"), (8, "late"), (9, "late"),
    ]  # fmt: skip


def test_two_processes_cannot_work_with_one_file(tmp_path, database):
    with pytest.raises(ValueError, match="another process works with it"):
        Database(tmp_path / "state.sqlite")


def test_a_file_that_is_none_of_ours_is_said(tmp_path):
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at as one" * 30)
    with pytest.raises(ValueError, match=r"source.state .*text: file is not a database"):
        Database(tmp_path / "text")
    other = sqlite3.connect(tmp_path / "later")
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(ValueError, match="it has version 99"):
        Database(tmp_path / "later")
