"""The state dictionary as people see it: the published one with the names and merges that they made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from service.operations.names import StateName, shown_as
from service.wire.messages import KnownState, LikelyState, State, StateDictionary, StateRecord, rounded


class ShownState(msgspec.Struct, frozen=True, kw_only=True):
    """A state of the dictionary, with all states that are merged into it."""

    id: int
    number: Annotated[int, Meta(description="from 0, for colours: its rank by age; merges do not change it")]
    name: Annotated[str | None, Meta(description="given by people, or by the rule")]
    level: float | None
    noise: float | None
    visits: Annotated[int, Meta(description="merged states included, also in the next two")]
    readings: int
    share: Annotated[float | None, Meta(description="of the readings in known states; null: the state is retired")]
    dwell: Annotated[
        list[float | None] | None,
        Meta(description="usual length of a visit in readings: 5%, 50% and 95% quantiles; null before one ended"),
    ]
    first_seen: Annotated[int, Meta(description="index of its first observation")]
    last_seen: int
    merged: Annotated[list[int], Meta(description="ids of the states that are merged into it")]
    new: Annotated[bool, Meta(description="the sensor is in its first visit to it")]
    retired: Annotated[
        bool, Meta(description="the detector does not know it any more; its numbers are those of when it was named")
    ]


class ShownNext(msgspec.Struct, frozen=True):
    """A state that may come next."""

    id: Annotated[int | None, Meta(description="null: a new one")]
    name: str | None
    probability: float | None


class ShownDictionary(msgspec.Struct, frozen=True, kw_only=True):
    """The states of a sensor with ``model = "recurring"``, with their names and merges."""

    sensor: str
    generation: int
    index: Annotated[int, Meta(description="of the newest observation")]
    time: str
    interval_s: Annotated[float | None, Meta(description="mean time between readings; null: not known yet")]
    states: Annotated[list[ShownState], Meta(description="most readings first")]
    transitions: Annotated[list[list[int]], Meta(description="[from, to, how often], by ids; most frequent first")]
    state: Annotated[int | None, Meta(description="id of the state that the sensor is in; null: not known")]
    novelty: Annotated[float | None, Meta(description="that the state is new; null: not known")]
    next: Annotated[list[ShownNext], Meta(description="what may come after this state, most probable first")]
    remaining: Annotated[
        float | None,
        Meta(description="readings until the state is left, the median; null: not known, or it leads to a merged one"),
    ]


def shown_state(state: State, names: Mapping[int, StateName], of_rule: Mapping[str, str]) -> State:
    """Return a state as people see it: that which it is merged into, with its name.

    ``names``: the records of its sensor and generation. ``of_rule``: names in the sensor's rule.
    """
    found = shown_as(state.id, names)
    name = shown_name(found, names, of_rule)
    return state if (found, name) == (state.id, state.name) else msgspec.structs.replace(state, id=found, name=name)


def shown_name(state: int, names: Mapping[int, StateName], of_rule: Mapping[str, str]) -> str | None:
    """Return a state's name, given by people or else by the rule."""
    given = names.get(state)
    return (given.name if given is not None else "") or of_rule.get(str(state))


def present_dictionary(dictionary: StateDictionary, record: StateRecord | None) -> StateDictionary:
    """Return the dictionary with the current state as in the sensor's newest state record, if that is more recent: a
    dictionary is published only around changes of the state."""
    if record is None or record.generation != dictionary.generation or record.index < dictionary.index:
        return dictionary
    states, state = dictionary.states, record.state
    if state is not None and state.readings is not UNSET:
        states = [one for one in states if one.id != state.id]
        first = next((one.first_seen for one in dictionary.states if one.id == state.id), state.since.index)
        entry = KnownState(
            id=state.id,
            name=state.name,
            level=state.parameters.get("mean"),
            noise=state.parameters.get("sd"),
            visits=state.visits,
            readings=state.readings,
            share=None,
            dwell=None if state.dwell is UNSET else state.dwell,
            first_seen=first,
            last_seen=record.index,
        )
        states = sorted([*states, entry], key=lambda one: one.first_seen)
    return msgspec.structs.replace(dictionary, states=states, index=record.index, time=record.time)


