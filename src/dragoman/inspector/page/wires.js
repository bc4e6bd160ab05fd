// Both wires side by side, field by field, with lines between what corresponds. A field without a counterpart of its
// own belongs to that of its nearest parent; one that was lost says so.

import { copy, h, icon, replace, size, svg } from "./dom.js";

const LINE = 20; // pixels; the same as in style.css
const PORTION = 200; // entries of one array that are shown at once
const STEP = /[^.[\]]+|\[\d+\]/g;
const MOST_OPENED = 80; // marks whose parents are opened at once

export async function wires(view) {
  const tries = view.head.attempts.length;
  const options = (view.options.wires ||= { reply: false, only: false, attempt: tries });
  const data = await view.tab(options.attempt < tries ? `attempts/${options.attempt}/wires` : "wires");
  const target = view.target;
  view.target = null;
  if (/\s/.test(target?.path || "")) described(target, data, options);
  else if (target?.path) options.reply = !nearest(parse(data.client_request), target.path) && !resolves(parse(data.upstream_request), target.target) && Boolean(nearest(parse(data.upstream_reply), target.path));
  const made = new Wires(view, data, options);
  view.after = () => made.ready(target);
  return made.element;
}

// A place in words, such as "tool call id": the first call of the reply, or of the request, has it.
function described(target, data, options) {
  const name = target.path.split(" ").at(-1);
  const find = (value, path = "") => {
    for (const [key, held, at] of entries(value, path)) {
      if (key === name && (value.name || value.function)) return at;
      const found = held && typeof held === "object" && find(held, at);
      if (found) return found;
    }
    return "";
  };
  target.target = find(parse(data.client_reply));
  options.reply = Boolean(target.target);
  target.target ||= find(parse(data.upstream_request));
}

class Wires {
  constructor(view, data, options) {
    this.view = view;
    this.options = options;
    const names = options.reply ? ["upstream_reply", "client_reply"] : ["client_request", "upstream_request"];
    const pairs = options.reply ? data.reply_pairs : data.pairs;
    const { summary, attempts, losses } = view.head;
    const last = attempts[options.attempt - 1];
    const values = names.map((name) => parse(data[name]));
    if (!options.reply && last?.url && values[1] && typeof values[1] === "object") values[1] = { $url: last.url.replace(/^https?:\/\/[^/]+/, ""), ...values[1] };
    const counterparts = new Map(pairs);
    this.panes = values.map((value, side) => new Pane(this, side, value, marksOf(value, losses, side, counterparts), options.reply ? {} : data.repeated[names[side]] || {}));
    this.maps = [new Map(), new Map()];
    for (const [one, other] of pairs) {
      if (!this.maps[0].has(one)) this.maps[0].set(one, other);
      if (!this.maps[1].has(other)) this.maps[1].set(other, one);
    }
    // what is new is open on the client's side: so is its counterpart
    for (const [one, other] of pairs) if (this.panes[0].isNew(one)) this.panes[1].expose(other);
    const title = { client_request: ["cl", `Client sent · ${summary.client}`], upstream_request: ["up", `Upstream got · ${last?.protocol || "nothing was sent"}`], upstream_reply: ["up", `Upstream answered · ${last?.protocol || ""}`], client_reply: ["cl", `Client got · ${summary.client}`] };
    const heads = names.map((name) => h("h3", h("i", { class: title[name][0] }), title[name][1], h("small", data[name].text ? size(data[name].text.length) : "", data[name].assembled ? " · put together from its frames" : "")));
    const tries = attempts.length < 2 ? "" : h("select.sel", { "aria-label": "attempt", onchange: (event) => ((options.attempt = Number(event.target.value)), view.show("Wires")) }, attempts.map((it, i) => h("option", { value: i + 1, selected: i + 1 === options.attempt }, `${attempts.at(-1).round ? `Round ${it.round + 1}` : `Attempt ${i + 1}`} · ${it.provider} ${it.status || ""}`)));
    const choose = (reply) => () => ((options.reply = reply), view.show("Wires"));
    this.search = h("input", { placeholder: "search", "aria-label": "search both wires", value: options.search || "", oninput: () => this.find(), onkeydown: (event) => event.key === "Enter" && this.nextHit() });
    this.only = h("button.btn.ghost", { "aria-pressed": String(options.only), onclick: () => ((options.only = !options.only), this.only.setAttribute("aria-pressed", String(options.only)), this.draw()) }, "Only differences");
    this.lines = svg("svg.links", { "aria-hidden": "true" });
    this.bar = h("div.reason-bar", { "aria-live": "polite" });
    this.element = h("div.wirebox",
      h("div.wbar", h("div.seg", h("button", { "aria-pressed": String(!options.reply), onclick: choose(false) }, "Request"), h("button", { "aria-pressed": String(options.reply), onclick: choose(true) }, "Reply")), tries, h("label.filter", icon("search"), this.search), h("span.grow"), this.only, h("button.btn", { onclick: (event) => copy(data[names[0]].text, event.target) }, icon("copy"), "Copy")),
      h("div.wires", h("div.wcol", heads[0], this.panes[0].element), h("div.wgap", this.lines), h("div.wcol", heads[1], this.panes[1].element)),
      this.bar,
    );
    this.element.addEventListener("mousemove", (event) => (event.movementX || event.movementY) && this.hover(event));
    this.element.addEventListener("focusin", (event) => this.hover(event));
    for (const pane of this.panes) pane.element.addEventListener("scroll", () => this.connect());
    this.hint();
  }

