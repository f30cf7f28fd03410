"""The exact filter of left-to-right models: chains with the same run length are the same chain.

In a left-to-right model no state returns, so a chain's future depends on its past through the start of its current
segment alone. Chains that agree on it are merged, and what is left is a table of hypotheses, one a start, each with its
mass: the incremental sampler with every continuation kept. Instantiating a new state on the fly is a hypothesis that
starts at the observation just seen.

The work is bounded by a cap on the hypotheses: the lightest one makes room for the newborn, and what it weighed is
added up. For smoothing over the lag each start remembers who its parents were. The posterior of a path is a product,

    P(starts | y) = P(last start | y) x P(its parent | the data before it) x P(that one's parent | ...) x ...

so that shares of parents are all that is needed, for sums (``smoothing``) as for the most probable path. A parent j of
a start s has, at hazard g, a weight proportional to share_j birth_j(g) ((1 - g) / (1 - g*))^n / birth_j(g*), where g*
is the hazard at which the share was taken and n the risks that the segment from j to s survived: the birth masses of
starts are kept in *slots* as long as something refers to them.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ishsmm_stream._jit import kernel, owning_kernel
from ishsmm_stream._special import assign
from ishsmm_stream.online.renewal import hazard as hazards
from ishsmm_stream.online.renewal import predictors
from ishsmm_stream.online.validation import FLOAT, LARGEST_COUNT, SHORT, SINGLE, WHOLE, Field, check, columns, require

TIME, COUNT, CONSIDERED, SLOTS_USED, LAST_READING, GAP_BEGAN, GAP_ENDED = range(7)
LOG_EVIDENCE, DISCARDED = range(2)
NOBODY = -1
# What every observation passes through is one piece of code: a fifth faster than calls from one to the next.
inlined_kernel = functools.partial(kernel, inlined=True)
LIFT_EVERY = 256
LEAST_SHARE_OF_A_HAZARD = 1e-230


class RunLength(NamedTuple):
    """The filter's state. Positions 0..COUNT-1 hold hypotheses, in no order; ``order`` lists them by their start."""

    clock: np.ndarray  # (7,) int64: observations seen, hypotheses, change points considered up to here, slots used,
    # the last observation that was not missing, and the two between which the last long gap lies
    amounts: np.ndarray  # (2,) ln p(y), discarded mass
    start: np.ndarray  # (cap,) int64
    order: np.ndarray  # (cap,) int64 positions, their starts ascending
    weight: np.ndarray  # (cap,) mass summed over the grid; sums to 1
    mass: np.ndarray  # (cap, grid)
    slot: np.ndarray  # (cap,) int32
    slot_start: np.ndarray  # (slots,) int64
    slot_birth: np.ndarray  # (slots, grid) float32: mass at birth, its largest entry 1
    slot_parent: np.ndarray  # (slots,) int32: the slot of the most probable parent
    slot_before: np.ndarray  # (slots,) int64: its start, also where the slot is forgotten
    slot_log: np.ndarray  # (slots,) float32: ln of the most probable path's conditional probability given this start
    record_slot: np.ndarray  # (lag,) int32: entry s % lag belongs to the start s
    record_reference: np.ndarray  # (lag,) int32: grid index of g*
    parent_count: np.ndarray  # (lag,) int32
    parent_slot: np.ndarray  # (lag, parents) int32
    parent_share: np.ndarray  # (lag, parents) float32


def state_bytes(grid: int, cap: int, lag: int, parents: int) -> int:
    """Return how much memory a filter takes."""
    return cap * (8 * grid + 28) + 2 * (lag + cap) * (4 * grid + 24) + lag * (12 + 8 * parents)


@functools.lru_cache(maxsize=64)
def _clock_field(cap: int, lag: int) -> dict[str, Field]:
    high = [LARGEST_COUNT, cap, LARGEST_COUNT, lag + cap, LARGEST_COUNT, LARGEST_COUNT, LARGEST_COUNT]
    return {"clock": Field(WHOLE, (7,), columns=columns([0] * 7, high))}


