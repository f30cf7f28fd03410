"""Everything that a partition of sensors publishes and saves is what was recorded, whatever is rebuilt inside."""

from __future__ import annotations

import copy

import pytest
from compare_inputs import INPUTS

from recorded import corpus, driver

NAMES = [name for name, made in INPUTS.items() if made.kafka]


@pytest.mark.parametrize("name", NAMES)
def test_an_input_leads_to_what_was_recorded(name):
    difference = corpus.first_difference(corpus.expected(name), driver.published(INPUTS[name]))
    assert difference is None, f"{name}{difference}"


def test_differences_are_found():
    expected = corpus.expected("people")
    assert corpus.first_difference(expected, copy.deepcopy(expected)) is None
    for change in (
        lambda found: found.reverse(),
        lambda found: found.pop(),
        lambda found: found[0][2].update(sensor="another"),
        lambda found: found[0][2].update(probability=found[0][2]["probability"] + 1e-3),
        lambda found: found[0][2].update(version=True),
    ):
        found = copy.deepcopy(expected)
        change(found)
        assert corpus.first_difference(expected, found) is not None


def test_logarithms_of_another_processor_are_no_difference():
    assert corpus.first_difference([1.0, {"a": 2.5}], [1.0 + 1e-8, {"a": 2.5}]) is None
