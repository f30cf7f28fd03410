"""Messages: their bytes, their ids, their schemas, their words."""

import base64
import json
import math
import random
from pathlib import Path

import msgspec
import pytest

from service.sensors.wording import words
from service.tools import asyncapi
from service.wire import messages
from service.wire.messages import (
    ChangeEvent,
    DeadLetter,
    Notice,
    RunLength,
    State,
    StateRecord,
    dead_letter,
    decode,
    encode,
    event_id,
    place,
    rounded,
    segment,
)
from service.wire.readings import REASONS

NOW = 1_700_000_000_000_000
ASYNCAPI = Path(__file__).parents[2] / "deploy" / "asyncapi.yaml"

EVENT = ChangeEvent(
    id=event_id("a", 0, 0),
    sensor="a",
    labels={"unit": "°C", "critical": True},
    generation=0,
    revision=0,
    status="provisional",
    index=300,
    time="2023-11-14T22:13:20.000Z",
    probability=rounded(0.98765432),
    low=place(299, None),
    high=place(301, NOW + 1_000_000),
    at=place(304, NOW + 4_000_250),
    before=segment({"mean": 4.1, "sd": 1.0}),
    after=segment({"mean": 6.3, "sd": 1.2, "drift": math.nan}),
    summary="level 4.1 -> 6.3, noise x1.2",
)
STATE = StateRecord(
    sensor="a",
    labels={},
    generation=2,
    index=10,
    time="2023-11-14T22:13:20.000Z",
    state=State(id=0, name=None, since=place(0, NOW), probability=1.0, parameters={"rate": 2.0}, visits=1),
    run_length=RunLength(low=1, median=5, high=9),
    change_probability=0.0,
    n_states=1,
    recent=[[1_700_000_000_000, 2.0]],
)
NOTICE = Notice(
    sensor="a",
    labels={},
    generation=3,
    kind="new_generation",
    index=None,
    time="2023-11-14T22:13:20.000Z",
    why="new model",
)
LETTER = dead_letter("not_json", "x", topic="t", partition=0, offset=5, timestamp=-1, key=None, value=b"\xff\x00")
ALL = [EVENT, STATE, NOTICE, LETTER]


def test_an_events_bytes_are_fixed():
    assert encode(EVENT).decode() == (
        '{"type":"change","version":1,"id":"' + event_id("a", 0, 0) + '","sensor":"a",'
        '"labels":{"critical":true,"unit":"°C"},"generation":0,"revision":0,"status":"provisional","index":300,'
        '"time":"2023-11-14T22:13:20.000Z","probability":0.987654,"low":{"index":299,"time":null},'
        '"high":{"index":301,"time":"2023-11-14T22:13:21.000Z"},"at":{"index":304,"time":"2023-11-14T22:13:24.000250Z"},'
        '"before":{"level":4.1,"noise":1.0,"parameters":{"mean":4.1,"sd":1.0}},'
        '"after":{"level":6.3,"noise":1.2,"parameters":{"drift":null,"mean":6.3,"sd":1.2}},'
        '"summary":"level 4.1 -> 6.3, noise x1.2","return_period":null}'
    )


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_messages_are_read_back_whatever_fields_are_added(message):
    assert decode(encode(message)) == message
    later = {**json.loads(encode(message)), "added": [1]}
    assert decode(json.dumps(later).encode()) == message


def test_the_order_in_which_labels_and_parameters_are_given_has_no_part():
    turned = msgspec.structs.replace(
        EVENT, labels=dict(reversed(EVENT.labels.items())), before=segment({"sd": 1.0, "mean": 4.1})
    )
    assert encode(turned) == encode(EVENT)


def test_a_dead_letter_holds_the_original_bytes():
    assert base64.b64decode(LETTER.value) == b"\xff\x00"
    assert LETTER.key is None
    assert LETTER.timestamp is None
    assert (
        dead_letter("late", "", topic="t", partition=0, offset=0, timestamp=7, key=b"", value=b"x", reading=2).key == ""
    )


def test_every_reason_is_in_the_dead_letters_schema():
    schema = messages.schemas()["dead_letter"]["$defs"]["DeadLetter"]
    assert sorted(schema["properties"]["reason"]["enum"]) == sorted(REASONS)
    for reason in REASONS:
        assert decode(encode(msgspec.structs.replace(LETTER, reason=reason))).reason == reason
    with pytest.raises(msgspec.ValidationError):
        decode(encode(msgspec.structs.replace(LETTER, reason="other")))


# Ids and numbers


def test_ids_are_stable_and_differ():
    assert event_id("boiler-1", 0, 3) == "c401598f5e5fddc2d49290da"
    ids = {event_id(s, g, n) for s in ("a", "a1", "1", 'a",1', "ü") for g in range(12) for n in range(12)}
    assert len(ids) == 5 * 12 * 12


