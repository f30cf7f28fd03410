"""A hung commit ends the process, with the place where it hung."""

from __future__ import annotations

import subprocess
import sys
import time

from service.runtime.watchdog import EXIT_CODE, deadline

HANGS = """
import logging, time
from service.runtime.watchdog import deadline
logging.basicConfig()
def hanging_commit():
    time.sleep(60)
with deadline(0.5, "the commit"):
    hanging_commit()
"""


def test_hung_block_ends_the_process_with_a_stack_dump():
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == EXIT_CODE
    assert "the commit has hung" in done.stderr
    assert "hanging_commit" in done.stderr


def test_block_that_ends_in_time_is_left_alone():
    with deadline(0.2, "the commit"):
        pass
    time.sleep(0.4)


COMPILES = """
import logging, time
from numba.core import event
from service.runtime.watchdog import deadline
logging.basicConfig()
with deadline(0.5, "a cycle"):
    event.start_event("numba:compile")
    time.sleep(1.2)
    event.end_event("numba:compile")
    print("compiled")
    time.sleep(60)
"""


def test_a_compiler_has_more_time_but_what_hangs_after_it_has_not():
    done = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout == "compiled\n"
    assert "has waited for the compiler" in done.stderr
    assert done.returncode == EXIT_CODE
