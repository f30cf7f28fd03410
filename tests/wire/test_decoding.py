"""Records in, readings out; whatever else comes in is BadRecord with its reason."""

import json
import random

import pytest

from service.settings import RecordMapping
from service.wire.decoding import decoder
from service.wire.readings import (
    EARLIEST,
    LATEST,
    MOST_VALUES,
    REASONS,
    BadRecord,
    Reading,
    encode_reading,
    rfc3339,
)

LIMIT = 10_000
NOW = 1_700_000_000_000  # a record's timestamp in ms
NOW_US = NOW * 1000


def read(value, key=None, timestamp=NOW, **mapping):
    if isinstance(value, (dict, list)):
        value = json.dumps(value).encode()
    return decoder(RecordMapping(**mapping), LIMIT)(key, value, timestamp)


def reason_of(value, key=None, timestamp=NOW, **mapping):
    with pytest.raises(BadRecord) as caught:
        read(value, key, timestamp, **mapping)
    assert caught.value.reason in REASONS
    assert len(caught.value.detail) < 300
    return caught.value.reason


# Our own format


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1700000000", NOW_US),
        ("1700000000.123456", NOW_US + 123_456),
        ("-1.5", -1_500_000),
        ("1.7e9", NOW_US),
        ('"2023-11-14T22:13:20Z"', NOW_US),
        ('"2023-11-14T23:13:20.5+01:00"', NOW_US + 500_000),
    ],
)
def test_times_of_our_own_format(time, expected):
    assert read(f'{{"sensor": "a", "time": {time}, "value": 1}}'.encode()) == [Reading("a", expected, (1.0,))]


def test_without_time_and_sensor_the_record_has_them():
    assert read({"value": 2}, key="ü".encode()) == [Reading("ü", NOW_US, (2.0,))]


def test_several_values_are_one_reading_and_other_fields_are_ignored():
    assert read({"sensor": "a", "values": [1, 2.5], "unit": {"x": [None]}}) == [Reading("a", NOW_US, (1.0, 2.5))]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"", "not_json"),
        (b"hello", "not_json"),
        (b'{"sensor": "a", "value": 1} x', "not_json"),
        (b'{"sensor": "a", "value": NaN}', "not_json"),
        (b'{"sensor": "a", "value": Infinity}', "not_json"),
        (b'{"sensor": "\\ud800", "value": 1}', "not_json"),
        (b"[" * 5000, "not_json"),
        (b'{"x": ' + b"[" * 4000 + b"]" * 4000 + b', "value": 1}', "not_json"),
        (b'{"sensor": "\xff", "value": 1}', "not_utf8"),
        (b"\xff\xfe", "not_utf8"),
        (b"5", "wrong_type"),
        (b"null", "wrong_type"),
        (b'[{"sensor": "a", "value": 1}]', "wrong_type"),
        (b'{"sensor": 5, "value": 1}', "wrong_type"),
        (b'{"sensor": null, "value": 1}', "wrong_type"),
        (b'{"sensor": "a", "values": 1}', "wrong_type"),
        (b'{"sensor": "a", "value": 1, "values": [1]}', "wrong_type"),
        (b'{"value": 1}', "no_sensor"),
        (b'{"sensor": "", "value": 1}', "bad_sensor"),
        (b'{"sensor": "a\\u0000", "value": 1}', "bad_sensor"),
        (b'{"sensor": "a\\nb", "value": 1}', "bad_sensor"),
        (b'{"sensor": "' + b"a" * 250 + b'", "value": 1}', "bad_sensor"),
        (b'{"sensor": "a"}', "no_value"),
        (b'{"sensor": "a", "values": []}', "no_value"),
        (b'{"sensor": "a", "value": null}', "not_a_number"),
        (b'{"sensor": "a", "value": true}', "not_a_number"),
        (b'{"sensor": "a", "value": "1"}', "not_a_number"),
        (b'{"sensor": "a", "value": [1]}', "not_a_number"),
        (b'{"sensor": "a", "value": 1e999}', "not_a_number"),
        (b'{"sensor": "a", "value": -1e999}', "not_a_number"),
        (b'{"sensor": "a", "value": ' + b"9" * 400 + b"}", "not_a_number"),
        (b'{"sensor": "a", "values": [1, null]}', "not_a_number"),
        (b'{"sensor": "a", "time": null, "value": 1}', "bad_time"),
        (b'{"sensor": "a", "time": true, "value": 1}', "bad_time"),
        (b'{"sensor": "a", "time": "yesterday", "value": 1}', "bad_time"),
        (b'{"sensor": "a", "time": "2023-11-14T22:13:20", "value": 1}', "bad_time"),
        (b'{"sensor": "a", "time": "2023-11-14T22:13:60Z", "value": 1}', "bad_time"),
        (b'{"sensor": "a", "time": 1e308, "value": 1}', "bad_time"),
        (b'{"sensor": "a", "time": 1700000000000, "value": 1}', "bad_time"),
        (b'{"sensor": "a", "time": ' + b"9" * 400 + b', "value": 1}', "bad_time"),
        (b'{"sensor": "a", "value": 1}' + b" " * LIMIT, "oversized"),
        (json.dumps({"sensor": "a", "values": [0.5] * (MOST_VALUES + 1)}).encode(), "too_many_values"),
    ],
)
def test_what_is_no_reading_has_its_reason(value, reason):
    assert reason_of(value) == reason


