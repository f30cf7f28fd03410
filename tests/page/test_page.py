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
from view_helpers import (
    ShownFleet,
    alarm,
    change,
    dictionary,
    known_state,
    notice,
    recurring,
    shown,
    state_event,
    state_record,
)

from ishsmm_stream.online.rarity import LEARNING
from service.settings import Rule, Settings
from service.settings.rules import Alarms

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
    expect(page.get_by_label("Sort by")).to_have_value("unusual")
    expect(rows(page).first).to_contain_text(f"learning200 of {LEARNING} readings")
    page.get_by_label("Sort by").select_option("changed")
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
    expect(page.locator(".facts")).to_contain_text("full load", timeout=10_000)
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
    expect(page.locator(".facts")).to_contain_text("full load", timeout=15_000)
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
    unusual = "north/boiler-1/temperature"
    fleet.take(alarm(unusual, index=20, reasons=("spike",)), alarm(unusual, index=31, status="cleared"))
    fleet.take(alarm(unusual, 1, index=84), alarm("north/boiler-9/temperature", index=100))
    fleet.take(state_record("north/boiler-6/temperature", index=120, since=80, learning=240))
    fleet.take(state_record("north/boiler-8/temperature", index=120, since=80, return_period=412.0))
    fleet.operations.acknowledge(alarm("north/boiler-9/temperature").id, "on it", "ann")
    fleet.operations.mute("north/boiler-7/*", 3600, "oil", "ann")
    fleet.operations.name("north/boiler-1/temperature", 0, 80, "full load", "ann")
    fleet.operations.acknowledge(change("north/boiler-1/temperature").id, "us", "ann")
    return fleet


ALARM_COLOUR = "rgb(179, 38, 30)"
CLEARED_COLOUR = "rgb(26, 116, 66)"


def painted(page, colour):
    """What has a colour, as text, line or area: the classes of the elements."""
    return page.evaluate(
        """colour => [...document.querySelectorAll("body *")].filter((element) => {
            const style = getComputedStyle(element);
            const used = element.closest("svg")
                ? [style.stroke, style.fill] : [style.color, style.borderTopColor, style.backgroundColor];
            return element.checkVisibility() && used.includes(colour);
        }).map((element) => element.getAttribute("class"))""",
        colour,
    )


def test_an_alarm_is_shown_everywhere_and_acknowledged(serve, open_page):
    fleet = ShownFleet()
    fleet.take(state_record("a/x", return_period=300.0), state_record("b/y"))
    page = open_page(serve(fleet), color_scheme="light")
    expect(rows(page)).to_have_count(2)
    alarms = page.locator(".stat", has_text="open alarms")
    expect(alarms).to_contain_text("0")
    assert painted(page, ALARM_COLOUR) == []
    fleet.take(alarm("b/y"))
    expect(alarms).to_contain_text("1", timeout=10_000)
    expect(alarms.locator("b")).to_have_css("color", ALARM_COLOUR)
    expect(rows(page).first).to_contain_text("b/y", timeout=10_000)
    expect(rows(page).first).to_contain_text("about once in 12 days")
    expect(rows(page).first.locator(".status")).to_have_text("unusual level")
    expect(rows(page).first.locator(".status")).to_have_css("color", ALARM_COLOUR)
    item = page.locator(".feed li")
    expect(item.locator(".status")).to_have_text("Alarm")
    expect(item.locator(".status")).to_have_css("color", ALARM_COLOUR)
    expect(item).to_contain_text("unusual level")
    assert {"status raised", "what"} <= set(painted(page, ALARM_COLOUR))
    alarms.click()
    expect(rows(page)).to_have_count(1)
    item.get_by_role("button", name="Acknowledge").click()
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(item).to_contain_text("seen by ann", timeout=10_000)
    expect(rows(page).first).to_contain_text("seen by ann", timeout=10_000)
    fleet.take(alarm("b/y", index=55, status="cleared"))
    expect(item.locator(".status")).to_have_text("Alarm cleared", timeout=10_000)
    expect(item.locator(".status")).to_have_css("color", CLEARED_COLOUR)
    expect(item).to_contain_text("unusual level")  # what it was
    expect(item).to_contain_text("lasted 15 s")
    expect(alarms).to_contain_text("0", timeout=10_000)
    expect(page.locator(".empty").first).to_contain_text("No sensor matches", timeout=10_000)


