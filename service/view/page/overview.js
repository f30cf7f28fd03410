// The fleet: numbers, a table in pages, the feed and the incidents.

import { api } from "./api.js";
import { h, onceAFrame, setText } from "./dom.js";
import { makeFeed } from "./feed.js";
import { count } from "./format.js";
import { makeIncidents } from "./incidents.js";
import { makePromise } from "./promise.js";
import { COLUMNS, makeRow } from "./rows.js";

const ON_A_PAGE = 30;
// Milliseconds: how often the order is looked at again, and how long typing has to pause.
const REORDER_EVERY = 2000;
const TYPING = 200;

const SORTS = [["unusual", "Most unusual now"], ["changed", "Latest change"], ["probability", "Changing now"], ["name", "Name"]];

const ONLY = [["", "All"], ["alarm", "Open alarms"], ["changed", "Changed in the last hour"], ["silent", "Silent"], ["muted", "Muted"]];

// What was looked for stays while people look at a sensor.
const asked = { search: "", sort: "unusual", only: "", offset: 0 };

export function makeOverview() {
  const rows = new Map();
  const fresh = new Map();
  const feed = makeFeed();
  const incidents = makeIncidents();
  const promise = makePromise();
  let isOver = false;
  let isAsking = false;
  let mustAsk = true;
  let shownAt = 0;

  // Numbers

  const stats = [
    makeStat("sensors", "sensors", ""),
    makeStat("alarms", "open alarms", "alarm"),
    makeStat("changed", "changed in the last hour", "changed"),
    makeStat("silent", "silent", "silent"),
    makeStat("incidents", "open incidents", null),
  ];
  function makeStat(key, words, only) {
    const value = h("b", {}, "–");
    const element = h(only === null ? "div" : "button", { class: "stat", type: only === null ? null : "button" }, value, h("span", {}, words));
    if (only !== null) element.addEventListener("click", () => look({ only }));
    return { key, only, value, element };
  }
  function showCounts(counts) {
    for (const { key, value, element } of stats) {
      setText(value, count(counts[key]));
      element.classList.toggle("alarming", key === "alarms" && counts[key] > 0);
      element.classList.toggle("incident-open", key === "incidents" && counts[key] > 0);
      element.classList.toggle("absent", key === "silent" && counts[key] > 0);
    }
  }

  // The table

  const search = h("input", { type: "search", placeholder: "Search sensors and labels  ( / )", "aria-label": "Search sensors and labels", value: asked.search });
  const sort = h("select", {}, SORTS.map(([value, words]) => h("option", { value }, words)));
  sort.value = asked.sort;
  const only = h("select", {}, ONLY.map(([value, words]) => h("option", { value }, words)));
  const body = h("tbody", {});
  const table = h(
    "table", { class: "fleet-table" }, h("caption", { class: "visually-hidden" }, "Sensors"),
    h("thead", {}, h("tr", {}, COLUMNS.map(([kind, words]) => h("th", { class: kind, scope: "col" }, words)))), body,
  );
  const message = h("div", { class: "empty", role: "status" }, "Loading sensors…");
  const position = h("span", { role: "status" });
  const previous = h("button", { type: "button", class: "small", onclick: () => look({ offset: Math.max(0, asked.offset - ON_A_PAGE) }) }, "Previous");
  const next = h("button", { type: "button", class: "small", onclick: () => look({ offset: asked.offset + ON_A_PAGE }) }, "Next");
  const pager = h("nav", { class: "pager", "aria-label": "Pages of sensors", hidden: true }, position, h("div", {}, previous, next));
  const box = h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Table of sensors", hidden: true }, table);

  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => look({ search: search.value }), TYPING);
  });
  sort.addEventListener("change", () => look({ sort: sort.value }));
  only.addEventListener("change", () => look({ only: only.value }));

  function look(change) {
    Object.assign(asked, { offset: 0 }, change);
    only.value = asked.only;
    for (const stat of stats) {
      if (stat.only !== null) stat.element.setAttribute("aria-pressed", String(stat.only !== "" && stat.only === asked.only));
    }
    mustAsk = true;
    refresh(true);
  }

  async function refresh(isImpatient = false) {
    if (isAsking || isOver) return;
    isAsking = true;
    mustAsk = false;
    const options = { sort: asked.sort, offset: asked.offset, limit: ON_A_PAGE };
    if (asked.search) options.search = asked.search;
    if (asked.only) options.only = asked.only;
    try {
      const found = await api.sensors(options);
      if (!isOver) showPage(found);
    } catch (error) {
      if (isImpatient || !rows.size) showMessage("The sensors cannot be shown", `${error.message}. Trying again.`);
      mustAsk = true;
    }
    shownAt = Date.now();
    isAsking = false;
    if (mustAsk && isImpatient) setTimeout(refresh, REORDER_EVERY);
  }

  function showPage({ sensors, total }) {
    const shown = new Set(sensors.map((entry) => entry.sensor));
    for (const [name, row] of rows) {
      if (!shown.has(name)) {
        row.element.remove();
        rows.delete(name);
      }
    }
    sensors.forEach((entry, i) => {
      let row = rows.get(entry.sensor);
      if (!row) rows.set(entry.sensor, (row = makeRow(entry.sensor)));
      row.show(entry);
      if (body.children[i] !== row.element) body.insertBefore(row.element, body.children[i] ?? null);
    });
    if (!total) {
      if (asked.search || asked.only) showMessage("No sensor matches", "Search for something else, or show all.");
      else showMessage("No sensors yet", "A sensor appears with its first window of readings.");
      return;
    }
    message.hidden = true;
    box.hidden = false;
    pager.hidden = total <= ON_A_PAGE;
    setText(position, `${count(asked.offset + 1)} to ${count(Math.min(total, asked.offset + ON_A_PAGE))} of ${count(total)}`);
    previous.disabled = asked.offset === 0;
    next.disabled = asked.offset + ON_A_PAGE >= total;
  }

  function showMessage(title, words) {
    message.replaceChildren(h("strong", {}, title), words);
    message.hidden = false;
    box.hidden = pager.hidden = true;
  }

  const draw = onceAFrame(() => {
    for (const [name, entry] of fresh) rows.get(name)?.show(entry);
    fresh.clear();
  });

  // Rows do not move under somebody's hand or eyes.
  const isBeingUsed = () => body.matches(":hover") || body.contains(document.activeElement);
  const timer = setInterval(() => {
    for (const row of rows.values()) row.tick();
    if (mustAsk && !isBeingUsed() && !document.hidden && Date.now() - shownAt > REORDER_EVERY) refresh();
  }, 1000);

  function onKey(event) {
    if (event.key === "/" && !event.target.closest("input, select, dialog")) {
      event.preventDefault();
      search.focus();
    }
  }
  document.addEventListener("keydown", onKey);

  const element = h(
    "div", { class: "overview" },
    h("h1", { class: "visually-hidden" }, "Fleet"),
    h("div", { class: "stats" }, stats.map((stat) => stat.element)),
    h("section", { class: "card", "aria-label": "Sensors" },
      h("div", { class: "tools" }, search, h("label", {}, "Show", only), h("label", {}, "Sort by", sort)),
      message, box, pager),
    h("div", { class: "side" }, incidents.element, promise.element, feed.element),
  );
  only.value = asked.only;

  return {
    element,
    title: "Fleet",
    resync(counts) {
      showCounts(counts);
      refresh(true);
      feed.load();
      incidents.load();
      promise.load();
    },
    update(batch) {
      showCounts(batch.counts);
      for (const entry of batch.sensors ?? []) {
        if (rows.has(entry.sensor)) fresh.set(entry.sensor, entry);
      }
      if (batch.events || batch.many || batch.said || asked.sort !== "name" || rows.size < ON_A_PAGE) mustAsk = true;
      if (batch.events) feed.add(batch.events);
      if (batch.events) promise.add(batch.events);
      if (batch.incidents) incidents.add(batch.incidents);
      if (batch.said) feed.load();
      if (batch.said) refresh();
      draw();
    },
    close() {
      isOver = true;
      clearInterval(timer);
      promise.close();
      document.removeEventListener("keydown", onKey);
    },
  };
}