def _fields(
    grid: int, parents: int, time: int, count: int, slots: int, records: int, recorded: int
) -> dict[str, Field]:
    """What a packed filter must be; ``recorded``: parents on record."""
    last = time - 1
    return {
        "amounts": Field(FLOAT, (2,), nan=True),
        "start": Field(WHOLE, (count,), 0, last),
        "order": Field(WHOLE, (count,), 0, count - 1),
        "mass": Field(FLOAT, (count, grid), 0.0, 1.001),
        "slot": Field(SHORT, (count,), 0, slots - 1),
        "slot_start": Field(WHOLE, (slots,), 0, last),
        "slot_birth": Field(SINGLE, (slots, grid), 0.0, 1.001),
        "slot_parent": Field(SHORT, (slots,), NOBODY, slots - 1),
        "slot_before": Field(WHOLE, (slots,), NOBODY, last),
        "slot_log": Field(SINGLE, (slots,), nan=True),
        "record_slot": Field(SHORT, (records,), 0, slots - 1),
        "record_reference": Field(SHORT, (records,), 0, grid - 1),
        "parent_count": Field(SHORT, (records,), 0, parents),
        "parent_slot": Field(SHORT, (recorded,), 0, slots - 1),
        "parent_share": Field(SINGLE, (recorded,), 0.0, 1.001),
    }


class StepScratch(NamedTuple):
    """Work space of one step, one entry for each hypothesis."""

    newborn: np.ndarray  # (grid,)
    shares: np.ndarray
    likelihood: np.ndarray


def make_run_length(grid: int, cap: int, lag: int, parents: int) -> RunLength:
    """A filter that has seen nothing."""
    slots = 2 * (lag + cap)
    return RunLength(
        clock=np.zeros(7, dtype=np.int64),
        amounts=np.zeros(2),
        start=np.zeros(cap, dtype=np.int64),
        order=np.zeros(cap, dtype=np.int64),
        weight=np.zeros(cap),
        mass=np.zeros((cap, grid)),
        slot=np.zeros(cap, dtype=np.int32),
        slot_start=np.zeros(slots, dtype=np.int64),
        slot_birth=np.zeros((slots, grid), dtype=np.float32),
        slot_parent=np.zeros(slots, dtype=np.int32),
        slot_before=np.zeros(slots, dtype=np.int64),
        slot_log=np.zeros(slots, dtype=np.float32),
        record_slot=np.zeros(lag, dtype=np.int32),
        record_reference=np.zeros(lag, dtype=np.int32),
        parent_count=np.zeros(lag, dtype=np.int32),
        parent_slot=np.zeros((lag, parents), dtype=np.int32),
        parent_share=np.zeros((lag, parents), dtype=np.float32),
    )


@kernel
def slot_view(filters, slot):
    """Return the filter in a slot of a slab."""
    return RunLength(
        filters.clock[slot],
        filters.amounts[slot],
        filters.start[slot],
        filters.order[slot],
        filters.weight[slot],
        filters.mass[slot],
        filters.slot[slot],
        filters.slot_start[slot],
        filters.slot_birth[slot],
        filters.slot_parent[slot],
        filters.slot_before[slot],
        filters.slot_log[slot],
        filters.record_slot[slot],
        filters.record_reference[slot],
        filters.parent_count[slot],
        filters.parent_slot[slot],
        filters.parent_share[slot],
    )


@inlined_kernel
def _rounded(value):
    """``value`` to 16 bits: the memory of the lag need not be more exact, and snapshots stay small."""
    shifted = value * 137438953473.0  # 2^37 + 1, Veltkamp's splitting of 53 bits
    return shifted - (shifted - value)


