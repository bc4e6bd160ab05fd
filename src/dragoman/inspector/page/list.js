// The list: exchanges in order of time, by session or flat, drawn only where they are visible.

import { get } from "./api.js";
import { badges, clock, duration, empty, h, icon, money, number, plural, replace, short, sum } from "./dom.js";
import { sample } from "./sample.js";
import { completions, filterNames, isFallback, parseFilter } from "./filter.js";
import { address, go, remember, remembered, state } from "./state.js";

const TALL = 46; // pixels of a row beside a detail, and of a session's head; the same as in style.css
const FLAT = 30; // pixels of a row over the whole width
const CHIPS = [["All", ""], ["Running", "is:running"], ["Failed", "is:failed"], ["Fallback", "is:fallback"], ["Material", "loss:material"], ["Cost > 5 ¢", "cost:>0.05"]];
const COLUMNS = [["preview", "Exchange", (it) => it.preview], ["route", "Asked → answered by", (it) => it.target || it.model], ["wf", "Time", (it) => it.ms || 0], ["tokens", "Tokens", (it) => it.input || 0], ["cost", "Cost", (it) => it.cost || 0], ["losses", "Losses", (it) => (it.losses.material || 0) * 1e6 + (it.losses.minor || 0) * 1e3 + (it.losses.cosmetic || 0)], ["time", "Started", (it) => it.time]];
const INITIALS = { "Claude Code": ["CC", "cc"], Codex: ["Cx", "cx"], "Gemini CLI": ["G", "ge"], OpenCode: ["OC", "oc"], "Qwen Code": ["Qw", "ge"], "openai SDK": ["Py", "py"], "anthropic SDK": ["Py", "py"], "google-genai SDK": ["Py", "py"], curl: ["cu", ""], browser: ["br", ""] };

export class ExchangeList extends HTMLElement {
  connectedCallback() {
    this.rows = new Map();
    this.folded = new Set();
    this.grouped = remembered("grouped") !== "no";
    this.sort = null;
    this.lines = [];
    this.found = null;
    this.input = h("input", { id: "filter", autocomplete: "off", spellcheck: "false", placeholder: "provider:groq loss:material -agent:codex", role: "combobox", "aria-expanded": "false", "aria-controls": "completions", "aria-label": `filter by ${filterNames.join(", ")}`, oninput: () => this.typed(), onfocus: () => this.complete(), onkeydown: (event) => this.filterKey(event), onblur: () => setTimeout(() => this.close(), 150) });
    this.completions = h("div.complete", { id: "completions", role: "listbox", "aria-label": "filters", hidden: true });
    this.chips = h("div.chips");
    this.head = h("div.head", h("span"), h("span"), COLUMNS.map(([name, title]) => h("span", { class: `h-${name}` }, h("button", { onclick: () => this.sortBy(name) }, title), h("i.width", { onpointerdown: (event) => this.resize(event, name) }))));
    this.spacer = h("div.spacer");
    this.body = h("div.rows", { tabindex: "0", role: "region", "aria-label": "list of exchanges", onscroll: () => this.draw() }, this.spacer);
    this.foot = h("footer.foot");
    this.news = h("button.news", { hidden: true, onclick: () => ((this.body.scrollTop = 0), this.refilter()) });
    replace(this, h("div.filterbar", h("label.filter", icon("search"), this.input, h("kbd.wide", "/")), this.completions), this.chips, this.head, this.news, this.body, this.foot);
    for (const [name] of COLUMNS) if (remembered(`w-${name}`)) this.style.setProperty(`--w-${name}`, remembered(`w-${name}`));
    new ResizeObserver(() => this.layout()).observe(this.body);
  }

  load(rows) {
    for (const row of rows) this.rows.set(row.id, row);
    this.refilter();
  }

  put(row) {
    const isNew = !this.rows.has(row.id);
    this.rows.set(row.id, row);
    if (isNew && this.body.scrollTop > TALL) {
      // what the reader looks at does not move
      this.unseen = (this.unseen || 0) + 1;
      this.news.textContent = `${this.unseen} new`;
      this.news.hidden = false;
      return;
    }
    if (!this.pending) {
      this.pending = true;
      requestAnimationFrame(() => ((this.pending = false), this.refilter()));
    }
  }

