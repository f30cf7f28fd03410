"""Folders of recordings: which columns are series."""

import gzip
import json

import numpy as np
import pytest
import recordings


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


def test_numeric_columns_are_series_and_text_row_names_and_labels_are_not(tmp_path):
    rows = "".join(f'"{i}","2020-01-01 00:00",{i}.5,{"" if i == 3 else i % 2},{i % 2},{i % 3}\n' for i in range(9))
    write(tmp_path / "a.csv.gz", '"date","level","valve","Occupancy","occupancy count"\n' + rows)
    found = {series.name: series.values for series in recordings.columns(tmp_path / "a.csv.gz")}
    assert list(found) == ["a/level", "a/valve", "a/occupancy count"]
    assert found["a/level"].tolist() == [i + 0.5 for i in range(9)]
    assert np.flatnonzero(np.isnan(found["a/valve"])).tolist() == [3]


def test_semicolons_separate_too(tmp_path):
    write(tmp_path / "a.csv", "datetime;x;anomaly\nmonday;1;0\ntuesday;2;1\n")
    assert [(one.name, one.values.tolist()) for one in recordings.columns(tmp_path / "a.csv")] == [("a/x", [1.0, 2.0])]


def test_only_fault_free_runs_of_skab_and_real_files_of_nab_are_backgrounds(tmp_path):
    rows = "".join(f"2020-01-01 {i // 60:02}:{i % 60:02}:00,{i}\n" for i in range(600))
    write(tmp_path / "nab" / "realX" / "a.csv", "timestamp,value\n" + rows)
    write(tmp_path / "nab" / "artificialX" / "b.csv", "timestamp,value\n" + rows)
    write(tmp_path / "nab" / "windows.json", json.dumps({"realX/a.csv": [], "artificialX/b.csv": []}))
    write(tmp_path / "skab" / "anomaly-free.csv", "datetime,flow\n" + rows)
    write(tmp_path / "skab" / "valve1-0.csv", "datetime,flow\n" + rows)
    write(tmp_path / "streams" / "short.csv", "x\n1\n2\n")
    names = [(series.name, len(series.values)) for series in recordings.load(tmp_path)]
    assert names == [("realX/a.csv", 600), ("anomaly-free/flow", 600)]


@pytest.mark.parametrize("header", ["", "value,command\n"])
def test_telemetry_is_the_first_column_with_its_labels(tmp_path, header):
    write(tmp_path / "A-1.csv.gz", header + "1.5,0\n2.5,1\n,0\n")
    write(tmp_path / "labels.json", json.dumps({"A-1.csv.gz": [[1, 2]], "missing.csv": []}))
    (channel,) = recordings.load_telemetry(tmp_path)
    assert channel.values[:2].tolist() == [1.5, 2.5]
    assert np.isnan(channel.values[2])
    assert channel.sequences == [(1, 2)]


def test_a_folder_without_any_subfolder_has_no_series(tmp_path):
    assert recordings.load(tmp_path) == []
    assert recordings.load_telemetry(tmp_path / "telemetry") == []