@owning_kernel
def _free_slots(filter):
    """Renumber the slots that something refers to, so that the others are free again."""
    lag = filter.record_slot.shape[0]
    slots = filter.slot_start.shape[0]
    new = np.full(slots, NOBODY, dtype=np.int32)
    for i in range(filter.clock[COUNT]):
        new[filter.slot[i]] = 0
    for record in range(min(lag, filter.clock[TIME])):
        new[filter.record_slot[record]] = 0
        for i in range(filter.parent_count[record]):
            new[filter.parent_slot[record, i]] = 0
    used = 0
    for old in range(slots):
        if new[old] != NOBODY:
            new[old] = used
            filter.slot_start[used] = filter.slot_start[old]
            filter.slot_birth[used] = filter.slot_birth[old]
            filter.slot_log[used] = filter.slot_log[old]
            filter.slot_parent[used] = filter.slot_parent[old]
            filter.slot_before[used] = filter.slot_before[old]
            used += 1
    for slot in range(used):
        if filter.slot_parent[slot] != NOBODY:  # a forgotten parent lies before the lag
            filter.slot_parent[slot] = new[filter.slot_parent[slot]]
    for i in range(filter.clock[COUNT]):
        filter.slot[i] = new[filter.slot[i]]
    for record in range(min(lag, filter.clock[TIME])):
        filter.record_slot[record] = new[filter.record_slot[record]]
        for i in range(filter.parent_count[record]):
            filter.parent_slot[record, i] = new[filter.parent_slot[record, i]]
    filter.clock[SLOTS_USED] = used


@inlined_kernel
def _age_by_learned_hazard(hazard, t, start, mass, weight, count, newborn):
    """Split every hypothesis into what goes on and what ends; the latter is the newborn's mass."""
    grid = hazard.grid
    newborn[:] = 0.0
    for i in range(count):
        if t - start[i] < hazard.min_dwell:
            continue
        row = mass[i]
        for g in range(grid.shape[0]):  # loops apart, so that the compiler vectorises them
            newborn[g] += row[g]
        for g in range(grid.shape[0]):
            row[g] -= row[g] * grid[g]
        total = 0.0
        for g in range(grid.shape[0]):
            total += row[g]
        weight[i] = total
    for g in range(grid.shape[0]):
        newborn[g] *= grid[g]


@inlined_kernel
def _age_by_duration(duration, hazard, t, start, mass, weight, count, newborn, ending):
    """The same where the hazard depends on the age; ``ending`` is what each hypothesis gives to the newborn."""
    newborn[0] = 0.0
    for i in range(count):
        ending[i] = mass[i, 0] * hazards.at_age(duration, hazard, t - start[i])
        newborn[0] += ending[i]
        mass[i, 0] -= ending[i]
        weight[i] = mass[i, 0]


@inlined_kernel
def may_reach(floor, share, log_path):
    """Whether ln(share) + log_path can be as much as ``floor``, by ln x <= x - 1: logarithms are dear."""
    return log_path + (share - 1.0) >= floor - 1e-6


@inlined_kernel
def _record_parents(filter, t, slot, shares, total, least_share):
    """Remember who can have preceded the start ``t``: everybody with at least ``least_share`` of the largest share, and
    where that is more than there is room for, the heaviest."""
    record = t % filter.record_slot.shape[0]
    room = filter.parent_slot.shape[1]
    count = filter.clock[COUNT]
    top, heaviest = 0.0, 0
    for i in range(count):
        if shares[i] > top:
            top, heaviest = shares[i], i
    least = least_share * top
    while least < top:
        kept = 0
        for i in range(count):
            if shares[i] >= least and shares[i] > 0.0:
                kept += 1
        if kept <= room:
            break
        least = min(max(2.0 * least, 1e-6 * top), top)
    kept = 0
    best = -np.inf
    floor = math.log(top / total) + float(filter.slot_log[filter.slot[heaviest]])
    filter.slot_parent[slot] = NOBODY
    filter.slot_before[slot] = NOBODY
    filter.slot_log[slot] = 0.0
    for i in range(count):
        if shares[i] >= least and shares[i] > 0.0 and kept < room:
            parent = filter.slot[i]
            filter.parent_slot[record, kept] = parent
            share = shares[i] / total
            filter.parent_share[record, kept] = _rounded(share)
            if may_reach(floor, share, float(filter.slot_log[parent])):
                log_path = math.log(share) + float(filter.slot_log[parent])
                if log_path > best:
                    best = log_path
                    filter.slot_parent[slot] = parent
                    filter.slot_before[slot] = filter.slot_start[parent]
                    filter.slot_log[slot] = log_path
            kept += 1
    filter.parent_count[record] = kept
    filter.record_slot[record] = slot


