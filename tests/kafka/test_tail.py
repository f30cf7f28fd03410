"""``tail`` prints what is committed on the events topic, readably or as it is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import msgspec
import numpy as np
import pytest
from running import committed, readings, running, send, settings_for, wait_for

from service import cli
from service.kafka.following import follow


@pytest.fixture
def settings(connection, tmp_path, monkeypatch):
    settings = settings_for(connection, tmp_path, partitions=1, rules=[{"labels": {"unit": "bar"}}])
    monkeypatch.setattr("service.settings.load", lambda *_: settings)
    return settings


def jump(sensor, size=20.0):
    rng = np.random.default_rng(0)
    return readings(sensor, np.r_[rng.normal(0.0, 1.0, 60), rng.normal(size, 1.0, 60)].tolist())


def test_lines_for_people_and_messages_as_they_are(settings, capsys):
    send(settings, jump("a") + jump("b", -20.0))
    with running(settings):
        wait_for(lambda: committed(settings) == 240)
    assert cli.main(["tail", "--no-follow"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2:4] for line in lines] == [
        ["a", "provisional"], ["a", "confirmed"], ["b", "provisional"], ["b", "confirmed"]
    ]  # fmt: skip
    assert "level 0 -> 20 bar" in lines[1]
    assert "99.9 %" in lines[1]
    assert "\x1b" not in lines[1]  # no colours where nobody looks
    assert cli.main(["tail", "--no-follow", "--json", "--sensor", "b*"]) == 0
    events = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [(event["sensor"], event["status"]) for event in events] == [("b", "provisional"), ("b", "confirmed")]


def test_following_begins_with_what_comes_from_now_on(connection, settings):
    send(settings, jump("old"))
    with running(settings):
        wait_for(lambda: committed(settings) == 120)
        ready, seen, over = threading.Event(), [], threading.Event()

        def tail():
            topic = settings.topics.events
            seen.extend(follow(connection, topic, ready=ready.set, is_over=over.is_set))

        following = threading.Thread(target=tail, daemon=True)
        following.start()
        assert ready.wait(10)
        send(settings, jump("new"))
        wait_for(lambda: committed(settings) == 240)
        over_after = threading.Timer(1.0, over.set)
        over_after.start()
        following.join(10)
    assert {msgspec.json.decode(value)["sensor"] for value in seen} == {"new"}


def test_a_reader_that_goes_away_ends_it(settings):
    """As in `tail | head`: what followed the topic was left to the interpreter's end, which waited for ever."""
    send(settings, jump("a"))
    with running(settings):
        wait_for(lambda: committed(settings) == 120)
    reading, writing = os.pipe()
    os.close(reading)
    kafka, topics = settings.kafka, settings.topics
    variables = {
        "ISHSMM_KAFKA__BOOTSTRAP": ",".join(kafka.bootstrap), "ISHSMM_KAFKA__TOPICS": ",".join(kafka.topics),
        "ISHSMM_TOPICS__EVENTS": topics.events, "ISHSMM_TOPICS__CONTROL": topics.control,
    }  # fmt: skip
    command = [sys.executable, "-m", "service.cli", "tail", "--from-beginning"]
    ended = subprocess.run(command, stdout=writing, env={**os.environ, **variables}, timeout=60)
    os.close(writing)
    assert ended.returncode == cli.BROKEN_PIPE


def test_dead_letters_are_listed_and_counted(settings, capsys):
    send(settings, [*jump("a"), b"no reading", b'{"sensor": "a"}'])
    with running(settings):
        wait_for(lambda: committed(settings) == 122)
    assert cli.main(["dead-letters"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert " not_json  " in first
    assert first.endswith("'no reading'")
    assert f"{settings.kafka.topics[0]}[0] at 121: " in second
    assert cli.main(["dead-letters", "--count"]) == 0
    assert sorted(capsys.readouterr().out.split()) == ["1", "1", "no_value", "not_json"]
    assert cli.main(["dead-letters", "--json", "--reason", "not_json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["offset"] == 120
    assert cli.main(["dead-letters", "--reason", "late"]) == 0
    assert capsys.readouterr().out == "no dead letters\n"
    assert cli.main(["dead-letters", "--reason", "lat"]) == 2
    assert "the reasons are empty, " in capsys.readouterr().err
