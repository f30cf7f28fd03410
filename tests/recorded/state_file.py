"""A state file as an earlier version left it when it was killed, and how that version went on from it.

    PYTHONPATH=.:tests:deploy/kafka python tests/recorded/state_file.py FOLDER    # a checkout: writes its version's

Everything goes through the command line, so that any version can be asked.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
import tempfile
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from compare_inputs import QUICK, Command, Input, Restart, Send, levels, stream
from compare_services import EmbeddedRun

DATA = Path(__file__).parents[1] / "data/recorded"
MUTED = "room-*"
_NORMAL = {"kind": "ied", "emission": {"family": "normal", "mean": 5.0}, "duration": {"family": "poisson"}}
RULES: list[dict[str, Any]] = [
    {"match": "returning", "model": _NORMAL, "detector": {"chains": 10}, **QUICK},
    {"match": "*", "time": {"silent_after_s": 60.0}, **QUICK},
]


def parts() -> list[Send]:
    """Return readings that are saved before the kill, readings that are not, and readings that come afterwards."""
    rng = np.random.default_rng(20)
    sensors = {"returning": levels(rng, 300, 0.0, 6.0, 0.0, 6.0), "room-1": levels(rng, 300, 1.0, 1.0, 9.0)}
    sensors["pair"] = np.stack([levels(rng, 300, 4.0), levels(rng, 300, 4.0, 1.0)], axis=1)
    names = [{"returning", "room-1", "pair"}, {"returning", "room-1", "late"}, {"returning", "pair", "late"}]
    sensors["late"] = levels(rng, 300, 2.0)
    return [
        Send(stream({name: sensors[name][100 * n : 100 * n + 100] for name in sorted(names[n])}, 100 * n))
        for n in range(3)
    ]


def made_by(tree: Path, folder: Path) -> bytes:
    """Let a version work, be told things and be killed; returns its state file."""
    run = EmbeddedRun(tree, Input("made", [], RULES), folder)
    before, unsaved, _ = parts()
    mute = ("mute", MUTED, "--from", "2026-01-01T00:00:00Z", "--until", "2026-02-01T00:00:00Z", "--why", "paint")
    try:
        run.prepare()
        run.start()
        for step in (before, Command(mute), Restart()):
            run.take(step)
        said = {"sensor": "returning", "generation": 0, "state": 0, "name": "idle", "by": "ann"}
        url, headers = f"http://127.0.0.1:{run.port}/v1/names", {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(said).encode(), headers), timeout=30).close()
        run.take(unsaved)
    finally:
        run.kill()
    with closing(sqlite3.connect(run.state)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("VACUUM")
    return run.state.read_bytes()


def goes_on(tree: Path, folder: Path, state: bytes) -> dict[str, Any]:
    """Let a version go on from a state file and save everything; returns what is in the file then."""
    run = EmbeddedRun(tree, Input("goes on", [], RULES, source="file"), folder)
    run.prepare()
    run.state.write_bytes(state)
    run.take(parts()[2])
    run.stop()
    run.take(Command(("unmute", MUTED)))
    queries = {
        "events": "SELECT seq, sensor, id, status, value FROM events ORDER BY seq",
        "states": "SELECT sensor, value FROM states ORDER BY sensor",
        "sensors": "SELECT sensor, next_offset, newest, generation FROM sensors ORDER BY sensor",
        "position": "SELECT next_offset, unsaved_from, clock FROM position",
        "intake": "SELECT count(*) FROM intake",
        "mutes": "SELECT count(*) FROM control",
        "names": "SELECT key, json_extract(value, '$.name') FROM state_names",
    }
    with run.tables() as tables:
        return {name: [_decoded(row) for row in tables.execute(query)] for name, query in queries.items()}


def _decoded(row: tuple[Any, ...]) -> list[Any]:
    return [json.loads(value) if isinstance(value, bytes) else value for value in row]


def main() -> None:
    """Write the state file of a version, and how that version goes on."""
    tree = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        state = made_by(tree, Path(temporary) / "made")
        expected = goes_on(tree, Path(temporary) / "goes-on", state)
    DATA.mkdir(parents=True, exist_ok=True)
    for name, data in (("state.sqlite.gz", state), ("state.json.gz", json.dumps(expected).encode())):
        (DATA / name).write_bytes(gzip.compress(data, mtime=0))
        print(f"{DATA / name}: {(DATA / name).stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