@inlined_kernel
def _lightest(weight, count):
    lightest = 0
    for i in range(1, count):
        if weight[i] < weight[lightest]:
            lightest = i
    return lightest


@inlined_kernel
def _take_position(filter):
    """A position for the newborn: a free one, or that of the lightest hypothesis. It comes last in ``order``."""
    count = filter.clock[COUNT]
    if count < filter.start.shape[0]:
        filter.order[count] = count
        filter.clock[COUNT] = count + 1
        return count
    position = _lightest(filter.weight, count)
    filter.amounts[DISCARDED] += filter.weight[position]
    found = False
    for i in range(count - 1):
        found = found or filter.order[i] == position
        if found:
            filter.order[i] = filter.order[i + 1]
    filter.order[count - 1] = position
    return position


@inlined_kernel
def _begin(hazard, filter, newborn, t, slot):
    """Write the newborn hypothesis that starts at ``t``; returns its position."""
    top = 0.0
    total = 0.0
    for g in range(newborn.shape[0]):
        top = max(top, newborn[g])
        total += newborn[g]
    position = _take_position(filter)
    filter.start[position] = t
    filter.slot[position] = slot
    filter.weight[position] = total
    filter.slot_start[slot] = t
    for g in range(newborn.shape[0]):
        filter.mass[position, g] = newborn[g]
        filter.slot_birth[slot, g] = _rounded(newborn[g] / top) if top > 0.0 else 0.0
    return position


@kernel
def _lift_logs(filter):
    """Paths are compared with one another only; that their probabilities fall with the stream must not cost digits."""
    top = -np.inf
    for i in range(filter.clock[COUNT]):
        top = max(top, float(filter.slot_log[filter.slot[i]]))
    for slot in range(filter.clock[SLOTS_USED]):
        filter.slot_log[slot] = float(filter.slot_log[slot]) - top


@inlined_kernel
def _give_birth(emission, duration, hazard, filter, memory, t, least_share, is_frozen, scratch):
    """Age every hypothesis by one observation and instantiate the one that starts at ``t``.

    While readings are frozen, hazards do not apply and new starts get zero mass.
    """
    grid = filter.mass.shape[1]
    newborn, shares = scratch.newborn, scratch.shares
    if filter.clock[SLOTS_USED] == filter.slot_start.shape[0]:
        _free_slots(filter)
    if t > 0 and t % LIFT_EVERY == 0:
        _lift_logs(filter)
    slot = filter.clock[SLOTS_USED]
    filter.clock[SLOTS_USED] += 1
    count = filter.clock[COUNT]
    if t == 0:
        assign(newborn, hazard.prior)
        filter.record_slot[0] = slot
        filter.parent_count[0] = 0
        filter.slot_parent[slot] = NOBODY
        filter.slot_before[slot] = NOBODY
        filter.slot_log[slot] = 0.0
        position = _begin(hazard, filter, newborn, t, slot)
        predictors.open_first(emission, memory, position)
        return
    shares[:count] = 0.0
    reference = 0
    if is_frozen:
        newborn[:] = 0.0
    elif hazard.learned:
        _age_by_learned_hazard(hazard, t, filter.start, filter.mass, filter.weight, count, newborn)
        for g in range(1, grid):
            if newborn[g] > newborn[reference]:
                reference = g
        for i in range(count):
            shares[i] = filter.mass[i, reference] if t - filter.start[i] >= hazard.min_dwell else 0.0
    else:
        _age_by_duration(duration, hazard, t, filter.start, filter.mass, filter.weight, count, newborn, shares)
    total = 0.0
    for i in range(count):
        total += shares[i]
    filter.record_reference[t % filter.record_slot.shape[0]] = reference
    if total > 0.0:
        _record_parents(filter, t, slot, shares, total, least_share)
    else:  # nobody can end here, so nothing starts here
        filter.parent_count[t % filter.record_slot.shape[0]] = 0
        filter.record_slot[t % filter.record_slot.shape[0]] = slot
        filter.slot_parent[slot] = NOBODY
        filter.slot_before[slot] = NOBODY
        filter.slot_log[slot] = -np.inf
    predictors.summarise(emission, memory, shares, total, count)
    position = _begin(hazard, filter, newborn, t, slot)
    predictors.open_next(emission, memory, position)


