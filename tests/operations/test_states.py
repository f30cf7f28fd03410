"""Names and merges of states: what people see of a dictionary, and what they may not say."""

from __future__ import annotations

import msgspec
import pytest
from view_helpers import MemoryRecords, dictionary, recurring

from service.operations import actions
from service.operations.control import ControlBook
from service.operations.dictionary import shown_dictionary
from service.operations.names import LONGEST, NameBook, StateName, as_change, shown_as

T0 = "2026-01-01T00:00:00Z"


def said(state, name="", into=None, known=None, sensor="a", generation=0):
    return StateName(
        sensor=sensor, generation=generation, state=state, name=name, time=T0, merged_into=into, known=known
    )


def by_state(*records):
    return {one.state: one for one in records}


class Memory(MemoryRecords):
    """A ``NameLog`` in memory."""

    def read(self):
        return self.book

    def write(self, changes):
        self.book.apply(changes)


class Service:
    """Operations on one sensor."""

    what_stays = ""

    def __init__(self, record=None, known=None, generation=0):
        self.control, self.names = Memory(ControlBook()), Memory(NameBook())
        self.record, self.dictionary, self.generation = record, known, generation

    def generation_of(self, sensor):
        return self.generation if sensor == "a" else None

    def sensors(self):
        return ["a"]

    def states_of(self, sensor):
        return self.record, self.dictionary

    def events_with(self, beginning):
        return {}

    def close(self):
        pass


@pytest.fixture
def service():
    return Service(recurring(), dictionary())


# The records


def test_a_record_without_a_name_and_a_merge_removes_the_earlier_one():
    book = NameBook()
    book.apply(as_change(said(3, "idle", into=5)))
    book.apply(as_change(said(3, "", into=5)))
    assert book.of("a", 0) == {3: said(3, "", into=5)}
    book.apply(as_change(said(3)))
    assert book.of("a", 0) == {}


def test_records_belong_to_a_sensor_and_a_generation():
    book = NameBook()
    book.apply(as_change(said(3, "idle")) | as_change(said(3, "other", sensor="b")))
    book.apply(as_change(said(3, "new", generation=1)))
    assert [book.of("a", 0)[3].name, book.of("a", 1)[3].name, book.of("b", 0)[3].name] == ["idle", "new", "other"]
    assert sorted(book.of_sensor("a")) == ["0:3:a", "1:3:a"]
    book.apply(dict.fromkeys(book.of_sensor("a")))
    assert (book.of("a", 0), book.of("b", 0)[3].name) == ({}, "other")


def test_records_of_earlier_versions_can_be_read():
    book = NameBook()
    book.apply({"0:3:a": b'{"type":"state_name","sensor":"a","generation":0,"state":3,"name":"idle","time":"2026"}'})
    assert (book.of("a", 0)[3].name, book.of("a", 0)[3].merged_into) == ("idle", None)


def test_a_chain_of_merges_leads_to_its_last_state():
    chain = by_state(said(1, into=2), said(2, into=3), said(3, "full"))
    assert [shown_as(state, chain) for state in (1, 2, 3, 4)] == [3, 3, 3, 4]


def test_merges_in_a_circle_do_not_count():
    circle = by_state(said(1, into=2), said(2, into=1), said(3, into=1))
    assert [shown_as(state, circle) for state in (1, 2, 3)] == [1, 2, 3]


# What is shown


def shown(found):
    return {state.id: state for state in found.states}


def test_without_names_the_dictionary_is_as_published():
    found = shown_dictionary(dictionary(), {}, recurring())
    assert [(one.id, one.name, one.level, one.visits, one.readings, one.share) for one in found.states] == [
        (0, None, 2.0, 4, 120, 0.6), (40, "full load", 20.0, 2, 60, 0.3), (70, None, 20.4, 1, 20, 0.1),
    ]  # fmt: skip
    assert [(one.number, one.new, one.retired, one.merged) for one in found.states] == [
        (0, False, False, []), (1, False, False, []), (2, True, False, []),
    ]  # fmt: skip
    assert (found.state, found.novelty, found.remaining) == (70, 0.25, 12.0)
    assert [(one.id, one.name, one.probability) for one in found.next] == [
        (0, None, 0.6), (40, "full load", 0.3), (None, None, 0.1),
    ]  # fmt: skip
    assert found.transitions == [[0, 40, 2], [40, 0, 2], [0, 70, 1], [40, 70, 1]]


def test_a_merge_hides_a_state_and_adds_it_to_the_other():
    found = shown_dictionary(dictionary(), by_state(said(70, into=40)), recurring())
    full = shown(found)[40]
    assert set(shown(found)) == {0, 40}
    assert (full.name, full.level, full.visits, full.readings, full.share) == ("full load", 20.0, 3, 80, 0.4)
    assert (full.first_seen, full.last_seen, full.merged, full.new) == (40, 199, [70], False)
    assert found.transitions == [[0, 40, 3], [40, 0, 2]]
    # the state that it is in leads to one that is shown as the same
    assert (found.state, found.remaining) == (40, None)
    assert [(one.id, one.probability) for one in found.next] == [(0, 0.857143), (None, 0.142857)]


def test_a_merge_does_not_change_the_colours_of_others():
    plain = shown(shown_dictionary(dictionary(), {}, None))
    merged = shown(shown_dictionary(dictionary(), by_state(said(0, into=40)), None))
    assert [merged[state].number for state in (40, 70)] == [plain[state].number for state in (40, 70)]


def test_a_name_given_by_people_comes_before_the_rules():
    found = shown(shown_dictionary(dictionary(), by_state(said(40, "peak"), said(0, "idle")), None))
    assert [found[state].name for state in (0, 40, 70)] == ["idle", "peak", None]


