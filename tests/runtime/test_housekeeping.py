"""Detectors leave memory where there is too little of it, and not more often than that. Python is left to work."""

import subprocess
import sys
import time

import msgspec
import pytest

from service.metrics import Metrics
from service.runtime import housekeeping as upkeep
from service.runtime.housekeeping import Housekeeping
from service.settings import Settings


class Held:
    """A partition as far as upkeep sees it."""

    def __init__(self, in_memory):
        self.in_memory = in_memory

    def evict(self, most):
        taken = min(most, self.in_memory)
        self.in_memory -= taken
        return taken


@pytest.fixture
def look(monkeypatch):
    """A look at memory: the resident size, in megabytes, every time it is due."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def looked(keeper, resident):
        clock[0] += 10.0
        monkeypatch.setattr(upkeep, "_resident_mb", lambda: resident)
        keeper.make_room()

    return looked


def test_a_quarter_leaves_when_memory_is_short_and_no_more_until_it_grows(look):
    settings = msgspec.convert({"limits": {"memory_mb": 1000}}, Settings)
    held = Held(400)
    keeper = Housekeeping(settings, Metrics(settings), {0: held})
    look(keeper, 900.0)
    assert held.in_memory == 400
    look(keeper, 1100.0)
    assert held.in_memory == 300
    for _ in range(5):
        look(keeper, 1100.0)  # memory that was freed is not given back
    assert held.in_memory == 300
    look(keeper, 1150.0)
    assert held.in_memory == 225


def test_connections_that_the_client_leaves_behind_are_closed_in_time():
    """Refused ones are garbage that refers to itself, a file and some forty objects each, two a second and client."""
    program = """if True:
        import os, sys
        from service.runtime.warm_up import settle_interpreter

        class Refused:
            def __init__(self):
                self.file = open(os.devnull)
                self.objects = [[self] for _ in range(36)]

        settle_interpreter()
        most = 0
        for _ in range(2000):
            Refused()
            most = max(most, len(os.listdir("/proc/self/fd")))
        print(most)
    """
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert 10 < int(ran.stdout) < 512  # half of what a process may have open as a rule
