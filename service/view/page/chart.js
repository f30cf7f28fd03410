// A sensor's past and near future: readings over the bands of its states, alarms, how probable changes are, the states
// in time.

import { h, s } from "./dom.js";
import { clock, number, percent, reasonWords, segmentName } from "./format.js";
import { linear, roundNumbers, roundTimes } from "./scales.js";

const LEFT = 56;
const RIGHT = 12;
const TOP = 10;
const GAP = 26;
const HEIGHTS = { readings: 250, several: 140, chance: 64, states: 24 };
const AXIS = 22;
const FORECAST = 84; // pixels, whatever the distance of readings: it has a scale of its own
const MOST_CHANNELS = 4;
const Z = 1.645; // of the 90 % bands
const TONES = 8;
// A gap in the line where readings are this much further apart than usual.
const GAP_FACTOR = 12;

// `toneOfState`: the colours of the sensor's state dictionary, if it has one.
export function toneOf(segment, i, statesReturn, toneOfState) {
  if (toneOfState) return toneOfState(segment.state);
  return statesReturn ? `tone-${segment.number % TONES}` : i % 2 ? "tone-b" : "tone-a";
}

export function makeChart() {
  const readout = h("output", { class: "readout" });
  const plot = h("div", { class: "plot", tabindex: 0, role: "group", "aria-label": "Chart. Left and right arrows read out the readings." });
  const element = h("div", {}, plot, readout);
  let model = null;
  let at = null; // index of the reading under the cursor
  let marks = null;
  let places = null;

  function draw(next) {
    model = next ?? model;
    if (!model || !model.readings.length) {
      plot.replaceChildren(h("p", { class: "empty" }, "No readings yet."));
      return;
    }
    const drawn = drawing(model, Math.max(320, plot.clientWidth));
    places = drawn.places;
    marks = s("g", {});
    drawn.svg.append(marks);
    plot.replaceChildren(drawn.svg);
    if (at !== null) point(Math.min(at, model.readings.length - 1));
  }

  function point(i) {
    at = i;
    const [time, ...values] = model.readings[i];
    const x = places.x(time);
    marks.replaceChildren(
      s("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: places.bottom }),
      ...values.slice(0, places.ys.length).map((value, channel) =>
        value === null ? "" : s("circle", { class: "cursor-dot", r: 3.5, cx: x, cy: places.ys[channel](value) })),
    );
    const segment = model.segments.findLast((one, k) => startOf(model.segments, k, -Infinity) <= time);
    const chance = model.probabilities.findLast(([then]) => then <= time) ?? model.probabilities[0];
    const alarm = model.alarms.find(({ event }) => event.at.time && nearest(model.readings, Date.parse(event.at.time)) === i);
    readout.replaceChildren(
      h("b", {}, values.map((value) => number(value, model.noise)).join(", ") + model.unit),
      `  at ${clock(time)}`, segment?.name ? `  ·  ${segment.name}` : "",
      chance ? `  ·  change within the window before: ${percent(chance[1])}` : "",
      alarm ? h("span", { class: "alarm-words" }, `  ·  alarm: ${reasonWords(alarm.event)}`) : "",
    );
  }

  function leave() {
    at = null;
    marks?.replaceChildren();
    readout.replaceChildren();
  }

  plot.addEventListener("pointermove", (event) => {
    if (!places) return;
    const time = places.x.back(event.clientX - plot.getBoundingClientRect().left);
    point(nearest(model.readings, time));
  });
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("blur", leave);
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 };
    if (!(event.key in steps) || !places) return;
    event.preventDefault();
    const last = model.readings.length - 1;
    point(Math.max(0, Math.min(last, (at ?? last) + steps[event.key])));
  });
  const watcher = new ResizeObserver(() => draw());
  watcher.observe(plot);
  return { element, draw, close: () => watcher.disconnect() };
}

function nearest(readings, time) {
  let low = 0;
  let high = readings.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (readings[middle][0] <= time) low = middle;
    else high = middle;
  }
  return time - readings[low][0] < readings[high][0] - time ? low : high;
}

// Where a segment begins on the screen: where it is known to, else where the one before ended.
function startOf(segments, i, first) {
  return Math.max(first, segments[i].since ?? (i ? segments[i - 1].until : first));
}

