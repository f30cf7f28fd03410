"""Who gets which partitions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka_helpers import join

from service.kafka.consumer import Subscription
from service.kafka.sharing import SharedApart

COUNTS = {"input": 4, "more": 3, "readings": 6}
CLUSTER = SimpleNamespace(topics=lambda: set(COUNTS), partitions_for_topic=lambda topic: set(range(COUNTS[topic])))


def member(name, owned=()):
    return SimpleNamespace(
        member_id=name,
        metadata=SimpleNamespace(
            topics=list(COUNTS),
            owned_partitions=[SimpleNamespace(topic=topic, partitions=parts) for topic, parts in owned],
            generation_id=1,
        ),
    )


def shared(assignor, names):
    """What members have who joined one after the other, each after two rounds, as moves take two."""
    owned = {}
    for count in range(1, len(names) + 1):
        for _ in range(2):
            given = assignor.assign(CLUSTER, [member(name, owned.get(name, ())) for name in names[:count]])
            owned = {name: list(one.assigned_partitions) for name, one in given.items()}
    return {name: dict(pairs) for name, pairs in owned.items()}


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_each_has_its_part_of_the_detectors_and_of_the_rest(workers):
    found = shared(SharedApart("readings"), [f"worker-{i}" for i in range(workers)])
    with_detectors = [len(topics.get("readings", ())) for topics in found.values()]
    total = [sum(map(len, topics.values())) for topics in found.values()]
    assert sum(total) == sum(COUNTS.values())
    assert max(with_detectors) - min(with_detectors) <= 1
    assert max(total) - min(total) <= 2
    everything = [(topic, part) for topics in found.values() for topic, parts in topics.items() for part in parts]
    assert len(set(everything)) == len(everything)


def test_the_client_alone_gives_a_newcomer_whole_topics():
    """Why there is an assignor of ours: where this holds no longer, it can go."""
    found = shared(CooperativeStickyAssignor(), ["a", "b"])
    assert {len(topics.get("readings", ())) for topics in found.values()} != {3}


def test_one_partition_of_each_kind_makes_work_for_two_who_come_at_once(monkeypatch):
    for topic in COUNTS:
        monkeypatch.setitem(COUNTS, topic, int(topic != "more"))
    given = SharedApart("readings").assign(CLUSTER, [member("a"), member("b")])
    assert sorted(one.assigned_partitions for one in given.values()) == [[("input", [0])], [("readings", [0])]]


def test_those_who_stay_keep_what_they_have():
    names = ["a", "b", "c"]
    before = shared(SharedApart("readings"), names[:2])
    after = shared(SharedApart("readings"), names)
    for name in names[:2]:
        for topic, parts in after[name].items():
            assert set(parts) <= set(before[name][topic])


def test_members_of_a_real_group_share_each_kind(connection, topic, group):
    source, readings = topic(4), topic(4)

    def subscribe():
        return Subscription(connection, group, [source, readings], start_from="earliest", shared_apart=readings)

    first = subscribe()
    join(first, 8)
    second = subscribe()
    settle([first, second])
    for one in (first, second):
        assert sorted(name for name, _ in one.assignment()) == sorted([source, source, readings, readings])
        one.close()


def settle(subscriptions):
    for _ in range(200):
        for one in subscriptions:
            one.poll(0.05)
            one.take_changes()
        if [len(one.assignment()) for one in subscriptions] == [4, 4]:
            return
    raise AssertionError([one.assignment() for one in subscriptions])