  ready(target) {
    this.draw();
    if (target?.path || target?.target) this.pin(target);
    if (this.options.search) this.find();
  }

  hint() {
    replace(this.bar, h("span.muted", "Point at a field to see its counterpart. Click to open both."));
  }

  draw() {
    for (const pane of this.panes) pane.draw(this.options.only);
    this.connect();
  }

  // The counterpart of a path, or that of its nearest parent that has one.
  counterpart(side, path) {
    for (let at = path; at; at = parent(at)) if (this.maps[side].has(at)) return { path: this.maps[side].get(at), of: at };
    return null;
  }

  hover(event) {
    const line = event.target.closest?.(".wl[data-path]");
    if (line && line !== this.lit) this.light(line);
  }

  light(line) {
    this.lit = line;
    const side = Number(line.dataset.side);
    for (const it of this.element.querySelectorAll(".wl.lit")) it.classList.remove("lit");
    line.classList.add("lit");
    const path = line.dataset.path;
    const found = this.counterpart(side, path);
    if (found) this.panes[1 - side].visible(found.path)?.classList.add("lit");
    this.explain(side, path, found);
    this.connect();
  }

  explain(side, path, found) {
    const pane = this.panes[side];
    const mark = pane.markOf(path);
    const [one, other] = side ? [found?.path, path] : [path, found?.path];
    const kind = mark?.kind || (found ? (same(pane.value, path, this.panes[1 - side].value, found.path) ? "equal" : found.of === path ? "moved" : "inside") : side ? "added" : "own");
    const why = { equal: "The same value on both wires.", moved: "The same value, at another place or spelled differently.", inside: `Part of ${found?.of}, whose counterpart is shown.`, added: "This protocol needs it.", own: this.hasPaired(side, path) ? "Its fields have counterparts. Open it." : "Only this protocol knows it. It is no loss." }[kind];
    const value = (held, at) => (at ? h("pre", { tabindex: "0", role: "region", "aria-label": at }, shown(resolved(held, at))) : "");
    const values = [value(this.panes[0].value, one), value(this.panes[1].value, other)];
    replace(
      this.bar,
      h("div.rline", h("span", { class: `pill ${{ dropped: "bad", changed: "warn", moved: "", invented: "new", emulated: "warn" }[mark?.kind || kind] ?? "ok"}` }, kind), h("span.pp", one ? h("code", one) : "", one && other ? h("span.faint", " → ") : "", other ? h("code", other) : ""), h("span.why", mark ? [h("button.linkish", { onclick: () => this.view.reveal("Losses", { code: mark.code }) }, h("code", mark.code)), ` ${mark.severity} · ${mark.why}`] : why), h("button.btn.ghost", { onclick: (event) => copy(path, event.target) }, icon("copy"), "path")),
      h("div.rvalues", values),
    );
  }

  hasPaired(side, path) {
    return [...this.maps[side].keys()].some((it) => it.startsWith(`${path}.`) || it.startsWith(`${path}[`));
  }

  // Opens a field on both sides, with its counterpart beside it.
  toggle(side, path) {
    const pane = this.panes[side];
    const open = !pane.open.has(path);
    pane.set(path, open);
    const found = this.maps[side].get(path);
    if (found) {
      if (open) this.panes[1 - side].expose(found);
      this.panes[1 - side].set(found, open);
    }
    this.draw();
    if (found && open) this.align(side, path, found);
  }

