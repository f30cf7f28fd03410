"""Compare this tree's service and library with another commit's, byte by byte, on recorded inputs.

    make compare REV=v1.2                                   # or with options:
    python tests/compare.py --old FOLDER --only people --log kafka

Both services run by the command line, on a broker and without one, and the library by itself. They must publish, commit
and save the same, in the same order. A difference is shown side by side, and the exit code is 1. The first run of a
tree compiles its kernels, which takes minutes.

Not the same bytes in two runs, and therefore left out: the id of the input topic in saved states with the checksum over
it, and in SQLite the columns ``committed`` and ``received`` and the ``timestamp`` of dead letters.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path

import local_broker
from compare_inputs import INPUTS, Input
from compare_services import EmbeddedRun, Found, KafkaRun, Run

TREE = Path(__file__).parents[1]
LOGS = ("library", "embedded", "kafka")
_AROUND = 60  # characters before a difference


def first_difference(old: Found, new: Found) -> str | None:
    """Return the first thing that differs, side by side; None if nothing does."""
    for place in dict.fromkeys([*old, *new]):
        pairs = zip_longest(old.get(place, []), new.get(place, []))
        for number, (one, other) in enumerate(pairs):
            if one != other:
                return f"{place}, number {number}\n    old  {_near(one, other)}\n    new  {_near(other, one)}"
    return None


def _near(text: str | None, other: str | None) -> str:
    """Return the part of a text in which it begins to differ from the other one."""
    if text is None or other is None:
        return "nothing" if text is None else text[:400]
    at = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    first = max(0, at - _AROUND)
    return f"{'... ' if first else ''}{text[first : at + 200]}   (from character {first} of {len(text)})"


# What is run


def library(tree: Path) -> Found:
    """Return what the library's samplers and detectors come to."""
    line = [sys.executable, str(TREE / "tests/compare_library.py"), str(tree)]
    done = subprocess.run(line, env=_environment(tree), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the library of {tree}:\n{done.stderr[-2000:]}")
    found: Found = defaultdict(list)
    for text in done.stdout.splitlines():
        name, _, result = json.loads(text)
        found[name].append(result)
    return found


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}


def require_own_packages(tree: Path) -> None:
    """Raise RuntimeError if Python would import another tree's packages."""
    program = "import service, ishsmm_stream; print(service.__file__, ishsmm_stream.__file__, sep='\\n')"
    line = [sys.executable, "-c", program]
    files = subprocess.run(line, env=_environment(tree), capture_output=True, text=True, check=True).stdout.splitlines()
    for file in files:
        if not Path(file).is_relative_to(tree):
            raise RuntimeError(f"{file} is imported in place of what {tree} has")


@contextmanager
def worktree(rev: str) -> Iterator[Path]:
    """A commit's tree in a temporary folder.

    Its path and the times of its files are the same whenever it is made, so that compiled kernels are found again.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", TREE, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout.strip()

    commit = git("rev-parse", "--verify", f"{rev}^{{commit}}")
    made = int(git("show", "-s", "--format=%ct", commit))
    folder = Path(tempfile.gettempdir()) / f"ishsmm-compare-{os.getuid()}-{commit[:12]}"
    git("worktree", "add", "--detach", "--force", str(folder), commit)
    try:
        for file in folder.rglob("*.py"):
            os.utime(file, (made, made))
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


# Comparing


class Comparison:
    """Compares two trees, one input after the other. ``differences`` counts those that differ."""

    def __init__(self, old: Path, new: Path, folder: Path) -> None:
        self.trees = {"old": old, "new": new}
        self.differences = 0
        self._folder = folder
        self._brokers: dict[str, list[str]] = {}
        self._closing = ExitStack()

    def close(self) -> None:
        self._closing.close()

    def compare(self, log: str, name: str, run: Callable[[str], Found], at_once: bool = True) -> None:
        """Run both trees, ``at_once`` if they do not share anything, and print a line."""
        began = time.monotonic()
        if sys.stdout.isatty():
            print(f"{log:9} {name:14} ...", end="\r", flush=True)
        with ThreadPoolExecutor(2 if at_once else 1) as pool:
            found = dict(zip(self.trees, pool.map(run, self.trees), strict=True))
        difference = first_difference(found["old"], found["new"])
        count = sum(map(len, found["new"].values()))
        verdict = "equal" if difference is None else "DIFFERENT"
        print(f"{log:9} {name:14} {count:6} compared, {verdict}, {time.monotonic() - began:.0f} s", flush=True)
        if difference is not None:
            self.differences += 1
            print(f"  {difference}", flush=True)

    def library(self) -> None:
        self.compare("library", "", lambda which: library(self.trees[which]))

    def embedded(self, made: Input) -> None:
        """Those that read a file do so in the same folder, one after the other: its path is in dead letters."""
        reads_file = made.source == "file"

        def run(which: str) -> Found:
            folder = self._folder / ("embedded" if reads_file else f"{which}-embedded") / made.name
            shutil.rmtree(folder, ignore_errors=True)
            return EmbeddedRun(self.trees[which], made, folder).result()

        self.compare("embedded", made.name, run, at_once=not reads_file)

    def kafka(self, made: Input) -> None:
        """Each on a broker of its own, under the same names."""
        for which in self.trees:
            if which not in self._brokers:
                broker = self._closing.enter_context(local_broker.single(self._folder / f"{which}-broker"))
                self._brokers[which] = broker.bootstrap

        def run(which: str) -> Found:
            place = self._folder / which / made.name
            running: Run = KafkaRun(self.trees[which], made, place, self._brokers[which])
            return running.result()

        self.compare("kafka", made.name, run)


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, and return the exit code: 0 if everything is the same, else 1."""
    parser = argparse.ArgumentParser(description="Compare this tree with another one, byte by byte.")
    other = parser.add_mutually_exclusive_group(required=True)
    other.add_argument("--rev", help="a commit, checked out into a temporary folder")
    other.add_argument("--old", type=Path, metavar="FOLDER", help="a checkout that is there already")
    parser.add_argument("--new", type=Path, metavar="FOLDER", default=TREE, help="default: this tree")
    parser.add_argument("--only", choices=INPUTS, action="append", help="this input, or several; default: all")
    parser.add_argument("--log", choices=LOGS, action="append", help="this log, or several; default: all")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    logs = arguments.log or [log for log in LOGS if log != "library" or not arguments.only]
    with ExitStack() as closing:
        old = arguments.old or closing.enter_context(worktree(arguments.rev))
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="ishsmm-compare-")))
        comparison = Comparison(old.resolve(), arguments.new.resolve(), folder)
        closing.callback(comparison.close)
        for tree in comparison.trees.values():
            require_own_packages(tree)
        print(f"old {old}\nnew {arguments.new}", flush=True)
        if "library" in logs:
            comparison.library()
        for name in arguments.only or INPUTS:
            if "embedded" in logs and INPUTS[name].source:
                comparison.embedded(INPUTS[name])
            if "kafka" in logs and INPUTS[name].kafka:
                comparison.kafka(INPUTS[name])
    print(f"{comparison.differences} differ" if comparison.differences else "everything is the same")
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main())
