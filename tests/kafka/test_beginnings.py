"""Where a group begins to read is decided once."""

from __future__ import annotations

from running import accepted, committed, readings, running, send, settings_for, wait_for

from service.kafka import groups


def test_what_comes_before_the_first_commit_of_a_reading_is_not_passed_over(connection, tmp_path):
    """With ``latest`` the next worker would begin at the end of that time, behind what came meanwhile."""
    settings = settings_for(connection, tmp_path, partitions=1, kafka={"start_from": "latest"})
    send(settings, readings("old", [1.0, 2.0]))
    with running(settings):
        wait_for(lambda: committed(settings) == 2)
    send(settings, readings("new", [1.0, 2.0, 3.0]))
    with running(settings) as worker:
        wait_for(lambda: committed(settings) == 5)
        assert accepted(worker) == 3


def test_readings_sent_on_before_the_internal_topic_was_located_are_taken(connection, tmp_path):
    settings = settings_for(
        connection, tmp_path, partitions=8, kafka={"start_from": "latest"}, mapping={"partitioned_by_sensor": False}
    )
    with running(settings) as worker:
        wait_for(lambda: len(groups.committed(connection, settings.kafka.group)) >= 8)
        for number in range(8):
            send(settings, [record for i in range(4) for record in readings(f"s{number}-{i}", [1.0, 2.0])], number)
        wait_for(lambda: accepted(worker) == 64)
