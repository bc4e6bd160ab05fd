// The live list: one line for each exchange, newest first, drawn only where it is visible.

import { clock, duration, h, number, replace } from "inspector/dom";
import { filterNames, parseFilter } from "inspector/filter";

const ROW = 34; // pixels; the same as in style.css

const COLUMNS = [
  ["time", "Time", (row) => clock(row.time)],
  ["agent", "Agent", (row) => row.agent],
  ["route", "Model → provider:model", (row) => route(row)],
  ["wire", "Protocols", (row) => (row.upstream && row.upstream !== row.client ? `${row.client} → ${row.upstream}` : row.client)],
  ["calls", "Tools / calls", (row) => `${row.tools} / ${row.calls}${row.tool_names.length ? " " + row.tool_names.join(", ") : ""}`],
  ["tokens", "Tokens in / out", (row) => tokens(row)],
  ["took", "Duration (first byte)", (row) => took(row)],
  ["status", "Status", (row) => status(row)],
  ["losses", "Losses", (row) => losses(row)],
];

export class ExchangeList extends HTMLElement {
  connectedCallback() {
    this.rows = new Map();
    this.selected = null;
    this.grouped = false;
    this.filter = () => true;
    this.input = h("input", {
      type: "search",
      id: "filter",
      placeholder: "provider:groq loss:material status:>=400 tool:Bash is:failed",
      "aria-label": `filter by ${filterNames.join(", ")}`,
      oninput: () => this.refilter(),
    });
    this.count = h("span", { class: "count", "aria-live": "polite" });
    const group = h("label", { class: "group" }, h("input", { type: "checkbox", onchange: (event) => ((this.grouped = event.target.checked), this.refilter()) }), " group by session");
    this.head = h("div", { class: "row head", role: "row" }, COLUMNS.map(([name, title]) => h("span", { class: `cell ${name}`, role: "columnheader" }, title)));
    this.spacer = h("div", { class: "spacer" });
    this.body = h("div", { class: "scroll", tabindex: "0", role: "table", "aria-label": "exchanges", onscroll: () => this.draw() }, this.spacer);
    replace(this, h("div", { class: "bar" }, this.input, group, this.count), this.head, this.body);
    this.body.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  load(rows) {
    for (const row of rows) this.rows.set(row.id, row);
    this.refilter();
  }

  put(row) {
    this.rows.set(row.id, row);
    if (!this.pending) {
      this.pending = true;
      requestAnimationFrame(() => ((this.pending = false), this.refilter(true)));
    }
  }

  refilter() {
    this.filter = parseFilter(this.input.value);
    const rows = [...this.rows.values()].filter(this.filter).sort((a, b) => order(b) - order(a) || b.time - a.time);
    this.shown = this.grouped ? grouped(rows) : rows;
    this.count.textContent = `${rows.length} of ${this.rows.size}`;
    this.spacer.style.height = `${this.shown.length * ROW}px`;
    this.draw();
  }

  draw() {
    if (!this.shown) return;
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW) - 5);
    const last = Math.min(this.shown.length, first + Math.ceil(this.body.clientHeight / ROW) + 10);
    const lines = [];
    for (let i = first; i < last; i++) lines.push(this.line(this.shown[i], i));
    replace(this.spacer, lines);
  }

  line(row, index) {
    const style = `transform: translateY(${index * ROW}px)`;
    if (row.session !== undefined && row.group) {
      return h("div", { class: "row session", role: "row", style }, `${row.agent || "session"} ${row.session || "without a session"} — ${row.count} exchanges, ${number(row.tokens)} tokens`);
    }
    const line = h(
      "a",
      { class: `row ${row.state}${row.id === this.selected ? " selected" : ""}`, role: "row", href: `#/e/${row.id}`, style, tabindex: "-1", data: { id: row.id }, title: row.error },
      COLUMNS.map(([name, , cell]) => h("span", { class: `cell ${name}`, role: "cell" }, cell(row))),
    );
    return line;
  }

  key(event) {
    const rows = (this.shown || []).filter((row) => !row.group);
    const at = rows.findIndex((row) => row.id === this.selected);
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
      if (next) {
        this.selected = next.id;
        const place = this.shown.indexOf(next) * ROW;
        if (place < this.body.scrollTop || place > this.body.scrollTop + this.body.clientHeight - ROW) this.body.scrollTop = place - 60;
        this.draw();
      }
      event.preventDefault();
    } else if (event.key === "Enter" && at >= 0) location.hash = `#/e/${rows[at].id}`;
  }
}

// What is under way stands first, and failures of the last minute next: they are what people look for.
const order = (row) => (row.state === "active" ? 2 : row.state === "failed" && Date.now() / 1000 - row.time < 60 ? 1 : 0);

function grouped(rows) {
  const sessions = new Map();
  for (const row of rows) {
    const name = `${row.agent}\n${row.session}`;
    if (!sessions.has(name)) sessions.set(name, []);
    sessions.get(name).push(row);
  }
  const lines = [];
  for (const members of sessions.values()) {
    const total = members.reduce((sum, row) => sum + (row.input || 0) + (row.output || 0), 0);
    lines.push({ group: true, agent: members[0].agent, session: members[0].session, count: members.length, tokens: total, id: `group ${lines.length}` }, ...members);
  }
  return lines;
}

const route = (row) => (row.provider ? `${row.model} → ${row.provider}:${row.target}` : row.model || row.action);

function tokens(row) {
  if (row.input === null && row.output === null) return "";
  return `${number(row.input)}${row.cached ? ` (${number(row.cached)})` : ""} / ${number(row.output)}`;
}

const took = (row) => (row.ms === null ? "…" : `${duration(row.ms)}${row.first_ms !== null ? ` (${duration(row.first_ms)})` : ""}`);

function status(row) {
  if (row.state === "active") return "in flight";
  const attempts = row.attempts > 1 ? ` · ${row.attempts} attempts` : "";
  const fallback = new Set(row.providers).size > 1 ? " · fallback" : "";
  return `${row.status || "client gone"}${attempts}${fallback}`;
}

function losses(row) {
  return ["material", "minor", "cosmetic"].filter((it) => row.losses[it]).map((it) => h("span", { class: `badge ${it}`, title: row.codes.join("\n") }, `${row.losses[it]} ${it}`));
}

customElements.define("exchange-list", ExchangeList);
