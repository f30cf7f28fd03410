"""The benchmark of alarms on real sensors: its counting, and a run of every section."""

import gzip
import json
from datetime import datetime, timedelta

import alarm_runs
import numpy as np
import pytest
import real
from alarm_runs import PeerRunner, episodes, pooled_rate, tail_probability, tune
from peers import page_hinkley
from recordings import Series


def test_exceedances_less_than_100_readings_apart_are_one_episode():
    periods = np.ones(1_000)
    assert episodes(periods, 300) == 0
    periods[[50, 149, 248, 348, 999]] = 400.0
    assert episodes(periods, 300) == 3  # 50 to 248, 348, 999
    assert episodes(periods, 400) == 3
    assert episodes(periods, 401) == 0


def test_the_tail_probability_counts_the_alarms_themselves():
    assert tail_probability(0, 3.0) == 1.0
    assert tail_probability(1, 3.0) == pytest.approx(1 - np.exp(-3.0))


def test_the_rate_leaves_the_warm_up_out():
    series = [Series("a", np.zeros(800)), Series("b", np.zeros(1_800))]
    assert pooled_rate(lambda values: [0, 299, 300, len(values) - 1], series) == pytest.approx(4 / 2_000)


def test_a_peer_counts_missing_readings_and_its_copies_are_independent():
    rng = np.random.default_rng(0)
    values = np.concatenate((rng.normal(size=1_000), rng.normal(10.0, size=50)))
    gaps = np.insert(values, 500, [np.nan] * 100)
    peer = PeerRunner(page_hinkley(threshold=20.0, delta=0.25))
    assert peer.feed(gaps[:1_100]) == []
    fork = peer.forks()
    first, again = fork().feed(gaps[1_100:]), fork().feed(gaps[1_100:])
    assert first == again
    assert 1_100 < first[0] < 1_110


def test_a_peer_is_tuned_to_a_rate():
    rng = np.random.default_rng(1)
    series = [Series(str(i), np.cumsum(rng.normal(size=3_000)) * 0.1 + rng.normal(size=3_000)) for i in range(3)]
    for name in alarm_runs.PEERS:
        make, reached = tune(name, series, 3e-3)
        assert reached == pytest.approx(3e-3, rel=0.3)
        assert pooled_rate(lambda values, make=make: make().feed(values), series) == reached


def printed(capsys, *arguments):
    real.main(list(arguments))
    return capsys.readouterr().out


def test_sections_without_data_run_and_the_others_are_skipped(capsys):
    out = printed(capsys, "--quick")
    for section in ("nab", "telemetry", "rate", "planted"):
        assert f"{section}: skipped" in out
    summary = out[out.index("SUMMARY") :]
    for line in ("synthetic: 1 in 1,000 ", "reliability: all synthetic", "cold: synthetic", "planted-long: 4 IQR"):
        assert line in summary
    assert "real" not in summary
    assert "nan" not in summary


def write_recordings(folder):
    """Write one NAB file with a level shift at the start of its window, two columns, and one telemetry channel."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=3_000)
    values[2_000:] += 12.0
    times = [datetime(2020, 1, 1) + timedelta(minutes=i) for i in range(len(values))]
    for name in ("nab/realX", "streams", "telemetry"):
        (folder / name).mkdir(parents=True)
    rows = [f"{time},{value}" for time, value in zip(times, values, strict=True)]
    (folder / "nab/realX/a.csv").write_text("\n".join(["timestamp,value", *rows]))
    (folder / "nab/windows.json").write_text(json.dumps({"realX/a.csv": [[str(times[2_000]), str(times[2_200])]]}))
    (folder / "streams/b.csv").write_text("date,x\n" + "".join(f"today,{value}\n" for value in rng.normal(size=4_000)))
    (folder / "telemetry/C-1.csv.gz").write_bytes(gzip.compress("\n".join(map(str, values)).encode()))
    (folder / "telemetry/labels.json").write_text(json.dumps({"C-1.csv.gz": [[2_000, 2_100]]}))


def test_sections_with_data_find_a_shift_that_anybody_would_see(capsys, tmp_path):
    write_recordings(tmp_path)
    out = printed(capsys, "--quick", "--data", str(tmp_path), "--only", "nab", "telemetry", "rate", "planted")
    assert "skipped" not in out
    ours = next(line for line in out.splitlines() if line.startswith("ours ")).split()
    assert ours[3] == "1/1"
    assert float(ours[1]) > 80.0
    found = next(line for line in out.splitlines() if line.startswith("telemetry: found")).split()
    assert "1/1," in found
    assert "RATE. Alarms on 2 real series" in out


def test_an_unknown_folder_is_an_error(capsys, tmp_path):
    with pytest.raises(SystemExit):
        real.main(["--data", str(tmp_path / "none")])
    assert "no such folder" in capsys.readouterr().err
