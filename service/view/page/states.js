// The states that a sensor returns to: a table, what comes next, and how it goes from one to another.

import { askForName, askToMerge } from "./dialogs.js";
import { h } from "./dom.js";
import { count, number, percent, span, stateName, visitWords } from "./format.js";
import { diagram } from "./transitions.js";

const TONES = 7; // of states; the eighth is for those that the dictionary does not have

// The colour class of each state: its own for as long as the dictionary knows it.
export function tonesOf(dictionary) {
  const tones = new Map(dictionary.states.map(({ id, number: rank }) => [id, `tone-${rank % TONES}`]));
  return (id) => tones.get(id) ?? "tone-7";
}

// `changed` is called when people have changed a name or a merge.
export function makeStates(sensor, changed) {
  const outlook = h("p", { class: "outlook" });
  const table = h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Table of states" });
  const drawing = h("figure", { class: "transitions" });
  const element = h(
    "section", { class: "card states", "aria-labelledby": "dictionary-title", hidden: true },
    h("header", {}, h("h2", { id: "dictionary-title" }, "States")), outlook, h("div", { class: "states-body" }, table, drawing),
  );

  function draw(dictionary, unit) {
    element.hidden = !dictionary;
    if (!dictionary) return;
    const toneOf = tonesOf(dictionary);
    outlook.replaceChildren(...sentences(dictionary));
    const heads = [["State"], ["Level", "number"], ["Noise", "number"], ["Usual visit", "number"], ["Share", "number"], ["Visits", "number"], ["Last seen"], [""]];
    const head = heads.map(([words, kind]) => h("th", { scope: "col", class: kind }, words || h("span", { class: "visually-hidden" }, "Merge")));
    const rows = dictionary.states.map((state) => row(state, dictionary, toneOf(state.id), unit));
    table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
    drawing.replaceChildren(h("figcaption", {}, "Transitions"), diagram(dictionary, toneOf));
  }

  function row(state, dictionary, tone, unit) {
    const marks = [state.id === dictionary.state && "now", state.new && "new", state.retired && "retired",
      state.merged.length > 0 && `with ${state.merged.map((id) => `#${id}`).join(", ")}`].filter(Boolean);
    const words = stateName(state);
    const rename = async () => {
      if (await askForName(sensor, dictionary.generation, state.id, state.name)) changed();
    };
    const merge = async () => {
      if (await askToMerge(sensor, dictionary, state)) changed();
    };
    const canMerge = state.merged.length > 0 || dictionary.states.length > 1;
    return h(
      "tr", { class: state.retired ? "retired" : null },
      h("td", {}, h("button", { type: "button", class: "plain small state-name", title: `Name this state (#${state.id})`, onclick: rename },
        h("span", { class: `swatch toned ${tone}` }), words), marks.map((mark) => [" ", h("span", { class: `chip${mark === "new" ? " is-new" : ""}` }, mark)]).flat()),
      h("td", { class: "number" }, state.level === null ? "–" : number(state.level, state.noise) + unit), h("td", { class: "number" }, number(state.noise, state.noise)),
      h("td", { class: "number", title: visitWords(state.dwell, null) }, visitWords(state.dwell, dictionary.interval_s)),
      h("td", { class: "number" }, state.share === null ? "–" : percent(state.share)), h("td", { class: "number" }, count(state.visits)),
      h("td", {}, lastSeen(state, dictionary)),
      h("td", {}, canMerge && h("button", { type: "button", class: "small", "aria-label": `Merge state ${words}`, onclick: merge }, "Merge…")),
    );
  }

  return { element, draw };
}

function lastSeen(state, { index, interval_s: interval }) {
  const back = index - state.last_seen;
  if (back <= 0) return "now";
  return interval ? `${span(back * interval)} ago` : `${count(back)} readings ago`;
}

function readingsWords(readings, interval) {
  const whole = Math.max(1, Math.round(readings));
  const words = `${count(whole)} more reading${whole === 1 ? "" : "s"}`;
  return interval ? `${words} (${span(readings * interval)})` : words;
}

// What the sensor is in, how long that will last, and what comes after it.
function sentences(dictionary) {
  const { state: id, novelty, next, remaining, interval_s: interval } = dictionary;
  if (id === null) return ["The current state is not known."];
  const state = dictionary.states.find((one) => one.id === id) ?? { id, name: null };
  const parts = ["Now in ", h("b", {}, stateName(state)), "."];
  if (novelty !== null) parts.push(` New: ${percent(novelty)}.`);
  if (remaining !== null) parts.push(` Expected to stay for ${readingsWords(remaining, interval)}.`);
  const likely = next.filter(({ probability }) => probability >= 0.01).slice(0, 3);
  if (likely.length) {
    parts.push(` Next: ${likely.map((one) => `${one.id === null ? "a new state" : stateName(one)} ${percent(one.probability)}`).join(", ")}.`);
  }
  return parts;
}
