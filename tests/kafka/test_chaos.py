"""Workers and brokers that die, hang, come and go: nothing is lost, nothing comes twice. Longer: ``make chaos``."""

from __future__ import annotations

import chaos
import pytest

from service.runtime.warm_up import compile_kernels
from service.settings import Rule

SHORT = [
    "stop-before",
    "kill-before",
    "broker-kill",
    "stop",
    "kill-after",
    "leave",
    "hang-before",
    "broker-restart",
    "join",
]


@pytest.fixture(autouse=True)
def _ready(broker_software: None) -> None:
    """Kernels in the cache, so that no worker compiles under load."""
    compile_kernels(Rule())


def assert_unharmed(report: chaos.Report) -> None:
    assert report.difference is None, str(report)
    assert report.records > 500, str(report)
    # faults that did nothing would prove nothing
    assert report.rolled_back > 0, str(report)
    assert report.restores > 2 * chaos.PARTITIONS, str(report)
    assert report.replayed > 0, str(report)


def test_faults_change_nothing(tmp_path):
    """Nine faults, four of them between the offsets and the commit's return."""
    assert_unharmed(chaos.run(tmp_path, SHORT, seed=1))


def test_bad_days_are_reported_and_change_nothing_else(tmp_path):
    """A damaged state, a topic with more partitions, one that was recreated, and a sensor with many values."""
    faults = ["changelog-damaged", "new-channels", "partitions-added", "kill", "topic-recreated", "leave"]
    report = chaos.run(tmp_path, faults, seed=1)
    assert report.difference is None, str(report)
    assert report.generations == 1
    assert report.records > 500, str(report)


def test_without_the_changelog_the_difference_is_found(tmp_path):
    """The comparison can fail: sensors that move forget what they have seen."""
    report = chaos.run(tmp_path, ["leave", "kill", "leave", "kill"], seed=2, changelog=False)
    assert report.difference is not None
    assert "expected" in report.difference
    assert "seed 2" in str(report)


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 4])
def test_more_faults_change_nothing(tmp_path, seed):
    assert_unharmed(chaos.run(tmp_path, chaos.plan(22, seed), seed))


@pytest.mark.long
def test_a_cluster_that_loses_a_node_changes_nothing(tmp_path):
    """Three nodes; one of them is killed and stays away while workers come and go."""
    report = chaos.run(tmp_path, ["node-kill", "kill-before", "stop", "leave", "broker-hang", "kill"], seed=5, nodes=3)
    assert_unharmed(report)


def test_plans_depend_on_the_seed_alone_and_hold_every_kind():
    assert chaos.plan(20, 7) == chaos.plan(20, 7) != chaos.plan(20, 8)
    assert set(chaos.plan(len(chaos.KINDS), 7)) == set(chaos.KINDS)
    assert sum(fault in chaos.IN_COMMIT for fault in chaos.plan(20, 7)) >= 4
