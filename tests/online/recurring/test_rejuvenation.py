"""What moves leave behind: a chain's statistics are those of its path, whatever has been folded, redrawn or renamed."""

import numpy as np
import pytest
from online.recurring.streams import CLOSE, PAPER, run, stream

import ishsmm_stream as hs
from ishsmm_stream.model.durations import family as durations
from ishsmm_stream.model.emissions import family as emissions
from ishsmm_stream.online.recurring.chains import FOLDED, TIME

NORMAL = hs.emissions.Normal(0.0, 0.1, 1.0, 1.0)
DWELL = hs.durations.Poisson(1.0, 20.0)
MODELS = {
    "ied": hs.ied(NORMAL, DWELL),
    "finite, self-transitions": hs.structured(NORMAL, DWELL, hs.topology.finite(3)),
    "hdp_hmm": hs.hdp_hmm(NORMAL),
}


def from_path(model, y, uids, starts):
    """{uid: (emission statistics, dwells, [entered from])} and (current uid, its segment's and its run's start)."""
    known: dict = {}
    run_start = 0
    for t in range(len(y)):
        if uids[t] not in known:
            stats, dwells = (
                np.empty(f.stats_size(p)) for f, p in ((emissions, model.emission), (durations, model.duration))
            )
            emissions.clear(model.emission, stats)
            durations.clear(model.duration, dwells)
            known[uids[t]] = (stats, dwells, [])
        stats, _, entered_from = known[uids[t]]
        if starts[t] == t:
            entered_from.append(uids[t - 1] if t > 0 else None)
            if t > 0:
                durations.add(model.duration, known[uids[t - 1]][1], t - starts[t - 1] - 1)
        if t > 0 and uids[t] != uids[t - 1]:
            run_start = t
        emissions.add(model.emission, stats, y, t)
    return known, (uids[-1], starts[-1], run_start)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("lag", [12, 500])
def test_a_chains_statistics_are_those_of_its_path(name, lag):
    """One chain, so that its path can be followed: what has left the recent past no longer changes."""
    model = MODELS[name]
    y, _ = stream(*PAPER, 240, 2)
    y[[9, 77]] = np.nan
    uids, starts = np.zeros(240, dtype=int), np.zeros(240, dtype=int)

    def follow(chains):
        time, recent = int(chains.clock[TIME]), chains.recent_uid.shape[1]
        times = np.arange(max(0, time - recent), time)
        uids[times] = chains.recent_uid[0, times % recent]
        starts[times] = chains.recent_start[0, times % recent]
        if time not in (6, 100, 240):
            return
        known, (uid, start, run_start) = from_path(model, y[:time], uids[:time], starts[:time])
        names = chains.uid[0, : chains.count[0]].tolist()
        assert sorted(names) == sorted(known)
        assert names[chains.state[0]] == uid
        assert (chains.start[0], chains.run_start[0]) == (start, run_start)
        counts = np.zeros((len(names) + 1, len(names)))
        for k, name in enumerate(names):
            stats, dwells, entered_from = known[name]
            assert np.array_equal(chains.pool[chains.stats_at[0, k]], stats)
            assert np.array_equal(chains.dwells[0, k], dwells)
            assert chains.first_seen[0, k] == np.flatnonzero(uids[:time] == name)[0]
            for previous in entered_from:
                counts[0 if previous is None else names.index(previous) + 1, k] += 1
        assert np.array_equal(chains.counts[0, : len(names) + 1, : len(names)], counts)

    chains = run(model, y, size=1, lag=lag, move_every=5, batch=1, look=follow)
    assert chains.clock[FOLDED] == max(0, 240 - lag)
    assert chains.count[0] >= 2


def test_moves_change_paths_and_keep_weights():
    y, _ = stream(*CLOSE, 99, 0)
    before = run(MODELS["ied"], y, size=50, lag=40, move_every=100)
    y = np.concatenate([y, [[0.0]]])
    still = run(MODELS["ied"], y, size=50, lag=40, move_every=101)  # the recent past has another length
    moved = run(MODELS["ied"], y, size=50, lag=40, move_every=100)
    assert before.clock[TIME] == 99
    assert np.array_equal(still.log_weight, moved.log_weight)
    times = np.arange(60, 100)
    changed = still.recent_uid[:, times % 142] != moved.recent_uid[:, times % 141]
    assert changed.any(axis=1).sum() > 10
    assert not np.array_equal(still.hyper, moved.hyper)


def test_names_are_unique_within_a_chain():
    """Also where moves make and drop states all the time."""
    y, _ = stream(*CLOSE, 300, 1)

    def look(chains):
        for i in np.flatnonzero(chains.log_weight > -np.inf):
            names = chains.uid[i, : chains.count[i]]
            assert len(np.unique(names)) == len(names)
            assert set(chains.recent_uid[i, : int(chains.clock[TIME])]) <= set(names)

    run(
        hs.ied(NORMAL, hs.durations.Poisson(1.0, 5.0), alpha1=5.0, c=5.0),
        y,
        size=20,
        lag=25,
        move_every=3,
        batch=3,
        look=look,
    )
