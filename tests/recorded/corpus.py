"""The recorded outputs of the inputs in ``compare_inputs``.

PYTHONPATH=.:tests python tests/recorded/corpus.py --write    # after a change of behaviour that is meant
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from pathlib import Path
from typing import Any

from compare_inputs import INPUTS

from recorded.driver import published

DATA = Path(__file__).parents[1] / "data/recorded"


def path_of(name: str) -> Path:
    """Return the file with what an input led to."""
    return DATA / f"{name}.json.gz"


def expected(name: str) -> Any:
    """Return what an input led to when it was recorded."""
    return json.loads(gzip.decompress(path_of(name).read_bytes()))


def write() -> None:
    """Record what this version publishes."""
    DATA.mkdir(parents=True, exist_ok=True)
    for name, made in INPUTS.items():
        if not made.kafka:
            continue
        text = "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in published(made)) + "\n]\n"
        path_of(name).write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{path_of(name)}: {path_of(name).stat().st_size / 1000:.0f} KB")


def first_difference(one: Any, other: Any, place: str = "") -> str | None:
    """Return where two decoded documents differ; None if nowhere. Processors round logarithms differently, so
    fractions may differ a little."""
    if isinstance(one, float) and isinstance(other, float):
        is_same = math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    elif isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        return next((d for key in one if (d := first_difference(one[key], other[key], f"{place}.{key}"))), None)
    elif isinstance(one, list) and isinstance(other, list):
        pairs = enumerate(zip(one, other, strict=False))
        found = next((d for i, (a, b) in pairs if (d := first_difference(a, b, f"{place}[{i}]"))), None)
        return found or (None if len(one) == len(other) else f"{place}: {len(one)} and {len(other)} entries")
    else:
        is_same = type(one) is type(other) and one == other
    return None if is_same else f"{place}:\n  {one!r}\n  {other!r}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Record what the inputs lead to.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    write()