def test_promised_and_delivered_alarms_stand_side_by_side_by_rule(serve, open_page):
    rules = (Rule(match="a/*", alarms=Alarms(per_sensor="1 per day")), Rule())
    fleet = ShownFleet(Settings(rules=rules))
    fleet.take(
        state_record("a/x", promised=3.5, budget_s=86_400.0), state_record("a/y", promised=3.5, budget_s=86_400.0)
    )
    page = open_page(serve(fleet), color_scheme="light")
    promised = page.locator(".promise tbody tr")
    expect(promised).to_have_count(1)
    expect(promised.locator("th")).to_have_text("a/*1 per day")
    expect(promised.locator("td span")).to_have_text(["0 / 0.085", "0 / 2", "0 / 7"])
    fleet.take(state_record("b"), *(alarm("a/x", i) for i in range(2)))
    expect(promised).to_have_count(2, timeout=10_000)
    expect(promised.first.locator("td span")).to_have_text(["2 / 0.085", "2 / 2", "2 / 7"])
    expect(promised.first.locator("td small").last).to_have_text("2")  # per sensor-week
    expect(promised.last.locator("th")).to_have_text("*1 per week")
    colours = page.locator(".promise *").evaluate_all("all => all.map((one) => getComputedStyle(one).color)")
    assert ALARM_COLOUR not in colours


def test_the_sensor_page_marks_and_lists_alarms(serve, open_page):
    fleet = ShownFleet()
    fleet.take(state_record("a", return_period=51_234.0), alarm("a", index=20, reasons=("spike", "louder")))
    fleet.take(alarm("a", index=31, status="cleared"), alarm("a", 1, index=50))
    page = open_page(serve(fleet), sensor_place("a"), color_scheme="light")
    expect(page.locator(".plot .alarm-mark")).to_have_count(2)
    expect(page.locator(".plot .alarm-line").first).to_have_css("stroke", ALARM_COLOUR)
    expect(page.locator(".plot svg")).to_have_attribute("aria-label", re.compile("2 alarms and 0 changes"))
    expect(page.locator(".facts")).to_contain_text("1 in 51,000 readings")
    section = page.get_by_role("region", name="Alarms", exact=True)
    expect(section).to_contain_text("at most one alarm in a week")
    newest, oldest = section.locator("tbody tr").all()
    expect(newest).to_contain_text("open")
    expect(newest).to_contain_text("about once in 12 days")
    expect(oldest).to_contain_text("cleared after 11 s")
    expect(oldest).to_contain_text("spike, noisier than usual")
    page.locator(".plot").focus()
    page.keyboard.press("End")
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    expect(page.locator(".readout")).to_contain_text("alarm: unusual level")
    open_alarm = page.get_by_role("region", name="Open alarm")
    expect(open_alarm).to_contain_text("unusual level")
    open_alarm.get_by_role("button", name="Acknowledge").press("Enter")
    page.get_by_label("Your name").fill("ann")
    page.keyboard.press("Enter")
    expect(open_alarm).to_contain_text("seen by ann", timeout=10_000)
    expect(newest).to_contain_text("seen by ann")
    fleet.take(alarm("a", 1, index=58, status="cleared"), state_record("a", index=60))
    expect(open_alarm).to_be_hidden(timeout=10_000)
    expect(newest).to_contain_text("cleared after 8 s")


@pytest.mark.parametrize("status", ["provisional", "confirmed", "relocated"])
def test_a_change_alone_is_not_red(serve, open_page, status):
    fleet = ShownFleet()
    fleet.take(state_record("a"), state_record("a", index=119, since=80, level=26.0, probability=0.999))
    fleet.take(change("a", index=80, status=status))
    port = serve(fleet)
    page = open_page(port, color_scheme="light")
    expect(rows(page).first).to_contain_text(status)
    expect(page.locator(".feed li")).to_contain_text(status)
    assert painted(page, ALARM_COLOUR) == []
    page.goto(f"http://127.0.0.1:{port}/{sensor_place('a')}")
    expect(page.locator(".plot .knob")).to_have_count(1)
    # the chart's legend has the mark of an alarm
    assert painted(page, ALARM_COLOUR) == ["alarm-line"]


