"""A state file of an earlier version is opened, and this version goes on from it as that one did."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from recorded import state_file
from recorded.corpus import first_difference

ROOT = Path(__file__).parents[2]


def read(name: str) -> bytes:
    return gzip.decompress((state_file.DATA / name).read_bytes())


def test_an_earlier_versions_state_file_is_gone_on_with(tmp_path):
    found = state_file.goes_on(ROOT, tmp_path / "run", read("state.sqlite.gz"))
    assert first_difference(json.loads(read("state.json.gz")), json.loads(json.dumps(found))) is None
    assert found["intake"] == [[0]], "everything is saved"
    assert found["names"] == [["0:0:returning", "idle"]]
    assert [name for name, *_ in found["sensors"]] == ["late", "pair", "returning", "room-1"]