  refilter() {
    if (this.input.value.trim() !== state.q) this.input.value = state.q;
    this.filter = parseFilter(state.q, this.found?.q ? this.found.ids : null);
    if (this.filter.inside && this.found?.q !== this.filter.inside) this.search(this.filter.inside);
    this.unseen = 0;
    this.news.hidden = true;
    const all = [...this.rows.values()];
    const rows = all.filter(this.filter.passes).sort((a, b) => b.time - a.time);
    this.order(rows);
    replace(this.chips, CHIPS.map(([label, q]) => h("button", { class: `chip c-${label.split(" ")[0].toLowerCase()}`, "aria-pressed": String(state.q === q), onclick: () => go({ q }) }, label, " ", h("b", all.filter(parseFilter(q).passes).length))), h("span.grow"), h("button.chip", { id: "group", "aria-pressed": String(this.grouped), title: "group by session (g)", onclick: () => this.group() }, icon("split"), h("span.label", " Sessions")));
    const cost = rows.some((it) => it.cost !== null) ? money(sum(rows, (it) => it.cost)) : "";
    replace(this.foot, h("span", `${number(rows.length)} of ${plural(all.length, "exchange")}`), h("span", `${short(sum(rows, tokensOf))} tokens`), h("span", cost), this.found?.busy ? h("span.accent", "searching…") : "", h("span.hints", h("kbd", "j"), " ", h("kbd", "k"), " move ", h("kbd", "/"), " filter ", h("kbd", "?"), " keys"));
    this.layout();
  }

  order(rows) {
    this.groups = sessions([...this.rows.values()]);
    if (!this.grouped || this.sort) {
      const read = COLUMNS.find(([name]) => name === this.sort?.name)?.[2];
      if (read) rows.sort((a, b) => (read(a) < read(b) ? -1 : read(a) > read(b) ? 1 : 0) * this.sort.way);
      this.lines = rows.map((row) => ({ row }));
      return;
    }
    const shown = new Map();
    for (const row of rows) {
      const group = this.groups.get(row.id);
      if (!shown.has(group)) shown.set(group, []);
      shown.get(group).push(row);
    }
    this.lines = [];
    for (const [group, members] of shown) {
      this.lines.push({ group, members });
      if (!this.folded.has(group.name)) for (const row of members.reverse()) this.lines.push({ row, group });
    }
  }

  layout() {
    const flat = this.body.clientWidth >= 880;
    this.classList.toggle("flat", flat);
    let top = 0;
    for (const line of this.lines) {
      line.top = top;
      line.height = line.group && !line.row ? TALL : flat ? FLAT : TALL;
      top += line.height;
    }
    this.spacer.style.height = `${top}px`;
    this.draw();
  }

  draw() {
    const empty = this.empty();
    if (empty) return replace(this.spacer, empty);
    const begin = this.body.scrollTop - 200;
    const end = this.body.scrollTop + this.body.clientHeight + 200;
    const visible = this.lines.filter((it) => it.top + it.height > begin && it.top < end);
    const focused = this.spacer.contains(document.activeElement) && document.activeElement.dataset.id;
    replace(this.spacer, visible.map((it) => (it.row ? this.row(it) : this.session(it))));
    if (focused) this.spacer.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  empty() {
    if (this.filter?.unknown) return empty(`There is no filter “${this.filter.unknown}:”`, h("p", `Known: ${filterNames.join(", ")}`));
    if (this.lines.length) return null;
    if (this.rows.size) return empty(this.found?.busy ? "Searching…" : "Nothing matches", h("p.mono", state.q), h("button.btn", { onclick: () => go({ q: "" }) }, "Clear the filter"));
    if (!this.loaded) return null;
    return empty("No exchange yet", h("p", "What you send through the gateway appears here at once."), h("p", h("button.btn.primary", { onclick: sample }, "Send a sample tool call"), " ", h("a.btn", { href: "#/setup" }, "Connect an agent")), h("pre", `export OPENAI_BASE_URL=${location.origin}/v1 ANTHROPIC_BASE_URL=${location.origin}`), h("p.muted", "Prompts and results are recorded as they are. Keys are masked."));
  }

  session({ group, members, top }) {
    const running = members.some((it) => it.state === "active");
    const open = !this.folded.has(group.name);
    const toggle = () => (open ? this.folded.add(group.name) : this.folded.delete(group.name), this.refilter());
    const costs = members.some((it) => it.cost !== null) ? ` · ${money(sum(members, (it) => it.cost))}` : "";
    return h(
      "button",
      { class: `sess${open ? " open" : ""}`, style: `top:${top}px`, "aria-expanded": String(open), data: { id: group.name }, onclick: toggle },
      icon("chevron", "chev"),
      avatar(group.agent),
      h("span.ttl", h("b", group.title || "Without a session"), h("small", [group.agent || "several clients", group.session ? group.session.slice(0, 8) : group.loop ? "matched by common prefix" : ""].filter(Boolean).join(" · "), running ? h("span.accent", " · running") : "")),
      h("span.sum", h("span", `${plural(members.length, group.loop || group.session ? "turn" : "request")} · ${duration(group.end - group.begin)}`), h("span.faint", `${short(sum(members, tokensOf))} tok${costs}`)),
    );
  }

  row({ row, group, top }) {
    const alone = !group || !(group.session || group.loop);
    const status = row.state === "failed" ? h("span.pill.bad", row.cut ? "cut" : row.status || "gone") : "";
    const text = row.state === "failed" ? row.error || `status ${row.status}` : row.preview || row.prompt || row.action;
    return h(
      "a",
      { class: `row ${row.state}`, style: `top:${top}px`, href: address({ page: "exchanges", id: row.id }), data: { id: row.id }, "aria-current": row.id === state.id ? "true" : null, title: text, onclick: (event) => this.pick(event, row.id) },
      h("span.dot", mark(row)),
      h("span.tn", alone ? avatar(row.agent) : group.start === row.start ? row.turn || "" : "·"),
      h("span.prev", status, text),
      h("span.route", (!alone && row.turn > 1) || row.model === `${row.provider}:${row.target}` ? "" : [row.model, h("i", " → ")], row.provider ? [row.provider, h("i", ":"), row.target] : h("i", row.state === "active" ? "…" : "not sent"), isFallback(row) ? h("i", " fallback") : ""),
      waterfall(row, alone ? null : group, this.longest),
      h("span.tok", row.input === null ? "–" : [short(row.input), h("span.out", ` → ${number(row.output)}`)]),
      h("span.cost", money(row.cost)),
      h("span.loss", badges(row.losses)),
      h("span.time", clock(row.time)),
    );
  }

  get longest() {
    return Math.max(1000, ...this.lines.slice(0, 400).map((it) => it.row?.ms || 0));
  }

  pick(event, id) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go({ id });
  }

