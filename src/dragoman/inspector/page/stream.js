// A stream on a time axis: frames of both wires, parts between them, the first byte and gaps. Step through it and see
// the message grow.

import { box, duration, empty, h, icon, metric, number, replace, scroller, sum, svg, textBox } from "./dom.js";
import { markdown } from "./markdown.js";

const TRACKS = { upstream: 20, neutral: 46, client: 88 };
const LEFT = 70;
const KINDS = { Text: "text", Reasoning: "reason", ToolCall: "call" };

export async function stream(view) {
  const { ticks, frames } = await view.tab("stream");
  const { summary } = view.head;
  if (!ticks.length) return empty(summary.state === "active" ? "No frame came yet" : summary.stream ? "No frame was recorded" : "The reply was not streamed", h("p", summary.stream ? "" : "It came whole. Wires shows it."));
  return new Stream(view, ticks, frames).element;
}

class Stream {
  constructor(view, ticks, frames) {
    Object.assign(this, { view, ticks, options: (view.options.stream ||= { zoom: "all", at: null }) });
    this.width = Math.max(360, view.panel.clientWidth - 28);
    const { summary } = view.head;
    const running = summary.state === "active";
    this.at = running || this.options.at === null ? ticks.length - 1 : Math.min(this.options.at, ticks.length - 1);
    const client = ticks.filter((it) => it.track === "client");
    const upstream = ticks.filter((it) => it.track === "upstream");
    this.first = (upstream[0] || ticks[0]).ms;
    this.end = Math.max(ticks.at(-1).ms, summary.ms || 0, 1);
    this.gaps = gapsOf(upstream.length > 2 ? upstream : client);
    const seconds = (this.end - this.first) / 1000;
    const added = median(client.map((it) => it.ms - (upstream.findLast((each) => each.ms <= it.ms)?.ms ?? it.ms)));
    this.axis = h("div.axis");
    this.slider = h("input.scrub", { type: "range", min: "0", max: String(ticks.length - 1), value: String(this.at), "aria-label": "step through the stream", oninput: () => this.step(Number(this.slider.value), true) });
    this.play = h("button.btn", { onclick: () => this.run() }, icon("play"), "Play");
    const zoom = (name, label) => h("button", { "aria-pressed": String(this.options.zoom === name), onclick: () => ((this.options.zoom = name), this.view.show("Stream")) }, label);
    this.message = h("div.in.grown", { tabindex: "0", role: "region", "aria-label": "message so far" });
    this.detail = textBox("this frame", "");
    this.heads = [h("span"), h("span")];
    this.table = h("tbody");
    this.element = h("div.pad",
      h("div.metrics", metric(duration(this.first), "first byte"), metric(duration(this.end), running ? "so far" : "whole"), summary.output && seconds > 0.05 ? metric(number(summary.output / seconds), "tokens a second") : "", this.gaps.length ? metric(duration(Math.max(...this.gaps.map(([a, b]) => b - a))), "longest gap") : "", metric(added < 10 ? `${added.toFixed(1)} ms` : duration(added), "added by dragoman, median"), metric(`${number(upstream.length)} → ${number(client.length)}`, frames > ticks.length ? "groups of frames" : "frames, upstream → client")),
      h("div.trackhd", h("div.seg", zoom("all", "Whole exchange"), zoom("first", "From the first byte"), zoom("near", "Around this frame")), this.play, h("span.legend", h("span", h("i.up"), "upstream frames"), h("span", h("i.cl"), "client frames"))),
      this.axis,
      this.slider,
      h("div.two", box("Message so far", this.heads[0], this.message), box("This frame", this.heads[1], this.detail)),
      h("h3", "Frames"),
      scroller("frames", h("table.t", h("thead", h("tr", ["At", "Since the last", "Wire", "Event", "What it carries"].map((it) => h("th", it)))), this.table)),
    );
    this.draw();
    this.step(this.at);
  }

