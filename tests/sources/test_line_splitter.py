"""Lines of a pipe, however it cuts them."""

from __future__ import annotations

import pytest

from service.settings import RecordMapping
from service.settings.sources import FileSource
from service.sources.line_splitter import LineSplitter


def splitter(format="lines", limit=100):
    return LineSplitter(FileSource(format=format), RecordMapping(), limit)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_pieces_of_any_size_give_the_same_lines(size):
    data = b'{"a":1}\r\n\n[2]\n  \nlast'
    split = splitter()
    found = [line for at in range(0, len(data), size) for line in split.split(data[at : at + size])]
    assert found == [b'{"a":1}', b"[2]"]
    assert split.split(b"") == [b"last"]


def test_a_line_without_end_takes_no_memory_and_is_refused_later():
    split = splitter(limit=10)
    for _ in range(100):
        assert split.split(b"x" * 1000) == []
    assert [len(line) for line in split.split(b"\nok\n")] == [12, 2]


@pytest.mark.parametrize("size", [3, 1000])
def test_a_header_says_what_the_columns_are(size):
    data = b"sensor,time,value\na,5,1\nb,6,2\n"
    split = splitter("csv")
    found = [line for at in range(0, len(data), size) for line in split.split(data[at : at + size])]
    assert found == [b"a,5,1", b"b,6,2"]
    assert (split.mapping.sensor, split.mapping.time, split.mapping.values) == ("0", "1", ("2",))


def test_a_header_that_cannot_be_read_is_said():
    with pytest.raises(ValueError, match="stdin: there is no column 'time'"):
        splitter("csv").split(b"a,b\n1,2\n")
