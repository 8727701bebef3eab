// The network: streams, operators and queries in layers, with the queue before each operator.

import { bytes, count, heat, s, seconds } from "./format.js";

const NODE = { width: 188, height: 58, text: 22 };
const GAP = { across: 64, along: 18 };
// on a phone, layers are rows: narrow nodes, whose names have a line for the query and one for the operator
const NARROW = { width: 188, least: 102, height: 72, text: 18, gap: 30, between: 8 };

function nodesOf(network) {
  const nodes = new Map();
  for (const stream of network.streams) nodes.set(`s:${stream.name}`, { kind: "stream", name: stream.name, says: stream.format, inputs: [], layer: 0 });
  for (const operator of network.operators) {
    const inputs = operator.inputs.map((i) => (i.stream !== undefined ? `s:${i.stream}` : `o:${i.operator}`));
    const layer = 1 + Math.max(0, ...inputs.map((key) => nodes.get(key)?.layer ?? 0));
    nodes.set(`o:${operator.name}`, { kind: "operator", name: operator.name, says: operator.kind, text: operator.text, inputs, layer, queries: operator.queries });
  }
  const last = 1 + Math.max(0, ...[...nodes.values()].map((node) => node.layer));
  for (const query of network.queries) {
    nodes.set(`q:${query.name}`, { kind: "query", name: query.name, says: `into ${query.into}`, inputs: query.outputs.map((name) => `o:${name}`), layer: last });
  }
  return nodes;
}

// neighbours in the next layer pull a node towards their mean place, a few times in both directions
function order(nodes) {
  const layers = [];
  for (const [key, node] of nodes) (layers[node.layer] ??= []).push(key);
  for (let index = 0; index < layers.length; index++) layers[index] ??= [];
  const readers = new Map([...nodes.keys()].map((key) => [key, []]));
  for (const [key, node] of nodes) for (const input of node.inputs) readers.get(input)?.push(key);
  const place = new Map();
  const number = (layer) => layer.forEach((key, index) => place.set(key, (index + 0.5) / layer.length));
  layers.forEach(number);
  for (let sweep = 0; sweep < 6; sweep++) {
    const forward = sweep % 2 === 0;
    for (const layer of forward ? layers : [...layers].reverse()) {
      const pull = new Map(layer.map((key) => {
        const near = forward ? nodes.get(key).inputs : readers.get(key);
        const places = near.map((other) => place.get(other)).filter((one) => one !== undefined);
        return [key, places.length ? places.reduce((a, b) => a + b) / places.length : place.get(key)];
      }));
      layer.sort((a, b) => pull.get(a) - pull.get(b));
      number(layer);
    }
  }
  return layers;
}

export class Graph {
  constructor(root, onChoose) {
    this.root = root;
    this.onChoose = onChoose;
    this.drawn = new Map();
    this.edges = [];
    this.chosen = null;
  }

  build(network) {
    this.network = network;
    this.width = this.root.clientWidth;
    this.isNarrow = this.width < 640;
    const nodes = nodesOf(network);
    const layers = order(nodes);
    const widest = Math.max(1, ...layers.map((layer) => layer.length));
    this.height = this.isNarrow ? NARROW.height : NODE.height;
    const wide = this.isNarrow ? Math.min(NARROW.width, Math.max(NARROW.least, (this.width - 8) / widest - NARROW.between)) : NODE.width;
    const across = this.isNarrow ? this.height + NARROW.gap : wide + GAP.across;
    const along = this.isNarrow ? wide + NARROW.between : this.height + GAP.along;
    const size = { across: layers.length * across - (this.isNarrow ? NARROW.gap : GAP.across) + 8, along: widest * along + 6 };
    const [width, height] = this.isNarrow ? [size.along, size.across] : [size.across, size.along];
    // a little smaller rather than scrolled
    const fits = this.width / width;
    const scale = fits < 1 && fits >= 0.6 && !this.isNarrow ? fits : 1;
    const svg = s("svg", { width: width * scale, height: height * scale, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "network of operators" });
    layers.forEach((layer, depth) => layer.forEach((key, index) => {
      const offset = (widest - layer.length) * along / 2 + index * along + 3;
      const at = { x: this.isNarrow ? offset : depth * across + 4, y: this.isNarrow ? depth * across + 4 : offset };
      Object.assign(nodes.get(key), at, { width: wide });
    }));
    this.edges = [];
    for (const [key, node] of nodes) {
      for (const input of new Set(node.inputs)) {
        const from = nodes.get(input);
        if (!from) continue;
        const path = s("path", { class: "edge", d: this.curve(from, node), "stroke-width": 1.2 });
        this.edges.push({ path, from: input, to: key });
        svg.append(path);
      }
    }
    this.drawn = new Map();
    for (const [key, node] of nodes) svg.append(this.draw(key, node));
    this.root.classList.toggle("narrow", this.isNarrow);
    this.root.replaceChildren(svg);
  }

  curve(from, to) {
    if (this.isNarrow) {
      const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + this.height, to.x + to.width / 2, to.y];
      return `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
    }
    const [x1, y1, x2, y2] = [from.x + from.width, from.y + this.height / 2, to.x, to.y + this.height / 2];
    return `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;
  }

