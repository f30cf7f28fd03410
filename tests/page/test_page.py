"""The page in a real browser, in front of the real service and of fleets made for the test."""

from __future__ import annotations

import contextlib
import re
import time

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from embedded_helpers import Process
from http_helpers import post
from playwright.sync_api import expect
from view_helpers import ShownFleet, change, notice, shown, state_record

RULES = [{"match": "*", "window": {"readings": 10}, "labels": {"unit": "°C"}}]
NAMES = ("north/boiler-1/temperature", "north/boiler-2/temperature", "south/pump-1/flow")


def sensor_place(name):
    return f"#/sensor/{name.replace('/', '%2F')}"


@pytest.fixture
def service(tmp_path):
    started = Process(tmp_path, rules=RULES).start()
    with contextlib.ExitStack() as ending:
        ending.callback(started.kill)
        yield started


class Plant:
    """Posts readings that end now."""

    def __init__(self, port):
        self.port = port
        self._rng = np.random.default_rng(7)
        self._time = time.time() - 400

    def send(self, count, **levels):
        body = []
        for _ in range(count):
            self._time += 0.5
            for name in NAMES:
                level = levels.get(name.rpartition("/")[2], 20.0)
                body.append({"sensor": name, "time": self._time, "value": float(self._rng.normal(level, 1.0))})
        assert post(self.port, body).status == 200


def rows(page):
    return page.locator(".fleet-table tbody tr")


def is_live(page):
    expect(page.locator("#connection")).to_have_text("live", timeout=20_000)


def test_the_page_shows_the_sensors_and_a_change_as_it_is_found(service, open_page, picture):
    plant = Plant(service.port)
    plant.send(200)
    page = open_page(service.port)
    is_live(page)
    expect(rows(page)).to_have_count(3)
    expect(page.locator(".stat").first).to_contain_text("3")
    expect(page.locator(".feed li")).to_have_count(0)
    plant.send(30, flow=35.0)
    expect(page.locator(".feed li").first).to_contain_text("south/pump-1/flow", timeout=10_000)
    expect(page.locator(".feed li").first).to_contain_text(re.compile(r"level 20(\.\d)? -> 3\d(\.\d)? °C"))
    expect(page.locator(".feed li").first.locator(".status")).to_have_text(re.compile("provisional|confirmed"))
    expect(rows(page).first).to_contain_text("south/pump-1/flow", timeout=10_000)  # the latest change is on top
    expect(rows(page).first.locator(".status")).to_be_visible()
    picture(page, "service-fleet")
    rows(page).first.locator("a").click()
    expect(page.locator("h1")).to_have_text("south/pump-1/flow")
    expect(page.locator(".plot .mean")).to_have_count(2, timeout=10_000)
    expect(page.locator(".plot .knob")).to_have_count(1)
    expect(page.locator(".plot .forecast-line")).to_have_count(1)
    before = page.locator(".plot svg").get_attribute("aria-label")
    plant.send(10, flow=35.0)
    expect(page.locator(".plot svg")).not_to_have_attribute("aria-label", before, timeout=10_000)
    picture(page, "service-sensor")


def test_the_page_comes_back_after_a_restart(service, open_page):
    plant = Plant(service.port)
    plant.send(100)
    page = open_page(service.port, expects=("ERR_", "Failed to load resource"))
    is_live(page)
    expect(rows(page)).to_have_count(3)
    service.kill()
    expect(page.locator("#connection")).to_have_text("reconnecting", timeout=10_000)
    expect(page.locator("#banner")).to_be_visible()
    expect(rows(page)).to_have_count(3)  # what was known stays
    service.start()
    is_live(page)
    expect(page.locator("#banner")).to_be_hidden()
    plant.send(60, flow=40.0)
    expect(page.locator(".feed li").first).to_contain_text("south/pump-1/flow", timeout=15_000)


def test_people_mute_acknowledge_and_name_a_state_and_it_outlives_a_restart(service, open_page):
    plant = Plant(service.port)
    plant.send(200)
    plant.send(40, temperature=30.0)
    page = open_page(service.port, sensor_place(NAMES[0]), expects=("ERR_", "Failed to load resource"))
    page.get_by_role("button", name="Name state…").click()
    page.get_by_label("Name", exact=True).fill("full load")
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".facts dd").first).to_contain_text("full load", timeout=10_000)
    page.get_by_role("button", name=re.compile("^Acknowledge level")).first.click()
    page.get_by_label("Note").fill("it was us")
    expect(page.get_by_label("Your name")).to_have_value("ann")  # remembered
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(page.locator(".below")).to_contain_text("seen by ann", timeout=10_000)
    page.get_by_role("button", name="Mute…").click()
    page.get_by_role("dialog").get_by_role("button", name="Mute").click()
    expect(page.locator(".chips")).to_contain_text("muted until", timeout=10_000)
    assert service.stop() == 0
    service.start()
    page.reload()
    expect(page.locator(".facts dd").first).to_contain_text("full load", timeout=15_000)
    expect(page.locator(".below")).to_contain_text("seen by ann")
    page.get_by_role("button", name="Unmute…").click()
    page.get_by_role("dialog").get_by_role("button", name="Unmute").click()
    expect(page.locator(".chips")).not_to_contain_text("muted", timeout=10_000)


def test_the_token_is_asked_for_once(serve, open_page):
    fleet = ShownFleet()
    fleet.take(state_record("a"))
    port = serve(fleet, token="secret")
    page = open_page(port, expects=("401",))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible(timeout=10_000)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(dialog).to_contain_text("this is not the service's token")
    time.sleep(1.0)
    page.get_by_label("Token").fill("secret")
    page.get_by_role("button", name="Sign in").click()
    expect(rows(page)).to_have_count(1, timeout=10_000)
    page.reload()
    expect(rows(page)).to_have_count(1)
    assert page.evaluate("document.cookie") == ""
    assert "secret" not in page.evaluate("JSON.stringify(localStorage) + location.href")