def shown_dictionary(
    dictionary: StateDictionary, names: Mapping[int, StateName], record: StateRecord | None = None
) -> ShownDictionary:
    """Return the dictionary as people see it.

    A merge hides a state and adds its visits and readings to the other one. A named state that the dictionary has
    dropped is listed as retired. ``names``: the records of the sensor and generation, by state. ``record``: the
    sensor's newest state record, which is more recent than a dictionary in the middle of a visit.
    """
    dictionary = present_dictionary(dictionary, record)
    if record is not None and (record.generation, record.index) != (dictionary.generation, dictionary.index):
        record = None  # it is older than the dictionary
    current = None if record is None else record.state
    live = {one.id: one for one in dictionary.states}
    kept = {one.state: one.known for one in names.values() if one.known is not None and one.state not in live}
    entries = live | kept
    of_rule = {str(one.id): one.name for one in entries.values() if one.name}
    total = sum(one.readings for one in live.values())
    groups: dict[int, list[KnownState]] = {}
    for one in entries.values():
        groups.setdefault(shown_as(one.id, names), []).append(one)
    rank = {state: number for number, state in enumerate(sorted({*entries, *groups}))}
    now = None if current is None else shown_as(current.id, names)
    states = []
    for state, members in groups.items():
        known = [one for one in members if one.id in live]
        if not known and not (state in names and names[state].name):
            continue
        own = max(members, key=lambda one: (one.id in live, one.id == state, one.readings))
        visits = sum(one.visits for one in members)
        states.append(
            ShownState(
                id=state,
                number=rank[state],
                name=shown_name(state, names, of_rule),
                level=own.level,
                noise=own.noise,
                visits=visits,
                readings=sum(one.readings for one in members),
                share=rounded(sum(one.readings for one in known) / total) if known and total else None,
                dwell=own.dwell,
                first_seen=min(one.first_seen for one in members),
                last_seen=max(one.last_seen for one in members),
                merged=sorted(one.id for one in members if one.id != state),
                new=visits == 1 and state == now,
                retired=not known,
            )
        )
    states.sort(key=lambda one: (one.retired, -one.readings, one.id))
    likely, leads_to_itself = _shown_next(record, now, names, of_rule)
    remaining = None if record is None or leads_to_itself else record.remaining
    novelty = None if record is None else record.novelty
    return ShownDictionary(
        sensor=dictionary.sensor,
        generation=dictionary.generation,
        index=dictionary.index,
        time=dictionary.time,
        interval_s=dictionary.interval_s,
        states=states,
        transitions=_shown_transitions(dictionary.transitions, names),
        state=now,
        novelty=None if novelty is UNSET else novelty,
        next=likely,
        remaining=None if remaining is UNSET else remaining,
    )


def _shown_transitions(transitions: Iterable[list[int]], names: Mapping[int, StateName]) -> list[list[int]]:
    counts: dict[tuple[int, int], int] = {}
    for before, after, count in transitions:
        pair = shown_as(before, names), shown_as(after, names)
        if pair[0] != pair[1]:
            counts[pair] = counts.get(pair, 0) + count
    return [[*pair, count] for pair, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _shown_next(
    record: StateRecord | None, now: int | None, names: Mapping[int, StateName], of_rule: Mapping[str, str]
) -> tuple[list[ShownNext], bool]:
    """Return what may come next, and whether the current state leads to a state that is merged with it."""
    likely: list[LikelyState] = [] if record is None or record.next is UNSET else record.next
    chances: dict[int | None, float] = {}
    for one in likely:
        state = None if one.id is None else shown_as(one.id, names)
        chances[state] = chances.get(state, 0.0) + (one.probability or 0.0)
    hidden = 0.0 if now is None else chances.pop(now, 0.0)
    left = max(1.0 - hidden, 1e-9)
    found = [
        ShownNext(state, None if state is None else shown_name(state, names, of_rule), rounded(chance / left))
        for state, chance in sorted(chances.items(), key=lambda item: -item[1])
    ]
    return found, hidden > 0.0
