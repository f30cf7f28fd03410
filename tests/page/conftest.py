"""A real browser: Debian's Chromium. Where it should be and is not, tests fail; elsewhere they are skipped."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from view_helpers import shown

CHROMIUM = Path("/usr/bin/chromium")
# No way out of the machine: the page works without one, and a browser's own questions would fill the log.
OPTIONS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
PICTURES = Path(__file__).parents[2] / "out" / "page"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        missing = f"there is no {CHROMIUM}: `make browser` installs it, as root on Debian"
        if os.geteuid() == 0 and shutil.which("apt-get"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        yield started
        started.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Shows fleets until the test is over."""
    with contextlib.ExitStack() as servers:
        yield lambda fleet, **http: servers.enter_context(shown(fleet, **http))


@pytest.fixture
def open_page(browser: Browser, serve: Any) -> Iterator[Callable[..., Page]]:
    """Opens pages, and fails at the end if one of them complained: to its console, or by an exception.

    They close before what ``serve`` has started, whose end would be one more complaint.
    """
    contexts, complaints = [], []

    def open_one(port: int, place: str = "", expects: tuple[str, ...] = (), **options: Any) -> Page:
        """``expects``: parts of complaints that belong to the test."""
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()

        def complain(text: str) -> None:
            if not any(part in text for part in expects):
                complaints.append(text)

        page.on("console", lambda said: complain(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complain(str(error)))
        page.goto(f"http://127.0.0.1:{port}/{place}")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def picture() -> Callable[[Page, str], None]:
    """Keeps a picture of the page, for people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)

    def keep(page: Page, name: str) -> None:
        page.screenshot(path=PICTURES / f"{name}.png", full_page=True)

    return keep
