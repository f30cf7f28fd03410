"""Events as lines for people."""

from __future__ import annotations

import io

import msgspec
import pytest
from view_helpers import dictionary, state_event

from service.tools.tail import Printer, clock, decode, line
from service.wire import messages


@pytest.mark.parametrize(("status", "words"), [("new_state", "new state"), ("entered", "entered"), ("spike", "spike")])
def test_news_about_a_state_is_a_line(status, words):
    event = decode(messages.encode(state_event("boiler", status=status)))
    assert line(event) == (clock(event.at.time), "boiler", words, "new state 40, level 20", "93 %")
    out = io.StringIO()
    Printer(out)(*line(event))
    assert out.getvalue().split() == [*clock(event.at.time).split(), "boiler", *words.split(), "new", "state", "40,",
                                      "level", "20", "(93", "%)"]  # fmt: skip


def test_news_without_a_probability_has_none():
    assert line(msgspec.structs.replace(state_event(), probability=None))[-1] == ""


def test_a_dictionary_is_no_event():
    assert decode(messages.encode(dictionary())) is None
