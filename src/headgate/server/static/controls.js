// What a person can do: explain, advise and execute a statement; change strategy, budget and bounds.

import { byId, bytes, h, seconds } from "./format.js";

export async function ask(path, body) {
  const answer = await fetch(path, body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const read = path === "/sql" ? answer.text().then((text) => JSON.parse(exact(text))) : answer.json();
  const document = await read.catch(() => ({ error: `the server answers ${answer.status}` }));
  if (!answer.ok) throw Object.assign(new Error(document.error ?? `the server answers ${answer.status}`), { kind: document.kind });
  return document;
}

// numbers of JavaScript have 15 digits for certain: longer ones, such as keys, stay as they are written
function exact(text) {
  return text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (part) => (/^-?\d{16,}$/.test(part) ? `"${part}"` : part));
}

const answerWith = (...children) => byId("answer").replaceChildren(...children);
const verdict = (kind, text) => h("p", { class: `verdict ${kind}` }, text);

async function busyWhile(button, work) {
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    answerWith(verdict("bad", error.message));
  } finally {
    button.disabled = false;
  }
}

export function statements() {
  const text = byId("statement");
  const check = () => busyWhile(byId("check"), async () => {
    const found = await ask("/preview", { text: text.value });
    const kind = found.fits === true ? "good" : found.fits === false ? "bad" : "";
    const queries = Object.entries(found.queries).map(([name, own]) => `${name}: ${own.fits ? `fits up to ${Number((own.largest_factor ?? Infinity).toPrecision(3))} times these rates` : [...own.broken, own.help].join("; ")}`);
    answerWith(verdict(kind, found.advice), ...queries.map((line) => h("p", { class: "muted" }, line)), h("pre", {}, found.explain));
  });
  const execute = (statement = text.value, force = false) => busyWhile(byId("execute"), async () => {
    const found = await ask("/sql", { text: statement, force }).catch((error) => {
      if (error.kind !== "Refused") throw error;
      return { refusal: error.message };
    });
    if (found.refusal) answerWith(verdict("bad", found.refusal), insist(() => execute(statement, true)));
    else if (found.rows) answerWith(table(found));
    else answerWith(...(found.answers.length ? [] : [verdict("good", "in force")]), ...found.warnings.map((warning) => verdict("", warning)), ...found.answers.map((answer) => h("pre", {}, answer.text)));
  });
  byId("check").addEventListener("click", check);
  byId("statement-form").addEventListener("submit", (event) => { event.preventDefault(); execute(); });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); (event.shiftKey ? execute : check)(); }
    if (event.key === "Escape") text.blur();
  });
}

// bounds would be broken: that is for a person to decide
function insist(act) {
  const button = h("button", { type: "button", id: "insist" }, "Execute all the same");
  button.addEventListener("click", act);
  return button;
}

function table(found) {
  const names = Object.keys(found.columns);
  const rows = found.rows.map((row) => h("tr", {}, ...names.map((name) => h("td", { class: row[name] === null ? "muted" : null }, row[name] === null ? "null" : typeof row[name] === "object" ? JSON.stringify(row[name]) : String(row[name])))));
  const more = found.is_complete ? `${rows.length} rows` : `the first ${rows.length} rows`;
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)), h("p", { class: "muted" }, more));
}

export class Settings {
  constructor() {
    this.form = byId("settings-form");
    this.shown = null;
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.apply(); });
  }

  // what a person has begun to change is left alone
  show(settings) {
    const text = JSON.stringify(settings);
    if (!settings || text === this.text || this.form.contains(document.activeElement)) return;
    Object.assign(this, { text, shown: settings });
    byId("strategies").replaceChildren(...(settings.strategies ?? []).map((name) => h("option", { value: name })));
    byId("set-strategy").value = settings.strategy;
    byId("set-memory").value = settings.memory_bytes ? bytes(settings.memory_bytes) : "";
    byId("set-budget").value = settings.tick_budget_s ? seconds(settings.tick_budget_s) : "";
    byId("set-latency").replaceChildren(h("legend", {}, "Latency bounds"), ...Object.entries(settings.latency_s).map(([name, bound]) => {
      const input = h("input", { "data-query": name, placeholder: "none; such as 2 s", autocomplete: "off" });
      input.value = bound ? seconds(bound) : "";
      return h("label", {}, name, input);
    }));
  }

  async apply() {
    const change = {}, said = byId("applied"), now = this.shown;
    if (!now) { said.textContent = "no query runs yet"; return; }
    const strategy = byId("set-strategy").value.trim(), memory = byId("set-memory").value.trim();
    if (strategy !== now.strategy) change.strategy = strategy;
    if (memory && memory !== (now.memory_bytes ? bytes(now.memory_bytes) : "")) change.memory = memory;
    const budget = byId("set-budget").value.trim();
    if (budget && budget !== (now.tick_budget_s ? seconds(now.tick_budget_s) : "")) change.tick_budget = budget;
    for (const input of this.form.querySelectorAll("[data-query]")) {
      const name = input.dataset.query, before = now.latency_s[name] ? seconds(now.latency_s[name]) : "", value = input.value.trim();
      if (value !== before) (change.latency ??= {})[name] = value || null;
    }
    if (!Object.keys(change).length) { said.textContent = "nothing has changed"; return; }
    byId("apply").disabled = true;
    try {
      const settings = await ask("/settings", change);
      said.textContent = "in force from the next tick on";
      document.activeElement?.blur();
      this.show(settings);
    } catch (error) {
      said.textContent = error.message;
    } finally {
      byId("apply").disabled = false;
    }
  }
}