  get range() {
    if (this.options.zoom === "first") return [this.first, this.end];
    if (this.options.zoom !== "near") return [0, this.end];
    const half = Math.max((this.end - this.first) / 16, 20);
    const at = this.ticks[this.at].ms;
    return [Math.max(0, at - half), Math.min(this.end, at + half)];
  }

  draw() {
    const [from, to] = this.range;
    const x = (ms) => LEFT + ((Math.min(Math.max(ms, from), to) - from) / Math.max(to - from, 1)) * (this.width - LEFT - 10);
    const inside = this.ticks.map((it, i) => [it, i]).filter(([it]) => it.ms >= from && it.ms <= to);
    const bottom = 112;
    const path = (track, long) => inside.filter(([it]) => it.track === track).map(([it]) => `M${x(it.ms).toFixed(1)} ${TRACKS[track]}v${long}`).join("");
    const labels = ticksOf(from, to, this.width / 160).map((ms) => [svg("line.grid", { x1: x(ms), x2: x(ms), y1: 14, y2: bottom }), svg("text", { x: x(ms), y: bottom + 14, "text-anchor": "middle" }, duration(ms))]);
    const gaps = this.gaps.filter(([a, b]) => b > from && a < to).map(([a, b]) => [svg("rect.gap", { x: x(a), y: 14, width: Math.max(x(b) - x(a), 1), height: bottom - 14 }), x(b) - x(a) > 70 ? svg("text.gaptext", { x: (x(a) + x(b)) / 2, y: 10, "text-anchor": "middle" }, `gap ${duration(b - a)}`) : ""]);
    const parts = partsOf(this.ticks, this.end).filter((it) => it.end >= from && it.begin <= to).map((it) => {
      const width = Math.max(x(it.end) - x(it.begin), 3);
      return svg("g", svg("rect", { class: `k-${it.kind}`, x: x(it.begin), y: TRACKS.neutral, width, height: 26, rx: 3 }), width > 50 ? svg("text.on", { x: x(it.begin) + 5, y: TRACKS.neutral + 17 }, it.label.slice(0, Math.floor(width / 6.2))) : "", svg("title", it.label));
    });
    this.cursor = svg("line.cursor", { y1: 10, y2: bottom });
    this.x = x;
    const first = this.first >= from && this.first <= to ? [svg("line.first", { x1: x(this.first), x2: x(this.first), y1: 12, y2: bottom }), this.first - from > (to - from) / 30 ? svg("text.firsttext", { x: x(this.first) + 4, y: 10 }, "first byte") : ""] : [];
    const wait = this.options.zoom === "all" && x(this.first) - LEFT > 130 ? svg("text", { x: (LEFT + x(this.first)) / 2, y: 63, "text-anchor": "middle" }, `waiting ${duration(this.first)}`) : "";
    replace(this.axis, svg("svg", { viewBox: `0 0 ${this.width} ${bottom + 20}`, role: "img", "aria-label": "frames over time" }, labels, gaps, Object.entries(TRACKS).map(([name, y]) => svg("text.lab", { x: 0, y: y + (name === "neutral" ? 17 : 13) }, name === "neutral" ? "parts" : name)), svg("path.tu", { d: path("upstream", 18) }), parts, svg("path.tc", { d: path("client", 18) }), wait, first, this.cursor));
    this.axis.firstChild.addEventListener("click", (event) => {
      const box = this.axis.firstChild.getBoundingClientRect();
      const ms = from + (((event.clientX - box.left) / box.width) * this.width - LEFT) / (this.width - LEFT - 10) * (to - from);
      this.step(this.ticks.reduce((best, it, i) => (Math.abs(it.ms - ms) < Math.abs(this.ticks[best].ms - ms) ? i : best), 0), true);
    });
  }

