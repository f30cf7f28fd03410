"""The paper's claims on reduced sizes, with fixed seeds: those that hold, and those that do not."""

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream.experiments import coal, comparison, ied, ilr, live, morse, prior, telegraph
from ishsmm_stream.experiments.outcome import FAILS, HOLDS


class Silence:
    """Progress that is not shown."""

    def step(self, description: str, total: int | None = None) -> None:
        pass

    def reach(self, done: int, total: int | None) -> None:
        pass


def verdicts(module, tmp_path):
    """By claim, of a quick run; its figures can be written."""
    outcome = module.run(Silence(), quick=True)
    for name, figure in outcome.figures.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000
    return {claim.paper: claim.verdict for claim in outcome.claims}


def beginning(found, start):
    (verdict,) = {verdict for claim, verdict in found.items() if claim.startswith(start)}
    return verdict


def test_coal_has_two_changes_at_one_scale_of_the_prior_and_one_at_the_papers_own(tmp_path):
    found = verdicts(coal, tmp_path)
    assert beginning(found, "two are the most probable") == HOLDS
    assert beginning(found, "two, with the default prior") == FAILS
    assert beginning(found, "from one to five") == HOLDS
    assert beginning(found, "a change near 40") == HOLDS
    assert beginning(found, "a change near 100") == HOLDS


def test_priors_say_what_their_parameters_mean(tmp_path):
    found = verdicts(prior, tmp_path)
    for name in ("HDP-HMM", "sticky HDP-HMM", "IED-HMM"):
        assert beginning(found, f"{name}: small alpha0") == HOLDS
    assert beginning(found, "ILR-HMM: small alpha0") == FAILS  # its number of segments is the durations' alone
    assert beginning(found, "large alpha1") == FAILS  # a larger concentration draws rows nearer to the common measure
    assert beginning(found, "the HDP-HMM cannot") == HOLDS


def test_four_recurring_states_are_found_with_their_means_and_rates():
    posterior = hs.sample(ied.data().y, ied.model(), draws=250, burn_in=100, chains=2, seed=1)
    found = ied._answer(posterior)
    assert found["n_states"][4] > 0.8
    for values, truth in (*zip(found["means"], ied.MEANS, strict=True), *zip(found["rates"], ied.RATES, strict=True)):
        assert np.quantile(values, 0.0005) <= truth <= np.quantile(values, 0.9995)


def test_four_recurring_states_are_known_live_as_they_come():
    series = ied.data()
    seen = live.follow(Silence(), "live", series.y, ied.model(), series.change_points, chains=100)
    assert live.delay_claim(seen).verdict == HOLDS
    assert seen["n_states"][-1] == 4


def test_the_duration_prior_matters_left_to_right():
    shares = {scale: hs.exact_posterior(ilr.data().y, ilr.model(scale)).n_changes[4] for scale in ilr.SCALES}
    assert shares[1000.0] > 0.9
    assert shares[200.0] - shares[20.0] > 0.2


def test_the_sticky_model_finds_two_states_in_morse_code():
    y = morse.first_cepstral_coefficient(morse.audio())
    posterior = hs.sample(y, morse.models()["sticky"], draws=100, burn_in=300, chains=2, seed=1)
    assert np.bincount(posterior.n_states).argmax() == 2
    levels = np.array([state["mean"] for state in posterior.map.parameters])[posterior.map.states]
    assert not morse.tells_marks_apart(posterior.map.states, levels)


def test_telegraph_noise_has_the_truth_described():
    series = telegraph.data()
    described = telegraph._described(series.states, series.states, series.levels)
    assert described["agreement"] == pytest.approx(1.0)
    assert described["segments"] == len(series.change_points) + 1
    assert 300 <= telegraph._long_state(described)["mean_dwell"] <= 400


def test_emissions_farther_apart_are_easier():
    model = comparison.models("geometric")["sticky_hdp_hmm"]
    far, near = (comparison._score(comparison.data("geometric", gap, 30.0, 0), model)[0] for gap in (4.0, 1.0))
    assert far > near + 0.3
