// How a sensor goes from state to state: circles as large as the states' shares, arrows as wide as they are frequent.

import { h, s } from "./dom.js";
import { count, percent, stateName } from "./format.js";

const WIDTH = 360;
const RADIUS = 112;
const LABEL = 22; // room above and below the circles
const MOST_STATES = 10;
const MOST_ARROWS = 40;
const MOST_LETTERS = 14;
const WORDED = 5; // transitions that are read out
const OTHER = "other";

export function diagram(dictionary, toneOf) {
  const { nodes, arrows } = graph(dictionary, toneOf);
  if (!arrows.length) return h("p", { class: "quiet" }, "No transitions yet.");
  const most = arrows[0].count;
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const words = arrows.slice(0, WORDED).map(({ from, to, count: times }) => `${byId.get(from).words} to ${byId.get(to).words} ${timesWords(times)}`);
  const top = Math.min(...nodes.map(({ y, radius }) => y - radius)) - LABEL;
  const bottom = Math.max(...nodes.map(({ y, radius }) => y + radius)) + LABEL;
  return s(
    "svg", { viewBox: `0 ${top.toFixed(1)} ${WIDTH} ${(bottom - top).toFixed(1)}`, role: "img", "aria-label": `Transitions between ${nodes.length} states. Most frequent: ${words.join("; ")}.` },
    // the most frequent ones are on top
    [...arrows].reverse().map((arrow) => arrowOf(arrow, byId, most)), nodes.map(nodeOf), nodes.map(labelOf),
  );
}

const timesWords = (times) => (times === 1 ? "once" : `${count(times)} times`);

// The states with most readings, in a circle by age; all others are one.
function graph({ states, transitions }, toneOf) {
  const live = states.filter(({ retired }) => !retired);
  const shown = live.slice(0, MOST_STATES).sort((one, other) => one.number - other.number);
  const nodes = shown.map((state) => ({ id: state.id, share: state.share ?? 0, tone: toneOf(state.id), words: stateName(state) }));
  const known = new Set(nodes.map(({ id }) => id));
  const counts = new Map();
  for (const [before, after, times] of transitions) {
    const [from, to] = [before, after].map((id) => (known.has(id) ? id : OTHER));
    if (from !== to) counts.set(`${from} ${to}`, { from, to, count: (counts.get(`${from} ${to}`)?.count ?? 0) + times });
  }
  const arrows = [...counts.values()].sort((one, another) => another.count - one.count).slice(0, MOST_ARROWS);
  if (arrows.some(({ from, to }) => from === OTHER || to === OTHER)) {
    const share = live.slice(MOST_STATES).reduce((sum, state) => sum + (state.share ?? 0), 0);
    nodes.push({ id: OTHER, share, tone: "tone-7", words: OTHER });
  }
  nodes.forEach((node, i) => {
    const angle = (2 * Math.PI * i) / nodes.length - (nodes.length === 2 ? Math.PI : Math.PI / 2);
    node.x = WIDTH / 2 + RADIUS * Math.cos(angle);
    node.y = RADIUS * Math.sin(angle);
    node.radius = 7 + 21 * Math.sqrt(node.share);
  });
  return { nodes, arrows };
}

function nodeOf({ x, y, radius, tone, words, share }) {
  return s("circle", { class: `fill-tone ${tone}`, cx: x.toFixed(1), cy: y.toFixed(1), r: radius.toFixed(1) }, s("title", {}, `${words}, ${percent(share)} of the time`));
}

function labelOf({ x, y, radius, words }) {
  const isAbove = y < -1;
  const text = words.length > MOST_LETTERS ? `${words.slice(0, MOST_LETTERS - 1)}…` : words;
  return s("text", { x: x.toFixed(1), y: (isAbove ? y - radius - 6 : y + radius + 14).toFixed(1), "text-anchor": "middle" }, text);
}

// A curve to the left of the straight line, so that both directions can be seen.
function arrowOf({ from, to, count: times }, byId, most) {
  const [a, b] = [byId.get(from), byId.get(to)];
  const width = 1 + 4 * Math.sqrt(times / most);
  const head = 5 + 1.6 * width;
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const middle = { x: (a.x + b.x) / 2 + 0.16 * dy, y: (a.y + b.y) / 2 - 0.16 * dx };
  const start = towards(a, middle, a.radius + 2);
  const tip = towards(b, middle, b.radius + 2);
  const end = towards(tip, middle, head - 1);
  const side = { x: ((end.y - tip.y) / (head - 1)) * (head / 2), y: ((tip.x - end.x) / (head - 1)) * (head / 2) };
  const at = ({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  const corners = [tip, { x: end.x + side.x, y: end.y + side.y }, { x: end.x - side.x, y: end.y - side.y }];
  return s(
    "g", { class: `arrow ${a.tone}` },
    s("path", { class: "stroke-tone", d: `M${at(start)}Q${at(middle)} ${at(end)}`, "stroke-width": width.toFixed(1) }),
    s("path", { class: "fill-tone", d: `M${corners.map(at).join("L")}Z` }),
    s("title", {}, `${a.words} to ${b.words}: ${timesWords(times)}`),
  );
}

function towards(from, to, distance) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + ((to.x - from.x) * distance) / length, y: from.y + ((to.y - from.y) * distance) / length };
}
