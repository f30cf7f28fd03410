"""Compile the kernels of every rule in a configuration, so that they are in numba's cache: for the image's build."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from service.kafka import unpacking
from service.runtime import logs
from service.runtime.warm_up import warm_up
from service.settings import load

if __name__ == "__main__":
    logs.start()
    unpacking.compile_kernels()
    warm_up(load(Path(sys.argv[1]), {}), helpers=(os.cpu_count() or 1) - 1)
