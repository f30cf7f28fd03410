"""Kernels in the cache: no request waits for a compiler."""

import pytest

from service.runtime.warm_up import compile_kernels
from service.settings import Rule


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    compile_kernels(Rule())