@inlined_kernel
def _add_up(mass, weight, count):
    """weight <- mass summed over the grid."""
    for i in range(count):
        total = 0.0
        row = mass[i]
        for g in range(row.shape[0]):
            total += row[g]
        weight[i] = total


@inlined_kernel
def _weigh(filter, likelihood, log_top):
    """Multiply every mass with its hypothesis's likelihood (divided by e^log_top) and normalise."""
    count = filter.clock[COUNT]
    mass, weight = filter.mass, filter.weight
    total = 0.0
    for i in range(count):
        total += weight[i] * likelihood[i]
    if not total > 1e-290:
        # Beyond doubles: the data rule out whatever has weight. What fits them best goes on.
        total = 0.0
        for i in range(count):
            weight[i] = max(weight[i], 1e-200)
            for g in range(mass.shape[1]):
                mass[i, g] = max(mass[i, g], 1e-200 / mass.shape[1])
            total += weight[i] * likelihood[i]
    for i in range(count):
        factor = likelihood[i] / total
        # A hazard that a busy time has ruled out is not lost for ever. Denormal numbers are slow.
        least = LEAST_SHARE_OF_A_HAZARD * weight[i] * factor
        if least < 1e-250:
            least = 0.0
        row = mass[i]
        for g in range(row.shape[0]):
            value = row[g] * factor
            row[g] = value if value > least else least
    _add_up(mass, weight, count)
    filter.amounts[LOG_EVIDENCE] += log_top + math.log(total)


@inlined_kernel
def _note_gap(filter, y, row):
    """Note a gap that takes up most of the lag: a change in it comes to light when it has all but left the lag."""
    for channel in range(y.shape[1]):
        if math.isnan(y[row, channel]):
            return
    clock = filter.clock
    if clock[TIME] - clock[LAST_READING] > filter.record_slot.shape[0] // 2:
        clock[GAP_BEGAN] = clock[LAST_READING]
        clock[GAP_ENDED] = clock[TIME]
    clock[LAST_READING] = clock[TIME]


@inlined_kernel
def advance(emission, duration, hazard, filter, memory, y, row, is_frozen, least_share, scratch):
    """Take observation ``row`` of ``y`` in. If it ``is_frozen``, time passes and nothing is learned."""
    _give_birth(emission, duration, hazard, filter, memory, filter.clock[TIME], least_share, is_frozen, scratch)
    if not is_frozen:
        log_top = predictors.predict(emission, memory, y, row, filter.clock[COUNT], scratch.likelihood)
        _weigh(filter, scratch.likelihood, log_top)
        predictors.learn(emission, memory, y, row, filter.clock[COUNT])
    _note_gap(filter, y, row)
    filter.clock[TIME] += 1


# Snapshots: plain Python

_BY_HYPOTHESIS = ("start", "order", "mass", "slot")
_BY_SLOT = ("slot_start", "slot_birth", "slot_parent", "slot_before", "slot_log")
_BY_RECORD = ("record_slot", "record_reference", "parent_count")


PACKED = {"clock", "amounts", *_BY_HYPOTHESIS, *_BY_SLOT, *_BY_RECORD, "parent_slot", "parent_share"}


def _sizes(filter: RunLength) -> dict[str, int]:
    """How much of each array is in use."""
    records = min(int(filter.clock[TIME]), len(filter.record_slot))
    return {
        **dict.fromkeys(_BY_HYPOTHESIS, int(filter.clock[COUNT])),
        **dict.fromkeys(_BY_SLOT, int(filter.clock[SLOTS_USED])),
        **dict.fromkeys(_BY_RECORD, records),
    }


def _parents_in_use(filter: RunLength) -> np.ndarray:
    counts = filter.parent_count.copy()
    counts[_sizes(filter)["parent_count"] :] = 0
    return np.arange(filter.parent_slot.shape[1]) < counts[:, np.newaxis]


