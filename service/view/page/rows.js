// A row of the fleet's table: made once, changed where something has changed.

import { h, s, setClass, setText } from "./dom.js";
import { ago, number, parts, percent, stateName, unitOf } from "./format.js";
import { spark } from "./spark.js";

const LIKELY = 0.5;
const SURE = 0.95;

export const COLUMNS = [
  ["sensor", "Sensor"],
  ["trend", "Trend"],
  ["level number", "Level ± noise"],
  ["now", "Changing now"],
  ["last", "Last change"],
];

export function addressOf(sensor) {
  return `#/sensor/${encodeURIComponent(sensor)}`;
}

export function makeRow(sensor) {
  const [path, own] = parts(sensor);
  const link = h("a", { class: "sensor-link", href: addressOf(sensor), title: sensor }, h("span", { class: "quiet" }, path), own);
  const marks = h("span", { class: "marks" });
  const line = spark();
  const level = h("td", { class: "number" });
  const fill = s("rect", { class: "fill", height: 6, rx: 3 });
  const meter = h(
    "div", { class: "meter" },
    s("svg", { viewBox: "0 0 52 6", "aria-hidden": "true" }, s("rect", { class: "track", width: 52, height: 6, rx: 3 }), fill),
    h("span", {}),
  );
  const status = h("span", {});
  const summary = h("span", {});
  const when = h("span", {});
  const last = h("div", { class: "last-change" }, summary, h("small", {}, status, when));
  const element = h(
    "tr", {}, h("td", {}, h("div", { class: "who" }, link, marks)), h("td", {}, line.drawing), level, h("td", {}, meter), h("td", {}, last),
  );
  element.addEventListener("click", (event) => {
    if (!event.target.closest("a, button")) location.hash = addressOf(sensor);
  });

  let entry = null;
  function show(next) {
    entry = next;
    line.draw(entry.spark);
    setText(level, entry.level === null ? "–" : `${number(entry.level, entry.noise)} ± ${number(entry.noise, entry.noise)}${unitOf(entry.labels)}`);
    const probability = entry.change_probability ?? 0;
    setClass(meter, `meter${probability >= SURE ? " sure" : probability >= LIKELY ? " likely" : ""}`);
    fill.setAttribute("width", (52 * probability).toFixed(1));
    setText(meter.lastChild, percent(entry.change_probability));
    const chips = [
      entry.state?.name && stateName(entry.state), entry.is_silent && "silent", entry.muted_until && "muted",
      entry.labels.critical === true && "critical",
    ].filter(Boolean);
    if (marks.dataset.shown !== chips.join()) {
      marks.dataset.shown = chips.join();
      marks.replaceChildren(...chips.map((text) => h("span", { class: "chip" }, text)));
    }
    const change = entry.change;
    setClass(status, change ? `status ${change.status}` : "");
    setText(status, change ? change.status : "");
    setText(summary, change ? change.summary : "none seen");
    setClass(summary, change ? "" : "quiet");
    last.title = change ? change.summary : "";
    tick();
  }
  // What the clock alone changes.
  function tick() {
    const change = entry?.change;
    setText(when, change ? [
      "", change.time && ago(Date.parse(change.time)), percent(change.probability),
      change.acknowledged && `seen${change.acknowledged.by ? ` by ${change.acknowledged.by}` : ""}`,
    ].filter((part) => part !== null && part !== false).join(" · ") : "");
  }
  return { element, show, tick };
}
