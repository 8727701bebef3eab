// The page: what the server has kept, then every event as it comes; one tick of it is shown at a time.

import { TimeChart } from "./charts.js";
import { ask, Settings, statements } from "./controls.js";
import { byId, clock } from "./format.js";
import { Graph } from "./graph.js";
import * as panels from "./panels.js";

const WINDOW_S = 600;
const state = { network: null, settings: null, strategy: null, run: null, ticks: [], decisions: [], warnings: [], statements: [], last: 0, at: null };
const graph = new Graph(byId("graph"), (text) => { byId("detail").textContent = text; });
const time = new TimeChart(byId("time"), (index) => { state.at = index === state.ticks.length - 1 && !state.recorded ? null : state.ticks[index].tick; plan(); });
const settings = new Settings();
let drawn = null, planned = false;

// several events in one frame are drawn once; a page that nobody sees draws nothing
function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; draw(); });
}

function draw() {
  const { ticks, network } = state;
  if (network && (drawn !== network || graph.width !== byId("graph").clientWidth)) { graph.build(network); drawn = network; }
  const found = state.at === null ? -1 : ticks.findIndex((tick) => tick.tick === state.at);
  const index = found >= 0 ? found : ticks.length - 1;
  if (found < 0 && !state.recorded) state.at = null;
  const tick = ticks[index];
  header(tick);
  settings.show(state.settings);
  time.draw(ticks, index, state.settings?.memory_bytes, state.decisions);
  panels.queries(ticks, index, network, state.settings, state.run?.paused);
  panels.streams(ticks, index, network);
  panels.strategy(state.strategy, state.settings, tick);
  panels.decisions(state, state.at === null || !tick ? Infinity : tick.at_s);
  panels.pools(ticks, index, network);
  const budget = state.settings?.memory_bytes;
  const whole = budget ?? Math.max(1, ...ticks.map((one) => one.backlog[1]));
  byId("scale-text").textContent = budget ? "queue, share of the memory budget" : "queue, share of the largest backlog (no memory budget)";
  graph.update(tick, tick ? panels.interval(ticks, index) : 1, whole, state.strategy?.profiles);
  if (tick) panels.figures(ticks, index, state.settings);
}

function header(tick) {
  const pill = byId("run-state");
  const name = state.recorded ? "recorded" : state.isLost ? "lost" : state.run?.state ?? "waiting";
  pill.textContent = { waiting: "no query yet", lost: "no connection", recorded: "recorded run" }[name] ?? name;
  pill.className = `pill ${name}`;
  byId("run-place").textContent = state.run?.checkpoint ?? "";
  byId("at").textContent = tick ? `tick ${tick.tick.toLocaleString("en")} · ${clock(tick.at_s)}` : "";
  byId("live").hidden = state.at === null || Boolean(state.recorded);
  const problem = byId("problem");
  problem.hidden = !state.run?.error;
  problem.textContent = state.run?.error ?? "";
}

function live() { state.at = null; plan(); }

const take = {
  tick(sample) {
    state.ticks.push(sample);
    while (state.ticks[0].at_s < sample.at_s - WINDOW_S) state.ticks.shift();
  },
  network(found) { state.network = found; },
  settings(found) { state.settings = found; },
  strategy(found) { state.strategy = found; },
  run(found) { state.run = found; },
  decision(found) { state.decisions.push(found); state.decisions.splice(0, state.decisions.length - 500); },
  warning(found) { state.warnings.push(found); state.warnings.splice(0, state.warnings.length - 500); },
  statement(found) { state.statements.push(found); state.statements.splice(0, state.statements.length - 500); },
};

async function load(until) {
  const found = await ask(until === undefined ? "/history" : `/history?until=${until}`);
  for (const name of ["network", "settings", "strategy", "run", "ticks", "decisions", "warnings", "statements", "last"]) state[name] = found[name] ?? state[name];
  if (!drawn || JSON.stringify(drawn) !== JSON.stringify(state.network)) drawn = null;
  else state.network = drawn;
  state.recorded = found.recorded ?? null;
  plan();
}

function follow() {
  const source = new EventSource(`/events?after=${state.last}`);
  for (const kind of Object.keys(take)) {
    source.addEventListener(kind, (event) => {
      const number = Number(event.lastEventId);
      if (number <= state.last) return;
      state.last = number;
      take[kind](JSON.parse(event.data));
      plan();
    });
  }
  source.onopen = () => { state.isLost = false; plan(); };
  source.onerror = () => {
    state.isLost = true;
    plan();
    // a server that has been started anew counts from the beginning
    if (source.readyState === EventSource.CLOSED) setTimeout(begin, 3000);
  };
}

function replay() {
  const [first, last] = state.recorded, slider = byId("until");
  byId("replay").hidden = false;
  for (const id of ["statement", "check", "execute", "apply"]) byId(id).disabled = true;
  Object.assign(slider, { min: first, max: last });
  slider.value = last;
  const say = () => { byId("until-text").textContent = clock(Number(slider.value)); };
  let pending = null;
  slider.addEventListener("input", () => {
    say();
    clearTimeout(pending);
    pending = setTimeout(() => { state.at = null; load(slider.value); }, 60);
  });
  say();
}

async function begin() {
  try {
    await load();
  } catch (error) {
    state.isLost = true;
    byId("problem").hidden = false;
    byId("problem").textContent = error.message;
    byId("run-state").textContent = "no connection";
    setTimeout(begin, 3000);
    return;
  }
  if (state.recorded) replay();
  else follow();
}

byId("live").addEventListener("click", live);
document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "Escape" && !isTyping) live();
  if (event.key === "/" && !isTyping) { event.preventDefault(); byId("statement").focus(); }
});
window.addEventListener("resize", plan);
statements();
begin();
