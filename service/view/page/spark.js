// A line of the last values, as small as a word.

import { s } from "./dom.js";

const WIDTH = 104;
const HEIGHT = 26;
const PAD = 3;

export function spark() {
  const path = s("path");
  const dot = s("circle", { r: 2 });
  const drawing = s("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }, path, dot);
  let shown = "";
  function draw(values) {
    const key = values.join();
    if (key === shown) return;
    shown = key;
    const known = values.filter((value) => value !== null);
    dot.setAttribute("visibility", known.length ? "visible" : "hidden");
    if (!known.length) return path.setAttribute("d", "");
    const low = Math.min(...known);
    const range = Math.max(...known) - low || 1;
    const step = (WIDTH - 2 * PAD) / Math.max(1, values.length - 1);
    let line = "";
    let x = 0;
    let y = 0;
    values.forEach((value, i) => {
      if (value === null) return;
      x = PAD + i * step;
      y = HEIGHT - PAD - ((value - low) / range) * (HEIGHT - 2 * PAD);
      line += `${line ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    });
    path.setAttribute("d", line);
    dot.setAttribute("cx", x);
    dot.setAttribute("cy", y);
  }
  return { drawing, draw };
}
