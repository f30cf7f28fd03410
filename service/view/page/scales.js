// From numbers and times to places on the screen, and the round ones among them.

import { day, timeOfDay } from "./format.js";

export function linear(from, to, start, end) {
  const slope = (end - start) / (to - from || 1);
  const place = (value) => start + (value - from) * slope;
  place.back = (at) => from + (at - start) / slope;
  return place;
}

export function roundNumbers(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to; i += 1) found.push(i * step);
  return { step, found };
}

const S = 1000;
const M = 60 * S;
const H = 60 * M;
const D = 24 * H;
const STEPS = [
  S, 2 * S, 5 * S, 10 * S, 15 * S, 30 * S, M, 2 * M, 5 * M, 10 * M, 15 * M, 30 * M, H, 2 * H, 3 * H, 6 * H, 12 * H,
  D, 2 * D, 7 * D, 14 * D, 30 * D, 90 * D, 365 * D,
];

export function roundTimes(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  const step = STEPS.find((one) => one >= rough) ?? STEPS.at(-1);
  const away = new Date(from).getTimezoneOffset() * M; // round by the clock on the wall
  const found = [];
  for (let time = Math.ceil((from - away) / step) * step + away; time <= to; time += step) found.push(time);
  return found.map((time) => ({ time, text: timeText(time, step) }));
}

function timeText(time, step) {
  const moment = new Date(time);
  if (step >= D) return day(moment);
  const text = timeOfDay(moment);
  return step >= M ? text.slice(0, 5) : text;
}
