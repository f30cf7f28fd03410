"""A backtest says what the service would have published."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from records import Record

from service import cli
from service.backtest.replay import replay, with_threshold
from service.mapping import decoder
from service.partition import Partition, Rules, decode_with
from service.readings import Reading, encode_reading
from service.settings import RecordMapping, Rule, Settings
from service.settings.rules import Alarms, DetectorSettings
from service.settings.times import TimePolicy
from service.store import Store

BEGIN = 1_767_225_600
CHANGES = {"pump/flow": [(0, 20.0), (120, 26.0), (260, 23.0)], "pump/speed": [(0, 5.0), (200, 3.0)]}


def values_of(sensor, length=350, seed=3):
    rng = np.random.default_rng([seed, len(sensor)])
    levels = np.zeros(length)
    for begin, level in CHANGES[sensor]:
        levels[begin:] = level
    return (levels + rng.normal(size=length)).round(3)


def stream(step=60):
    columns = {sensor: values_of(sensor) for sensor in CHANGES}
    records = []
    for t in range(350):
        for sensor, values in columns.items():
            reading = Reading(sensor, (BEGIN + step * t) * 1_000_000, (float(values[t]),))
            records.append(Record(len(records), (BEGIN + step * t) * 1000, sensor.encode(), encode_reading(reading)))
    return records


OWN = RecordMapping(partitioned_by_sensor=True)
SETTINGS = Settings(
    rules=(
        Rule(match="*/speed", alarms=Alarms(threshold=0.9), time=TimePolicy(interval_s=60.0, gap="insert")),
        Rule(alarms=Alarms(threshold=0.98), detector_settings=DetectorSettings(keep=1)),
    )
)


def backtested(records, settings=SETTINGS, **options):
    return replay(settings, records, decoder(OWN, 10**6), **options)


def published(records, settings, folder, batch):
    """What a worker's partition gives out, polled in batches."""
    store = Store(folder / "store.sqlite")
    partition = Partition(0, Rules(settings), decode_with(decoder(OWN, 10**6)), store, lambda: True)
    outputs = []
    for i in range(0, len(records), batch):
        outputs += partition.take(records[i : i + batch])[0]
    store.close()
    return outputs


def by_sensor(values):
    found = {}
    for value in values:
        found.setdefault(json.loads(value)["sensor"], []).append(value)
    return found


@pytest.mark.parametrize("batch", [1, 37, 10_000])
def test_its_events_are_those_of_a_workers_partition_byte_for_byte(tmp_path, batch):
    records = stream()
    del records[301:310]  # a gap that is filled
    records.insert(50, Record(records[50].offset, records[50].timestamp, b"x", b"no reading"))
    outputs = published(records, SETTINGS, tmp_path, batch)
    result = backtested(records)
    expected = [output.value for output in outputs if output.kind == "events"]
    assert len(expected) >= 6
    assert by_sensor(result.events) == by_sensor(expected)
    assert result.refused == {"not_json": 1}
    assert result.sensors["pump/speed"].inserted > 0
    assert result.readings == len(records) - 1


def test_through_the_internal_topic_it_says_the_same():
    records = stream()
    once = backtested(records)
    sent_on = backtested([record._replace(key=None, partition=i % 3) for i, record in enumerate(records)],
                         through_readings=True)  # fmt: skip
    assert by_sensor(sent_on.events) == by_sensor(once.events)
    assert sent_on.records == len(records)


def test_alarms_with_their_times_and_what_became_of_them():
    result = backtested(stream())
    assert list(result.sensors) == ["pump/flow", "pump/speed"]
    flow = result.sensors["pump/flow"].alarms
    assert [(alarm.index, alarm.status) for alarm in flow] == [(120, "confirmed"), (260, "confirmed")]
    for alarm in flow:
        assert 0 < alarm.delay < 15
        assert alarm.delay_s == 60.0 * alarm.delay
        assert alarm.raised_time == (BEGIN + 60 * alarm.raised_at) * 1_000_000
        assert alarm.low <= alarm.index <= alarm.high
    assert flow[0].summary == "level 19.9 -> 25.7"
    assert [alarm.sensor for alarm in result.alarms] == ["pump/flow", "pump/speed", "pump/flow"]


def test_all_change_points_are_kept_for_the_pictures_whatever_the_rule_keeps():
    assert len(backtested(stream()).sensors["pump/flow"].change_points) == 2


def test_another_threshold_raises_earlier_or_later_and_leaves_the_inference_alone():
    records = stream()
    early, late = (backtested(records, with_threshold(SETTINGS, p)) for p in (0.5, 0.9999))
    for sensor in early.sensors:
        assert early.sensors[sensor].alarms[0].raised_at < late.sensors[sensor].alarms[0].raised_at
        assert early.sensors[sensor].change_points == late.sensors[sensor].change_points


def test_a_threshold_below_what_the_rule_retracts_at_is_taken():
    settings = Settings(rules=(Rule(match="a", alarms=Alarms(threshold=0.9, retract=0.8)),))
    (rule, implied) = with_threshold(settings, 0.6).rules
    assert rule.policy().retract == 0.6
    assert (implied.match, implied.policy().threshold) == ("*", 0.6)


def test_no_readings_are_no_failure():
    result = backtested([])
    assert (result.readings, result.alarms, result.days) == (0, [], 0.0)


