// A row of the fleet's table: made once, changed where something has changed.

import { h, s, setClass, setText } from "./dom.js";
import { ago, clock, frequencyWords, learningWords, number, parts, percent, rarityWords, reasonWords, seenWords, span, stateName, unitOf } from "./format.js";
import { spark } from "./spark.js";

// A return period in readings. A large fleet always has some sensors below it.
const NOTABLE = 1000;

export const COLUMNS = [
  ["sensor", "Sensor"],
  ["unusual", "Unusual now"],
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
  const link = h("a", { class: "sensor-link", href: addressOf(sensor), title: sensor }, path && h("span", { class: "path" }, path), own);
  const marks = h("span", { class: "marks" });
  const unusual = h("span", {});
  const unusualMore = h("small", {});
  const alert = h("div", { class: "two-lines" }, unusual, unusualMore);
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
  const last = h("div", { class: "two-lines quiet" }, summary, h("small", {}, status, when));
  const element = h(
    "tr", {}, h("td", {}, h("div", { class: "who" }, link, marks)), h("td", {}, alert), h("td", {}, line.drawing), level, h("td", {}, meter), h("td", {}, last),
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
    last.title = change ? change.summary : "";
    const { alarm } = entry;
    setClass(element, alarm ? "has-alarm" : "");
    const words = alarm ? reasonWords(alarm) : entry.learning > 0 ? "learning" : rarityWords(entry.return_period);
    setClass(unusual, alarm ? "status raised" : entry.learning > 0 || !(entry.return_period >= NOTABLE) ? "quiet" : "");
    setText(unusual, words);
    alert.title = alarm ? `${alarm.summary}${alarm.time ? `, since ${clock(Date.parse(alarm.time))}` : ""}` : "";
    tick();
  }
  // What the clock alone changes.
  function tick() {
    const change = entry?.change;
    setText(when, change ? [
      "", change.time && ago(Date.parse(change.time)), percent(change.probability),
      change.acknowledged && seenWords({ by: change.acknowledged.by }),
    ].filter((part) => part !== null && part !== false).join(" · ") : "");
    const alarm = entry?.alarm;
    setText(unusualMore, alarm ? [
      alarm.time && `for ${span((Date.now() - Date.parse(alarm.time)) / 1000)}`, frequencyWords(alarm),
      alarm.acknowledged && seenWords({ by: alarm.acknowledged.by }),
    ].filter(Boolean).join(" · ") : entry?.learning > 0 ? learningWords(entry.learning) : "");
  }
  return { element, show, tick };
}
