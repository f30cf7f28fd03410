// The page: what is shown follows the address, what is new comes by the stream.

import { api, whenTokenIsNeeded } from "./api.js";
import { askForToken } from "./dialogs.js";
import { setText } from "./dom.js";
import { clock } from "./format.js";
import { makeOverview } from "./overview.js";
import { makeSensor } from "./sensor.js";
import { follow } from "./stream.js";
import { startTheme } from "./theme.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const banner = document.getElementById("banner");
const newest = document.getElementById("clock");
let view = null;
let counts = null;

function show() {
  view?.close();
  const sensor = location.hash.match(/^#\/sensor\/(.+)$/)?.[1];
  const isFirst = view === null;
  view = sensor ? makeSensor(decodeURIComponent(sensor)) : makeOverview();
  main.replaceChildren(view.element);
  document.title = `${view.title} · ishsmm-stream`;
  if (!isFirst) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  if (counts) view.resync(counts);
}

function showCounts(found) {
  counts = found;
  setText(newest, counts.newest ? clock(Date.parse(counts.newest)) : "");
}

function showConnection(state) {
  if (connection.classList.contains(state)) return;
  setText(connection, state === "live" ? "live" : "reconnecting");
  connection.className = `pill ${state}`;
  banner.hidden = state === "live";
  setText(banner, state === "live" ? "" : `The service cannot be reached. Showing data from ${clock(Date.now())}. Trying again.`);
}

startTheme(document.getElementById("theme"));
whenTokenIsNeeded(askForToken);
addEventListener("hashchange", show);
show();
follow({
  resync(found) {
    showCounts(found);
    view.resync(found);
  },
  update(batch) {
    showCounts(batch.counts);
    view.update(batch);
  },
  state: showConnection,
  // any question leads to the dialog where a token is needed
  refused: () => api.mutes().catch(() => {}),
});
