"""The page stays quick with a large fleet: no task of its main thread takes over a tenth of a second.

What a task takes is the time that the thread itself worked on it, from the browser's own trace. Its time on the clock
would be that of whatever else this machine does: a quiet one has about the same.
"""

from __future__ import annotations

import threading
import time

import pytest
from playwright.sync_api import expect
from view_helpers import ShownFleet, change, state_record

SENSORS = 5000
UPDATES_A_SECOND = 50
LONGEST = 100  # milliseconds


class Trace:
    """The tasks of the page's main thread, in milliseconds of work."""

    def __init__(self, browser):
        self._session = browser.new_browser_cdp_session()
        self._events, self._is_over = [], []
        self._session.on("Tracing.dataCollected", lambda data: self._events.extend(data["value"]))
        self._session.on("Tracing.tracingComplete", lambda _: self._is_over.append(True))
        self._session.send("Tracing.start", {"traceConfig": {"includedCategories": ["toplevel", "blink.user_timing"]}})

    def tasks(self, page):
        page.evaluate("performance.mark('ours')")  # the browser's own surfaces are pages with main threads as well
        self._session.send("Tracing.end")
        while not self._is_over:
            page.wait_for_timeout(50)
        self._session.detach()
        (main,) = {(event["pid"], event["tid"]) for event in self._events if event["name"] == "ours"}
        return [
            event["tdur"] / 1000
            for event in self._events
            if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) == main and "tdur" in event
        ]


def name(i):
    return f"site-{i % 7}/line-{i % 50}/sensor-{i}"


class Busy:
    """A fleet in which something happens all the time."""

    def __init__(self):
        self.fleet = ShownFleet()
        for i in range(SENSORS):
            self.fleet.take(state_record(name(i), labels={"unit": "bar"}))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stopping.set()
        self._thread.join()

    def _run(self):
        began = time.monotonic()
        while not self._stopping.is_set():
            i, round_number = self.sent * 37 % SENSORS, 60 + self.sent // 10
            self.fleet.take(
                state_record(name(i), index=round_number, level=20.0 + self.sent % 13, labels={"unit": "bar"})
            )
            if self.sent % 10 == 0:
                self.fleet.take(change(name(i), self.sent, index=round_number))
            self.sent += 1
            self._stopping.wait(max(0.0, began + self.sent / UPDATES_A_SECOND - time.monotonic()))


def use(page, seconds):
    """What people do: look at it, search, sort, turn pages, look at a sensor."""
    rows = page.locator(".fleet-table tbody tr")
    expect(rows).to_have_count(30)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        page.get_by_label("Search sensors and labels").fill("line-4")
        expect(rows.first).to_contain_text("line-4")
        page.get_by_label("Sort by").select_option("probability")
        page.get_by_role("button", name="Next").click()
        page.mouse.wheel(0, 800)
        page.wait_for_timeout(1000)
        page.get_by_label("Search sensors and labels").fill("")
        page.get_by_label("Sort by").select_option("changed")
        rows.first.locator("a").click()
        expect(page.locator(".plot svg")).to_be_visible()
        page.wait_for_timeout(1000)
        page.get_by_role("link", name="← Fleet").click()
        expect(rows).to_have_count(30)


@pytest.mark.parametrize("seconds", [6, pytest.param(30, marks=pytest.mark.long)])
def test_no_task_of_the_main_thread_is_long(browser, serve, open_page, seconds):
    with Busy() as busy:
        port = serve(busy.fleet)
        # A virtual machine that is held up counts that as work of the thread; what the page does itself comes again.
        assert any(longest_task(browser, lambda: open_page(port), busy, seconds) <= LONGEST for _ in range(3))


def longest_task(browser, opened, busy, seconds):
    trace = Trace(browser)
    page = opened()
    began, sent = time.monotonic(), busy.sent
    use(page, seconds)
    rate = (busy.sent - sent) / (time.monotonic() - began)
    tasks = sorted(trace.tasks(page))
    print(f"{seconds} s, {rate:.0f} updates a second, {len(tasks):,} tasks, the longest {tasks[-3:]} ms")
    assert rate > 0.8 * UPDATES_A_SECOND, "the fleet itself is too slow for the test"
    assert len(tasks) > 500, "the trace has no tasks of the page"
    return tasks[-1]


def test_a_long_task_would_be_seen(browser, serve, open_page):
    trace = Trace(browser)
    page = open_page(serve(ShownFleet()))
    page.evaluate("() => { const end = performance.now() + 400; while (performance.now() < end); }")
    assert max(trace.tasks(page)) > LONGEST
