"""Writes docs/pump.csv and docs/pump-labels.csv, the tutorial's data: a pump for three weeks, simulated.

python docs/pump.py
"""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

BEGIN = datetime(2026, 3, 2)
STEP = timedelta(minutes=30)
READINGS = 21 * 48
# (day, level, noise) of each sensor from that day on
HISTORY = {
    "flow": [(0.0, 42.0, 0.8), (6.4, 40.5, 0.8), (11.3, 42.0, 0.8)],  # a filter clogs, and is changed
    "pressure": [(0.0, 5.2, 0.06), (17.5, 5.08, 0.06)],
    "vibration": [(0.0, 2.1, 0.15), (14.6, 2.55, 0.3)],  # a bearing wears
}
MEMORY = 0.2  # of the noise: the weather, the tank's level


def main() -> None:
    """Write both files."""
    rng = np.random.default_rng(26)
    columns = {sensor: series(rng, history) for sensor, history in HISTORY.items()}
    rows = [[f"{BEGIN + t * STEP:%Y-%m-%d %H:%M}", *(f"{columns[s][t]:.2f}" for s in HISTORY)] for t in range(READINGS)]
    for t in (130, 131, 132):
        rows[t][2] = ""  # the pressure gauge was off
    rows[700][1] = "??"  # somebody typed it in
    folder = Path(__file__).parent
    lines = [",".join(["time", *HISTORY]), *map(",".join, rows)]
    (folder / "pump.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    labels = [
        f"{sensor},{BEGIN + round(day * 48) * STEP:%Y-%m-%d %H:%M}"
        for sensor, history in HISTORY.items()
        for day, _, _ in history[1:]
    ]
    (folder / "pump-labels.csv").write_text("\n".join(["sensor,time", *labels]) + "\n", encoding="utf-8")


def series(rng: np.random.Generator, history: list[tuple[float, float, float]]) -> np.ndarray:
    """Levels with noise that remembers a little."""
    level, noise = np.empty(READINGS), np.empty(READINGS)
    for day, mean, sd in history:
        level[round(day * 48) :], noise[round(day * 48) :] = mean, sd
    shocks = rng.normal(size=READINGS)
    wander = np.empty(READINGS)
    wander[0] = shocks[0]
    for t in range(1, READINGS):
        wander[t] = MEMORY * wander[t - 1] + np.sqrt(1.0 - MEMORY**2) * shocks[t]
    return level + noise * wander


if __name__ == "__main__":
    main()