function drawing(model, width) {
  const { readings, forecast } = model;
  const channels = Math.min(MOST_CHANNELS, readings[0].length - 1);
  const first = readings[0][0];
  const last = Math.max(readings.at(-1)[0], first + 1000);
  const end = width - RIGHT - (forecast ? FORECAST : 0);
  const x = linear(first, last, LEFT, end);
  const height = channels > 1 ? HEIGHTS.several : HEIGHTS.readings;
  const parts = [];
  const ys = [];
  let top = TOP;
  const spans = model.segments
    .map((segment, i) => ({
      segment, tone: toneOf(segment, i, model.statesReturn, model.toneOfState), from: startOf(model.segments, i, first),
      to: i === model.segments.length - 1 ? last : Math.min(segment.until, last),
    }))
    .filter(({ from, to }) => to > from);
  for (let channel = 0; channel < channels; channel += 1) {
    ys.push(readingsPanel(parts, model, spans, { channel, channels, x, top, height, width, end, first, last }));
    top += height + GAP;
  }
  chancePanel(parts, model, { x, top, height: HEIGHTS.chance, width, end, first, last });
  top += HEIGHTS.chance + GAP;
  statesPanel(parts, spans, model.unit, { x, top, height: HEIGHTS.states, end });
  top += HEIGHTS.states;
  timeAxis(parts, { x, top, first, last, end });
  const svg = s("svg", { viewBox: `0 0 ${width} ${top + AXIS}`, height: top + AXIS, role: "img", "aria-label": model.words }, parts);
  return { svg, places: { x, ys, bottom: top } };
}