  select(side, path) {
    const found = this.counterpart(side, path);
    this.unpin();
    if (found) {
      this.panes[1 - side].expose(found.path);
      this.draw();
      this.align(side, path, found.path);
    }
    const line = this.panes[side].visible(path);
    line?.classList.add("pin");
    if (line) this.light(line);
  }

  align(side, path, other) {
    const line = this.panes[side].visible(path);
    const across = this.panes[1 - side].visible(other);
    if (line && across) across.parentElement.scrollTop = across.offsetTop - (line.offsetTop - line.parentElement.scrollTop);
  }

  unpin() {
    for (const it of this.element.querySelectorAll(".pin")) it.classList.remove("pin");
  }

  // A mark that was asked for stays until another one is asked for.
  pin({ path, target }) {
    const theirs = nearest(this.panes[1].value, target || this.counterpart(0, path)?.path || "");
    const mine = nearest(this.panes[0].value, path) || (theirs && this.maps[1].get(theirs)) || "";
    if (mine) this.panes[0].expose(mine);
    if (theirs) this.panes[1].expose(theirs);
    this.draw();
    const lines = [mine && this.panes[0].visible(mine), theirs && this.panes[1].visible(theirs)];
    for (const line of lines) line && (line.classList.add("pin"), (line.parentElement.scrollTop = line.offsetTop - line.parentElement.clientHeight / 3));
    const first = lines[0] || lines[1];
    if (first) {
      this.light(first);
      first.scrollIntoView({ block: "nearest" });
    } else replace(this.bar, h("span", h("code", path), " is not in the recorded bodies."));
  }

  find() {
    const text = this.search.value.trim().toLowerCase();
    this.options.search = this.search.value;
    this.hits = [];
    for (const pane of this.panes) {
      pane.hits = new Set();
      if (text.length < 2) continue;
      for (const path of pane.search(text)) pane.hits.add(path), pane.expose(path), this.hits.push([pane, path]);
    }
    this.at = -1;
    this.draw();
    this.nextHit();
  }

  nextHit() {
    if (!this.hits?.length) return;
    this.at = (this.at + 1) % this.hits.length;
    const [pane, path] = this.hits[this.at];
    const line = pane.visible(path);
    if (line) line.parentElement.scrollTop = line.offsetTop - 80;
  }

  // Lines between what corresponds and is on screen; dropped ends in a cross, invented begins with a plus.
  connect() {
    const [left, right] = this.panes.map((it) => it.element);
    const height = Math.max(left.clientHeight, 1);
    const at = (line) => line.offsetTop - line.parentElement.scrollTop + LINE / 2;
    const shapes = [];
    for (const line of left.children) {
      const y = at(line);
      if (y < 0 || y > height) continue;
      const found = this.maps[0].get(line.dataset.path);
      const across = found && this.panes[1].lineOf(found);
      if (across) {
        const kind = line.classList.contains("lit") || across.classList.contains("lit") ? "on" : line.classList.contains("changed") ? "changed" : "";
        shapes.push(svg("path", { class: kind, d: `M0 ${y}C20 ${y} 24 ${at(across)} 44 ${at(across)}` }));
      } else if (line.classList.contains("dropped")) shapes.push(svg("path.dropped", { d: `M0 ${y}H12M9 ${y - 4}l7 8M16 ${y - 4}l-7 8` }));
    }
    for (const line of right.children) {
      const y = at(line);
      if (y > 0 && y < height && line.classList.contains("invented")) shapes.push(svg("path.invented", { d: `M44 ${y}H32M35 ${y - 5}v10` }));
    }
    this.lines.replaceChildren(...shapes);
  }
}

// One wire as a tree of lines, of which only the open ones are drawn.
class Pane {
  constructor(owner, side, value, marks, repeated) {
    Object.assign(this, { owner, side, value, marks, repeated, open: new Set(), hits: new Set(), more: new Map() });
    this.element = h("div.wpane", { tabindex: "0", role: "group", "aria-label": side ? "right wire" : "left wire" });
    for (const [key, held] of entries(value)) if (held && typeof held === "object" && (small(held) || Array.isArray(held))) this.open.add(key);
    for (const key of ["tools"]) if (!small(resolved(value, key))) this.open.delete(key);
    for (const key of Object.keys(repeated)) {
      const list = resolved(value, key);
      if (Array.isArray(list) && key !== "tools") list.slice(repeated[key]).forEach((it, i) => this.unfold(`${key}[${repeated[key] + i}]`, it));
    }
    for (const path of Object.keys(marks).slice(0, MOST_OPENED)) if (!this.isRepeated(path) && !path.startsWith("tools[")) this.expose(path);
  }

