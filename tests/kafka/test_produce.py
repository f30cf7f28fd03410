"""``produce`` puts a file's readings on a topic, keyed by sensor, and counts what was acknowledged."""

from __future__ import annotations

import json
import uuid

import pytest
from kafka_helpers import committed_values, read_partition

from service import cli
from service.kafka.topics import partition_counts


@pytest.fixture
def config(connection, tmp_path):
    name = f"produced-{uuid.uuid4().hex[:8]}"
    path = tmp_path / "service.toml"
    path.write_text(
        f'[kafka]\nbootstrap = {json.dumps(connection.bootstrap)}\ntopics = ["{name}"]\n[topics]\npartitions = 3\n'
    )
    return path, name


def test_a_file_arrives_whole_and_in_order(connection, config, tmp_path, capsys):
    path, topic = config
    file = tmp_path / "wide.csv"
    rows = [f"{1767225600 + t},{t}.5,{-t}" for t in range(200)]
    file.write_text("time,a,b\n" + "\n".join([*rows[:50], "1767225650,broken,1", *rows[50:]]) + "\n")
    assert cli.main(["produce", str(file), "--config", str(path), "--create"]) == 0
    told = capsys.readouterr()
    assert told.out == f"400 of 400 readings acknowledged on {topic}\n"
    assert "created with 3 partitions" in told.err
    assert "line 52 is set aside: not_a_number" in told.err
    assert partition_counts(connection, [topic]) == {topic: 3}
    found = {"a": [], "b": []}
    for number in range(3):
        for key, value, _ in read_partition(connection, topic, number):
            reading = json.loads(value)
            assert reading["sensor"] == key.decode()
            found[reading["sensor"]].append((reading["time"], reading["value"]))
    assert found["a"] == [(1767225600 + t, t + 0.5) for t in range(200)]
    assert found["b"] == [(1767225600 + t, -t) for t in range(200)]


def test_a_topic_that_is_missing_is_one_line(config, tmp_path, capsys):
    path, topic = config
    file = tmp_path / "a.csv"
    file.write_text("time,a\n1,2\n")
    assert cli.main(["produce", str(file), "--config", str(path)]) == 2
    assert f"topic '{topic}' does not exist" in capsys.readouterr().err


def test_json_lines_by_the_configured_mapping(connection, config, tmp_path, capsys):
    path, topic = config
    path.write_text(path.read_text() + '[mapping]\nformat = "json"\nsensor = "id"\ntime = "t"\nvalues = ["v"]\n')
    file = tmp_path / "lines.jsonl"
    file.write_text('{"id": "x", "t": 5, "v": 1.5}\n')
    assert cli.main(["produce", str(file), "--config", str(path), "--create"]) == 0
    values = [value for number in range(3) for value in committed_values(connection, topic, number)]
    assert [json.loads(value) for value in values] == [{"sensor": "x", "time": 5, "value": 1.5}]
