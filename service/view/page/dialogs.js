// What people say: a form, an answer in words, and a name that is remembered.

import { api } from "./api.js";
import { h } from "./dom.js";
import { stateName } from "./format.js";

const dialog = document.getElementById("dialog");
const toast = document.getElementById("toast");
let toastEnds = 0;

export function tell(words) {
  toast.textContent = words;
  clearTimeout(toastEnds);
  toastEnds = setTimeout(() => (toast.textContent = ""), 4000);
}

function field(label, attributes) {
  const input = h("input", { autocomplete: "off", ...attributes });
  return [input, h("label", {}, label, input)];
}

function byField() {
  return field("Your name", { maxlength: 100, value: localStorage.getItem("by") ?? "" });
}

function remembered(input) {
  localStorage.setItem("by", input.value.trim());
  return input.value.trim();
}

// Answers whether it was done. `act` does it, and returns words to be shown.
function ask(title, words, rows, verb, act) {
  const problem = h("p", { class: "problem", role: "alert" });
  const submit = h("button", { class: "primary", type: "submit" }, verb);
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  let isDone = false;
  const form = h(
    "form", {},
    h("h2", { id: "dialog-title" }, title), h("p", {}, words), rows, problem,
    h("div", { class: "actions" }, cancel, submit),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    try {
      const said = await act();
      isDone = true;
      dialog.close();
      if (said) tell(said);
    } catch (error) {
      problem.textContent = error.message;
    }
    submit.disabled = false;
  });
  dialog.replaceChildren(form);
  dialog.showModal();
  return new Promise((answer) => dialog.addEventListener("close", () => answer(isDone), { once: true }));
}

const SPANS = [[900, "15 minutes"], [3600, "1 hour"], [4 * 3600, "4 hours"], [86400, "1 day"], [7 * 86400, "1 week"]];

export function askToMute(pattern) {
  const [what, whatRow] = field("Sensors (* is any text)", { required: true, maxlength: 500, value: pattern });
  const span = h("select", {}, SPANS.map(([seconds, words]) => h("option", { value: seconds }, words)));
  span.value = 3600;
  const [why, whyRow] = field("Why", { maxlength: 500 });
  const [by, byRow] = byField();
  const words = "Alarms and changes still appear here. Webhooks and other sinks are not notified.";
  return ask("Mute", words, [whatRow, h("label", {}, "For", span), whyRow, byRow], "Mute", async () =>
    (await api.mute(what.value, Number(span.value), why.value.trim(), remembered(by))).done);
}

// The mutes that hold for a sensor are taken back, whatever their patterns are.
export async function askToUnmute(sensor) {
  const { mutes } = await api.mutes();
  const holding = mutes.filter((mute) => matches(mute.pattern, sensor) && Date.parse(mute.until) > Date.now());
  const words = holding.map((mute) => `${mute.pattern}${mute.why ? `, ${mute.why}` : ""}`).join("; ");
  return ask("Unmute", `Take back: ${words}`, [], "Unmute", async () => {
    for (const mute of holding) await api.unmute(mute.pattern);
    return "No longer muted";
  });
}

function matches(pattern, name) {
  const plain = pattern.replace(/[.+^${}()|\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".").replace(/\[!/g, "[^");
  try {
    return new RegExp(`^${plain}$`, "s").test(name);
  } catch {
    return pattern === name;
  }
}

export function askToAcknowledge(event) {
  const [note, noteRow] = field("Note", { maxlength: 500 });
  const [by, byRow] = byField();
  const words = `${event.sensor}: ${event.summary}`;
  return ask("Acknowledge", words, [noteRow, byRow], "Acknowledge", async () => {
    await api.acknowledge(event.id, note.value.trim(), remembered(by));
    return "Acknowledged";
  });
}

export function askToAccept(sensor) {
  const [by, byRow] = byField();
  const words = `${sensor}: what it does now becomes usual from its next reading on, and its alarm clears.`;
  return ask("Accept as usual", words, [byRow], "Accept", async () => (await api.accept(sensor, remembered(by))).done);
}

export function askForName(sensor, generation, state, current) {
  const [name, nameRow] = field("Name", { maxlength: 60, value: current ?? "" });
  const [by, byRow] = byField();
  const words = "Shown wherever the state is; events keep its number. Leave it empty to take the name back.";
  return ask(`Name state ${state}`, words, [nameRow, byRow], "Save", async () =>
    (await api.name(sensor, generation, state, name.value.trim(), remembered(by))).done);
}

// Merges a state into another one of the dictionary, or takes a merge back.
export function askToMerge(sensor, { generation, states }, state) {
  const others = states.filter(({ id }) => id !== state.id).map((other) => ["into", other.id, `Show as ${stateName(other)}`]);
  const taken = state.merged.map((id) => ["out", id, `Show #${id} as itself again`]);
  const choices = [...others, ...taken];
  const what = h("select", {}, choices.map(([, , label], i) => h("option", { value: i }, label)));
  const [by, byRow] = byField();
  const words = "Changes what is shown, here and in the API: visits and readings are added up. Detection and events stay as they are.";
  return ask(`Merge state ${stateName(state)}`, words, [h("label", {}, "Do", what), byRow], "Save", async () => {
    const [kind, id] = choices[Number(what.value)];
    const [merged, into] = kind === "into" ? [state.id, id] : [id, null];
    return (await api.merge(sensor, generation, merged, into, remembered(by))).done;
  });
}

let asking = null;

export function askForToken() {
  asking ??= askForTokenOnce().finally(() => (asking = null));
  return asking;
}

function askForTokenOnce() {
  const [token, tokenRow] = field("Token", { type: "password", required: true });
  const words = "This service is protected. Its token is exchanged for a cookie that lasts a week.";
  return ask("Sign in", words, [tokenRow], "Sign in", async () => {
    await api.session(token.value);
  });
}
