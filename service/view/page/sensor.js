// One sensor, live.

import { api } from "./api.js";
import { makeChart, toneOf } from "./chart.js";
import { askForName, askToAccept, askToAcknowledge, askToMute, askToUnmute } from "./dialogs.js";
import { h, onceAFrame, setText } from "./dom.js";
import { makeStates, tonesOf } from "./states.js";
import { ago, clock, count, frequencyWords, learningWords, number, parts, percent, rarityWords, reasonWords, seenWords, span, spanWords, stateName, unitOf } from "./format.js";

// Milliseconds between two questions about the present.
const ASK_EVERY = 2000;
const MOST_ROWS = 30;
const SWATCHES = [
  ["line", "reading", { class: "readings", x1: 0, x2: 18, y1: 5, y2: 5 }],
  ["rect", "state: mean and 90 % band", { class: "band fill-tone tone-a", width: 18, height: 10 }],
  ["line", "alarm", { class: "alarm-line", x1: 9, x2: 9, y1: 0, y2: 10 }],
  ["line", "change, where it may be", { class: "change", x1: 9, x2: 9, y1: 0, y2: 10 }],
  ["line", "forecast", { class: "forecast-line", x1: 0, x2: 18, y1: 5, y2: 5 }],
];

const several = (many, word) => `${count(many)} ${word}${many === 1 ? "" : "s"}`;