def test_a_record_without_any_time_and_one_with_a_key_of_bytes():
    assert reason_of({"sensor": "a", "value": 1}, timestamp=-1) == "no_time"
    assert reason_of({"value": 1}, key=b"\xff") == "not_utf8"
    assert reason_of({"value": 1}, key=b"") == "no_sensor"


def test_names_of_sensors_in_any_script_are_taken():
    for name in ("a" * 249, "温度/1", "no break", "é\u0301", "🌡"):
        assert read({"sensor": name, "value": 1})[0].sensor == name


def test_an_encoded_reading_is_read_back_to_the_microsecond_and_the_last_bit():
    rng = random.Random(1)
    read_own = decoder(RecordMapping(), LIMIT)
    times = [0, 1, -1, EARLIEST, LATEST, 2**32 * 10**6 - 1, 2**32 * 10**6, -(2**32) * 10**6 - 1]
    times += [rng.randrange(0, 2**32 * 10**6) for _ in range(3000)] + [
        rng.randrange(EARLIEST, LATEST) for _ in range(500)
    ]
    for time in times:
        values = tuple(
            rng.choice([rng.gauss(0, 1), rng.uniform(-1e300, 1e300), 5e-324, -0.0])
            for _ in range(rng.choice([1, 1, 3]))
        )
        reading = Reading(rng.choice(["a", 'q"\\/', "温", "🌡"]), time, values)
        assert read_own(None, encode_reading(reading), -1) == [reading]


def test_rfc3339_has_the_digits_it_needs():
    assert rfc3339(NOW_US) == "2023-11-14T22:13:20.000Z"
    assert rfc3339(NOW_US + 1) == "2023-11-14T22:13:20.000001Z"
    assert rfc3339(EARLIEST) == "0001-01-01T00:00:00.000Z"
    assert rfc3339(LATEST) == "9999-12-31T23:59:59.999999Z"


# Mappings


def test_a_nested_device_payload_of_several_fields():
    record = {"site": "north", "device": {"id": 17}, "ts": NOW, "payload": {"temperature": 20.5, "pressure": 3}}
    mapping = {
        "format": "json", "sensor": "site/device.id", "time": "ts", "time_unit": "ms",
        "values": ("payload.temperature", "payload.pressure"),
    }  # fmt: skip
    assert read(record, **mapping) == [
        Reading("north/17/temperature", NOW_US, (20.5,)),
        Reading("north/17/pressure", NOW_US, (3.0,)),
    ]
    assert read(record, **mapping, together=True) == [Reading("north/17", NOW_US, (20.5, 3.0))]
    assert read(record, **mapping, names=("T", "p"))[1].sensor == "north/17/p"
    del record["payload"]["pressure"]
    assert reason_of(record, **mapping) == "no_value"
    assert read(record, **mapping, optional=True) == [Reading("north/17/temperature", NOW_US, (20.5,))]
    record["payload"]["pressure"] = None
    assert reason_of(record, **mapping, optional=True) == "not_a_number"
    record["payload"] = {}
    assert reason_of(record, **mapping, optional=True) == "no_value"


