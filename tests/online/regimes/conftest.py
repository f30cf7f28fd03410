"""Streams that switch between modes are those of the benchmarks."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