def test_the_events_can_be_alarms_only(serve, open_page):
    fleet = ShownFleet()
    fleet.take(state_record("a"), alarm("a"), *(change("a", i, index=41 + i) for i in range(200)))
    page = open_page(serve(fleet))
    expect(page.locator(".feed li")).to_have_count(60)
    expect(page.locator(".feed .alarm")).to_have_count(0)  # too long ago
    page.get_by_role("button", name="Alarms only").press("Enter")
    expect(page.locator(".feed li")).to_have_count(1)
    expect(page.locator(".feed .alarm")).to_have_count(1)
    fleet.take(change("a", 201), alarm("a", index=50, status="cleared"))
    expect(page.locator(".feed .alarm.cleared")).to_contain_text("unusual level", timeout=10_000)
    expect(page.locator(".feed li")).to_have_count(1)
    page.locator(".sensor-link").click()
    page.get_by_role("link", name="← Fleet").click()
    expect(page.get_by_role("button", name="Alarms only")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".feed li")).to_have_count(1)
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.locator(".feed .change")).not_to_have_count(0)


def test_how_unusual_a_sensor_is_stands_in_words(serve, open_page):
    periods = {None: "usual", 99.0: "usual", 412.0: "1 in 410 readings", 51_234.0: "1 in 51,000 readings"}
    periods |= {2.34e6: "1 in 2.3 million readings", 4e12: "rarer than 1 in a billion"}
    fleet = ShownFleet()
    for i, period in enumerate(periods):
        fleet.take(state_record(f"s{i}", return_period=period))
    fleet.take(state_record("t", learning=LEARNING - 260))
    page = open_page(serve(fleet))
    page.get_by_label("Sort by").select_option("name")
    expect(rows(page)).to_have_count(len(periods) + 1)
    for row, words in zip(rows(page).all(), [*periods.values(), f"learning260 of {LEARNING} readings"], strict=True):
        expect(row.locator("td").nth(1)).to_have_text(words)


# States that return


def returning_fleet():
    """A sensor with a dictionary, and one without."""
    fleet = ShownFleet(Settings(rules=(Rule(match="m/*", model="recurring", state_names={"40": "full load"}), Rule())))
    for first, state, level in ((0, 0, 2.0), (40, 40, 20.0), (60, 0, 2.0), (120, 40, 20.0), (140, 0, 2.0)):
        fleet.take(recurring("m/1", first + 19, since=first, state=state, level=level, visits=2, labels=KILOWATTS))
    fleet.take(recurring("m/1", labels=KILOWATTS), dictionary("m/1"), state_record("plain"))
    fleet.take(*(state_event("m/1", status=status, index=i) for i, status in enumerate(STATE_NEWS)))
    return fleet


KILOWATTS = {"unit": "kW"}
STATE_NEWS = ("entered", "new_state", "spike")


def states_of(page):
    """The rows of the dictionary, as the texts of their cells."""
    return [row.locator("td").all_inner_texts() for row in page.locator(".states tbody tr").all()]


def test_the_states_of_a_sensor_are_listed_with_what_comes_next(serve, open_page):
    page = open_page(serve(returning_fleet()), sensor_place("m/1"))
    section = page.get_by_role("region", name="States", exact=True)
    expect(section.locator("tbody tr")).to_have_count(3)
    assert [" ".join(cell.split()) for cell in states_of(page)[0]] == [
        "#0", "2.0 kW", "1.0", "8.2\u201314 min", "60.0 %", "4", "21 min ago", "Merge…",
    ]  # fmt: skip
    assert states_of(page)[2][0].split() == ["#70", "now", "new"]
    expect(section.locator("td").nth(3)).to_have_attribute("title", "8\u201314 readings")
    expect(section.locator(".outlook")).to_have_text(
        "Now in #70. New: 25.0 %. Expected to stay for 12 more readings (12 min). "
        "Next: #0 60.0 %, full load 30.0 %, a new state 10.0 %."
    )
    drawing = section.get_by_role("img", name=re.compile("Transitions between 3 states. Most frequent: "))
    expect(drawing).to_have_attribute("aria-label", re.compile("#0 to full load 2 times; full load to #0 2 times"))
    expect(drawing.locator("circle")).to_have_count(3)
    expect(drawing.locator(".arrow")).to_have_count(4)
    expect(page.get_by_role("heading", name="States", exact=True)).to_have_count(1)
    page.get_by_role("link", name="← Fleet").click()
    page.locator('.sensor-link[title="plain"]').click()
    expect(page.locator(".plot svg")).to_be_visible()
    expect(page.locator(".states")).to_be_hidden()
    expect(page.get_by_role("heading", name="States", exact=True)).to_have_count(1)


