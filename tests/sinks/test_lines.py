"""Events as lines in a file."""

from __future__ import annotations

import pytest
from events import change

from service.sinks import LinesSink, TryAgain
from service.sinks.sink import outgoing
from service.wire import messages


def event(sensor):
    made = change(sensor)
    return outgoing(made, messages.encode(made))


def sensors(path):
    return [messages.decode(line).sensor for line in path.read_bytes().splitlines()]


def test_lines_are_appended_to_what_is_there(tmp_path):
    path = tmp_path / "folder" / "events.jsonl"
    for sensor in "ab":
        sink = LinesSink(path)
        sink.send(event(sensor))
        sink.close()
    assert sensors(path) == ["a", "b"]


def test_the_file_may_be_moved_away_at_any_time(tmp_path):
    path, moved = tmp_path / "events.jsonl", tmp_path / "events.jsonl.1"
    sink = LinesSink(path)
    sink.send(event("a"))
    path.rename(moved)
    sink.send(event("b"))
    sink.send(event("c"))
    sink.close()
    assert sensors(moved) == ["a"]
    assert sensors(path) == ["b", "c"]


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"type": "chan')
    sink = LinesSink(path)
    sink.send(event("a"))
    sink.close()
    cut, whole = path.read_bytes().splitlines()
    assert cut == b'{"type": "chan'
    assert messages.decode(whole).sensor == "a"


def test_a_disk_that_is_full_is_tried_again(tmp_path, monkeypatch):
    sink = LinesSink(tmp_path / "events.jsonl")

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(TryAgain, match="No space left"):
            sink.send(event("a"))
    sink.send(event("a"))
    sink.close()
    assert sensors(tmp_path / "events.jsonl") == ["a", "a"]  # at least once