def test_a_named_state_that_the_dictionary_dropped_is_listed_as_it_was():
    dropped = msgspec.structs.replace(dictionary().states[1], id=7, level=5.0, readings=33)
    found = shown_dictionary(dictionary(), by_state(said(7, "cleaning", known=dropped)), recurring())
    state = found.states[-1]
    assert (state.id, state.name, state.level, state.readings) == (7, "cleaning", 5.0, 33)
    assert (state.retired, state.share) == (True, None)
    assert sum(one.share or 0.0 for one in found.states) == pytest.approx(1.0)


def test_a_dropped_state_without_a_name_is_not_listed():
    dropped = msgspec.structs.replace(dictionary().states[1], id=7)
    found = shown_dictionary(dictionary(), by_state(said(7, into=8, known=dropped)), None)
    assert set(shown(found)) == {0, 40, 70}


def test_a_state_that_is_merged_into_a_dropped_one_keeps_its_own_numbers():
    dropped = msgspec.structs.replace(dictionary().states[1], id=7, level=5.0, readings=33)
    records = by_state(said(7, "full", known=dropped), said(40, into=7))
    state = shown(shown_dictionary(dictionary(), records, None))[7]
    assert (state.name, state.level, state.readings, state.retired) == ("full", 20.0, 93, False)


def test_the_current_state_is_as_in_the_newest_record():
    later = recurring(index=259, readings=80)
    found = shown_dictionary(dictionary(), {}, later)
    assert (shown(found)[70].readings, shown(found)[70].last_seen, found.index) == (80, 259, 259)
    assert shown(found)[0].share == pytest.approx(120 / 260, rel=1e-5)
    newer = recurring(index=259, state=250, since=250, readings=10)
    assert shown(shown_dictionary(dictionary(), {}, newer))[250].first_seen == 250


@pytest.mark.parametrize("record", [None, recurring(index=150), recurring(generation=1)])
def test_a_record_that_is_older_or_of_another_generation_does_not_count(record):
    found = shown_dictionary(dictionary(), {}, record)
    assert (found.state, found.novelty, found.next, found.remaining, found.index) == (None, None, [], None, 199)


# What people may say


def test_a_name_keeps_the_entry_and_the_merge(service):
    first = actions.merge_state(service, "a", 70, 40, "ann")
    assert (first.merged_into, first.name, first.known.level) == (40, "", 20.4)
    second = actions.name_state(service, "a", 70, " peak ", "bob")
    assert (second.merged_into, second.name, second.known.level, second.by) == (40, "peak", 20.4, "bob")
    third = actions.merge_state(service, "a", 70, None, "ann")
    assert (third.merged_into, third.name) == (None, "peak")
    actions.name_state(service, "a", 70, "", "ann")
    assert service.names.read().of("a", 0) == {}


def test_an_unknown_state_is_refused_with_what_there_is(service):
    words = "no state 7 of 'a', it has 0, 40, 70: `ishsmm-stream states a` lists them"
    for act in (
        lambda: actions.name_state(service, "a", 7, "x", ""),
        lambda: actions.merge_state(service, "a", 7, 0, ""),
        lambda: actions.merge_state(service, "a", 0, 7, ""),
    ):
        with pytest.raises(actions.UnknownState, match=words):
            act()


def test_a_state_that_was_dropped_can_be_renamed_and_merged_into(service):
    actions.name_state(service, "a", 40, "peak", "")
    kept = [one for one in service.dictionary.states if one.id != 40]
    service.dictionary = msgspec.structs.replace(service.dictionary, states=kept)
    assert actions.name_state(service, "a", 40, "top", "").known.level == 20.0
    assert actions.merge_state(service, "a", 70, 40, "").merged_into == 40
    assert {one.id: one.retired for one in actions.dictionary_of(service, "a").states} == {0: False, 40: False}


def test_merges_in_a_circle_are_refused(service):
    actions.merge_state(service, "a", 0, 40, "")
    actions.merge_state(service, "a", 40, 70, "")
    with pytest.raises(ValueError, match="state 0 of 'a' is merged into state 70 already: undo that first"):
        actions.merge_state(service, "a", 70, 0, "")
    with pytest.raises(ValueError, match="cannot be merged into itself"):
        actions.merge_state(service, "a", 70, 70, "")
    assert actions.merge_state(service, "a", 0, 70, "").merged_into == 70  # another one takes its place


def test_a_merge_that_is_none_cannot_be_undone(service):
    with pytest.raises(ValueError, match="state 0 of 'a' is not merged into another one"):
        actions.merge_state(service, "a", 0, None, "")


def test_without_a_dictionary_states_are_named_and_not_merged():
    service = Service(recurring(), None)
    assert actions.name_state(service, "a", 7, "idle", "").known is None
    with pytest.raises(ValueError, match=r"no state dictionary in generation 0.* set model = 'recurring'"):
        actions.merge_state(service, "a", 7, 8, "")
    assert actions.dictionary_of(service, "a") is None


def test_a_dictionary_of_an_earlier_generation_does_not_count():
    service = Service(recurring(), dictionary(), generation=1)
    assert actions.dictionary_of(service, "a") is None
    assert actions.name_state(service, "a", 7, "idle", "").generation == 1
    assert actions.name_state(service, "a", 0, "idle", "", generation=0).known.level == 2.0
    with pytest.raises(ValueError, match="has not come to generation 2, it is in 1"):
        actions.name_state(service, "a", 0, "idle", "", generation=2)


def test_a_name_has_an_end(service):
    with pytest.raises(ValueError, match=f"at most {LONGEST} characters, got 61"):
        actions.name_state(service, "a", 0, "x" * 61, "")
