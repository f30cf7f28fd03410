"""A backtest says what the service would have published."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from records import Record

from service import cli
from service.runtime.snapshot_store import SnapshotStore
from service.sensors.partition import Partition
from service.sensors.records import decode_with
from service.sensors.rules import Rules
from service.settings import RecordMapping, Rule, Settings
from service.settings.rules import Alarms, DetectorSettings
from service.settings.times import TimePolicy
from service.tools.backtest.replay import replay, with_threshold
from service.wire.decoding import decoder
from service.wire.readings import Reading, encode_reading

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
    store = SnapshotStore(folder / "store.sqlite")
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
    expected = [output.encoded() for output in outputs if output.kind == "events"]
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


def test_changes_with_their_times_and_what_became_of_them():
    result = backtested(stream())
    assert list(result.sensors) == ["pump/flow", "pump/speed"]
    flow = result.sensors["pump/flow"].changes
    assert [(change.index, change.status) for change in flow] == [(120, "confirmed"), (260, "confirmed")]
    for change in flow:
        assert 0 < change.delay < 15
        assert change.delay_s == 60.0 * change.delay
        assert change.raised_time == (BEGIN + 60 * change.raised_at) * 1_000_000
        assert change.low <= change.index <= change.high
    assert flow[0].summary == "level 19.9 -> 25.7"
    assert [change.sensor for change in result.changes] == ["pump/flow", "pump/speed", "pump/flow"]


def long_stream(length=4000):
    """A sensor with a reading per minute that moves for an hour and goes back."""
    values = np.random.default_rng(2).normal(size=length)
    values[2000:2060] += 5.0
    times = [(BEGIN + 60 * t) * 1_000_000 for t in range(length)]
    return [
        Record(t, times[t] // 1000, b"pump/flow", encode_reading(Reading("pump/flow", times[t], (float(values[t]),))))
        for t in range(length)
    ]


LONG = Settings(rules=(Rule(match="pump/*", alarms=Alarms(threshold=0.98, per_sensor="1 per day")),))


def test_alarms_from_raise_to_clear_and_the_promise_by_rule():
    result = backtested(long_stream(), LONG)
    (alarm,) = result.alarms
    assert 2000 <= alarm.index <= alarm.raised_at < 2010
    assert alarm.raised_time == (BEGIN + 60 * alarm.raised_at) * 1_000_000
    assert 2060 < alarm.cleared_at < 4000
    assert alarm.cleared_time == (BEGIN + 60 * alarm.cleared_at) * 1_000_000
    assert alarm.reasons
    assert len(result.changes) >= 2  # beside it
    (promised,) = result.promise
    assert promised[:4] == ("pump/*", "1 per day", 1, 1)
    assert promised.promised == pytest.approx(4000 / 1440, rel=0.02)


def test_all_change_points_are_kept_for_the_pictures_whatever_the_rule_keeps():
    assert len(backtested(stream()).sensors["pump/flow"].change_points) == 2


def test_another_threshold_raises_earlier_or_later_and_leaves_the_inference_alone():
    records = stream()
    early, late = (backtested(records, with_threshold(SETTINGS, p)) for p in (0.5, 0.9999))
    for sensor in early.sensors:
        assert early.sensors[sensor].changes[0].raised_at < late.sensors[sensor].changes[0].raised_at
        assert early.sensors[sensor].change_points == late.sensors[sensor].change_points


def test_a_threshold_below_what_the_rule_retracts_at_is_taken():
    settings = Settings(rules=(Rule(match="a", alarms=Alarms(threshold=0.9, retract=0.8)),))
    (rule, implied) = with_threshold(settings, 0.6).rules
    assert rule.policy().retract == 0.6
    assert (implied.match, implied.policy().threshold) == ("*", 0.6)


def test_no_readings_are_no_failure():
    result = backtested([])
    assert (result.readings, result.changes, result.alarms, result.promise, result.days) == (0, [], [], [], 0.0)


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
    assert "pump/flow: 350 readings, rule *, model auto, alarms 1 per week, changes above 0.95" in lines
    change = next(line for line in lines if "02:00:00" in line)
    assert " bar " in change
    assert change.endswith("confirmed")
    assert lines[-4].startswith("0 alarms raised, 0.06")
    assert lines[-4].endswith(" promised (rule *, budget 1 per week, 2 sensors)")
    assert lines[-3].startswith("3 changes: 3 confirmed; 12 per day, 4.3 per 1,000 readings")
    assert lines[-2].startswith("alarms: 0 of 4 labels found (recall 0 %); 0 of 0 alarms false")
    assert lines[-1].startswith("changes: 3 of 4 labels found (recall 75 %); 0 of 3 changes false (precision 100 %")
    assert not any(line.endswith(" ") for line in lines)


@pytest.fixture
def long_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [json.loads(record.value) for record in long_stream()]
    text = "".join(f"{BEGIN + 60 * t},{line['value']}\n" for t, line in enumerate(lines))
    (tmp_path / "flow.csv").write_text("time,flow\n" + text)
    (tmp_path / "labels.csv").write_text("sensor,index\nflow,2000\n")
    for name, budget in (("daily.toml", "1 per day"), ("yearly.toml", "1 per year")):
        (tmp_path / name).write_text(f'[[rules]]\nalarms = {{ threshold = 0.98, per_sensor = "{budget}" }}\n')
    return tmp_path


def test_alarms_stand_beside_changes_in_tables_scores_and_files(long_files, capsys):
    code, out, _ = run(
        capsys, "--config", "daily.toml", "--file", "flow.csv", "--labels", "labels.csv", "--compare", "yearly.toml",
        "--out", "out", "--pictures", "0",
    )  # fmt: skip
    assert code == 0
    lines = out.splitlines()
    heads = [line.split("  ")[0] for line in lines]
    assert heads.index("alarm raised") < heads.index("change announced")
    assert "1 alarm raised, 2.8 promised (rule *, budget 1 per day, 1 sensor)" in lines
    assert any(line.startswith("alarms: 1 of 1 label found (recall 100 %); 0 of 1 alarm false") for line in lines)
    assert any(line.startswith("changes: 1 of 1 label found") for line in lines)
    assert ["alarms", "raised", "1", "0"] in [line.split() for line in lines]
    assert "only with daily.toml: 1 alarm" in lines
    report = json.loads((long_files / "out" / "report.json").read_text())
    daily, yearly = report["configurations"]
    assert daily["alarm_score"]["hits"] == 1
    assert yearly["alarm_score"]["hits"] == 0
    (promise,) = daily["promise"]
    assert (promise["rule"], promise["budget"], promise["raised"]) == ("*", "1 per day", 1)
    (alarm,) = daily["sensors"][0]["alarms"]
    assert report["only_in"] == {"alarms": [[alarm["id"]], []], "changes": [[], []]}
    documented = (Path(cli.__file__).parents[1] / "docs" / "tools.md").read_text()
    for key, found in (("alarms", alarm), ("promise", promise)):
        (row,) = re.findall(rf"^\| `{key}` \| .*?\{{(.*?)\}}", documented, re.MULTILINE)
        assert set(row.split(", ")) == set(found)
    assert "alarm raised" in (long_files / "out" / "index.html").read_text()


def test_an_alarm_that_begins_too_long_after_its_label_is_false(long_files, capsys):
    (long_files / "labels.csv").write_text("sensor,index\nflow,1950\n")  # a fault that begins slowly
    words = ("--config", "daily.toml", "--file", "flow.csv", "--labels", "labels.csv")
    for more, hits in (((), 1), (("--alarm-margin", "20"), 0), (("--alarm-margin", "2h"), 1), (("--margin", "2"), 0)):
        assert f"\nalarms: {hits} of 1 label found" in run(capsys, *words, *more)[1], more


def test_two_configurations_and_several_thresholds_side_by_side(files, capsys):
    code, out, _ = run(
        capsys, "--config", "pump.toml", "--file", "pump.csv", "--labels", "labels.csv",
        "--thresholds", ".6,.999", "--compare", "deaf.toml", "--out", "out", "--pictures", "1",
    )  # fmt: skip
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert [line[:2] for line in lines if line and line[0] in ("0.6", "0.999")] == [["0.6", "3"], ["0.999", "3"]]
    assert ["changes", "3", "1"] in lines
    assert ["labels", "found", "3", "of", "4", "1", "of", "4"] in lines
    assert "only with pump.toml: 2 changes" in out
    assert "only with deaf.toml" not in out

    report = json.loads((files / "out" / "report.json").read_text())
    documented = (Path(cli.__file__).parents[1] / "docs" / "tools.md").read_text()
    assert set(report) <= set(re.findall(r"`(\w+)`", documented))
    for key, found in (
        ("configurations", report["configurations"][1]),
        ("changes", report["configurations"][0]["sensors"][0]["changes"][0]),
        ("sensors", report["configurations"][0]["sensors"][0]),
        ("score`, `alarm_score", report["configurations"][0]["score"]),
    ):
        (row,) = re.findall(rf"^\| `{key}` \| .*?\{{(.*?)\}}", documented, re.MULTILINE)
        assert set(row.split(", ")) == set(found)
    pump, deaf = report["configurations"]
    assert [pump["score"]["hits"], deaf["score"]["hits"]] == [3, 1]
    assert [len(ids) for ids in report["only_in"]["changes"]] == [2, 0]
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
        (["--file", "pump.csv", "--alarm-margin", "x"], "--alarm-margin takes readings"),
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