  draw(key, node) {
    const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
    const left = this.isNarrow ? NARROW.text : NODE.text;
    const letters = Math.floor((node.width - left - 2) / (this.isNarrow ? 6.8 : 7));
    // without a line for the query, the others stand in the middle
    const up = this.isNarrow && !node.name.includes(".") ? 7 : 0;
    const gauge = s("rect", { class: "gauge", x: 7, y: this.height - 7, width: 7, height: 0, rx: 3 });
    const says = s("text", { class: "faint", x: left, y: this.height - 20 - up }, "");
    const more = s("text", { class: "faint", x: left, y: this.height - 7 - up }, "");
    const [, prefix, name] = (this.isNarrow && /^([^.]+)\.(.+)$/.exec(node.name)) || [null, "", node.name];
    const group = s("g", { class: `node ${node.kind}`, transform: `translate(${node.x} ${node.y})`, tabindex: 0, role: "button", "aria-label": `${node.kind} ${node.name}`, "data-name": node.name },
      s("title", {}, `${node.name}: ${node.text ?? node.says}`),
      s("rect", { class: "box", width: node.width, height: this.height, rx: 10 }),
      s("rect", { x: 7, y: 7, width: 7, height: this.height - 14, rx: 3, fill: "var(--soft)", visibility: node.kind === "operator" ? "visible" : "hidden" }),
      gauge,
      prefix ? s("text", { class: "faint", x: left, y: 17 }, clip(prefix, letters)) : null,
      s("text", { class: "title", x: left, y: this.height - 36 - up }, clip(name, letters)), says, more);
    const choose = () => { this.chosen = key; this.show(); };
    group.addEventListener("click", choose);
    group.addEventListener("focus", choose);
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { choose(); event.preventDefault(); } });
    this.drawn.set(key, { group, gauge, says, more, node });
    return group;
  }

  // sample: the tick that is shown; before_s: seconds since the tick before it; whole: bytes of a full gauge
  update(sample, before_s, whole, profiles) {
    this.profiles = profiles;
    this.sample = sample;
    const rate = new Map();
    const inside = (key) => sample?.operators?.[key.slice(2)] ?? [0, 0, 0];
    for (const [key, { group, gauge, says, more, node }] of this.drawn) {
      if (node.kind === "stream") {
        const counts = sample?.streams?.[node.name];
        rate.set(key, counts ? counts[0] / before_s : 0);
        says.textContent = node.says;
        more.textContent = `${count(rate.get(key))} rows/s in`;
      } else if (node.kind === "query") {
        const result = sample?.queries?.[node.name];
        rate.set(key, result ? result[0] / before_s : 0);
        says.textContent = node.says;
        more.textContent = `${count(rate.get(key))} rows/s out`;
      } else {
        const [taken, waiting, size] = inside(key);
        rate.set(key, taken / before_s);
        const share = whole > 0 ? Math.min(1, size / whole) : 0;
        const height = waiting > 0 ? Math.max(3, share * (this.height - 14)) : 0;
        gauge.setAttribute("height", height);
        gauge.setAttribute("y", this.height - 7 - height);
        gauge.setAttribute("fill", heat(share));
        says.textContent = waiting > 0 ? `${count(waiting)} wait${this.isNarrow ? "" : ` · ${bytes(size)}`}` : "nothing waits";
        more.textContent = `${count(rate.get(key))} tuples/s`;
        group.classList.toggle("ran", taken > 0);
        group.dataset.waiting = waiting;
      }
    }
    for (const { path, from, to } of this.edges) {
      const flow = Math.min(rate.get(from) ?? 0, (rate.get(to) || rate.get(from)) ?? 0);
      path.setAttribute("stroke-width", (1.2 + Math.min(5, Math.log10(1 + flow))).toFixed(2));
      path.classList.toggle("flows", flow > 0);
    }
    this.show();
  }

  show() {
    for (const [key, { group }] of this.drawn) group.classList.toggle("chosen", key === this.chosen);
    const found = this.drawn.get(this.chosen);
    if (!found) { this.onChoose(this.network?.operators.length ? "Choose an operator to see what it does and costs." : "No query runs yet. Type one below."); return; }
    const { node } = found;
    const profile = this.profiles?.[node.name];
    const cost = node.kind === "operator" && profile
      ? ` · ${seconds(profile.seconds_per_tuple)} per tuple, passes ${Number(profile.selectivity.toPrecision(3))}, ${count(profile.bytes_per_tuple)} B wide${profile.samples ? "" : " (assumed)"}` : "";
    const [, waiting, size] = this.sample?.operators?.[node.name] ?? [0, 0, 0];
    const queue = node.kind === "operator" && waiting > 0 ? ` · ${count(waiting)} tuples (${bytes(size)}) wait` : "";
    const serves = node.queries?.length ? ` · for ${node.queries.join(", ")}` : "";
    this.onChoose(`${node.name}: ${node.text ?? node.says}${cost}${queue}${serves}`);
  }
}