def test_rounding_is_to_six_digits_and_stays_there():
    rng = random.Random(2)
    for _ in range(2000):
        number = rng.gauss(0, 1) * 10.0 ** rng.randrange(-300, 300)
        once = rounded(number)
        assert once == pytest.approx(number, rel=5e-6)
        assert rounded(once) == once
    assert [rounded(x) for x in (math.nan, math.inf, -math.inf)] == [None] * 3


# Words


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"mean": 4.1, "sd": 1.0}, {"mean": 6.3, "sd": 1.2}, "level 4.1 -> 6.3, noise x1.2"),
        ({"mean": 4.1, "sd": 1.0}, {"mean": 6.3, "sd": 1.05}, "level 4.1 -> 6.3"),
        ({"mean": 1000.12, "sd": 0.1}, {"mean": 1000.94, "sd": 0.1}, "level 1000.12 -> 1000.94"),
        ({"mean": 412.0, "sd": 5.0}, {"mean": 631.4, "sd": 5.0}, "level 412 -> 631"),
        ({"mean": 5.0, "sd": 1.0}, {"mean": 5.01, "sd": 3.0}, "level unchanged at 5.0, noise x3"),
        ({"mean": 5.0, "sd": 4.0}, {"mean": 5.0, "sd": 1.0}, "level unchanged at 5.0, noise x0.25"),
        ({"mean": 1.0, "sd": 1.0}, {"mean": 9.0, "sd": 250.0}, "level unchanged at 9, noise x250"),
        ({"mean": 0.0, "sd": 1e-8}, {"mean": 2e-7, "sd": 1e-8}, "level 0 -> 2e-07"),
        ({"mean": -0.004, "sd": 0.1}, {"mean": 3.0, "sd": 0.1}, "level 0.0 -> 3.0"),
        ({"rate": 3.08}, {"rate": 1.01}, "rate 3.1 -> 1.0"),
        ({"probability[0]": 0.9, "probability[1]": 0.1}, {"probability[0]": 0.5, "probability[1]": 0.5},
         "probability[0] 0.90 -> 0.50, probability[1] 0.10 -> 0.50"),
        ({"mean": 4.0, "sd": 1.0, "drift": 0.0}, {"mean": 6.0, "sd": 1.0, "drift": 0.2},
         "level 4.0 -> 6.0, drift 0.00 -> 0.20"),
        ({"mean[0]": 1.0, "mean[1]": 50.0, "sd[0]": 0.1, "sd[1]": 90.0},
         {"mean[0]": 2.0, "mean[1]": 80.0, "sd[0]": 0.1, "sd[1]": 90.0}, "level[0] 1.0 -> 2.0, level[1] 50 -> 80"),
        ({}, {}, "a change in kind"),
    ],
)  # fmt: skip
def test_a_change_in_words(before, after, said):
    assert words(segment(before), segment(after)) == said


def test_words_without_a_before_and_under_a_transform():
    after = segment({"mean": 6.3, "sd": 1.0})
    assert words(None, after) == "level now 6.3"
    assert words(None, None) == "a change"
    assert words(segment({"mean": 4.1, "sd": 1.0}), after, "log") == "log level 4.1 -> 6.3"


def test_there_are_words_for_any_numbers():
    rng = random.Random(11)
    numbers = [0.0, -0.0, 5e-324, 1e308, -1e308, math.nan, math.inf, 1.0, 1e-9, 123456.789]
    for _ in range(3000):
        both = [{name: rng.choice(numbers) for name in ("mean", "sd", "drift", "mean[0]")} for _ in range(2)]
        for parameters in both:
            if rng.random() < 0.3:
                del parameters["mean"]
        said = words(segment(both[0]), segment(both[1]))
        assert 0 < len(said) < 150
        assert "nan" not in said


# Schemas


def test_schemas_describe_every_message():
    found = messages.schemas()
    assert list(found) == [
        "change",
        "alarm",
        "state_event",
        "dictionary",
        "state",
        "notice",
        "incident",
        "summary",
        "dead_letter",
    ]
    for name, struct in messages.MESSAGES.items():
        properties = found[name]["$defs"][struct.__name__]["properties"]
        assert list(properties) == ["type", *struct.__struct_fields__]
        assert found[name]["$defs"][struct.__name__]["description"]


def test_the_asyncapi_document_is_the_messages_own():
    assert ASYNCAPI.read_text(encoding="utf-8") == asyncapi.as_yaml(asyncapi.document()), (
        "write it anew: python -m service.tools.asyncapi > deploy/asyncapi.yaml"
    )


def test_every_reference_of_the_asyncapi_document_leads_somewhere():
    document = asyncapi.document()

    def references(part):
        if isinstance(part, dict):
            if "$ref" in part:
                yield part["$ref"]
            for entry in part.values():
                yield from references(entry)
        elif isinstance(part, list):
            for entry in part:
                yield from references(entry)

    found = list(references(document))
    assert len(found) > 10
    for reference in found:
        target = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
    assert DeadLetter.__name__ in document["components"]["schemas"]
