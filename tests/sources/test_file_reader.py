"""Files line by line: what each line is decoded to, where reading goes on, and what becomes of rotated files."""

from __future__ import annotations

import msgspec
import pytest

from service.settings import RecordMapping
from service.settings.sources import FileSource
from service.sources.file_reader import FilePosition, FileReader
from service.wire.decoding import decoder
from service.wire.readings import BadRecord, Reading

SECOND = 1_000_000
NOON = 1_767_268_800  # 2026-01-01T12:00:00Z


def reader(path, position=None, limit=1000, mapping=RecordMapping(), **options):
    return FileReader(FileSource(path=path, **options), mapping, limit, position)


def readings(path, **options):
    """All readings of a file, and (line, reason) of what is none."""
    found, bad = [], []
    source = reader(path, **options)
    for line in source.lines():
        try:
            found += decoder(source.mapping, 1000)(None, line.value, 5000)
        except BadRecord as error:
            bad.append((line.position.line, error.reason))
    source.close()
    return found, bad


def written(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def values(lines):
    return [line.value for line in lines]


# CSV


def test_a_long_file(tmp_path):
    path = written(tmp_path, f"sensor,time,value\na,{NOON},1.5\nb,{NOON + 1},-2\n\na,x,3\n")
    assert readings(path) == (
        [Reading("a", NOON * SECOND, (1.5,)), Reading("b", (NOON + 1) * SECOND, (-2.0,))],
        [(5, "bad_time")],
    )


def test_a_long_file_with_columns_of_other_names_and_several_values(tmp_path):
    text = "id;unit;at;t.in;p/out\r\nd/1;C;2026-01-01 12:00:00;1;2\r\nd/1;C;2026-01-01 12:00:01;;4\r\n"
    path = written(tmp_path, text)
    options = {"sensor": "id", "time": "at", "values": ("t.in", "p/out")}
    found, bad = readings(path, **options)
    assert bad == []
    assert [(one.sensor, one.time // SECOND - NOON, one.values) for one in found] == [
        ("d/1/t.in", 0, (1.0,)), ("d/1/p/out", 0, (2.0,)), ("d/1/p/out", 1, (4.0,)),
    ]  # fmt: skip
    found, bad = readings(path, together=True, **options)
    assert found == [Reading("d/1", NOON * SECOND, (1.0, 2.0))]
    assert bad == [(3, "no_value")]


def test_a_wide_file_has_a_sensor_in_each_column_and_passes_over_empty_cells(tmp_path):
    text = f"\ufefftime,north/a,b.2,7\n{NOON * 1000},1,2,3\n{NOON * 1000 + 500},,NaN,4\n{NOON * 1000 + 900},5,oops,6\n"
    found, bad = readings(written(tmp_path, text))
    assert found == [
        Reading("north/a", NOON * SECOND, (1.0,)), Reading("b.2", NOON * SECOND, (2.0,)),
        Reading("7", NOON * SECOND, (3.0,)), Reading("7", NOON * SECOND + SECOND // 2, (4.0,)),
    ]  # fmt: skip
    assert bad == [(4, "not_a_number")]


def test_a_wide_file_of_one_sensor(tmp_path):
    path = written(tmp_path, "time\tx\n2026-01-01T12:00:00+00:00\t3\n2026-01-02\t4\n", "data.tsv")
    assert [(one.sensor, one.time // SECOND - NOON) for one in readings(path)[0]] == [("x", 0), ("x", 12 * 3600)]


def test_without_a_time_column_lines_have_the_time_at_which_they_were_read(tmp_path):
    path = written(tmp_path, "sensor,value\na,1\n")
    assert readings(path, time="")[0] == [Reading("a", 5 * SECOND, (1.0,))]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("sensor,value\na,1\n", {}, "there is no column 'time' (time): it takes one of sensor, value, or \"\""),
        ("a,time,a\n1,2,3\n", {}, "two columns are named 'a'"),
        ("sensor,time\na,1\n", {}, "there is no column of values"),
        ("time,a\n1,2\n", {"layout": "long"}, "there is no column 'sensor' (sensor)"),
        ("sensor,time,v\na,1,2\n", {"values": ("w",)}, "there is no column 'w' (values)"),
    ],
)
def test_a_header_that_cannot_be_read_is_one_line(tmp_path, text, options, said):
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=r"data\.csv: ") as caught:
        reader(path, **options).read()
    assert said in str(caught.value)


# Lines


def test_lines_are_handed_on_as_they_are(tmp_path):
    path = written(tmp_path, '{"sensor":"a"}\r\n\n  \n[1]\n"no end', "data.jsonl")
    source = reader(path)
    assert values(source.read()) == [b'{"sensor":"a"}', b"[1]", b'"no end']
    assert source.mapping == RecordMapping()
    assert not source.is_over
    assert source.read() == []
    assert source.is_over


def test_a_line_beyond_the_limit_is_cut_so_that_the_decoder_refuses_it(tmp_path):
    path = written(tmp_path, f"1\n{'x' * 5_000_000}\n2\n", "data.txt")
    found = reader(path, limit=100).read()
    assert [len(line.value) for line in found] == [1, 102, 1]
    assert found[-1].position.offset == path.stat().st_size


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        reader(tmp_path / "none.csv")


# Positions


@pytest.mark.parametrize("name", ["data.csv", "data.jsonl"])
@pytest.mark.parametrize("rows", [20, 2000])
def test_reading_goes_on_after_every_position(tmp_path, name, rows):
    text = "sensor,time,value\n" + "".join(f"s,{NOON + i},{i}\n" for i in range(rows))
    path = written(tmp_path, text, name)
    whole = list(reader(path).lines())
    for at in (0, 1, rows // 2, len(whole) - 1):
        position = msgspec.json.decode(msgspec.json.encode(whole[at].position), type=FilePosition)
        again = reader(path, position)
        assert list(again.lines()) == whole[at + 1 :]
        if name == "data.csv" and at < len(whole) - 1:
            assert again.mapping.values == ("2",)


def test_another_file_under_the_same_name_is_read_from_its_start(tmp_path):
    path = written(tmp_path, "a1\na2\n", "data.txt")
    position = reader(path).read()[-1].position
    written(tmp_path, "b1\nb2\nb3\n", "data.txt")
    assert values(reader(path, position).read()) == [b"b1", b"b2", b"b3"]
    written(tmp_path, "a1\n", "data.txt")
    assert values(reader(path, position).read()) == [b"a1"]


# Following


def append(path, text):
    with path.open("ab") as file:
        file.write(text.encode())


def test_a_followed_line_waits_for_its_end(tmp_path):
    path = written(tmp_path, "one\ntw", "data.txt")
    source = reader(path, follow=True)
    assert values(source.read()) == [b"one"]
    assert source.read() == []
    append(path, "o\n\nthree\nfo")
    assert values(source.read()) == [b"two", b"three"]
    assert source.read() == []
    assert not source.is_over


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(tmp_path):
    path = written(tmp_path, "sensor,time,value\na,1,1\n")
    source = reader(path, follow=True)
    assert values(source.read()) == [b"a,1,1"]
    append(path, "a,2,2\na,3,")
    path.rename(tmp_path / "data.csv.1")
    assert values(source.read()) == [b"a,2,2"]
    assert source.read() == []  # the new one is not there yet
    append(tmp_path / "data.csv.1", "3\nb")
    written(tmp_path, "time,sensor,value\n")
    assert values(source.read()) == [b"a,3,3"]
    assert values(source.read()) == [b"b"]  # nobody will end it
    assert source.read() == []
    assert source.mapping.sensor == "0"
    append(path, "4,a,4\n")
    assert values(source.read()) == [b"4,a,4"]
    assert source.mapping.sensor == "1"


@pytest.mark.parametrize("refilled", ["x\n", "other1\nother2\nother3\n"])
def test_a_truncated_file_is_read_from_its_start(tmp_path, refilled):
    path = written(tmp_path, "one\ntwo\n", "data.txt")
    source = reader(path, follow=True)
    assert len(source.read()) == 2
    with path.open("r+b") as file:  # the same file, as copytruncate leaves it
        file.truncate(0)
        file.write(refilled.encode())
    assert values(source.read()) == refilled.encode().split()


def test_a_followed_file_may_come_later(tmp_path):
    path = tmp_path / "data.csv"
    source = reader(path, follow=True)
    assert source.read() == []
    written(tmp_path, "sensor,time,value\n")
    assert source.read() == []
    append(path, "a,1,1\n")
    assert values(source.read()) == [b"a,1,1"]
