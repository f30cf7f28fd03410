"""How long a sweep of the batch sampler takes, and how many effective samples it gives, against a peer in the same run.

The peer is pyhsmm's weak-limit HDP-HSMM where it can be imported, otherwise a naive twin: the same model family by
textbook numpy, a finite K = 10 explicit-duration HMM whose forward pass sums over durations in log space, as pyhsmm's
message passing does before it is compiled.

    python benchmarks/sweep.py [--sweeps N]

Times are CPU seconds of one process. The data are the paper's synthetic ones: rates 10, 20, 3, 7, means -6, -2, 2, 6.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.special import logsumexp

import ishsmm_stream as hs
from ishsmm_stream.batch.chain import Chain
from ishsmm_stream.batch.diagnostics import effective_sample_size


class NaiveTwin:
    """A weak-limit explicit-duration sampler with K states: rows Dir(alpha / K), durations up to ``longest``."""

    def __init__(self, y: np.ndarray, states: int = 10, longest: int = 60, seed: int = 0) -> None:
        self.y, self.states, self.longest = y, states, longest
        self.rng = np.random.default_rng(seed)
        self.mean = self.rng.normal(0.0, 4.0, states)
        self.variance = np.ones(states)
        self.rate = self.rng.gamma(2.0, 5.0, states)
        self.rows = self.rng.dirichlet(np.ones(states), states)

    def sweep(self) -> None:
        length, states = len(self.y), self.states
        log_likelihood = -0.5 * np.log(2 * np.pi * self.variance) - 0.5 * (
            (self.y[:, np.newaxis] - self.mean) ** 2 / self.variance
        )
        cumulative = np.vstack([np.zeros(states), np.cumsum(log_likelihood, axis=0)])
        r = np.arange(self.longest)
        log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, self.longest)))])
        log_pmf = r[:, np.newaxis] * np.log(self.rate) - self.rate - log_factorial[:, np.newaxis]
        log_tail = np.array([logsumexp(log_pmf[i:], axis=0) for i in range(self.longest)])
        rows = np.where(np.eye(states, dtype=bool), 0.0, self.rows)
        log_rows = np.log(rows / rows.sum(axis=1, keepdims=True) + 1e-300)
        backward = np.zeros((length + 1, states))  # ln p(rest | a segment of k ended at t)
        starting = np.zeros((length + 1, states))
        for t in range(length - 1, -1, -1):
            most = min(self.longest, length - t)
            ends = np.arange(t + 1, t + most + 1)
            terms = log_pmf[:most] + cumulative[ends] - cumulative[t] + backward[ends]
            if ends[-1] == length:
                terms[-1] = log_tail[most - 1] + cumulative[length] - cumulative[t]
            starting[t] = logsumexp(terms, axis=0)
            backward[t] = logsumexp(log_rows + starting[t], axis=1)
        self._draw(cumulative, log_pmf, log_tail, log_rows, backward, starting)

    def _draw(self, cumulative, log_pmf, log_tail, log_rows, backward, starting) -> None:
        length, states = len(self.y), self.states
        t, previous = 0, -1
        counts = np.zeros((states, states))
        labels, dwells = [], []
        while t < length:
            weights = starting[t] + (log_rows[previous] if previous >= 0 else 0.0)
            weights = np.exp(weights - logsumexp(weights))
            k = int(self.rng.choice(states, p=weights / weights.sum()))
            most = min(self.longest, length - t)
            ends = np.arange(t + 1, t + most + 1)
            terms = log_pmf[:most, k] + cumulative[ends, k] - cumulative[t, k] + backward[ends, k]
            if ends[-1] == length:
                terms[-1] = log_tail[most - 1, k] + cumulative[length, k] - cumulative[t, k]
            weights = np.exp(terms - logsumexp(terms))
            dwell = int(self.rng.choice(most, p=weights / weights.sum())) + 1
            if previous >= 0:
                counts[previous, k] += 1
            labels.append(k)
            dwells.append(dwell)
            previous, t = k, t + dwell
        sequence = np.repeat(labels, dwells)
        self.n_states = len(set(labels))
        for k in range(states):
            mine = self.y[sequence == k]
            shape, weight = 1.0 + len(mine) / 2, 0.25 + len(mine)
            centre = mine.sum() / weight
            spread = ((mine - mine.mean()) ** 2).sum() if len(mine) else 0.0
            offset = 0.25 * len(mine) * (mine.mean() if len(mine) else 0.0) ** 2 / weight
            self.variance[k] = (1.0 + 0.5 * spread + 0.5 * offset) / self.rng.gamma(shape)
            self.mean[k] = self.rng.normal(centre, np.sqrt(self.variance[k] / weight))
            total = sum(d - 1 for d, label in zip(dwells, labels, strict=True) if label == k)
            self.rate[k] = self.rng.gamma(1.0 + total, 1.0 / (0.1 + labels.count(k)))
            self.rows[k] = self.rng.dirichlet(0.3 + counts[k])
        self.mean_at_start = self.mean[sequence[0]]


def peer(y: np.ndarray):
    """pyhsmm where it is to be had, else the naive twin: (name, sweep, mean of the first observation's state)."""
    try:
        import pyhsmm
        from pyhsmm.util.text import progprint_xrange  # noqa: F401
    except ImportError:
        twin = NaiveTwin(y)
        return "naive twin (numpy)", twin.sweep, lambda: twin.mean_at_start
    observations = [
        pyhsmm.distributions.Gaussian(mu_0=np.zeros(1), sigma_0=np.eye(1), kappa_0=0.25, nu_0=3) for _ in range(10)
    ]
    durations = [pyhsmm.distributions.PoissonDuration(alpha_0=2, beta_0=0.2) for _ in range(10)]
    model = pyhsmm.models.WeakLimitHDPHSMM(
        alpha_a_0=1.0, alpha_b_0=1.0, gamma_a_0=1.0, gamma_b_0=1.0, init_state_concentration=1.0,
        obs_distns=observations, dur_distns=durations,
    )  # fmt: skip
    model.add_data(y[:, np.newaxis], trunc=60)

    def first_mean() -> float:
        return float(model.obs_distns[model.states_list[0].stateseq[0]].mu[0])

    return "pyhsmm weak-limit HDP-HSMM", model.resample_model, first_mean


def measure(sweep, watch, sweeps: int) -> tuple[float, float]:
    """CPU seconds a sweep, and effective samples of what is watched per CPU second."""
    for _ in range(max(5, sweeps // 10)):
        sweep()
    seen = []
    begin = time.process_time()
    for _ in range(sweeps):
        sweep()
        seen.append(watch())
    spent = time.process_time() - begin
    return spent / sweeps, effective_sample_size(np.array(seen)[np.newaxis]) / spent


def ours(y: np.ndarray, temperature: float, fixed: bool):
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.25, shape=1.0, scale=1.0)
    duration = hs.durations.Poisson(shape=1.0, scale=10.0)
    concentrations = {"alpha0": 4.0, "alpha1": 4.0, "c": 2.0} if fixed else {}
    model = hs.ied(emission, duration, **concentrations)
    chain = Chain(model, y[:, np.newaxis].copy(), np.random.default_rng(0), temperature=temperature)
    return chain.sweep, lambda: chain.theta[chain.labels[0], 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=1000, help="sweeps of ours at T = 500 (default 1000)")
    sweeps = parser.parse_args().sweeps
    print(f"{'T':>7} {'sampler':38} {'ms/sweep':>9} {'ratio':>7} {'ESS/CPU s':>10} {'ratio':>7}")
    for length in (500, 5_000):
        y = hs.datasets.four_states(length)
        name, sweep, watch = peer(y)
        peer_time, peer_ess = measure(sweep, watch, max(20, sweeps * 20 // length))
        print(f"{length:>7} {name:38} {1e3 * peer_time:9.2f} {'':7} {peer_ess:10.2f}")
        for temperature in (1.0, 3.0):
            for fixed in (False, True):
                ours_time, ours_ess = measure(*ours(y, temperature, fixed), max(100, sweeps * 500 // length))
                label = f"ours, K = {temperature:g}, concentrations {'fixed' if fixed else 'sampled'}"
                print(
                    f"{length:>7} {label:38} {1e3 * ours_time:9.2f} {peer_time / ours_time:6.0f}x "
                    f"{ours_ess:10.1f} {ours_ess / peer_ess:6.0f}x"
                )
    y = hs.datasets.four_states(1_000_000)
    sweep, _ = ours(y, 1.0, False)
    sweep()
    begin = time.process_time()
    sweep()
    print(f"{len(y):>7} {'ours, K = 1, one sweep':38} {1e3 * (time.process_time() - begin):9.0f}")


if __name__ == "__main__":
    main()
