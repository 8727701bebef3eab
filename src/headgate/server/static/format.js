// Numbers as people read them, and elements without HTML: names come from users, and are only ever text.

export function h(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

export function count(value) {
  if (value === null || value === undefined) return "-";
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)} G`;
  if (size >= 1e6) return `${trim(value / 1e6)} M`;
  if (size >= 1e4) return `${trim(value / 1e3)} k`;
  return size >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : trim(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "-";
  for (const [unit, name] of [[2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "kB"]]) {
    if (value >= unit) return `${trim(value / unit)} ${name}`;
  }
  return `${Math.round(value)} B`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "-";
  if (value < 0.001) return `${trim(value * 1e6)} µs`;
  return value < 1 ? `${trim(value * 1e3)} ms` : `${trim(value)} s`;
}

export const percent = (share) => `${share < 0.1 && share > 0 ? (share * 100).toFixed(1) : Math.round(share * 100)} %`;
const trim = (value) => String(Number(value.toPrecision(3)));
export const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

// cool where there is room, hot where the budget is used up
export function heat(share) {
  const part = Math.max(0, Math.min(1, share));
  const hue = part < 0.5 ? 190 - part * 2 * 145 : 45 - (part - 0.5) * 2 * 39;
  return `hsl(${hue.toFixed(0)} ${(55 + part * 25).toFixed(0)}% ${(45 + 6 * part).toFixed(0)}%)`;
}
