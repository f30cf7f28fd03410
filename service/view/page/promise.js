// Alarms raised against alarms that the budgets promise, by rule.

import { api } from "./api.js";
import { h, onceAFrame } from "./dom.js";
import { count } from "./format.js";

const SPANS = [["hour", "1 hour"], ["day", "1 day"], ["week", "7 days"]];
// Milliseconds between two questions while nothing is raised.
const EVERY = 30000;

export function makePromise() {
  let rules = [];
  const body = h("tbody", {});
  const table = h(
    "table", { class: "promise" },
    h("caption", { class: "quiet" }, "Alarms raised / promised by the budgets. Below, raised per sensor and week."),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rule"), SPANS.map(([, words]) => h("th", { class: "number", scope: "col" }, words)))),
    body,
  );
  const element = h(
    "section", { class: "card", "aria-labelledby": "promise-title", hidden: true },
    h("header", {}, h("h2", { id: "promise-title" }, "Alarms: delivered / promised")),
    h("div", { class: "promise-box", tabindex: 0, role: "region", "aria-label": "Table of delivered and promised alarms" }, table),
  );

  const draw = onceAFrame(() => {
    element.hidden = !rules.length;
    body.replaceChildren(...rules.map((found) => h(
      "tr", {},
      h("th", { class: "two-lines", scope: "row", title: found.rule }, h("span", {}, found.rule === "*" && rules.length === 1 ? "all sensors" : found.rule), h("small", {}, found.budget)),
      SPANS.map(([name]) => cell(found.spans[name])),
    )));
  });

  function cell({ raised, promised, raised_per_week: perWeek, promised_per_week: allowed }) {
    const words = perWeek === null ? "nothing was read" : `${few(perWeek)} alarms per sensor and week, ${few(allowed)} promised`;
    return h("td", { class: "number two-lines", title: words }, h("span", {}, `${count(raised)} / ${few(promised)}`), h("small", {}, perWeek === null ? "–" : few(perWeek)));
  }

  async function load() {
    try {
      ({ rules } = await api.promise());
      draw();
    } catch {
      // the table of sensors says what is wrong
    }
  }

  const timer = setInterval(() => document.hidden || load(), EVERY);
  return {
    element,
    load,
    add(events) {
      if (events.some(({ event }) => event.status === "raised")) load();
    },
    close: () => clearInterval(timer),
  };
}

// Two digits are enough to compare by.
function few(value) {
  if (value >= 10) return count(Math.round(value));
  return value > 0 && value < 0.01 ? "< 0.01" : String(Number(value.toPrecision(2)));
}
