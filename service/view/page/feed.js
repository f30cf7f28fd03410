// Alarms and changes, the latest message about each on top.

import { api } from "./api.js";
import { askToAcknowledge } from "./dialogs.js";
import { h, onceAFrame } from "./dom.js";
import { clock, frequencyWords, percent, reasonWords, seenWords, span, statusWords, unitOf } from "./format.js";
import { addressOf } from "./rows.js";

const MOST = 60;

// The choice stays while people look at a sensor.
let alarmsOnly = false;

export function makeFeed() {
  let shown = [];
  let isNew = new Set();
  let items = new Map(); // what is drawn: an item that says the same stays
  const list = h("ol", { class: "feed", tabindex: 0, "aria-label": "Events" });
  const message = h("p", { class: "empty", role: "status" }, "Loading events…");
  const choices = [["All", false], ["Alarms only", true]].map(([words, value]) => {
    const button = h("button", { type: "button", class: "small", onclick: () => choose(value) }, words);
    return { value, button };
  });
  const toggle = h("div", { class: "choices", role: "group", "aria-label": "Events to show" }, choices.map(({ button }) => button));
  const element = h("section", { class: "card", "aria-labelledby": "feed-title" }, h("header", {}, h("h2", { id: "feed-title" }, "Events"), toggle), message, list);

  function showChoice() {
    for (const { value, button } of choices) button.setAttribute("aria-pressed", String(value === alarmsOnly));
  }
  function choose(value) {
    alarmsOnly = value;
    showChoice();
    load();
  }
  showChoice();

  // A change or an alarm has one place, however many messages there are about it.
  const keyOf = ({ event }) => event.id ?? `${event.sensor} ${event.kind} ${event.time}`;

  const draw = onceAFrame(() => {
    message.textContent = alarmsOnly ? "No alarms yet." : "No events yet. Alarms and changes appear here.";
    message.hidden = shown.length > 0;
    list.hidden = !shown.length;
    const kept = new Map();
    shown.forEach((found, i) => {
      const key = keyOf(found);
      const said = JSON.stringify(found);
      const before = items.get(key);
      const element = before?.said === said ? before.element : item(found);
      if (before && before.element !== element) before.element.remove();
      kept.set(key, { said, element });
      if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
    });
    for (const [key, { element }] of items) if (!kept.has(key)) element.remove();
    items = kept;
    isNew = new Set();
  });

  function item(found) {
    const { event, acknowledged, is_muted: isMuted } = found;
    const { heading, status, words, remarks, about } = DESCRIBE[event.type](found);
    const at = Date.parse(timeOf(found));
    return h(
      "li", { class: `${event.type} ${status}${isNew.has(keyOf(found)) ? " fresh" : ""}` },
      h("div", { class: "line" }, h("span", { class: `status ${status}` }, heading), h("time", { datetime: new Date(at).toISOString() }, clock(at))),
      h("a", { class: "who-link", href: addressOf(event.sensor) }, event.sensor),
      h("div", { class: "what" }, words),
      about && h("div", { class: "foot" }, h("span", {}, [...remarks, isMuted && "muted"].filter(Boolean).join(" · ")), foot(about, acknowledged)),
    );
  }

  function foot(event, acknowledged) {
    if (acknowledged) return h("span", {}, seenWords(acknowledged));
    if (event.status === "retracted") return null;
    return h("button", {
      type: "button", class: "plain small", "aria-label": `Acknowledge ${event.summary} of ${event.sensor}`,
      onclick: () => askToAcknowledge(event),
    }, "Acknowledge");
  }

  // The newest message about each, the newest first. A cleared alarm keeps its raise, which has the reasons. That a
  // sensor went to a state that it knows is no news.
  function latestOf(newestFirst) {
    const latest = new Map();
    for (const found of newestFirst) {
      if (found.event.status === "entered") continue;
      const key = keyOf(found);
      const newer = latest.get(key);
      if (!newer) latest.set(key, found);
      else if (newer.event.status === "cleared" && !newer.raise) latest.set(key, { ...newer, raise: found.raise ?? found.event });
    }
    return [...latest.values()].slice(0, MOST);
  }

  async function load() {
    const wanted = alarmsOnly;
    try {
      const answers = await Promise.all((wanted ? ["raised", "cleared"] : [""]).map((status) => api.events(3 * MOST, status)));
      if (wanted !== alarmsOnly) return;
      shown = latestOf(answers.flatMap(({ events }) => events).sort((one, other) => other.seq - one.seq));
      draw();
    } catch (error) {
      message.textContent = `Cannot load the events: ${error.message}`;
      message.hidden = false;
    }
  }

  return {
    element,
    load,
    add(events) {
      const wanted = events.filter(({ event }) => !alarmsOnly || event.type === "alarm").reverse();
      isNew = new Set([...isNew, ...wanted.map(keyOf)]);
      shown = latestOf([...wanted, ...shown]);
      draw();
    },
  };
}

function timeOf({ event, committed }) {
  return event.type === "notice" ? event.time : (event.at.time ?? committed);
}

// What an item says of a message. `about` is what people acknowledge.
const DESCRIBE = {
  alarm({ event, raise }) {
    const isOpen = event.status === "raised";
    const alarm = isOpen ? event : (raise ?? event);
    const lasted = raise && Date.parse(event.at.time) - Date.parse(raise.at.time);
    return {
      heading: isOpen ? "Alarm" : "Alarm cleared", status: event.status,
      words: isOpen || raise ? reasonWords(alarm) : event.summary,
      remarks: [isOpen || raise ? frequencyWords(alarm) : "", lasted > 0 && `lasted ${span(lasted / 1000)}`], about: alarm,
    };
  },
  change({ event }) {
    const hasUnit = event.summary.includes("->") && !event.summary.includes(",");
    return {
      heading: statusWords(event.status), status: event.status, words: event.summary + (hasUnit ? unitOf(event.labels) : ""),
      remarks: [percent(event.probability)], about: event,
    };
  },
  state_event: ({ event }) => ({ heading: statusWords(event.status), status: event.status, words: event.summary, remarks: [] }),
  notice: ({ event }) => ({ heading: statusWords(event.kind), status: event.kind, words: event.why }),
};
