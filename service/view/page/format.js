// Numbers and times as people read them.

// With as many decimals as show two digits of `resolution`, the noise for example.
export function number(value, resolution) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e7 || (size > 0 && size < 1e-5)) return value.toExponential(3);
  const finest = resolution > 0 ? resolution : Math.max(size, 1e-3) / 100;
  const decimals = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(finest))));
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

// Never a round 100 % that nobody can be sure of.
export function percent(probability) {
  if (probability === null || probability === undefined) return "–";
  if (probability > 0.999) return "> 99.9 %";
  if (probability < 0.001) return "< 0.1 %";
  return `${(100 * probability).toFixed(1)} %`;
}

export function count(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

// By hand: the browser's own formatting costs a hundred times as much, and clocks are everywhere.
const two = (value) => String(value).padStart(2, "0");

export function timeOfDay(moment) {
  return `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
}

export function day(moment) {
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
}

// With the day where it is not today.
export function clock(milliseconds) {
  const moment = new Date(milliseconds);
  const date = day(moment);
  return date === day(new Date()) ? timeOfDay(moment) : `${date} ${timeOfDay(moment)}`;
}

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

export function span(seconds) {
  for (const [size, unit] of UNITS) {
    if (seconds >= size || unit === "s") return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
  }
}

export function ago(milliseconds) {
  return milliseconds ? `${span((Date.now() - milliseconds) / 1000)} ago` : "";
}

// A sensor's name as what it is a part of, and its own.
export function parts(sensor) {
  const cut = sensor.lastIndexOf("/") + 1;
  return [sensor.slice(0, cut), sensor.slice(cut)];
}

export function unitOf(labels) {
  return typeof labels?.unit === "string" ? ` ${labels.unit}` : "";
}

// What a state is called, else its number.
export function stateName(state) {
  return state.name ?? `#${state.id ?? state.state}`;
}

// What a stretch in a state is called, else its level, which says more than a number.
export function segmentName(segment, unit) {
  const [level, noise] = [segment.levels[0], segment.noises[0]];
  if (segment.name || level === undefined || level === null) return stateName(segment);
  return number(level, noise) + unit;
}

export function statusWords(status) {
  return status.replace("_", " ");
}
