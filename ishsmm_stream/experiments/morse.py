"""Morse code: dots and dashes differ by their duration only.

Paper: 8 kHz audio of 9.46 s, its first mel-frequency cepstral coefficient, normal emissions, delayed geometric
durations with delays up to 30. That recording is not public: a text is keyed here at a fixed speed, in noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from scipy import fft, signal

import ishsmm_stream as hs
from ishsmm_stream.experiments import live, style
from ishsmm_stream.experiments.labels import runs
from ishsmm_stream.experiments.outcome import Claim, Outcome, Progress, from_the_truth, judged, listed, sampled, shares

TEXT = "PARIS MORSE CODE"
RATE = 8000  # samples a second
DOT = 0.0666  # seconds: the text then lasts as long as the paper's
TONE = 600.0  # Hz
NOISE = 0.3
_FRAME, _HOP = 200, 128  # samples
_BANDS = 26
_LEAD = 0.1  # seconds of silence before
_SEED = 0
_TEMPERATURE = 10.0  # states that differ by duration only are found sooner the farther a sweep reaches

_CODES = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
CODE = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _CODES.split(), strict=True))


def keyed(text: str) -> np.ndarray:
    """1 where the key is down, an entry a unit, which is a dot.

    A dash is 3 units, the silence in a letter 1, between letters 3, between words 7.
    """
    words = ["000".join("0".join("1" if mark == "." else "111" for mark in CODE[letter]) for letter in word)
             for word in text.split()]  # fmt: skip
    return np.array([int(unit) for unit in "0000000".join(words)])


def audio(text: str = TEXT, noise: float = NOISE) -> np.ndarray:
    """The keyed tone with soft edges, in white noise."""
    rng = np.random.default_rng(_SEED)
    silence = np.zeros(int(_LEAD * RATE))
    envelope = np.concatenate([silence, np.repeat(keyed(text), int(DOT * RATE)), silence])
    envelope = np.convolve(envelope, np.ones(40) / 40.0, mode="same")
    seconds = np.arange(len(envelope)) / RATE
    return envelope * np.sin(2.0 * np.pi * TONE * seconds) + rng.normal(0.0, noise, len(envelope))


def first_cepstral_coefficient(sound: np.ndarray) -> np.ndarray:
    """The first mel-frequency cepstral coefficient of each frame, standardised.

    Cosine transform of the logarithms of energies in triangular bands, evenly spaced in mel.
    """
    frames = np.lib.stride_tricks.sliding_window_view(sound, _FRAME)[::_HOP] * signal.get_window("hamming", _FRAME)
    power = np.abs(fft.rfft(frames, 256)) ** 2
    edges = 700.0 * (10.0 ** (np.linspace(0.0, 2595.0 * np.log10(1.0 + 0.5 * RATE / 700.0), _BANDS + 2) / 2595.0) - 1.0)
    frequency = fft.rfftfreq(256, 1.0 / RATE)
    rising = (frequency - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequency) / np.diff(edges)[1:, None]
    bands = power @ np.clip(np.minimum(rising, falling), 0.0, None).T
    coefficient = fft.dct(np.log(bands + 1e-12), norm="ortho", axis=1)[:, 0]
    return (coefficient - coefficient.mean()) / coefficient.std()


def models() -> dict[str, hs.Model]:
    emission = hs.emissions.Normal(mean=0.0, mean_weight=0.25, shape=1.0, scale=1.0)
    duration = hs.durations.DelayedGeometric(1.0, 1.0, max_delay=30)
    return {
        "ied": hs.ied(emission, duration),
        "hdp_hsmm": hs.hdp_hsmm(emission, duration),
        "sticky": hs.sticky_hdp_hmm(emission, alpha1_plus_kappa=hs.priors.Gamma(1.0, 0.01)),
    }


def _tones(states: np.ndarray, levels: np.ndarray) -> list[tuple[int, int, int]]:
    """(first frame, length, state in the middle) of each tone."""
    starts, lengths, is_on = runs(levels > 0.0)
    return [(int(s), int(n), int(states[s + n // 2])) for s, n, on in zip(starts, lengths, is_on, strict=True) if on]


def tells_marks_apart(states: np.ndarray, levels: np.ndarray) -> bool:
    """Whether long tones are of other states than short ones."""
    unit = DOT * RATE / _HOP
    tones = _tones(states, levels)
    dots = {state for _, length, state in tones if length < 2.0 * unit}
    dashes = {state for _, length, state in tones if length >= 2.0 * unit}
    return bool(dots) and bool(dashes) and not dots & dashes


def joined_tones(states: np.ndarray, levels: np.ndarray) -> int:
    """How many tones are put together from several states, as a dash from a dot and the rest."""
    return sum(len(np.unique(states[start : start + length])) > 1 for start, length, _ in _tones(states, levels))


def decoded(states: np.ndarray, levels: np.ndarray) -> str:
    """The text: each tone by its state, whose mean length says what it is; silences against the length of a dot."""
    tones = _tones(states, levels)
    if not tones:
        return ""
    dwell = {k: float(np.mean([length for _, length, state in tones if state == k])) for _, _, k in tones}
    dot = min(dwell.values())
    letters = {code: letter for letter, code in CODE.items()}
    text, code = "", ""
    for i, (start, length, state) in enumerate(tones):
        code += "." if dwell[state] < 2.0 * dot else "-"
        silence = tones[i + 1][0] - start - length if i + 1 < len(tones) else len(states)
        if silence > 1.8 * dot:
            text += letters.get(code, "?") + (" " if silence > 4.5 * dot else "")
            code = ""
    return text.strip()


def run(progress: Progress, quick: bool = False) -> Outcome:
    sound = audio()
    y = first_cepstral_coefficient(sound)
    changes = (np.flatnonzero(np.diff(_key_down(len(y)))) + 1).tolist()
    numbers: dict[str, Any] = {"text": TEXT, "seconds": len(sound) / RATE, "y": y, "true_changes": changes}
    chains, burn_in = (4, 300) if quick else (16, 700)
    for name, model in models().items():
        posterior = sampled(progress, name, y, model, draws=100, burn_in=burn_in, chains=chains, seed=1,
                            temperature=_TEMPERATURE)  # fmt: skip
        best = posterior.map
        levels = np.array([state["mean"] for state in best.parameters])[best.states]
        _, lengths, labels = runs(best.states)
        numbers[name] = {
            "states": best.states,
            "levels": levels,
            "by_state": {
                int(k): {"level": float(best.parameters[k]["mean"]), "dwells": sorted(lengths[labels == k].tolist())}
                for k in np.unique(best.states)
            },
            "n_states": shares(posterior.n_states),
            "change_probability": posterior.change_probability,
            "map_changes": best.change_points,
            "decoded": decoded(best.states, levels),
            "joined_tones": joined_tones(best.states, levels),
            "tells_marks_apart": tells_marks_apart(best.states, levels),
            "log_joint": best.log_joint,
        }
    progress.step("from the truth")
    truth = true_states(len(y))
    ends = [from_the_truth(y, models()["ied"], truth, seed, burn_in, temperature=_TEMPERATURE) for seed in range(4)]
    numbers["from_the_truth"] = [len(np.unique(draws[-1].labels)) for draws in ends]
    numbers["live"] = live.follow(progress, "live", y, models()["ied"], changes, chains=200)
    batch = {
        "levels": numbers["ied"]["levels"],
        "change_probability": numbers["ied"]["change_probability"],
        "number": len(numbers["ied"]["by_state"]),
    }
    title = "Morse code, live (IED-HMM): every key stroke as it is heard"
    figures = {
        "morse": _draw(numbers, sound),
        "morse_live": live.draw(title, y, numbers["live"], batch, "cepstral coefficient"),
    }
    return Outcome(_judge(numbers), numbers, figures)


def _key_down(frames: int) -> np.ndarray:
    """Whether the key is down in the middle of each frame."""
    middle = (np.arange(frames) * _HOP + _FRAME // 2) / RATE - _LEAD
    key = keyed(TEXT)
    unit = np.floor(middle / (int(DOT * RATE) / RATE)).astype(int)
    return np.where((unit >= 0) & (unit < len(key)), key[np.clip(unit, 0, len(key) - 1)], 0)


def true_states(frames: int) -> np.ndarray:
    """Off, dot or dash for each frame."""
    states = np.zeros(frames, dtype=np.int64)
    starts, lengths, is_on = runs(_key_down(frames))
    for start, length, on in zip(starts, lengths, is_on, strict=True):
        if on:
            states[start : start + length] = 1 if length < 2.0 * DOT * RATE / _HOP else 2
    return states


def _names_states(found: dict[str, Any]) -> str:
    tones = [state for state in found["by_state"].values() if state["level"] > 0.0]
    dwell = " and ".join(f"{length:.0f}" for length in sorted(float(np.mean(state["dwells"])) for state in tones))
    silences = len(found["by_state"]) - len(tones)
    return f"{len(found['by_state'])} states: {len(tones)} with tone ({dwell} frames), {silences} silent"


def _judge(numbers: dict[str, Any]) -> list[Claim]:
    ied, hsmm, sticky = numbers["ied"], numbers["hdp_hsmm"], numbers["sticky"]
    return [
        judged("the IED-HMM tells dots from dashes", _names_states(ied), ied["tells_marks_apart"]),
        judged("with three states: off, dot, dash",
               f"{len(ied['by_state'])} states, {ied['joined_tones']} tones are of more than one",
               len(ied["by_state"]) == 3 and ied["joined_tones"] == 0),
        judged("(ours) chains that begin with off, dot and dash keep to these three",
               f"they end with {', '.join(map(str, numbers['from_the_truth']))} states",
               set(numbers["from_the_truth"]) == {3}),
        judged(f"(ours) the text can be read: {TEXT}", ied["decoded"], ied["decoded"] == TEXT),
        judged("the HDP-HSMM does the same", _names_states(hsmm), hsmm["tells_marks_apart"]),
        judged("the sticky HDP-HMM finds two states", listed(sticky["n_states"]),
               max(sticky["n_states"], key=sticky["n_states"].get) == 2 and len(sticky["by_state"]) == 2),
        live.agreement_claim(numbers["live"], ied["map_changes"]),
        live.delay_claim(numbers["live"], "key strokes"),
        live.states_claim(numbers["live"], len(ied["by_state"])),
    ]  # fmt: skip


def _draw(numbers: dict[str, Any], sound: np.ndarray) -> Figure:
    figure = style.new_figure(7.0, f"Morse code: {numbers['text']}")
    rows = figure.subplots(5, 1, sharex=True, height_ratios=[2.0, 1.4, 0.8, 0.8, 0.8])
    frequency, seconds, power = signal.spectrogram(sound, RATE, nperseg=256, noverlap=128)
    rows[0].pcolormesh(seconds, frequency / 1000.0, 10.0 * np.log10(power + 1e-9), cmap="magma", shading="auto",
                       rasterized=True)  # fmt: skip
    style.tidy(rows[0], title="spectrogram", y="kHz").grid(visible=False)
    rows[0].set_ylim(0.0, 2.0)
    x = (np.arange(len(numbers["y"])) * _HOP + _FRAME / 2) / RATE
    panel = style.tidy(rows[1], title="first cepstral coefficient and the IED-HMM's means", y="standardised")
    panel.scatter(x, numbers["y"], s=3.0, color=style.DATA, linewidths=0.0)
    panel.step(x, numbers["ied"]["levels"], where="mid", color=style.RED, linewidth=1.0)
    titles = {"ied": "IED-HMM", "hdp_hsmm": "HDP-HSMM", "sticky": "sticky HDP-HMM"}
    for panel, (name, title) in zip(rows[2:], titles.items(), strict=True):
        found = numbers[name]
        read = f", read as {found['decoded']!r}" if name != "sticky" else ""
        style.tidy(panel, title=f"{title}: {_names_states(found)}{read}").grid(visible=False)
        panel.pcolormesh(_edges(x), [0.0, 1.0], _colour_numbers(found)[None, :], cmap=_STATE_MAP, vmin=-0.5, vmax=7.5,
                         rasterized=True)  # fmt: skip
        panel.set_yticks([])
    rows[-1].set_xlabel(
        "seconds (grey: silences, blue: dots, orange: dashes or the rest of them, red: others)", fontsize=style.FONT
    )
    return figure


# Silences in greys, the shortest tone blue, the next orange, others red.
_STATE_MAP = ListedColormap(
    ["#1a1a1a", "#555555", "#8a8a8a", "#bdbdbd", "#dddddd", style.BLUE, style.ORANGE, style.RED]
)


def _edges(x: np.ndarray) -> np.ndarray:
    step = x[1] - x[0]
    return np.append(x - 0.5 * step, x[-1] + 0.5 * step)


def _colour_numbers(found: dict[str, Any]) -> np.ndarray:
    order = sorted(found["by_state"], key=lambda k: float(np.mean(found["by_state"][k]["dwells"])))
    silences = [k for k in order if found["by_state"][k]["level"] <= 0.0]
    tones = [k for k in order if found["by_state"][k]["level"] > 0.0]
    number = {k: min(i, 4) for i, k in enumerate(silences)} | {k: 5 + min(i, 2) for i, k in enumerate(tones)}
    return np.array([number[int(k)] for k in found["states"]])
