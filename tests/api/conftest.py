"""Kernels in the cache: no request waits for a compiler."""

import pytest

from service.settings import Rule
from service.upkeep import compile_kernels


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    compile_kernels(Rule())
