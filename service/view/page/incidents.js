// Sensors of a group that changed together: one thing to look at in place of many.

import { api } from "./api.js";
import { h, onceAFrame } from "./dom.js";
import { ago, clock, count, percent, span } from "./format.js";
import { addressOf } from "./rows.js";

const MOST = 10;
const MOST_MEMBERS = 30;

export function makeIncidents() {
  const known = new Map();
  const opened = new Set(); // by somebody, on the page
  const list = h("div", {});
  const element = h("section", { class: "card", "aria-labelledby": "incidents-title", hidden: true }, h("header", {}, h("h2", { id: "incidents-title" }, "Incidents")), list);

  const draw = onceAFrame(() => {
    const shown = [...known.values()]
      .filter((incident) => incident.status !== "retracted")
      .sort((one, other) => Date.parse(other.opened) - Date.parse(one.opened))
      .slice(0, MOST);
    element.hidden = !shown.length;
    list.replaceChildren(...shown.map(item));
  });

  function item(incident) {
    const { members } = incident;
    const began = Date.parse(incident.opened);
    const details = h(
      "details", { class: "incident", open: opened.has(incident.id) },
      h("summary", {}, h("span", { class: `status ${incident.status}` }, incident.group || "fleet"),
        h("span", { class: "quiet" }, `${count(incident.sensors)} sensors · ${ago(began)}`)),
      h("p", { class: "quiet" }, `${incident.summary}, from ${clock(began)} on:`),
      h("ol", {}, members.slice(0, MOST_MEMBERS).map((member) =>
        h("li", {}, h("a", { href: addressOf(member.sensor) }, member.sensor),
          h("span", { class: "quiet" }, `+ ${span((Date.parse(member.onset) - began) / 1000)} · ${percent(member.probability)}`)))),
      incident.sensors > MOST_MEMBERS && h("p", { class: "quiet" }, `and ${count(incident.sensors - MOST_MEMBERS)} more`),
    );
    details.addEventListener("toggle", () => {
      if (details.open) opened.add(incident.id);
      else opened.delete(incident.id);
    });
    return details;
  }

  function add(incidents) {
    for (const incident of incidents) known.set(incident.id, incident);
    draw();
  }

  return {
    element,
    add,
    async load() {
      try {
        const { incidents } = await api.incidents();
        known.clear();
        add(incidents);
      } catch {
        // the table says what is wrong
      }
    },
  };
}