def colours_of(page):
    """Of the swatches in the table, by name."""
    shown = (
        "all => Object.fromEntries(all.map((one) => [one.innerText, getComputedStyle(one.firstChild).backgroundColor]))"
    )
    return page.locator(".states .state-name").evaluate_all(shown)


def test_people_name_and_merge_states_and_undo_it(serve, open_page):
    page = open_page(serve(returning_fleet()), sensor_place("m/1"))
    rows_of = page.locator(".states tbody tr")
    expect(rows_of).to_have_count(3)
    colours = colours_of(page)
    assert len(set(colours.values())) == 3
    ribbon = page.locator(".plot rect[rx]")
    expect(ribbon).to_have_count(6)
    page.locator(".state-name", has_text="#0").click()
    page.get_by_label("Name", exact=True).fill("idle")
    page.get_by_role("button", name="Save").press("Enter")
    expect(rows_of.first).to_contain_text("idle", timeout=10_000)
    page.get_by_role("button", name="Merge state #70").click()
    page.get_by_label("Do").select_option(label="Show as full load")
    page.get_by_role("button", name="Save").click()
    expect(rows_of).to_have_count(2, timeout=10_000)
    expect(rows_of.nth(1)).to_contain_text("with #70")
    expect(page.locator(".facts")).to_contain_text("full load")
    expect(page.locator(".states .outlook")).to_contain_text("Now in full load.")
    assert colours_of(page) == {"idle": colours["#0"], "full load": colours["full load"]}
    page.get_by_role("button", name="Merge state idle").click()
    page.get_by_label("Do").select_option(label="Show as full load")
    page.get_by_role("button", name="Save").click()
    expect(rows_of).to_have_count(1, timeout=10_000)
    expect(ribbon).to_have_count(1)  # stretches in one state are one
    expect(page.locator(".transitions")).to_contain_text("No transitions yet.")
    page.get_by_role("button", name="Merge state full load").click()
    page.get_by_label("Do").select_option(label="Show #70 as itself again")
    page.get_by_role("button", name="Save").click()
    expect(rows_of).to_have_count(2, timeout=10_000)
    assert colours_of(page) == {"#70": colours["#70"], "full load": colours["full load"]}


def test_a_retired_state_is_listed_and_many_states_are_drawn_as_ten_and_others(serve, open_page):
    fleet = ShownFleet()
    states = [known_state(i, float(i), 2, 200 - i, 100 + i) for i in range(14)]
    transitions = [[i, (i + 1) % 14, 5] for i in range(14)] + [[0, 12, 3]]
    fleet.take(recurring("a", state=13, visits=2), dictionary("a", states=states, transitions=transitions))
    fleet.operations.name("a", 0, 3, "cleaning", "ann")
    fleet.take(dictionary("a", states=states[:3] + states[4:], transitions=transitions))
    page = open_page(serve(fleet), sensor_place("a"))
    retired = page.locator(".states tr.retired")
    expect(retired).to_have_count(1)
    expect(retired).to_contain_text("cleaning")
    expect(retired).to_contain_text("retired")
    expect(page.locator(".transitions circle")).to_have_count(11)
    expect(page.locator(".transitions text").last).to_have_text("other")


def test_news_about_states_is_among_the_events_and_visits_to_known_states_are_not(serve, open_page, picture):
    page = open_page(serve(returning_fleet()))
    expect(page.locator(".feed li")).to_have_count(2)
    expect(page.locator(".feed .status")).to_have_text(["spike", "new state"])
    expect(page.locator(".feed li").last).to_contain_text("new state 40, level 20")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 400)])
def test_everybody_can_use_the_dictionary(serve, open_page, picture, scheme, width):
    viewport = {"width": width, "height": 900}
    page = open_page(serve(returning_fleet()), sensor_place("m/1"), color_scheme=scheme, viewport=viewport)
    expect(page.locator(".states tbody tr")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    picture(page, f"states-{scheme}-{width}")
    assert violations(page) == []
    page.get_by_role("button", name="Merge state #0").press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []


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
    expect(page.locator(".has-alarm")).to_have_count(2)
    picture(page, f"fleet-{scheme}")
    assert violations(page) == []
    page.goto(f"http://127.0.0.1:{port}/{sensor_place('north/boiler-1/temperature')}")
    expect(page.locator(".plot .mean")).to_have_count(2)
    expect(page.locator(".facts")).to_contain_text("full load")
    expect(page.locator(".plot .alarm-mark")).to_have_count(2)
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
