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

// The usual length of a visit, from 5 % to 95 %: as time if the interval between readings is known.
export function visitWords(dwell, interval) {
  if (!dwell || dwell[0] === null || dwell.at(-1) === null) return "–";
  const [low, high] = [dwell[0], dwell.at(-1)];
  if (!interval) return `${count(Math.round(low))}–${count(Math.round(high))} readings`;
  const [size, unit] = UNITS.find(([seconds]) => high * interval >= 2 * seconds) ?? UNITS.at(-1);
  const [from, to] = [low, high].map((readings) => Number(((readings * interval) / size).toPrecision(2)));
  return `${from}–${to} ${unit}`;
}

export function statusWords(status) {
  return status.replace("_", " ");
}

export function seenWords({ by, note }) {
  return `seen${by ? ` by ${by}` : ""}${note ? `: ${note}` : ""}`;
}

// How unusual a sensor is

// Readings until a sensor's habits are known: LEARNING in ishsmm_stream.online.rarity.
const LEARNING = 500;
// The service does not tell more frequent behaviour apart either.
const USUAL = 100;
const REASONS = {
  change: "changed", level: "unusual level", spike: "spike", louder: "noisier than usual",
  quieter: "quieter than usual", stuck: "stuck at one value", drift: "slow drift",
  new_state: "in a new state", new_transition: "new transition", unusual_dwell: "unusual length of a visit",
};

export function reasonWords(alarm) {
  return alarm.reasons.map((reason) => REASONS[reason] ?? reason).join(", ") || alarm.summary;
}

function rough(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(2))} million`;
  return count(Number(value.toPrecision(2)));
}

// A return period in readings, as words.
export function rarityWords(period) {
  if (period >= 1e9) return "rarer than 1 in a billion";
  return period > USUAL ? `1 in ${rough(period)} readings` : "usual";
}

export function frequencyWords(alarm) {
  return alarm.frequency || (alarm.return_period ? rarityWords(alarm.return_period) : "");
}

export function learningWords(learning) {
  return `${count(LEARNING - learning)} of ${count(LEARNING)} readings`;
}

const SPANS = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

// As part of a sentence: "a week", "12 days".
export function spanWords(seconds) {
  for (const [name, size] of SPANS) {
    const whole = Math.round(seconds / size);
    if (whole === 1 && Math.abs(seconds / size - 1) < 0.05) return `${name === "hour" ? "an" : "a"} ${name}`;
    if (seconds >= 1.95 * size) return `${count(whole)} ${name}s`;
  }
  return "a second";
}