  step(at, chosen = false) {
    this.at = at;
    if (chosen) this.options.at = at;
    this.slider.value = String(at);
    const tick = this.ticks[at];
    this.cursor.setAttribute("x1", this.x(tick.ms));
    this.cursor.setAttribute("x2", this.x(tick.ms));
    const grown = textUntil(this.ticks, at);
    replace(this.message, grown.map((it) => (it.kind === "reason" ? h("p.thought", it.text) : it.kind === "call" ? h("p", h("b", it.label), " ", h("code", it.text)) : markdown(it.text))));
    this.heads[0].textContent = `${number(sum(grown, (it) => it.text.length))} characters`;
    this.detail.textContent = pretty(tick);
    this.heads[1].textContent = `${duration(tick.ms)} · ${tick.track}`;
    const begin = Math.max(0, Math.min(at - 4, this.ticks.length - 10));
    replace(this.table, this.ticks.slice(begin, begin + 10).map((it, i) => h("tr", { "aria-current": begin + i === at ? "true" : null, onclick: () => this.step(begin + i, true) }, h("td.num", `${(it.ms / 1000).toFixed(3)} s`), h("td.num", begin + i ? `+${duration(it.ms - this.ticks[begin + i - 1].ms)}` : ""), h("td", { class: { upstream: "up", client: "cl" }[it.track] || "" }, it.track), h("td.mono", it.name), h("td.mono.faint", it.text.slice(0, 64)))));
  }

  // Plays at the speed at which it came.
  async run() {
    if (this.playing) return (this.playing = false);
    this.playing = true;
    let at = this.at >= this.ticks.length - 1 ? 0 : this.at;
    while (this.playing && this.element.isConnected && at < this.ticks.length) {
      this.step(at);
      const wait = at + 1 < this.ticks.length ? this.ticks[at + 1].ms - this.ticks[at].ms : 0;
      at++;
      if (wait > 1) await new Promise((resolve) => setTimeout(resolve, Math.min(wait, 2000)));
    }
    this.playing = false;
  }
}

// Longer than four times the median, and long enough to notice.
function gapsOf(ticks) {
  const waits = ticks.slice(1).map((it, i) => [ticks[i].ms, it.ms]);
  const usual = median(waits.map(([a, b]) => b - a));
  return waits.filter(([a, b]) => b - a > Math.max(4 * usual, 40)).sort((a, b) => b[1] - b[0] - (a[1] - a[0])).slice(0, 8);
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : 0;
}

function ticksOf(from, to, most) {
  const rough = (to - from) / most;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= rough) || power;
  const out = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) out.push(at);
  return out;
}

const PART = /^#(\d+) ?([\s\S]*)$/;

function partsOf(ticks, end) {
  const parts = new Map();
  for (const tick of ticks) {
    const match = tick.track === "neutral" && PART.exec(tick.text);
    if (!match) continue;
    if (tick.name === "PartStart") parts.set(match[1], { begin: tick.ms, end, label: match[2].replace("ToolCall", "call").toLowerCase().replace(/^call (.*)/, (_, name) => `call ${match[2].slice(9) || name}`), kind: KINDS[match[2].split(" ")[0]] || "media" });
    if (tick.name === "PartEnd" && parts.has(match[1])) parts.get(match[1]).end = tick.ms;
  }
  return [...parts.values()];
}

function textUntil(ticks, at) {
  const parts = new Map();
  for (const tick of ticks.slice(0, at + 1)) {
    const match = tick.track === "neutral" && PART.exec(tick.text);
    if (!match) continue;
    if (tick.name === "PartStart") parts.set(match[1], { kind: KINDS[match[2].split(" ")[0]] || "text", label: match[2].split(" ")[1] || "", text: "" });
    if (tick.name === "PartDelta" && parts.has(match[1])) parts.get(match[1]).text += match[2].replace(/ \+state$/, "");
  }
  return [...parts.values()];
}

function pretty(tick) {
  try {
    return `${tick.name}\n${JSON.stringify(JSON.parse(tick.text), null, 2)}`;
  } catch {
    return `${tick.name}\n${tick.text}`;
  }
}