  // Moves the selection by `step` rows.
  move(step) {
    const rows = this.lines.filter((it) => it.row);
    const at = rows.findIndex((it) => it.row.id === state.id);
    const next = rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
    if (next) go({ id: next.row.id });
  }

  // Scrolls to the selection.
  reveal() {
    const line = this.lines.find((it) => it.row?.id === state.id);
    if (!line) return;
    if (line.top < this.body.scrollTop) this.body.scrollTop = line.top - TALL;
    else if (line.top + line.height > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = line.top + 2 * line.height - this.body.clientHeight;
  }

  group() {
    this.grouped = !this.grouped;
    this.sort = null;
    remember("grouped", this.grouped ? "yes" : "no");
    this.refilter();
  }

  sortBy(name) {
    this.sort = this.sort?.name === name ? (this.sort.way < 0 ? { name, way: 1 } : null) : { name, way: -1 };
    for (const [i, [column]] of COLUMNS.entries()) this.head.children[i + 2].setAttribute("aria-sort", this.sort?.name === column ? (this.sort.way < 0 ? "descending" : "ascending") : "none");
    this.refilter();
  }

  resize(event, name) {
    event.preventDefault();
    const begin = event.clientX;
    const width = event.target.parentElement.offsetWidth;
    const move = (it) => this.style.setProperty(`--w-${name}`, `${Math.max(48, width + it.clientX - begin)}px`);
    const end = () => (removeEventListener("pointermove", move), remember(`w-${name}`, this.style.getPropertyValue(`--w-${name}`)));
    addEventListener("pointermove", move);
    addEventListener("pointerup", end, { once: true });
  }

  typed() {
    go({ q: this.input.value.trim() });
    this.complete();
  }

  complete() {
    const at = this.input.selectionStart ?? this.input.value.length;
    this.options = completions(this.input.value.slice(0, at), this.rows.values()).slice(0, 9);
    this.choose(0);
  }

  choose(at) {
    this.chosen = at;
    this.completions.hidden = !this.options.length;
    this.input.setAttribute("aria-expanded", String(Boolean(this.options.length)));
    replace(this.completions, this.options.map((it, i) => h("button", { role: "option", "aria-selected": String(i === at), tabindex: "-1", onpointerdown: (event) => (event.preventDefault(), this.take(i)) }, h("code", it.text), h("span.muted", it.about), h("span.faint", it.count))));
  }

  close() {
    this.completions.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  take(i) {
    const at = this.input.selectionStart ?? this.input.value.length;
    const before = this.input.value.slice(0, at).replace(/(^|\s)(-?)\S*$/, (_, space, minus) => space + minus);
    const text = this.options[i].text;
    this.input.value = before + text + (text.endsWith(":") ? "" : " ") + this.input.value.slice(at);
    go({ q: this.input.value.trim() });
    text.endsWith(":") ? this.complete() : this.close();
  }

  filterKey(event) {
    const open = !this.completions.hidden;
    if (event.key === "Escape") open ? this.close() : this.input.blur();
    else if (event.key === "Enter") this.close();
    else if (open && event.key === "Tab") event.preventDefault(), this.take(this.chosen);
    else if (open && /^Arrow(Down|Up)$/.test(event.key)) event.preventDefault(), this.choose((this.chosen + (event.key === "ArrowDown" ? 1 : this.options.length - 1)) % this.options.length);
    event.stopPropagation();
  }

  // Bodies are on the server; it answers in portions, newest first.
  async search(q) {
    const mine = (this.found = { q, ids: new Set(), busy: true });
    let more = "";
    while (more !== null && this.found === mine) {
      const part = await get(`/search?q=${encodeURIComponent(q)}&before=${encodeURIComponent(more)}`).catch(() => ({ ids: [], more: null }));
      for (const id of part.ids) mine.ids.add(id);
      more = part.more;
      mine.busy = more !== null;
      if (this.found === mine) this.refilter();
    }
  }
}

// Exchanges of one session, or of one loop of calls: a loop repeats its first messages and its first reply.
export function sessions(rows) {
  const sorted = [...rows].sort((a, b) => a.time - b.time);
  const groups = new Map();
  const place = new Map();
  const group = (name, row, kind) => {
    if (!groups.has(name)) groups.set(name, { name, agent: row.agent, title: row.prompt, start: row.start, begin: row.time * 1000, end: 0, ...kind });
    const found = groups.get(name);
    if (found.agent !== row.agent) found.agent = "";
    found.end = Math.max(found.end, row.time * 1000 + (row.ms ?? Date.now() - row.time * 1000));
    place.set(row.id, found);
  };
  for (const [i, row] of sorted.entries()) {
    if (row.session) group(`s ${row.agent} ${row.session}`, row, { session: row.session });
    else {
      const run = row.run || (row.start && sorted.slice(i + 1).find((it) => it.start === row.start && !it.session)?.run);
      if (run) group(`l ${run}`, row, { loop: true });
      else group("none", row, { title: "", start: "" });
    }
  }
  // the longest conversation of a session gives it its name: beside it agents send small requests
  for (const found of groups.values()) {
    if (!found.session) continue;
    const counts = new Map();
    for (const row of sorted) if (place.get(row.id) === found && row.start) counts.set(row.start, Math.max(counts.get(row.start) || 0, row.messages));
    const best = [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
    const first = sorted.find((row) => place.get(row.id) === found && row.start === best);
    if (first) (found.start = best), (found.title = first.prompt);
  }
  return place;
}

export function avatar(agent) {
  const [text, kind] = INITIALS[agent] || [(agent || "·").slice(0, 2), ""];
  return h("span", { class: `ava ${kind}`, title: agent || "several", "aria-hidden": "true" }, text);
}

export const tokensOf = (row) => (row.input || 0) + (row.output || 0);

export function mark(row) {
  const [kind, title] = row.state === "active" ? ["run", "running"] : row.state === "failed" ? ["failed", "failed"] : isFallback(row) ? ["fallback", "answered by a fallback"] : ["", "done"];
  return h("span", { class: `dotc ${kind}`, title, role: "img", "aria-label": title }, kind === "failed" ? "✕" : "");
}

// Waiting, first byte, streaming: on the time axis of the session, or of its own.
function waterfall(row, group, longest) {
  const ms = row.ms ?? Date.now() - row.time * 1000;
  const span = group ? Math.max(group.end - group.begin, 1) : longest;
  const at = group ? row.time * 1000 - group.begin : 0;
  const percent = (value) => `${Math.min(100, Math.max(0, (value / span) * 100)).toFixed(2)}%`;
  const first = Math.min(row.first_ms ?? ms, ms);
  const bar = (kind, from, length) => h("i", { class: kind, style: `left:${percent(at + from)};width:${percent(length)}` });
  const title = `${row.queue_ms ? `queue ${duration(row.queue_ms)} · ` : ""}first byte ${duration(first)} · streaming ${duration(ms - first)} · in all ${duration(ms)}${row.attempts > 1 ? ` · ${row.attempts} attempts` : ""}`;
  if (row.state === "failed" && !row.cut) return h("span.wf", { title }, row.attempts > 1 ? bar("x", 0, ms) : "", bar("f", Math.max(0, Math.min(ms, span - at) - span * 0.02), span * 0.02));
  return h("span.wf", { title }, bar("w", 0, first), bar(row.state === "active" ? "s run" : row.cut ? "s cut" : "s", first, Math.max(ms - first, span * 0.004)));
}

customElements.define("exchange-list", ExchangeList);
