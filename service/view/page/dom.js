// Elements without markup in strings: nothing that a sensor is called can become code.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function s(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, text) {
  if (element.className !== text) element.className = text;
}

// Runs a function once before the next frame, however often it is asked for.
export function onceAFrame(draw) {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      draw();
    });
  };
}
