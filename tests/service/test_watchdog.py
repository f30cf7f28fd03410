"""A hung commit ends the process, with the place where it hung."""

from __future__ import annotations

import subprocess
import sys
import time

from service.watchdog import EXIT_CODE, deadline

HANGS = """
import logging, time
from service.watchdog import deadline
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
