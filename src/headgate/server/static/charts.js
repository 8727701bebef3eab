// Charts over time, small lines, and progress charts with their envelopes.

import { bytes, clock, count, h, percent, s, seconds } from "./format.js";

const steps = (points) => points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

export function sparkline(values, most, bound = null) {
  const width = 200, height = 30;
  const top = Math.max(most ?? 0, bound ?? 0, ...values.map((value) => value ?? 0), 1e-9);
  const at = (value, index) => [index / Math.max(1, values.length - 1) * width, height - 2 - (value / top) * (height - 5)];
  const points = values.map((value, index) => (value === null ? null : at(value, index))).filter((point) => point);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  if (points.length > 1) {
    svg.append(s("path", { class: "spark-area", d: `${steps(points)}L${points.at(-1)[0]} ${height}L${points[0][0]} ${height}Z` }),
      s("path", { class: "spark", d: steps(points) }));
  }
  if (bound !== null) {
    const y = at(bound, 0)[1];
    svg.append(s("line", { x1: 0, x2: width, y1: y, y2: y, stroke: "var(--bad)", "stroke-dasharray": "4 3", "vector-effect": "non-scaling-stroke" }));
  }
  return svg;
}

// thin out to what a screen can show; of several ticks in one place, the largest counts
function thinned(ticks, most, value) {
  if (ticks.length <= most) return ticks.map((tick) => [tick.at_s, value(tick)]);
  const found = [];
  const size = ticks.length / most;
  for (let index = 0; index < most; index++) {
    const part = ticks.slice(Math.floor(index * size), Math.max(Math.floor(index * size) + 1, Math.floor((index + 1) * size)));
    found.push([part.at(-1).at_s, Math.max(...part.map(value))]);
  }
  return found;
}

export class TimeChart {
  constructor(root, onMove) {
    this.root = root;
    this.onMove = onMove;
    this.ticks = [];
    root.addEventListener("pointerdown", (event) => { this.isDragging = true; this.point(event); });
    root.addEventListener("pointermove", (event) => this.isDragging && this.point(event));
    for (const name of ["pointerup", "pointerleave"]) root.addEventListener(name, () => { this.isDragging = false; });
    root.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
      if (move === undefined || !this.ticks.length) return;
      event.preventDefault();
      // keys may come faster than the page draws
      this.index = Math.max(0, Math.min(this.ticks.length - 1, (this.index ?? this.ticks.length - 1) + move));
      this.onMove(this.index);
    });
  }

  point(event) {
    if (!this.ticks.length) return;
    const box = this.root.getBoundingClientRect();
    const at = this.begin + (event.clientX - box.left - this.left) / (box.width - this.left - this.right) * (this.end - this.begin);
    let best = 0;
    this.ticks.forEach((tick, index) => { if (Math.abs(tick.at_s - at) < Math.abs(this.ticks[best].at_s - at)) best = index; });
    this.onMove(best);
  }

  draw(ticks, index, budget, decisions) {
    Object.assign(this, { ticks, index });
    const width = Math.max(280, this.root.clientWidth), height = window.innerWidth < 900 ? 190 : 230;
    Object.assign(this, { left: 54, right: 44 });
    const bottom = height - 22, top = 12;
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height });
    this.root.setAttribute("aria-valuemax", Math.max(0, ticks.length - 1));
    this.root.setAttribute("aria-valuenow", index ?? Math.max(0, ticks.length - 1));
    if (!ticks.length) {
      svg.append(s("text", { class: "faint", x: this.left, y: height / 2 }, "waiting for the first tick"));
      this.root.replaceChildren(svg);
      return;
    }
    this.end = ticks.at(-1).at_s;
    this.begin = Math.max(this.end - 600, Math.min(ticks[0].at_s - ticks[0].seconds, this.end - 10));
    const x = (at) => this.left + (at - this.begin) / (this.end - this.begin) * (width - this.left - this.right);
    const peak = Math.max(...ticks.map((tick) => tick.backlog[1]));
    // a budget far above the backlog would flatten it
    const shows = budget && budget <= 4 * Math.max(peak, 1);
    const most = Math.max(peak * 1.15, shows ? budget * 1.08 : 0, 1000);
    const y = (value) => bottom - value / most * (bottom - top);
    const yBusy = (value) => bottom - Math.min(1, value) * (bottom - top);
    for (const share of [0, 0.5, 1]) {
      svg.append(s("line", { class: "grid", x1: this.left, x2: width - this.right, y1: yBusy(share), y2: yBusy(share) }),
        s("text", { class: "faint", x: this.left - 7, y: yBusy(share) + 4, "text-anchor": "end" }, bytes(most * share)),
        s("text", { class: "faint", x: width - this.right + 7, y: yBusy(share) + 4 }, percent(share)));
    }
    // lines through the whole chart would hide it where they are close together
    const isDense = ticks.length > (width - this.left - this.right) / 8;
    const boundaries = ticks.slice(-Math.floor(width / 3)).map((tick) => `M${x(tick.at_s).toFixed(1)} ${bottom}v-${isDense ? 6 : bottom - top}`);
    svg.append(s("path", { class: isDense ? "boundary short" : "boundary", d: boundaries.join("") }));
    const backlog = thinned(ticks, width / 2, (tick) => tick.backlog[1]).map(([at, value]) => [x(at), y(value)]);
    const busy = thinned(ticks, width / 2, (tick) => tick.busy).map(([at, value]) => [x(at), yBusy(value)]);
    svg.append(s("path", { class: "area", d: `${steps(backlog)}L${backlog.at(-1)[0]} ${bottom}L${backlog[0][0]} ${bottom}Z` }),
      s("path", { class: "backlog", d: steps(backlog) }), s("path", { class: "busy", d: steps(busy) }));
    if (shows) svg.append(s("line", { class: "limit", x1: this.left, x2: width - this.right, y1: y(budget), y2: y(budget) }));
    for (const decision of decisions) {
      if (decision.at_s >= this.begin) svg.append(s("path", { class: "decision", d: `M${x(decision.at_s)} ${top - 2}l5 -8h-10z` }, s("title", {}, decision.text)));
    }
    const every = [10, 30, 60, 120].find((gap) => (this.end - this.begin) / gap <= width / 90) ?? 300;
    for (let at = Math.ceil(this.begin / every) * every; at < this.end; at += every) {
      svg.append(s("text", { class: "faint", x: x(at), y: height - 6, "text-anchor": "middle" }, clock(at).slice(0, every < 60 ? 8 : 5)));
    }
    const tick = ticks[index ?? ticks.length - 1];
    svg.append(s("line", { class: "cursor", x1: x(tick.at_s), x2: x(tick.at_s), y1: top, y2: bottom }));
    this.root.setAttribute("aria-valuetext", `tick ${tick.tick}, ${bytes(tick.backlog[1])} backlog, ${percent(tick.busy)} of the processors`);
    this.root.replaceChildren(svg);
  }
}