export function makeSensor(name) {
  const [path, own] = parts(name);
  const chart = makeChart();
  const chips = h("div", { class: "chips" });
  const mute = h("button", { type: "button", disabled: true }, "Mute…");
  const nameState = h("button", { type: "button", disabled: true, onclick: () => nameOf(posterior) }, "Name state…");
  const facts = h("dl", { class: "card facts" });
  const alert = h("section", { class: "card open-alarm", "aria-label": "Open alarm", hidden: true });
  const budget = h("span", { class: "quiet" });
  const alarms = h("div", {});
  const changes = h("div", {});
  const states = h("div", {});
  const statesCard = h("section", { class: "card", "aria-labelledby": "states-title" }, h("header", {}, h("h2", { id: "states-title" }, "States")), states);
  const dictionary = makeStates(name, () => load(true));
  const message = h("div", { class: "card empty", role: "status" }, "Loading…");
  const content = h(
    "div", { class: "sensor-view", hidden: true },
    alert, facts,
    h("figure", { class: "card chart" },
      h("figcaption", { class: "chart-head" }, h("h2", {}, "Readings"), h("div", { class: "legend" }, SWATCHES.map(legend))),
      chart.element),
    dictionary.element,
    h("section", { class: "card below-chart", "aria-labelledby": "alarms-title" }, h("header", {}, h("h2", { id: "alarms-title" }, "Alarms"), budget), alarms),
    h("div", { class: "below" },
      h("section", { class: "card", "aria-labelledby": "changes-title" }, h("header", {}, h("h2", { id: "changes-title" }, "Changes")), changes),
      statesCard),
  );
  const element = h(
    "div", { class: "sensor-view" },
    h("div", { class: "sensor-head" },
      h("div", {}, h("a", { class: "back-link", href: "#/" }, "← Fleet"),
        h("h1", {}, h("span", { class: "path" }, path), own), chips),
      h("div", { class: "actions" }, nameState, mute)),
    message, content,
  );
  let posterior = null;
  let history = null;
  let isOver = false;
  let isAsking = false;

  function legend([kind, words, attributes]) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const shape = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
    svg.setAttribute("aria-hidden", "true");
    svg.append(shape);
    return h("span", {}, svg, words);
  }

  async function load(withHistory) {
    if (isAsking || isOver) return;
    isAsking = true;
    try {
      if (withHistory || !history) history = await api.history(name);
      posterior = await api.sensor(name);
      draw();
    } catch (error) {
      if (error.status === 404) showMessage("No such sensor", `Nothing is known of ${name}. It appears with its first window of readings.`);
      else if (!history) showMessage("The sensor cannot be shown", `${error.message}. Trying again.`);
    }
    isAsking = false;
  }

  function showMessage(title, words) {
    if (isOver) return;
    message.replaceChildren(h("strong", {}, title), words);
    message.hidden = false;
    content.hidden = true;
  }

  const draw = onceAFrame(() => {
    if (isOver || !history || !posterior) return;
    message.hidden = true;
    content.hidden = false;
    showHead();
    showFacts();
    chart.draw(model());
    showAlarms();
    showChanges();
    statesCard.hidden = Boolean(history.dictionary);
    dictionary.draw(history.dictionary, unitOf(posterior.labels));
    if (!history.dictionary) showStates();
  });

  function showHead() {
    const labels = Object.entries(posterior.labels).map(([key, value]) => `${key}: ${value === true ? "yes" : value === false ? "no" : value}`);
    const marks = [...labels, posterior.generation ? `generation ${posterior.generation}` : "", posterior.is_silent ? "silent" : "",
      history.muted_until ? `muted until ${clock(Date.parse(history.muted_until))}` : ""];
    chips.replaceChildren(...marks.filter(Boolean).map((text) => h("span", { class: "chip" }, text)));
    mute.textContent = history.muted_until ? "Unmute…" : "Mute…";
    mute.onclick = async () => {
      if (await (history.muted_until ? askToUnmute(name) : askToMute(name))) load(true);
    };
    mute.disabled = false;
    nameState.disabled = !posterior.state;
  }

  function fact(words, value, more) {
    return h("div", {}, h("dt", {}, words), h("dd", {}, value, more ? h("small", {}, more) : null));
  }

  function showFacts() {
    const { state, run_length: run, forecast } = posterior;
    const unit = unitOf(posterior.labels);
    const segment = history.segments.at(-1);
    const [level, noise] = [segment?.levels[0], segment?.noises[0]];
    const since = segment?.since ?? (state?.since.time ? Date.parse(state.since.time) : null);
    const newest = Date.parse(posterior.time);
    const { learning } = history;
    facts.replaceChildren(
      fact("Unusual now", learning > 0 ? "learning" : rarityWords(history.return_period), learning > 0 ? learningWords(learning) : "newest reading"),
      fact("State", state ? stateName(state) : "learning", state ? `${percent(state.probability)} sure · ${count(posterior.n_states)} known` : null),
      fact("Level", level === undefined || level === null ? "–" : number(level, noise) + unit, noise ? `noise ± ${number(noise, noise)}${unit}` : null),
      fact("In this state", run ? `${count(run.median)} readings` : "–",
        run ? `90 %: ${count(run.low)} to ${count(run.high)}${since ? ` · ${span((newest - since) / 1000)}` : ""}` : null),
      fact("Changing now", percent(posterior.change_probability), "began within the last window"),
      fact("Next reading", forecast ? number(forecast.median[0][0], noise) + unit : "–",
        forecast ? `90 %: ${number(forecast.low[0][0], noise)} to ${number(forecast.high[0][0], noise)}` : null),
      fact("Newest", clock(newest), ago(newest)),
    );
  }

  function model() {
    // the present is told in more detail than the past
    const recent = posterior.recent;
    const begins = recent.length ? recent[0][0] : Infinity;
    const readings = [...history.readings.filter(([time]) => time < begins), ...recent];
    const standing = history.changes.filter(({ event }) => event.status !== "retracted");
    const unit = unitOf(posterior.labels);
    const noise = history.segments.at(-1)?.noises[0];
    const words = readings.length
      ? `Readings of ${name} from ${clock(readings[0][0])} to ${clock(readings.at(-1)[0])}, ` +
        `now ${number(readings.at(-1)[1], noise)}${unit}. ${several(history.alarms.length, "alarm")} and ${several(standing.length, "change")}, listed below.`
      : `No readings of ${name}`;
    return {
      readings, segments: history.segments, probabilities: history.probabilities, changes: standing, alarms: history.alarms,
      forecast: posterior.forecast, statesReturn: history.states_return,
      toneOfState: history.dictionary && tonesOf(history.dictionary), unit, noise, words,
    };
  }

  function acknowledgement({ event, acknowledged }) {
    if (acknowledged) return h("span", { class: "quiet" }, seenWords({ by: acknowledged.by }));
    if (event.status === "retracted") return null;
    return h("button", { type: "button", class: "small", "aria-label": `Acknowledge ${event.summary}`, onclick: async () => {
      if (await askToAcknowledge(event)) load(true);
    } }, "Acknowledge");
  }

  function showAlarms() {
    const known = [...history.alarms].reverse().slice(0, MOST_ROWS);
    const open = known.find((alarm) => alarm.is_open);
    const promise = history.budget_s;
    alert.hidden = !open;
    if (open) {
      const raised = open.event.at.time && Date.parse(open.event.at.time);
      alert.replaceChildren(
        h("div", {}, h("span", { class: "status raised" }, reasonWords(open.event)),
          h("span", { class: "quiet" }, [frequencyWords(open.event), raised && `since ${clock(raised)}`].filter(Boolean).join(" · "))),
        h("span", { class: "actions" }, acknowledgement(open),
          h("button", { type: "button", class: "small", onclick: async () => {
            if (await askToAccept(name)) load(true);
          } }, "Accept as usual")),
      );
    }
    setText(budget, promise ? `Budget: at most one alarm in ${spanWords(promise)}, on average` : "");
    if (!known.length) return alarms.replaceChildren(h("p", { class: "empty short" }, "No alarms."));
    const head = ["Raised", "Status", "Reasons", "How often", ""].map((words) => h("th", { scope: "col" }, words || h("span", { class: "visually-hidden" }, "Acknowledgement")));
    alarms.replaceChildren(h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Table of alarms" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, known.map(alarmRow)))));
  }

  function alarmRow(alarm) {
    const { event, cleared, is_open: isOpen } = alarm;
    const raised = event.at.time && Date.parse(event.at.time);
    const lasted = raised && cleared ? ` after ${span((Date.parse(cleared) - raised) / 1000)}` : "";
    return h("tr", {}, h("td", {}, raised ? clock(raised) : "–"),
      h("td", {}, h("span", { class: `status ${isOpen ? "raised" : "cleared"}` }, isOpen ? "open" : `cleared${lasted}`)),
      h("td", {}, reasonWords(event)), h("td", {}, frequencyWords(event)), h("td", {}, acknowledgement(alarm)));
  }

  function showChanges() {
    const known = [...history.changes].reverse().slice(0, MOST_ROWS);
    if (!known.length) return changes.replaceChildren(h("p", { class: "empty short" }, "No changes."));
    const head = ["When", "Status", "What", "Probability", ""].map((words, i) => h("th", { scope: "col", class: i === 3 ? "number" : null }, words || h("span", { class: "visually-hidden" }, "Acknowledgement")));
    changes.replaceChildren(h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Table of changes" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, known.map(changeRow)))));
  }

  function changeRow(change) {
    const { event } = change;
    const time = event.time ?? event.high.time ?? event.at.time;
    return h("tr", {}, h("td", {}, time ? clock(Date.parse(time)) : "–"), h("td", {}, h("span", { class: `status ${event.status}` }, event.status)),
      h("td", {}, event.summary), h("td", { class: "number" }, percent(event.probability)), h("td", {}, acknowledgement(change)));
  }

  function showStates() {
    const seen = new Map();
    history.segments.forEach((segment, i) => {
      const key = `${segment.generation} ${segment.state}`;
      const begins = segment.since ?? history.segments[i - 1]?.until ?? history.readings[0]?.[0] ?? segment.until;
      const known = seen.get(key) ?? { visits: 0, lasted: 0 };
      seen.set(key, { segment, tone: toneOf(segment, i, history.states_return), visits: known.visits + 1, lasted: known.lasted + Math.max(0, segment.until - begins) });
    });
    if (!seen.size) return states.replaceChildren(h("p", { class: "empty short" }, "No state is known yet."));
    const head = [["State"], ["Level", "number"], ["Noise", "number"], ["Time in it", "number"]].map(([words, kind]) => h("th", { scope: "col", class: kind }, words));
    const rows = [...seen.values()].reverse().slice(0, MOST_ROWS).map(({ segment, tone, visits, lasted }) => {
      const label = h("button", { type: "button", class: "plain small state-name", title: "Name this state", onclick: () => nameOf(posterior, segment) },
        h("span", { class: `swatch toned ${tone}` }), stateName(segment));
      const noise = segment.noises[0];
      return h("tr", {}, h("td", {}, label), h("td", { class: "number" }, number(segment.levels[0], noise)), h("td", { class: "number" }, number(noise, noise)),
        h("td", { class: "number" }, `${span(lasted / 1000)}${visits > 1 ? ` in ${visits}` : ""}`));
    });
    states.replaceChildren(h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Table of states" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))));
  }

  async function nameOf({ generation, state }, segment) {
    const about = segment ?? { generation, state: state.id, name: state.name };
    if (await askForName(name, about.generation, about.state, about.name)) load(true);
  }

  const timer = setInterval(() => {
    if (!document.hidden) load(false);
  }, ASK_EVERY);

  return {
    element,
    title: name,
    resync: () => load(true),
    update(batch) {
      const isOurs = (batch.sensors ?? []).some((entry) => entry.sensor === name);
      if (isOurs || batch.many || batch.said) load(true);
    },
    close() {
      isOver = true;
      clearInterval(timer);
      chart.close();
    },
  };
}
