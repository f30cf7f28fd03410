// Questions to the service. A refusal becomes an Error with the service's own sentence.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? `the service answered with ${status}`);
    this.status = status;
  }
}

let askForToken = async () => false;

// `ask` shows a dialog, and answers whether there is a session now.
export function whenTokenIsNeeded(ask) {
  askForToken = ask;
}

async function request(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refused(0, { detail: "the service cannot be reached" });
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok) return found;
  if (answer.status === 401 && path !== "/v1/session" && (await askForToken())) return request(method, path, body);
  throw new Refused(answer.status, found?.error);
}

// The slashes of a name may stand as they are, but the last part "history" would be taken for a question.
function pathOf(sensor) {
  return sensor.split("/").map(encodeURIComponent).join("%2F");
}

export const api = {
  sensors: (options) => request("GET", `/v1/sensors?${new URLSearchParams(options)}`),
  sensor: (name) => request("GET", `/v1/sensors/${pathOf(name)}`),
  history: (name) => request("GET", `/v1/sensors/${pathOf(name)}/history`),
  events: (limit, status) => request("GET", `/v1/events?order=newest&limit=${limit}${status ? `&status=${status}` : ""}`),
  incidents: () => request("GET", "/v1/incidents"),
  promise: () => request("GET", "/v1/promise"),
  mutes: () => request("GET", "/v1/mutes"),
  mute: (pattern, for_s, why, by) => request("POST", "/v1/mutes", { pattern, for_s, why, by }),
  unmute: (pattern) => request("DELETE", `/v1/mutes?${new URLSearchParams({ pattern })}`),
  acknowledge: (id, note, by) => request("POST", "/v1/acknowledgements", { id, note, by }),
  accept: (sensor, by) => request("POST", "/v1/acceptances", { sensor, by }),
  name: (sensor, generation, state, name, by) =>
    request("POST", "/v1/names", { sensor, generation, state, name, by }),
  merge: (sensor, generation, state, into, by) =>
    request("POST", "/v1/merges", { sensor, generation, state, into, by }),
  session: (token) => request("POST", "/v1/session", { token }),
};
