"""Signals that end a process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from service.runtime import stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_in_order(number):
    over = threading.Event()
    with stopping.by_signals(over.set):
        signal.raise_signal(number)
        assert over.wait(10)


def test_a_signal_may_come_while_what_stop_needs_is_held():
    """As where the main thread is about to wait for the event that ``stop`` sets: done in the handler, it hung."""
    lock, took = threading.Lock(), []
    with stopping.by_signals(lambda: took.append(lock.acquire(timeout=10))), lock:
        signal.raise_signal(signal.SIGTERM)
        assert took == []
    assert took == [True]


def test_a_second_signal_ends_the_process():
    program = (
        "import signal, time\nfrom service.runtime import stopping\n"
        "with stopping.by_signals(lambda: time.sleep(60)):\n"
        "    signal.raise_signal(signal.SIGTERM)\n    time.sleep(0.6)\n    signal.raise_signal(signal.SIGINT)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=30).returncode == stopping.FORCED


def test_two_signals_at_once_are_one():
    """As `timeout` sends them, to the process and to its group."""
    over = threading.Event()
    with stopping.by_signals(over.set):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert over.wait(10)


def test_afterwards_signals_do_what_they_did():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with stopping.by_signals(lambda: None):
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
