// The panels around the graph: figures, queries, streams, strategy, decisions and pools.

import { progressChart, sparkline } from "./charts.js";
import { bytes, byId, clock, count, h, percent, seconds } from "./format.js";

const SPARK = 120;
const MOST_CHARTS = 12;

// seconds between a tick and the one before it, in which its rows have come
export function interval(ticks, index) {
  const tick = ticks[index], before = ticks[index - 1];
  return Math.max(0.05, before && tick.tick > before.tick ? tick.at_s - before.at_s : tick.seconds);
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

export function figures(ticks, index, settings) {
  const recent = ticks.slice(Math.max(0, index + 1 - SPARK), index + 1);
  const offset = index + 1 - recent.length;
  const per = (value) => recent.map((tick, number) => value(tick) / interval(ticks, offset + number));
  const rowsIn = per((tick) => sum(Object.values(tick.streams).map((counts) => counts[0])));
  const rowsOut = per((tick) => sum(Object.values(tick.queries).map((result) => result[0])));
  const tick = ticks[index], budget = settings?.memory_bytes;
  const share = budget ? tick.backlog[1] / budget : null;
  // how near the worst query is to its bound
  const nearness = (one) => Math.max(0, ...Object.entries(settings?.latency_s ?? {}).filter(([name, bound]) => bound && one.queries[name]?.[2] != null).map(([name, bound]) => one.queries[name][2] / bound));
  const near = recent.map(nearness);
  const card = (id, name, value, unit, values, most, isHigh) => h("div", { class: `card figure${isHigh ? " high" : ""}`, id: `figure-${id}` },
    h("div", { class: "name" }, name), h("div", { class: "value" }, value, unit ? h("small", {}, unit) : null), sparkline(values, most));
  byId("figures").replaceChildren(
    card("in", "arriving", count(rowsIn.at(-1)), "rows/s", rowsIn),
    card("out", "results", count(rowsOut.at(-1)), "rows/s", rowsOut),
    card("backlog", "backlog", bytes(tick.backlog[1]), share === null ? `${count(tick.backlog[0])} tuples` : `${percent(share)} full`, recent.map((one) => one.backlog[1]), null, share > 0.9),
    card("busy", "processors in use", percent(Math.min(1, tick.busy)), `of ${settings?.processors ?? "?"}`, recent.map((one) => one.busy), 1),
    card("tick", "tick", seconds(tick.seconds), settings?.tick_budget_s ? `budget ${seconds(settings.tick_budget_s)}` : "", recent.map((one) => one.seconds)),
    card("bound", "nearest to its bound", near.some((value) => value > 0) ? percent(near.findLast((value) => value > 0)) : "-", near.some((value) => value > 0) ? "of its latency" : "no bounds", near, 1, near.findLast((value) => value > 0) > 1),
  );
}

export function queries(ticks, index, network, settings, paused = []) {
  const recent = ticks.slice(Math.max(0, index + 1 - SPARK), index + 1);
  byId("queries").replaceChildren(...(network?.queries ?? []).map((query) => {
    const bound = settings?.latency_s?.[query.name] ?? query.latency_s;
    const values = recent.map((tick) => tick.queries[query.name]?.[2] ?? null);
    const last = recent.findLast((tick) => tick.queries[query.name]?.[2] != null)?.queries[query.name];
    const rows = sum(recent.map((tick) => tick.queries[query.name]?.[0] ?? 0));
    const [mean, most, keep] = last ? [last[1], last[2], last[3]] : [null, null, 1];
    const isOver = bound && most > bound;
    const says = last ? [h("b", {}, seconds(most)), bound ? ` of ${seconds(bound)}` : " · no bound", ` · mean ${seconds(mean)}`] : [bound ? `no results yet · bound ${seconds(bound)}` : "no results yet"];
    const row = h("div", { class: `row${isOver ? " over" : bound ? "" : " free"}`, "data-query": query.name },
      h("div", { class: "line" }, h("span", { class: "name ellipsis" }, query.name, paused.includes(query.name) ? h("span", { class: "pill" }, "paused") : null), h("span", { class: "say" }, says)));
    if (bound) {
      const whole = Math.max(bound * 1.25, (most ?? 0) * 1.05);
      const fill = h("div", { class: "fill" }), mark = h("div", { class: "mark", title: `bound ${seconds(bound)}` });
      fill.style.width = `${(most ?? 0) / whole * 100}%`;
      mark.style.left = `${bound / whole * 100}%`;
      row.append(h("div", { class: "bar" }, fill, mark));
    }
    row.append(sparkline(values, null, bound ?? null),
      h("div", { class: "line" }, h("span", { class: "muted" }, `${count(rows)} rows in view`), h("span", { class: "say" }, keep < 1 ? `keeps ${percent(keep)} of its tuples` : `on overload: ${query.overload}`)));
    return row;
  }));
  if (!network?.queries.length) byId("queries").replaceChildren(h("p", { class: "empty" }, "No query yet."));
}

export function streams(ticks, index, network) {
  const tick = ticks[index], between = tick ? interval(ticks, index) : 1;
  const body = (network?.streams ?? []).map((stream) => {
    const counts = tick?.streams[stream.name] ?? Array(10).fill(0);
    const cell = (at, isBad) => h("td", { class: isBad && counts[at] > 0 ? "some" : "" }, count(counts[5 + at]), h("small", {}, `${count(counts[at] / between)}/s`));
    return h("tr", { "data-stream": stream.name }, h("td", {}, stream.name, h("small", {}, stream.format)), cell(0), cell(1, true), cell(2, true), cell(3, true));
  });
  byId("streams").replaceChildren(body.length
    ? h("table", {}, h("thead", {}, h("tr", {}, ...["stream", "rows in", "late", "bad", "shed"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, body))
    : h("p", { class: "empty" }, "No stream yet."));
}

export function strategy(found, settings, tick) {
  byId("strategy-name").textContent = settings?.strategy ?? found?.name ?? "-";
  const charts = found?.charts ?? [];
  byId("charts").replaceChildren(...charts.slice(0, MOST_CHARTS).map((chart) => progressChart(chart, tick?.turns ?? [])));
  if (!charts.length) byId("charts").replaceChildren(h("p", { class: "empty" }, "Charts appear with the first query."));
  else if (charts.length > MOST_CHARTS) byId("charts").append(h("p", { class: "empty" }, `and ${charts.length - MOST_CHARTS} more paths`));
}

export function decisions(state, until) {
  const entries = [
    ...state.decisions.map((one) => ({ ...one, kind: "decision" })),
    ...state.statements.map((one) => ({ ...one, kind: "statement" })),
    ...state.warnings.map((one) => ({ ...one, kind: "warning", text: `warning: ${one.text}` })),
  ].filter((one) => (one.at_s ?? 0) <= until + 1).sort((a, b) => (b.at_s ?? 0) - (a.at_s ?? 0));
  byId("decisions").replaceChildren(...entries.slice(0, 60).map((one) => h("li", {},
    h("time", {}, one.at_s ? clock(one.at_s) : ""),
    h("div", {}, h("p", { class: one.kind }, one.text), one.tick !== undefined ? h("small", {}, `after tick ${one.tick}${statistics(one.statistics)}`) : null))));
  if (!entries.length) byId("decisions").append(h("li", {}, h("span", {}, ""), h("p", { class: "empty" }, "Nothing had to be decided: join orders and drop boxes are as they were.")));
}

function statistics(found) {
  const parts = Object.entries(found ?? {}).filter(([, value]) => value !== null).slice(0, 4).map(([name, value]) => `${name} ${count(value)}`);
  return parts.length ? ` · ${parts.join(", ")}` : "";
}

export function pools(ticks, index, network) {
  const known = network?.pools ?? [];
  byId("pools-card").hidden = false;
  if (!known.length) {
    byId("pools").replaceChildren(h("p", { class: "empty" }, "No pool: all operators run inside ticks."));
    return;
  }
  const now = ticks[index];
  // shares of the last minute, or of all that is known
  const before = ticks.slice(0, index).findLast((tick) => tick.at_s <= now?.at_s - 60) ?? ticks[0];
  const delta = (name, at) => (now?.pools[name]?.[at] ?? 0) - (before && before !== now ? before.pools[name]?.[at] ?? 0 : 0);
  const all = sum(known.map((pool) => delta(pool.name, 1)));
  const length = Math.max(1, (now?.at_s ?? 0) - (before?.at_s ?? 0));
  byId("pools").replaceChildren(...known.map((pool) => {
    const calls = delta(pool.name, 1), slots = now?.pools[pool.name]?.[0] ?? pool.slots;
    const share = all ? calls / all : 0, busy = delta(pool.name, 3) / (length * slots);
    const operators = network.operators.filter((one) => one.pools.includes(pool.name)).map((one) => one.name);
    const fill = h("div", { class: "fill" });
    fill.style.width = `${share * 100}%`;
    return h("div", { class: "row free", "data-pool": pool.name },
      h("div", { class: "line" }, h("span", { class: "name" }, pool.name), h("span", { class: "say" }, h("b", {}, percent(share)), ` of calls · ${count(calls / length)} calls/s`)),
      h("div", { class: "bar" }, fill),
      h("div", { class: "line" }, h("span", { class: "muted" }, `${slots} ${slots === 1 ? "slot" : "slots"}, ${percent(Math.min(1, busy))} busy`), h("span", { class: "say ellipsis" }, operators.join(", "))));
  }));
}
