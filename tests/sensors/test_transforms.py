"""Values as the detector takes them: nothing that it would refuse gets through."""

import math

import numpy as np
import pytest

from service.sensors.transforms import preparation
from service.settings.models import ModelTable
from service.settings.rules import DetectorSettings, Rule
from service.wire.readings import BadRecord


def counting(**emission):
    return Rule(model=ModelTable(kind="ilr", emission=emission))


def reason_of(rule, *values):
    with pytest.raises(BadRecord) as caught:
        preparation(rule)(values)
    return caught.value.reason


def test_the_default_rule_takes_values_as_they_are():
    assert preparation(Rule()) is None


@pytest.mark.parametrize(
    ("transform", "value", "expected", "refused"),
    [("log", math.e, 1.0, 0.0), ("log1p", 0.0, 0.0, -1.0), ("sqrt", 4.0, 2.0, -0.1)],
)
def test_transforms(transform, value, expected, refused):
    rule = Rule(transform=transform)
    assert preparation(rule)((value, value)) == pytest.approx((expected, expected))
    assert reason_of(rule, refused) == "out_of_domain"


def test_values_that_an_emission_has_no_place_for():
    poisson = counting(family="poisson")
    assert preparation(poisson)((3.0,)) == (3.0,)
    assert reason_of(poisson, 1.5) == "out_of_domain"
    assert reason_of(poisson, -1.0) == "out_of_domain"
    assert reason_of(poisson, 1.0, 2.0) == "wrong_channels"
    for emission in ({"concentration": 0.5, "categories": 3}, {"concentration": [1, 1, 1]}):
        assert preparation(counting(family="categorical", **emission))((2.0,)) == (2.0,)
        assert reason_of(counting(family="categorical", **emission), 3.0) == "out_of_domain"


@pytest.mark.parametrize(
    "rule",
    [
        counting(family="poisson"),
        counting(family="categorical", concentration=1.0, categories=2),
        counting(family="multivariate_normal", mean=[0, 0], mean_weight=1, freedom=4, scale=[[1, 0], [0, 1]]),
        Rule(transform="log", detector_settings=DetectorSettings(warm_up=2)),
    ],
)
def test_the_detector_takes_everything_that_passes(rule):
    numbers = [-1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 1e15]
    prepare, detector, passed = preparation(rule), rule.detector(), 0
    for values in [(number,) for number in numbers] + [(a, b) for a in numbers for b in numbers]:
        if rule.channels() is None and len(values) > 1:
            continue
        try:
            prepared = prepare(values)
        except BadRecord:
            continue
        passed += 1
        detector.update_many(np.array([prepared]))
    assert passed >= 2
