// What was found, the last word about each change on top.

import { api } from "./api.js";
import { askToAcknowledge } from "./dialogs.js";
import { h, onceAFrame } from "./dom.js";
import { clock, percent, statusWords, unitOf } from "./format.js";
import { addressOf } from "./rows.js";

const MOST = 60;

export function makeFeed() {
  let shown = [];
  let isNew = new Set();
  let items = new Map(); // what is drawn: an item that says the same stays
  const list = h("ol", { class: "feed", tabindex: 0, "aria-label": "Events" });
  const message = h("p", { class: "empty", role: "status" }, "Loading events…");
  const element = h("section", { class: "card", "aria-labelledby": "feed-title" }, h("header", {}, h("h2", { id: "feed-title" }, "Events")), message, list);

  // A change has one place, however often it is spoken of.
  const keyOf = ({ event }) => event.id ?? `${event.sensor} ${event.kind} ${event.time}`;

  const draw = onceAFrame(() => {
    message.textContent = "Nothing has been found yet. Changes appear here as they are found.";
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
    const isChange = event.type === "change";
    const status = isChange ? event.status : event.kind;
    const words = isChange ? event.summary + (event.summary.includes("->") && !event.summary.includes(",") ? unitOf(event.labels) : "") : event.why;
    const remarks = [percent(event.probability), isMuted && "muted"].filter(Boolean).join(" · ");
    const at = Date.parse(isChange ? (event.at.time ?? found.committed) : event.time);
    return h(
      "li", { class: isNew.has(keyOf(found)) ? "fresh" : null },
      h("div", { class: "line" }, h("span", { class: `status ${status}` }, statusWords(status)), h("time", { datetime: new Date(at).toISOString() }, clock(at))),
      h("div", { class: "what" }, h("a", { href: addressOf(event.sensor) }, event.sensor), h("br"), words),
      isChange && h("div", { class: "foot" }, h("span", {}, remarks), foot(event, acknowledged)),
    );
  }

  function foot(event, acknowledged) {
    if (acknowledged) {
      const words = `seen${acknowledged.by ? ` by ${acknowledged.by}` : ""}${acknowledged.note ? `: ${acknowledged.note}` : ""}`;
      return h("span", {}, words);
    }
    if (event.status === "retracted") return null;
    return h("button", {
      type: "button", class: "plain small", "aria-label": `Acknowledge ${event.summary} of ${event.sensor}`,
      onclick: () => askToAcknowledge(event),
    }, "Acknowledge");
  }

  function put(found) {
    const known = new Set(found.map(keyOf));
    shown = [...found, ...shown.filter((one) => !known.has(keyOf(one)))].slice(0, MOST);
  }

  return {
    element,
    async load() {
      try {
        const { events } = await api.events(3 * MOST);
        const latest = new Map();
        for (const found of events) if (!latest.has(keyOf(found))) latest.set(keyOf(found), found);
        shown = [...latest.values()].slice(0, MOST);
        draw();
      } catch (error) {
        message.textContent = `The events cannot be shown: ${error.message}`;
      }
    },
    add(events) {
      const latest = new Map();
      for (const found of [...events].reverse()) if (!latest.has(keyOf(found))) latest.set(keyOf(found), found);
      isNew = new Set([...isNew, ...latest.keys()]);
      put([...latest.values()]);
      draw();
    },
  };
}