export function progressChart(chart, turns) {
  const width = 280, height = 100, bottom = height - 3, left = 4;
  const total = chart.points.at(-1)[0] || 1;
  const tallest = Math.max(...chart.points.map((point) => point[1]), 1e-9);
  const x = (value) => left + value / total * (width - 2 * left);
  const y = (value) => bottom - value / tallest * (bottom - 10);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `progress chart of ${chart.operators.join(", ")}` });
  svg.append(s("line", { class: "axis", x1: left, x2: width - left, y1: bottom, y2: bottom }));
  const chips = chart.segments.map(([first, last, slope]) => {
    const operators = chart.operators.slice(first, last);
    const tuples = turns.filter(([names, number]) => number > 0 && names.some((name) => operators.includes(name))).reduce((sum, [, number]) => sum + number, 0);
    if (tuples > 0) {
      const [from, to] = [x(chart.points[first][0]), x(chart.points[last][0])];
      svg.append(s("rect", { class: "ran", x: from, y: 8, width: Math.max(2, to - from), height: bottom - 8 }));
    }
    const rank = slope === null ? "" : ` · slope ${count(slope)}/s`;
    // the path is in the title already
    const name = operators.length === chart.operators.length ? "whole path" : operators.join(" → ");
    return h("span", { class: tuples > 0 ? "chip ran" : "chip" }, `${name}${rank}${tuples > 0 ? ` · ${count(tuples)} tuples` : ""}`);
  });
  const stairs = chart.points.flatMap((point, index) => (index ? [[x(point[0]), y(chart.points[index - 1][1])], [x(point[0]), y(point[1])]] : [[x(point[0]), y(point[1])]]));
  const corners = [chart.points[0], ...chart.segments.map(([, last]) => chart.points[last])].map((point) => [x(point[0]), y(point[1])]);
  svg.append(s("path", { class: "steps", d: steps(stairs), "vector-effect": "non-scaling-stroke" }),
    s("path", { class: "envelope", d: steps(corners), "vector-effect": "non-scaling-stroke" }));
  const ends = h("div", { class: "ends" }, h("span", {}, "↑ size left of a tuple"), h("span", {}, `→ ${seconds(total)} of processor time`));
  return h("div", { class: "chart" }, h("div", { class: "path" }, chart.operators.join(" → ")), svg, ends, h("div", { class: "chips" }, chips));
}
