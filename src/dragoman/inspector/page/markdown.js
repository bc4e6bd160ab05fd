// Markdown of a model as elements: paragraphs, headings, lists, quotes, tables, fences, code, emphasis. It never becomes
// HTML text: raw HTML stays text, images are not loaded, and only http addresses are links.

import { h, scroller } from "./dom.js";

const INLINE = /(`+)([\s\S]+?)\1(?!`)|\*\*([^*]+)\*\*|__([^_]+)__|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)|~~([^~]+)~~/g;

export function inline(text) {
  const out = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    out.push(text.slice(at, match.index));
    const [all, , code, bold, bold2, italic, label, url, struck] = match;
    if (code !== undefined) out.push(h("code", code));
    else if (bold || bold2) out.push(h("b", inline(bold || bold2)));
    else if (italic) out.push(h("i", inline(italic)));
    else if (label) out.push(h("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, label));
    else out.push(h("s", struck));
    at = match.index + all.length;
  }
  out.push(text.slice(at));
  return out;
}

export function markdown(text) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const out = [];
  let at = 0;
  while (at < lines.length) {
    const [element, next] = block(lines, at);
    if (element) out.push(element);
    at = next;
  }
  return h("div.md", out);
}

const LIST = /^(\s*)([-*+]|\d{1,3}[.)])\s+(.*)$/;
const STARTS = /^\s*(```|~~~|#{1,6}\s|>|\||[-*+]\s|\d{1,3}[.)]\s)/;

function block(lines, at) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  const fence = /^\s*(```+|~~~+)\s*(\S*)/.exec(line);
  if (fence) return fenced(lines, at, fence[1]);
  const heading = /^\s*(#{1,6})\s+(.*)$/.exec(line);
  if (heading) return [h("p", { class: `mdh h${heading[1].length}` }, inline(heading[2])), at + 1];
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) return [h("hr"), at + 1];
  if (/^\s*>/.test(line)) return quoted(lines, at);
  if (/^\s*\|.*\|\s*$/.test(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[at + 1] || "")) return tabled(lines, at);
  if (LIST.test(line)) return listed(lines, at, LIST.exec(line)[1].length);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !STARTS.test(lines[end])) end++;
  return [h("p", inline(lines.slice(at, end).join("\n"))), end];
}

function fenced(lines, at, mark) {
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end++;
  return [h("pre.code", lines.slice(at + 1, end).join("\n")), end + 1];
}

function quoted(lines, at) {
  let end = at;
  while (end < lines.length && /^\s*>/.test(lines[end])) end++;
  return [h("blockquote", markdown(lines.slice(at, end).map((it) => it.replace(/^\s*> ?/, "")).join("\n"))), end];
}

function tabled(lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((it) => inline(it.trim().replaceAll("\\|", "|")));
  let end = at + 2;
  while (end < lines.length && /^\s*\|/.test(lines[end])) end++;
  const rows = lines.slice(at + 2, end).map((line) => h("tr", cells(line).map((it) => h("td", it))));
  return [scroller("table", h("table", h("thead", h("tr", cells(lines[at]).map((it) => h("th", it)))), h("tbody", rows))), end];
}

function listed(lines, at, indent) {
  const ordered = /\d/.test(LIST.exec(lines[at])[2]);
  const items = [];
  while (at < lines.length) {
    const match = LIST.exec(lines[at]);
    if (match && match[1].length >= indent + 2 && items.length) {
      const [inner, next] = listed(lines, at, match[1].length);
      items.at(-1).append(inner);
      at = next;
    } else if (match && match[1].length >= indent) {
      items.push(h("li", inline(match[3])));
      at++;
    } else if (!match && lines[at].trim() && /^\s+/.test(lines[at]) && items.length) items.at(-1).append(" ", ...inline(lines[at++].trim()));
    else if (!lines[at].trim() && LIST.test(lines[at + 1] || "")) at++;
    else break;
  }
  return [h(ordered ? "ol" : "ul", {}, items), at];
}