function readingsPanel(parts, model, spans, { channel, channels, x, top, height, width, end, first, last }) {
  const values = model.readings.map((row) => row[channel + 1]).filter((value) => value !== null);
  const edges = spans.flatMap(({ segment: { levels, noises } }) => {
    const [level, noise] = [levels[channel], noises[channel]];
    return level === null || level === undefined ? [] : [level - Z * (noise ?? 0), level + Z * (noise ?? 0)];
  });
  const ahead = model.forecast ? ["low", "high"].flatMap((key) => model.forecast[key].map((row) => row[channel])) : [];
  const all = [...values, ...edges, ...ahead].filter((value) => value !== null && value !== undefined);
  let low = Math.min(...all);
  let high = Math.max(...all);
  const pad = (high - low || Math.abs(high) || 1) * 0.06;
  [low, high] = [low - pad, high + pad];
  const y = linear(low, high, top + height, top);
  const ticks = roundNumbers(low, high, height / 45);
  for (const tick of ticks.found) {
    parts.push(
      s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
      s("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, number(tick, ticks.step * 10)),
    );
  }
  if (channels > 1) parts.push(s("text", { class: "panel-name", x: LEFT + 6, y: top + 12 }, `channel ${channel}`));
  for (const { segment, tone, from, to } of spans) {
    const [level, noise] = [segment.levels[channel], segment.noises[channel]];
    if (level === null || level === undefined) continue;
    const box = { x: x(from), width: Math.max(1, x(to) - x(from)) };
    if (noise) parts.push(s("rect", { class: `band fill-tone ${tone}`, ...box, y: y(level + Z * noise), height: Math.max(1, y(level - Z * noise) - y(level + Z * noise)) }));
  }
  for (const { event } of model.changes) {
    const [from, to] = [event.low.time, event.high.time].map((time) => time && Date.parse(time));
    if (from && to && to > first && from < last) {
      const start = x(Math.max(first, from));
      parts.push(s("rect", { class: "where", x: start, width: Math.max(1, x(Math.min(last, to)) - start), y: top, height }));
    }
    const time = event.time && Date.parse(event.time);
    if (time && time >= first) parts.push(s("line", { class: `change ${event.status}`, x1: x(time), x2: x(time), y1: top, y2: top + height }));
  }
  parts.push(s("path", { class: "readings", d: line(model.readings, channel, x, y) }));
  for (const { segment, tone, from, to } of spans) {
    const level = segment.levels[channel];
    if (level === null || level === undefined) continue;
    parts.push(s("line", { class: `mean stroke-tone ${tone}`, x1: x(from), x2: x(to), y1: y(level), y2: y(level) }));
  }
  for (const { event } of model.alarms) {
    const time = event.at.time && Date.parse(event.at.time);
    if (!time || time < first || time > last) continue;
    const at = x(time);
    parts.push(s("g", { class: "alarm-mark" },
      s("line", { class: "alarm-line", x1: at, x2: at, y1: top - 4, y2: top + height }),
      s("path", { class: "alarm-flag", d: `M${at.toFixed(1)} ${top - 4}l11 5l-11 5Z` }),
      s("title", {}, `Alarm at ${clock(time)}: ${event.summary}`)));
  }
  if (model.forecast) forecastZone(parts, model.forecast, { channel, y, top, height, end, width });
  parts.push(s("line", { class: "axis", x1: LEFT, x2: LEFT, y1: top, y2: top + height }));
  return y;
}

function line(readings, channel, x, y) {
  const usual = (readings.at(-1)[0] - readings[0][0]) / Math.max(1, readings.length - 1);
  let path = "";
  let before = -Infinity;
  for (const row of readings) {
    const value = row[channel + 1];
    if (value === null) continue;
    path += `${row[0] - before > GAP_FACTOR * usual ? "M" : "L"}${x(row[0]).toFixed(1)} ${y(value).toFixed(1)}`;
    before = row[0];
  }
  return path;
}

function forecastZone(parts, forecast, { channel, y, top, height, end, width }) {
  const steps = forecast.median.length;
  const x = linear(0, steps - 1, end + 10, width - RIGHT - 4);
  const points = (key) => forecast[key].map((row, i) => [x(i), y(row[channel])]);
  const text = (list) => list.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L");
  parts.push(
    s("rect", { class: "forecast-zone", x: end, y: top, width: width - RIGHT - end, height }),
    s("path", { class: "forecast-band", d: `M${text(points("high"))}L${text(points("low").reverse())}Z` }),
    s("path", { class: "forecast-line", d: `M${text(points("median"))}` }),
    s("text", { x: (end + width - RIGHT) / 2, y: top + height - 6, "text-anchor": "middle" }, `next ${steps}`),
  );
}

function chancePanel(parts, model, { x, top, height, end, first, last }) {
  const y = linear(0, 1, top + height, top);
  for (const value of [0, 0.5, 1]) {
    parts.push(
      s("line", { class: "grid", x1: LEFT, x2: end, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, `${100 * value} %`),
    );
  }
  parts.push(s("text", { class: "panel-name", x: LEFT, y: top - 8 }, "Probability of a change"));
  const known = model.probabilities.filter(([time, value]) => time >= first && value !== null);
  if (known.length) {
    const path = known.map(([time, value]) => `${x(Math.min(time, last)).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
    parts.push(
      s("path", { class: "chance-area", d: `M${x(known[0][0]).toFixed(1)} ${y(0)}L${path}L${x(Math.min(known.at(-1)[0], last)).toFixed(1)} ${y(0)}Z` }),
      s("path", { class: "chance", d: `M${path}` }),
    );
  }
  for (const { event } of model.changes) {
    const time = event.time && Date.parse(event.time);
    if (!time || time < first || event.probability === null) continue;
    parts.push(
      s("line", { class: `stem ${event.status}`, x1: x(time), x2: x(time), y1: y(0), y2: y(event.probability) }),
      s("circle", { class: `knob ${event.status}`, cx: x(time), cy: y(event.probability), r: 4 },
        s("title", {}, `${event.summary}, ${percent(event.probability)}`)),
    );
  }
}

function statesPanel(parts, spans, unit, { x, top, height, end }) {
  parts.push(s("text", { class: "panel-name", x: LEFT, y: top - 8 }, "State"));
  for (const { segment, tone, from, to } of joined(spans)) {
    const [start, room] = [x(from), x(to) - x(from)];
    const gap = room > 6 ? 1 : 0; // a narrow stretch needs all of its room
    parts.push(s("rect", { class: `fill-tone ${tone}`, x: start, y: top, width: Math.max(1, Math.min(end, x(to)) - start - gap), height, rx: 3 * gap, opacity: 0.35 },
      s("title", {}, `${segmentName(segment, unit)}, from ${clock(from)}`)));
    const words = segmentName(segment, unit);
    if (room > 7 * words.length + 12) parts.push(s("text", { class: "state-label", x: start + 7, y: top + height / 2 + 4 }, words));
  }
}

// Stretches that follow each other in the same state are one: people may have merged their states.
function joined(spans) {
  const found = [];
  for (const span of spans) {
    const before = found.at(-1);
    const isSame = before?.segment.state === span.segment.state && before.segment.generation === span.segment.generation;
    if (isSame) found[found.length - 1] = { ...span, from: before.from };
    else found.push(span);
  }
  return found;
}

function timeAxis(parts, { x, top, first, last, end }) {
  parts.push(s("line", { class: "axis", x1: LEFT, x2: end, y1: top + 4, y2: top + 4 }));
  for (const { time, text } of roundTimes(first, last, (end - LEFT) / 110)) {
    parts.push(
      s("line", { class: "axis", x1: x(time), x2: x(time), y1: top + 4, y2: top + 8 }),
      s("text", { x: x(time), y: top + 20, "text-anchor": "middle" }, text),
    );
  }
}