# Fleets made for the test


def busy_fleet():
    """Every kind of thing that is shown."""
    fleet = ShownFleet()
    fleet.view.take_earlier(change("elsewhere", index=-100_000))
    fleet.view.caught_up()
    for i in range(12):
        name = f"north/boiler-{i}/temperature"
        labels = {"unit": "°C", "critical": i % 2 == 0}
        fleet.take(state_record(name, labels=labels, probability=i / 12))
        fleet.take(state_record(name, index=119, since=80, level=26.0, labels=labels, probability=i / 12))
    for i, status in enumerate(("provisional", "confirmed", "relocated", "retracted")):
        fleet.take(change(f"north/boiler-{i}/temperature", revision=i, index=80, status=status))
    for i in range(12):  # a common cause
        fleet.take(change(f"south/pump-{i}", index=80 + i))
    for kind in ("silent", "back", "new_generation", "silent"):
        fleet.take(notice("north/boiler-5/temperature", kind))
    fleet.desk.mute("north/boiler-7/*", 3600, "oil", "ann")
    fleet.desk.name("north/boiler-1/temperature", 0, 80, "full load", "ann")
    fleet.desk.acknowledge(change("north/boiler-1/temperature").id, "us", "ann")
    return fleet


def violations(page):
    found = Axe().run(page).response["violations"]
    return [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(serve, open_page, picture, scheme):
    port = serve(busy_fleet())
    page = open_page(port, color_scheme=scheme, reduced_motion="reduce")
    expect(rows(page)).to_have_count(12)
    expect(page.locator(".incident")).to_have_count(1)
    page.locator(".incident summary").click()
    picture(page, f"fleet-{scheme}")
    assert violations(page) == []
    page.goto(f"http://127.0.0.1:{port}/{sensor_place('north/boiler-1/temperature')}")
    expect(page.locator(".plot .mean")).to_have_count(2)
    expect(page.locator(".facts dd").first).to_contain_text("full load")
    picture(page, f"sensor-{scheme}")
    assert violations(page) == []
    page.get_by_role("button", name="Mute…").click()
    picture(page, f"dialog-{scheme}")
    assert violations(page) == []


def test_it_is_usable_by_keyboard_alone(serve, open_page):
    port = serve(busy_fleet())
    page = open_page(port)
    expect(rows(page)).to_have_count(12)
    page.keyboard.press("/")
    page.keyboard.type("boiler-1/")
    expect(rows(page)).to_have_count(1)
    page.locator(".sensor-link").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("north/boiler-1/temperature")
    expect(page.locator(".plot svg")).to_be_visible()
    page.locator(".plot").focus()
    page.keyboard.press("Home")
    expect(page.locator(".readout")).to_contain_text("°C  at")
    first = page.locator(".readout").inner_text()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).not_to_have_text(first)
    page.get_by_role("button", name="Mute…").press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_what_is_empty_loading_wrong_or_away_is_said(open_page, picture):
    fleet = ShownFleet()
    with shown(fleet) as port:
        page = open_page(port, expects=("503", "404", "ERR_", "Failed to load resource"))
        expect(page.locator(".empty").first).to_contain_text("No sensors yet")
        expect(page.locator(".feed")).to_be_hidden()
        picture(page, "empty")
        fleet.take(state_record("a"))
        expect(rows(page)).to_have_count(1, timeout=10_000)
        page.get_by_label("Search sensors and labels").fill("nothing like it")
        expect(page.locator(".empty").first).to_contain_text("No sensor matches")
        page.goto(f"http://127.0.0.1:{port}/{sensor_place('none')}")
        expect(page.locator(".empty").first).to_contain_text("No such sensor")
        page.route("**/v1/sensors?*", lambda route: route.fulfill(status=503, body='{"error": {"detail": "too busy"}}'))
        page.goto(f"http://127.0.0.1:{port}/#/")
        expect(page.locator(".empty").first).to_contain_text("too busy")
        page.unroute("**/v1/sensors?*")
        page.get_by_label("Search sensors and labels").fill("")
        expect(rows(page)).to_have_count(1, timeout=10_000)
    expect(page.locator("#banner")).to_contain_text("cannot be reached", timeout=10_000)
    picture(page, "away")


def test_a_sensor_may_have_any_name(serve, open_page):
    names = ["a/history", "<img src=x onerror=alert(1)>", "50% ü/?#&", "x" * 249, "a/../b"]
    fleet = ShownFleet()
    fleet.take(*(state_record(name) for name in names))
    port = serve(fleet)
    page = open_page(port)
    expect(rows(page)).to_have_count(len(names))
    for name in names:
        page.locator(f'.sensor-link[title="{name}"]').click()
        expect(page.locator("h1")).to_have_text(name)
        expect(page.locator(".plot svg")).to_be_visible()
        page.get_by_role("link", name="← Fleet").click()
        expect(rows(page)).to_have_count(len(names))


def test_the_colours_are_chosen_and_remembered(serve, open_page):
    port = serve(busy_fleet())
    page = open_page(port, color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.locator("#theme").click()
    light = page.evaluate(colour)
    assert light != dark
    page.reload()
    assert page.evaluate(colour) == light


def test_it_fits_a_phone(serve, open_page, picture):
    port = serve(busy_fleet())
    page = open_page(port, viewport={"width": 390, "height": 800})
    expect(rows(page)).to_have_count(12)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "phone-fleet")
    page.goto(f"http://127.0.0.1:{port}/{sensor_place('north/boiler-1/temperature')}")
    expect(page.locator(".plot svg")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "phone-sensor")
