"""Helm and the Prometheus operator's schemas on this machine, for ``make deploy-test``.

    python deploy/helm/local_helm.py      # fetch what is missing (Helm is built by Go: minutes and 1 GB, once)

The Helm on the PATH is taken, or else one is built. Everything goes into a cache folder of the user.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
CHART = Path(__file__).parent / "ishsmm-stream"


class HelmUnavailable(RuntimeError):
    """This machine has no Helm; the message says what is missing."""


def cache_folder() -> Path:
    """Where Go keeps what it fetched and built for us."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ishsmm-stream" / "go"


@functools.cache
def helm() -> str:
    """The path of helm, built if need be."""
    found = shutil.which("helm")
    if found is not None:
        return found
    built = cache_folder() / "bin" / "helm"
    if not built.exists():
        print("== building Helm with Go (minutes and 1 GB, once)", flush=True)
        _go("install", HELM)
    return str(built)


@functools.cache
def operator_schemas() -> Path:
    """The folder of the operator's custom resource definitions."""
    module = json.loads(_go("mod", "download", "-json", OPERATOR))
    return Path(module["Dir"]) / "example" / "prometheus-operator-crd"


def _go(*arguments: str) -> str:
    if shutil.which("go") is None:
        raise HelmUnavailable("no helm on the PATH, and no go to build it with")
    cache_folder().mkdir(parents=True, exist_ok=True)
    places = {"GOPATH": str(cache_folder()), "GOBIN": str(cache_folder() / "bin"), "GOFLAGS": "-modcacherw"}
    environment = {**os.environ, **places}
    done = subprocess.run(
        ["go", *arguments], cwd=cache_folder(), env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise HelmUnavailable(f"go {arguments[0]}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return done.stdout


if __name__ == "__main__":
    try:
        helm(), operator_schemas()
    except HelmUnavailable as reason:
        print(f"== no Helm: {reason}", file=sys.stderr)