def test_lists_of_readings_at_the_top_and_at_a_place():
    top = [{"s": "a", "v": 1}, {"s": "b", "v": 2}]
    assert [r.sensor for r in read(top, format="json", sensor="s", values=("v",))] == ["a", "b"]
    inner = {"device": "d", "samples": [[NOW, 1], [NOW + 1, 2]]}
    mapping = {
        "format": "json",
        "sensor": "$.device",
        "time": "0",
        "time_unit": "ms",
        "values": ("1",),
        "readings": "samples",
    }
    assert read(inner, **mapping) == [Reading("d", NOW_US, (1.0,)), Reading("d", NOW_US + 1000, (2.0,))]
    inner["samples"].append([NOW, "x"])
    assert reason_of(inner, **mapping) == "not_a_number"  # one bad reading refuses the record
    assert reason_of({"device": "d", "samples": []}, **mapping) == "empty"
    assert reason_of({"device": "d"}, **mapping) == "wrong_type"
    assert reason_of([], format="json") == "empty"
    assert read([1, 2], b"k", format="json", values=("",)) == [
        Reading("k", NOW_US, (1.0,)),
        Reading("k", NOW_US, (2.0,)),
    ]


def test_places_with_dots_and_a_field_named_key():
    assert read({"a.b": 1, "key": "s"}, format="json", sensor="$.key", values=(r"a\.b",)) == [
        Reading("s", NOW_US, (1.0,))
    ]
    assert read({"v": 1, "f": "x"}, b"k", format="json", sensor="key/f", values=("v",))[0].sensor == "k/x"


@pytest.mark.parametrize(
    ("unit", "time", "expected"),
    [
        ("s", 1.5, 1_500_000),
        ("ms", 1500, 1_500_000),
        ("us", 1, 1),
        ("ns", 1_700_000_000_123_456_789, 1_700_000_000_123_456),
        ("ns", "1700000000123456789", 1_700_000_000_123_456),
        ("ms", "1500.5", 1_500_500),
        ("rfc3339", "1970-01-01T00:00:01Z", 1_000_000),
    ],
)
def test_units_of_time(unit, time, expected):
    assert read({"t": time, "value": 1}, b"k", format="json", time="t", time_unit=unit)[0].time == expected


@pytest.mark.parametrize("time", [None, True, "x", "nan", [], {}, 1e308, 10**400, -(10**30), "9" * 5000])
@pytest.mark.parametrize("unit", ["s", "ns", "rfc3339"])
def test_times_that_are_none(unit, time):
    if isinstance(time, int) and time == 10**400:
        value = b'{"value": 1, "t": 1' + b"0" * 400 + b"}"
    else:
        value = json.dumps({"t": time, "value": 1}).encode()
    assert reason_of(value, b"k", format="json", time="t", time_unit=unit) == "bad_time"
    assert reason_of({"value": 1}, b"k", format="json", time="t", time_unit=unit) == "no_time"


def test_bare_numbers():
    assert read(b" -2.5e1\n", b"k", format="number") == [Reading("k", NOW_US, (-25.0,))]
    for text in (
        b"nan",
        b"inf",
        b"1e999",
        b"1_000",
        b"0x10",
        b"true",
        b"null",
        b'"1"',
        b"1,5",
        b"1 2",
        "\u0661".encode(),
        b"9" * 9000,
    ):
        assert reason_of(text, b"k", format="number") == "not_a_number", text
    assert reason_of(b" ", b"k", format="number") == "empty"
    assert reason_of(b"\xff", b"k", format="number") == "not_utf8"
    assert reason_of(b"1", None, format="number") == "no_sensor"
    assert reason_of(b"1", b"k", -1, format="number") == "no_time"