# The command


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["time," + ",".join(CHANGES)]
    columns = [values_of(sensor) for sensor in CHANGES]
    lines += [f"{BEGIN + 60 * t},{columns[0][t]},{columns[1][t]}" for t in range(350)]
    lines.insert(100, "noon,1,2")
    (tmp_path / "pump.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "labels.csv").write_text("sensor,index\npump/flow,120\npump/flow,261\npump/flow,300\npump/speed,200\n")
    (tmp_path / "pump.toml").write_text('[[rules]]\nlabels = { unit = "bar" }\nalarms = { threshold = 0.95 }\n')
    (tmp_path / "deaf.toml").write_text(
        '[[rules]]\nmatch = "*/flow"\nalarms = { threshold = 0.98, min_effect = 100.0 }\n'
        "[[rules]]\nalarms = { threshold = 0.98 }\n"
    )
    return tmp_path


def run(capsys, *words):
    code = cli.main(["backtest", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_table_for_each_sensor_and_totals(files, capsys):
    code, out, err = run(capsys, "--config", "pump.toml", "--file", "pump.csv", "--labels", "labels.csv")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "pump.toml on pump.csv: 700 readings of 2 sensors, 2026-01-01 00:00:00 to 2026-01-01 05:49:00 UTC; "
        "1 refused (bad_time 1)"
    )
    assert "pump/flow: 350 readings, rule *, model auto, alarm above 0.95" in lines
    alarm = next(line for line in lines if "02:00:00" in line)
    assert " bar " in alarm
    assert alarm.endswith("confirmed")
    assert lines[-2].startswith("3 alarms: 3 confirmed; 12 a day, 4.3 in 1,000 readings")
    assert lines[-1].startswith("3 of 4 labels found (recall 75 %); 0 of 3 alarms false (precision 100 %")
    assert not any(line.endswith(" ") for line in lines)


def test_two_configurations_and_several_thresholds_side_by_side(files, capsys):
    code, out, _ = run(
        capsys, "--config", "pump.toml", "--file", "pump.csv", "--labels", "labels.csv",
        "--thresholds", ".6,.999", "--compare", "deaf.toml", "--out", "out", "--pictures", "1",
    )  # fmt: skip
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert [line[:2] for line in lines if line and line[0] in ("0.6", "0.999")] == [["0.6", "3"], ["0.999", "3"]]
    assert ["alarms", "3", "1"] in lines
    assert ["labels", "found", "3", "of", "4", "1", "of", "4"] in lines
    assert "only with pump.toml: 2 alarms" in out
    assert "only with deaf.toml" not in out

    report = json.loads((files / "out" / "report.json").read_text())
    documented = (Path(cli.__file__).parents[1] / "docs" / "tools.md").read_text()
    assert set(report) <= set(re.findall(r"`(\w+)`", documented))
    for key, found in (
        ("configurations", report["configurations"][1]),
        ("alarms", report["configurations"][0]["sensors"][0]["alarms"][0]),
        ("score", report["configurations"][0]["score"]),
    ):
        (row,) = re.findall(rf"^\| `{key}` \| .*?\{{(.*?)\}}", documented, re.MULTILINE)
        assert set(row.split(", ")) == set(found)
    pump, deaf = report["configurations"]
    assert [pump["score"]["hits"], deaf["score"]["hits"]] == [3, 1]
    assert len(report["only_in"][0]) == 2
    assert [step["threshold"] for step in report["thresholds"]] == [0.6, 0.999]
    (picture,) = (files / "out").glob("*.png")
    assert pump["pictures"] == {"pump/flow": picture.name}
    assert picture.stat().st_size > 20_000
    page = (files / "out" / "index.html").read_text()
    assert picture.name in page
    assert "Against deaf.toml" in page
    events = (files / "out" / "events.jsonl").read_text().splitlines()
    assert len(events) == 6
    assert all(json.loads(event)["type"] == "change" for event in events)


def test_names_that_are_markup_stay_text_on_the_page(files, capsys):
    text = (files / "pump.csv").read_text().replace("pump/flow", "<b>flow")
    (files / "odd.csv").write_text(text)
    assert run(capsys, "--file", "odd.csv", "--out", "out")[0] == 0
    page = (files / "out" / "index.html").read_text()
    assert "<b>flow" not in page
    assert "&lt;b&gt;flow" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--file", "none.csv"], "none.csv: No such file or directory"),
        (["--file", "pump.csv", "--topic", "x"], "--file and --topic are given: keep one of them"),
        (["--file", "pump.csv", "--from", "2026-01-01"], "--from and --to are for topics"),
        (
            ["--file", "pump.csv", "--thresholds", ".9,2"],
            "--thresholds takes probabilities such as .9,.98,.999, got '2'",
        ),
        (["--file", "pump.csv", "--margin", "x"], "--margin takes readings"),
        (["--file", "pump.csv", "--time-column", "when"], "there is no column 'when'"),
        (["--file", "pump.csv", "--pictures", "-1"], "--pictures takes a number from 0, got -1"),
        (["--file", "pump.csv", "--labels", "pump.csv"], "takes a header with sensor, and time or index"),
        (["--file", "pump.csv", "--compare", "none.toml"], "none.toml: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(files, capsys, words, message):
    code, _, err = run(capsys, *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
