// A JSON value as a tree of lines, each with its path. Large values are drawn when they are opened, in portions.

import { h, replace } from "inspector/dom";

const LONG_TEXT = 1200;
const PORTION = 200;

// `marks`: path -> {kind, title}; `folded`: array name -> how many entries at its beginning are folded.
// Few characters: opened at once.
const small = (value) => JSON.stringify(value).length < 900;

export class JsonView extends HTMLElement {
  show(value, { marks = {}, folded = {}, label = "JSON" } = {}) {
    this.marks = marks;
    this.folded = folded;
    this.setAttribute("role", "tree");
    this.setAttribute("aria-label", label);
    replace(this, this.node(value, "", "", 0));
    return this;
  }

  node(value, name, path, depth) {
    const isArray = Array.isArray(value);
    if (value === null || typeof value !== "object") return this.leaf(value, name, path);
    const entries = isArray ? value.map((it, i) => [`[${i}]`, it, `${path}[${i}]`]) : Object.entries(value).map(([k, v]) => [k, v, path ? `${path}.${k}` : k]);
    const details = h("details", { open: depth < 1 || this.leads(path) || (depth < 4 && small(value)), class: "node", data: { path } });
    const summary = h("summary", { role: "treeitem" }, this.label(name), this.hint(value, entries));
    this.decorate(summary, path);
    details.append(summary);
    let drawn = false;
    const draw = () => {
      if (drawn || !details.open) return;
      drawn = true;
      const skip = depth === 1 ? this.folded[path] || 0 : 0;
      if (skip > 1) details.append(this.repeated(entries.slice(0, skip), depth));
      this.portion(details, entries.slice(skip > 1 ? skip : 0), depth);
    };
    details.addEventListener("toggle", draw);
    draw();
    return details;
  }

  repeated(entries, depth) {
    const box = h("details", { class: "repeated" }, h("summary", {}, `${entries.length} entries as in the last turn`));
    box.addEventListener("toggle", () => box.open && box.children.length === 1 && this.portion(box, entries, depth));
    return box;
  }

  portion(parent, entries, depth) {
    for (const [name, value, path] of entries.slice(0, PORTION)) parent.append(this.node(value, name, path, depth + 1));
    const rest = entries.slice(PORTION);
    if (rest.length) {
      const more = h("button", { class: "more", onclick: () => (more.remove(), this.portion(parent, rest, depth)) }, `${rest.length} more`);
      parent.append(more);
    }
  }

  leaf(value, name, path) {
    const text = JSON.stringify(value);
    const long = text.length > LONG_TEXT;
    const shown = h("span", { class: `value ${typeof value}` }, long ? text.slice(0, LONG_TEXT) : text);
    const line = h("div", { class: "leaf", role: "treeitem", data: { path }, tabindex: "-1" }, this.label(name), shown);
    if (long) {
      const more = h("button", { class: "more", onclick: () => ((shown.textContent = text.slice(0, 400000)), more.remove()) }, `${text.length} characters`);
      line.append(more);
    }
    this.decorate(line, path);
    return line;
  }

  label(name) {
    return name ? h("span", { class: "name" }, name, ": ") : "";
  }

  hint(value, entries) {
    const kind = value.type || value.role || value.name;
    return h("span", { class: "hint" }, `${Array.isArray(value) ? "[" : "{"}${entries.length}${Array.isArray(value) ? "]" : "}"}`, typeof kind === "string" ? ` ${kind}` : "");
  }

  // Whether something marked stands below `path`.
  leads(path) {
    return Boolean(path) && Object.keys(this.marks).some((it) => it.startsWith(path) && it !== path);
  }

  decorate(element, path) {
    const mark = this.marks[path];
    if (!mark) return;
    element.classList.add("mark", mark.kind);
    element.title = mark.title;
    element.append(h("span", { class: "tag" }, mark.kind));
  }

  // The line of `path`, drawn and visible; the nearest parent where it does not exist.
  find(path) {
    let best = null;
    for (const details of this.querySelectorAll("details.node")) {
      const at = details.dataset.path;
      if (at && path.startsWith(at) && !details.open) {
        details.open = true;
      }
    }
    for (const element of this.querySelectorAll("[data-path]")) {
      const at = element.dataset.path;
      if (at === path) return element;
      if (at && path.startsWith(at) && (!best || at.length > best.dataset.path.length)) best = element;
    }
    return best;
  }
}

customElements.define("json-view", JsonView);
