"""The list of what the image is made of names every pin, with its hashes."""

from __future__ import annotations

import json
import subprocess

import pytest
from deploy_tools import DEPLOY, ROOT

pytestmark = pytest.mark.deploy


def test_every_pin_is_listed_with_hashes():
    subprocess.run(["make", "--no-print-directory", "sbom"], cwd=ROOT, capture_output=True, check=True)
    listed = json.loads((ROOT / "out" / "sbom.json").read_text(encoding="utf-8"))
    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "ishsmm-stream"
    pins = [line for line in (DEPLOY / "requirements.txt").read_text(encoding="utf-8").splitlines() if "==" in line]
    found = {f"{one['name']}=={one['version']}" for one in listed["components"]}
    assert found == {line.split()[0] for line in pins}
    for one in listed["components"]:
        assert any(place.get("hashes") for place in one["externalReferences"]), one["name"]
