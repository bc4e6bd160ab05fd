// Elements without templates: text is always set as text, so nothing that a model or a tool wrote becomes markup.

// h("p.note", { id: "x" }, "text", h("b", "more")): classes stand behind the tag, attributes are optional. Children are
// elements, text, or lists of them.
const maker = (create) => (name, ...children) => {
  const [tag, ...classes] = name.split(".");
  const element = create(tag);
  if (children[0]?.constructor === Object) set(element, children.shift(), classes);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  append(element, children);
  return element;
};
export const h = maker((tag) => document.createElement(tag));
export const svg = maker((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));

function set(element, attributes, classes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") classes.push(value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// Intl takes a tenth of a millisecond for each: a list has hundreds
export const number = (value) => (value === null || value === undefined ? "–" : String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ","));

// 38.4k, 5.60M
export function short(value) {
  if (!value) return value === 0 ? "0" : "–";
  return value >= 1e6 ? `${(value / 1e6).toFixed(2)}M` : value >= 10000 ? `${+(value / 1000).toFixed(1)}k` : number(value);
}

export function money(value) {
  if (value === null || value === undefined) return "–";
  return value === 0 ? "$0" : `$${value.toFixed(value < 0.1 ? 4 : 2)}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 120000 ? `${(ms / 1000).toFixed(ms < 9950 ? 2 : 1)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

export const size = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

export const clock = (seconds) => new Date(seconds * 1000).toTimeString().slice(0, 8);

export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;

// Badges in the order material, minor, cosmetic.
export const SEVERITIES = ["material", "minor", "cosmetic"];
export const badges = (losses) =>
  h("span.sevs", SEVERITIES.filter((it) => losses[it]).map((it) => h("span", { class: `sev ${it}`, title: plural(losses[it], `${it} loss`) }, losses[it])));

const ICONS = {
  chevron: "M5 3l5 5-5 5", search: "M11 7a4 4 0 1 1-8 0 4 4 0 0 1 8 0zM10 10l4 4", copy: "M6 5h7v9H6zM3 11V2h7",
  link: "M6.5 9.5l3-3M7 4.5L8.5 3a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5L7.5 13A3 3 0 0 1 3 8.5L4.5 7", warn: "M8 2.5l6 11H2zM8 6.5v3.5M8 12v.1",
  play: "M5 3l8 5-8 5z", think: "M3 8h2l1.5-4 3 8L11 8h2",
  shell: "M3 4l4 4-4 4M8 12h5", file: "M4 2h5l3 3v9H4zM9 2v3h3", pen: "M3 13l1-3.5L11 2.5 13.5 5l-7 7z", tool: "M3 8h10M8 3v10", load: "M8 2v8M4.5 7L8 10.5 11.5 7M3 13.5h10", split: "M2.5 3h11v10h-11zM8 3v10", bulb: "M6 13h4M6.5 11C6.5 9.5 4 8.5 4 6a4 4 0 0 1 8 0c0 2.5-2.5 3.5-2.5 5z",
};
export const icon = (name, kind = "") => svg("svg", { class: `i ${kind}`, viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));

export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // without a secure context there is no clipboard: select a text area instead
    const area = h("textarea.sr");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast("copied");
  button?.focus?.();
}

export function toast(text) {
  document.querySelector(".toast")?.remove();
  const box = h("div.toast", { role: "status" }, text);
  document.body.append(box);
  setTimeout(() => box.remove(), 1400);
}

export const sum = (list, read) => list.reduce((all, it) => all + (read(it) || 0), 0);

export const message = (error) => String(error.message || error);

export const alertBox = (...text) => h("div.alert.bad", { role: "alert" }, icon("warn"), h("span", text));

export const iconButton = (label, name, onclick, more = {}) => h("button.icon-btn", { title: label, "aria-label": label.replace(/ \(.*/, ""), onclick, ...more }, name.length > 1 ? icon(name) : name);

export const empty = (title, ...content) => h("div.empty", h("h2", title), content);

export const metric = (value, label) => h("div.metric", h("b", value), h("span", label));

export const box = (title, aside, ...content) => h("section.box", h("h3", title, h("span.r", aside)), content);

// What scrolls can be reached by key, and has a name.
export const scroller = (label, ...content) => h("div.scrollx", { tabindex: "0", role: "group", "aria-label": label }, content);
export const textBox = (label, text) => h("pre.code.in", { tabindex: "0", role: "region", "aria-label": label }, text);

// Something that unfolds; its content is made when it is first opened.
export function fold(kind, summary, make, open = false, data = {}) {
  const box = h("details", { class: kind, open, data }, h("summary", icon("chevron", "chev"), summary));
  let made = false;
  const fill = () => {
    if (!made && box.open) (made = true), append(box, [make()]);
  };
  box.addEventListener("toggle", fill);
  fill();
  return box;
}

export function table(titles, rows, empty = "Nothing yet.") {
  if (!rows.length) return h("p.muted", empty);
  const cell = (tag, it) => (typeof it === "number" ? h(`${tag}.num`, number(it)) : it?.num ? h(`${tag}.num`, it.text) : h(tag, it));
  return scroller("table", h("table.t", h("thead", h("tr", titles.map((it) => cell("th", it)))), h("tbody", rows.map((row) => h("tr", row.map((it) => cell("td", it)))))));
}
export const right = (text) => ({ num: true, text });
