"""Incidents on their topic: one view speaks, the others stand by and go on from what it said."""

from __future__ import annotations

import time

from incident_streams import BEGIN, SECOND, WEEK, change
from kafka_helpers import read_partition
from running import settings_for

from service.incidents import Incidents
from service.kafka.incidents import IncidentWriter
from service.wire import messages

NOW = BEGIN + WEEK


class Viewer:
    """A view as far as incidents go."""

    def __init__(self, connection, settings):
        self._incidents = Incidents(settings.incidents)
        self._incidents.advance(BEGIN)
        self.writer = IncidentWriter(connection, settings, self._incidents.catch_up)

    def hear(self, events, now=NOW):
        """Events, and that time has passed."""
        self.writer.note(self._incidents.observe_many(events))
        self.writer.note(self._incidents.advance(now))


def together(sensors, onset):
    return [change(f"hall/s{i}", onset + i * SECOND) for i in sensors]


def until_one_speaks(viewers, seconds=60.0):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for viewer in viewers:
            viewer.writer.turn()
        speaking = [viewer for viewer in viewers if viewer.writer.speaks]
        if speaking:
            return speaking
        time.sleep(0.05)
    raise AssertionError("nobody speaks")


def said(connection, settings):
    """(revision, status, sensors) in the order in which they were published."""
    found = [
        messages.decode_incident(value) for _, value, _ in read_partition(connection, settings.topics.incidents, 0)
    ]
    assert len({one.id for one in found}) <= 1
    return [(one.revision, one.status, len(one.members)) for one in found]


def test_one_view_speaks_and_the_next_goes_on_where_it_ended(connection, tmp_path):
    settings = settings_for(connection, tmp_path)
    viewers = [Viewer(connection, settings), Viewer(connection, settings)]
    (speaker,) = until_one_speaks(viewers)
    (other,) = (viewer for viewer in viewers if viewer is not speaker)
    try:
        for viewer in viewers:
            viewer.hear(together(range(8), NOW))
            viewer.writer.turn()
        assert not other.writer.speaks
        first = said(connection, settings)
        assert first[-1] == (len(first) - 1, "open", 8)

        speaker.writer.close()
        assert until_one_speaks([other]) == [other]
        assert said(connection, settings) == first  # what is the same is not said again
        other.hear(together(range(8, 10), NOW), NOW + 20 * SECOND)
        other.writer.turn()
        assert said(connection, settings) == [*first, (len(first), "open", 10)]

        third = Viewer(connection, settings)  # knows of no event any more: what was said was a mistake
        other.writer.close()
        third.hear([], NOW + 30 * SECOND)
        until_one_speaks([third])
        third.writer.turn()
        assert said(connection, settings)[-1][:2] == (len(first) + 1, "retracted")
        third.writer.close()
    finally:
        for viewer in viewers:
            viewer.writer.close()


def test_a_view_that_lost_its_turn_without_knowing_it_cannot_speak(connection, tmp_path):
    settings = settings_for(connection, tmp_path)
    zombie = Viewer(connection, settings)
    until_one_speaks([zombie])
    speaker = IncidentWriter(connection, settings, lambda published: [])
    speaker._take_over()  # as the group would have it after a session's end
    zombie.hear(together(range(8), NOW))
    zombie.writer.turn()
    assert not zombie.writer.speaks
    assert said(connection, settings) == []
    zombie.writer.close()
    speaker.close()