  unfold(path, value, depth = 0) {
    if (!value || typeof value !== "object" || depth > 3) return;
    this.open.add(path);
    for (const [, held, at] of entries(value, path)) this.unfold(at, held, depth + 1);
  }

  isRepeated(path) {
    const match = /^([^.[]+)\[(\d+)\]/.exec(path);
    return match && this.repeated[match[1]] > Number(match[2]);
  }

  expose(path) {
    for (let at = parent(path); at; at = parent(at)) this.open.add(at);
    if (this.isRepeated(path)) this.open.add(`${/^[^[]+/.exec(path)[0]}#`);
    for (let at = path; at; at = parent(at)) {
      const inside = /^(.*)\[(\d+)\]$/.exec(at);
      if (inside && Number(inside[2]) >= (this.more.get(inside[1]) || PORTION)) this.more.set(inside[1], Number(inside[2]) + 1);
    }
  }

  set(path, open) {
    open ? this.open.add(path) : this.open.delete(path);
  }

  draw(only) {
    const top = this.element.scrollTop;
    const pinned = this.element.querySelector(".pin")?.dataset.path;
    const out = [];
    if (this.value === null || typeof this.value !== "object") out.push(h("pre.code.in", this.value === null ? "nothing" : String(this.value).slice(0, 200000)));
    else this.children(this.value, "", 0, out, only);
    replace(this.element, out);
    this.index = new Map(out.map((it) => [it.dataset.path, it]));
    if (pinned) this.index.get(pinned)?.classList.add("pin");
    this.element.scrollTop = top;
  }

  children(value, path, depth, out, only) {
    const list = entries(value, path);
    const skip = depth === 1 && this.repeated[path] > 1 ? this.repeated[path] : 0;
    if (skip && !only) {
      const key = `${path}#`;
      out.push(this.line(key, depth, `0 … ${skip - 1}`, null, "as in the last turn", this.open.has(key)));
    }
    const begin = skip && !this.open.has(`${path}#`) && !only ? skip : 0;
    const most = this.more.get(path) || PORTION;
    for (const [name, held, at] of list.slice(begin, begin + most)) {
      const isTree = held && typeof held === "object" && entries(held).length;
      if (only && !this.leads(at)) continue;
      out.push(this.line(at, depth, name, held, isTree ? preview(held) : "", only ? Boolean(isTree) : this.open.has(at), isTree));
      if (isTree && (only || this.open.has(at))) this.children(held, at, depth + 1, out, only);
    }
    if (list.length > begin + most) out.push(h("button.wl.more", { style: `--d:${depth}`, onclick: () => (this.more.set(path, most + PORTION), this.owner.draw()) }, `${list.length - begin - most} more`));
  }

  line(path, depth, name, value, hint, open, isTree = path.endsWith("#")) {
    const mark = this.marks[path];
    const isNew = this.isNew(path);
    const text = isTree ? h("span.pv", hint) : h("span", { class: `v ${value === null ? "kw" : { string: "str", number: "nu" }[typeof value] || "kw"}` }, JSON.stringify(value)?.slice(0, 300));
    const act = isTree ? () => this.owner.toggle(this.side, path) : () => this.owner.select(this.side, path);
    return h(
      "button",
      { class: `wl${mark ? ` ${mark.kind}` : ""}${isNew ? " isnew" : ""}${this.hits.has(path) ? " hit" : ""}`, style: `--d:${depth}`, data: { path, side: String(this.side) }, "aria-expanded": isTree ? String(open) : null, onclick: act },
      isTree ? h("span.tri", open ? "▾" : "▸") : "",
      h("span.k", `${path === "$url" ? "POST" : name}: `),
      text,
      mark ? h("span.tag", mark.kind) : isTree && !open && this.leads(path) ? h("span.tag.inner", `${this.count(path)} inside`) : "",
    );
  }

  isNew(path) {
    const match = /^([^.[]+)\[(\d+)\]/.exec(path);
    return match && match[1] in this.repeated && this.repeated[match[1]] <= Number(match[2]);
  }

  leads(path) {
    return this.count(path) > 0;
  }

  count(path) {
    const key = path.endsWith("#") ? path.slice(0, -1) : path;
    return Object.keys(this.marks).filter((it) => it === key || it.startsWith(`${key}.`) || it.startsWith(`${key}[`)).length;
  }

  markOf(path) {
    for (let at = path; at; at = parent(at)) if (this.marks[at]) return this.marks[at];
    return null;
  }

  lineOf(path) {
    return this.index?.get(path);
  }

  // The line of a path, or of its nearest parent that is drawn.
  visible(path) {
    for (let at = path; at; at = parent(at)) if (this.lineOf(at)) return this.lineOf(at);
    return this.isRepeated(path) ? this.lineOf(`${/^[^[]+/.exec(path)[0]}#`) : null;
  }

  *search(text, value = this.value, path = "", state = { left: 200 }) {
    for (const [name, held, at] of entries(value, path)) {
      if (state.left <= 0) return;
      const isTree = held && typeof held === "object";
      if (String(name).toLowerCase().includes(text) || (!isTree && String(held).toLowerCase().includes(text))) state.left--, yield at;
      if (isTree) yield* this.search(text, held, at, state);
    }
  }
}

function entries(value, path = "") {
  if (Array.isArray(value)) return value.map((it, i) => [String(i), it, `${path}[${i}]`]);
  return value && typeof value === "object" ? Object.entries(value).map(([key, it]) => [key, it, path ? `${path}.${key}` : key]) : [];
}

const small = (value) => (JSON.stringify(value)?.length || 0) < 700;
const parent = (path) => (path.endsWith("#") ? path.slice(0, -1) : path.slice(0, Math.max(path.lastIndexOf("."), path.lastIndexOf("["), 0)));

function preview(value) {
  const count = entries(value).length;
  const kind = [value.role, value.type, value.name].filter((it) => typeof it === "string").join(" ");
  const text = typeof value.text === "string" ? value.text : typeof value.content === "string" ? value.content : "";
  const names = Array.isArray(value) ? value.map((it) => it?.name || it?.function?.name).filter(Boolean).slice(0, 6).join(", ") : "";
  return `${Array.isArray(value) ? `[${count}]` : `{${count}}`} ${[kind, text.slice(0, 90).replace(/\s+/g, " "), names].filter(Boolean).join(" · ")}`;
}

// A body as a value: JSON, the assembled reply, the frames of a stream, or text.
export function parse({ text, assembled }) {
  if (assembled) return assembled;
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    if (!/^(event|data|id|:)/m.test(text)) return text;
    return text.split(/\r?\n\r?\n/).filter((it) => it.trim()).map((block) => {
      const data = block.split(/\r?\n/).filter((it) => it.startsWith("data:")).map((it) => it.slice(5).trimStart()).join("\n");
      try {
        return JSON.parse(data);
      } catch {
        return data || block;
      }
    });
  }
}

function resolved(value, path) {
  for (const step of path.match(STEP) || []) {
    const key = step.startsWith("[") ? Number(step.slice(1, -1)) : step;
    if (value === null || typeof value !== "object" || !(key in value)) return undefined;
    value = value[key];
  }
  return value;
}

export const resolves = (value, path) => Boolean(path) && resolved(value, path) !== undefined;

// The path itself, or its longest beginning that exists.
function nearest(value, path) {
  for (let at = path || ""; at; at = parent(at)) if (resolves(value, at)) return at;
  return "";
}

function same(one, path, other, across) {
  const [a, b] = [resolved(one, path), resolved(other, across)].map((it) => (typeof it === "string" ? it : JSON.stringify(it)));
  return a !== undefined && a === b;
}

function shown(value) {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text.length > 20000 ? `${text.slice(0, 20000)}…` : text;
}

// What was invented stands on the right, if anything there corresponds to its place.
function marksOf(value, losses, side, counterparts) {
  const marks = {};
  for (const loss of losses) {
    const across = loss.target || (loss.kind === "invented" && (counterparts.get(loss.where) || loss.where));
    const path = side ? across : loss.kind === "invented" && counterparts.has(loss.where) ? "" : loss.where;
    if (path && resolves(value, path)) marks[path] ||= loss;
  }
  return marks;
}