def test_csv_lines():
    named = {
        "format": "csv",
        "columns": ("s", "t", "a", "b"),
        "sensor": "s",
        "time": "t",
        "values": ("a", "b"),
        "delimiter": ";",
    }
    assert read(b'"x;y";10;1;2\r\n', **named) == [Reading("x;y/a", 10**7, (1.0,)), Reading("x;y/b", 10**7, (2.0,))]
    numbered = {"format": "csv", "sensor": "0", "values": ("2",)}
    assert read(b"a,,1\nb,,2\n\n", **numbered) == [Reading("a", NOW_US, (1.0,)), Reading("b", NOW_US, (2.0,))]
    assert reason_of(b"a,b", **numbered) == "not_csv"
    assert reason_of(b"a,b,", **numbered) == "no_value"
    assert reason_of(b"a,b,nan", **numbered) == "not_a_number"
    assert reason_of(b'a,b,"1', **numbered) == "not_csv"
    assert reason_of(b",b,1", **numbered) == "bad_sensor"
    assert reason_of(b"\n", **numbered) == "empty"
    assert reason_of(b"x;soon;1;2", **named) == "bad_time"


def test_which_mappings_are_keyed_by_sensor():
    assert not RecordMapping().is_keyed_by_sensor
    assert RecordMapping(partitioned_by_sensor=True).is_keyed_by_sensor
    assert RecordMapping(format="number").is_keyed_by_sensor
    assert RecordMapping(format="json", values=("a", "b")).is_keyed_by_sensor
    assert not RecordMapping(format="json", sensor="key/f").is_keyed_by_sensor


# Hostile bytes

# a mapping, and a record that it takes
MAPPINGS = [
    (RecordMapping(), '{"sensor":"a","time":1.5,"value":20.5}'),
    (RecordMapping(), '{"values":[1,2.5]}'),
    (RecordMapping(format="number"), "20.5"),
    (
        RecordMapping(format="json", sensor="key/s", time="t", time_unit="rfc3339", values=("a", "b.0"), optional=True),
        '{"s":"x","t":"2023-11-14T22:13:20Z","a":1,"b":[2]}',
    ),
    (
        RecordMapping(format="json", sensor="$.s", time="0", time_unit="ns", values=("1",), readings="r"),
        '{"s":17,"r":[["1700000000000000000",1],[1700000000000000001,2]]}',
    ),
    (RecordMapping(format="csv", sensor="0", time="1", values=("2", "3"), together=True), 'a,1.5,2,3\n"b",2,-1e3,4\n'),
]
TOKENS = [
    "null",
    "true",
    "-0.0",
    "1e999",
    "1e-999",
    "NaN",
    '""',
    '"\\u0000"',
    '"\\ud800"',
    "[]",
    "{}",
    "9" * 400,
    "[[",
    "\0",
]
TOKENS += ["inf", "1e308", '"x"', ",", ":", "\n", '"', "}", "\u2028", "-", "1e21", "\\"]


def damaged(rng, record):
    """The record with a piece replaced by a hostile token or by random bytes, nothing but random bytes, or unharmed."""
    kind = rng.randrange(10)
    if kind == 0:
        return rng.randbytes(rng.randrange(40))
    if kind == 1:
        return record
    first = rng.randrange(len(record) + 1)
    end = min(len(record), first + rng.choice([0, 1, 1, 2, 3, 5]))
    piece = rng.randbytes(1) if kind < 4 else rng.choice(TOKENS).encode()
    return record[:first] + piece + record[end:]


@pytest.mark.parametrize(("mapping", "good"), MAPPINGS)
def test_whatever_comes_in_is_sound_readings_or_a_bad_record(mapping, good):
    rng = random.Random(7)
    read_record, read_own = decoder(mapping, LIMIT), decoder(RecordMapping(), LIMIT)
    assert read_record(b"k", good.encode(), NOW)
    accepted, reasons = 0, set()
    for _ in range(4000):
        key = rng.choice([b"k", b"k", b"k", None, b"", b"\xff", b"a\x00"])
        timestamp = rng.choice([NOW, NOW, 0, -1, 2**63 - 1])
        try:
            readings = read_record(key, damaged(rng, good.encode()), timestamp)
        except BadRecord as bad:
            reasons.add(bad.reason)
            continue
        accepted += 1
        assert readings
        for reading in readings:
            assert read_own(None, encode_reading(reading), -1) == [reading]
    assert accepted > 80  # or the loop would show nothing
    assert len(reasons) >= 5
    assert reasons <= set(REASONS)