def pack(filter: RunLength) -> dict[str, np.ndarray]:
    """The filter's arrays without the room that is not in use."""
    if filter.clock[TIME]:
        _free_slots(filter)
    arrays = {"clock": filter.clock, "amounts": filter.amounts}
    arrays |= {name: getattr(filter, name)[:size] for name, size in _sizes(filter).items()}
    in_use = _parents_in_use(filter)
    arrays |= {"parent_slot": filter.parent_slot[in_use], "parent_share": filter.parent_share[in_use]}
    return arrays


def unpack(filter: RunLength, arrays: dict[str, np.ndarray]) -> None:
    """Fill a new filter with what ``pack`` made of another one of the same size."""
    filter.clock[:] = arrays["clock"]
    filter.amounts[:] = arrays["amounts"]
    for name, size in _sizes(filter).items():
        getattr(filter, name)[:size] = arrays[name]
    _add_up(filter.mass, filter.weight, filter.clock[COUNT])
    in_use = _parents_in_use(filter)
    filter.parent_slot[in_use] = arrays["parent_slot"]
    filter.parent_share[in_use] = arrays["parent_share"]


# Snapshots from outside

_CONTRADICTIONS = (
    "",
    "the hypotheses' starts ascend in their order",
    "every hypothesis and every record refers to the slot of its start",
    "slots ascend by their start",
    "parents come before their children",
    "slots from before the lag are no more than the hypotheses that there can be",
    "masses add up to 1",
    "the numbers of parents add up to the parents on record",
)


@kernel
def _contradiction(
    clock, cap, lag, start, order, mass, slot, slot_start, slot_parent, record_slot, parent_count, parent_slot
):  # fmt: skip
    """The number of the first relation that does not hold, 0 if all do. All indices are in range."""
    time, count, slots = clock[TIME], clock[COUNT], clock[SLOTS_USED]
    total = 0.0
    for i in range(count):
        if i > 0 and start[order[i]] <= start[order[i - 1]]:  # so ``order`` is a permutation too
            return 1
        if slot_start[slot[i]] != start[i]:
            return 2
        for g in range(mass.shape[1]):
            total += mass[i, g]
    for i in range(1, slots):
        if slot_start[i] <= slot_start[i - 1]:
            return 3
    before = 0
    for i in range(slots):
        if slot_parent[i] >= i:
            return 4
        before += slot_start[i] < time - lag
    if before > cap:
        return 5
    first = 0
    for record in range(record_slot.shape[0]):
        # the start that belongs to a record: the last one before ``time`` with this remainder
        if slot_start[record_slot[record]] != time - 1 - (time - 1 - record) % lag:
            return 2
        if first + parent_count[record] > parent_slot.shape[0]:
            return 7
        for i in range(first, first + parent_count[record]):
            if parent_slot[i] >= record_slot[record]:
                return 4
        first += parent_count[record]
    if time > 0 and not 1e-6 < total < 1.001:
        return 6
    return 0 if first == parent_slot.shape[0] else 7


def check_packed(arrays: dict[str, np.ndarray], grid: int, cap: int, lag: int, parents: int) -> None:
    """Raise SnapshotError unless ``arrays`` can be what ``pack`` made of a filter of this size."""
    check(arrays, _clock_field(cap, lag))
    clock = arrays["clock"]
    time, count, considered, slots, last_reading, gap_began, gap_ended = clock.tolist()
    require((time > 0) == (count > 0) and count <= time, "there are hypotheses once there are observations")
    require(max(considered, last_reading, gap_began, gap_ended) <= time, "nothing lies after the last observation")
    records = min(time, lag)
    recorded = len(arrays["parent_slot"]) if arrays["parent_slot"].ndim == 1 else 0
    check(arrays, _fields(grid, parents, time, count, slots, records, recorded))
    wrong = _contradiction(
        clock, cap, lag, arrays["start"], arrays["order"], arrays["mass"], arrays["slot"], arrays["slot_start"],
        arrays["slot_parent"], arrays["record_slot"], arrays["parent_count"], arrays["parent_slot"],
    )  # fmt: skip
    require(wrong == 0, _CONTRADICTIONS[wrong])
