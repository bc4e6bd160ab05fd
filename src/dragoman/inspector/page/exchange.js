// One exchange: its route, its losses, both wires side by side, the stream, the conversation, the window.

import { exported, get, replay } from "inspector/api";
import { treemap } from "inspector/charts";
import { clock, copy, duration, h, number, replace } from "inspector/dom";
import "inspector/json-view";

const TABS = ["Losses", "Route", "Wires", "Stream", "Conversation", "Window", "Do"];

export class ExchangeView extends HTMLElement {
  async open(id, tab = "Losses") {
    this.exchange = await get(`/exchanges/${id}`);
    const { summary } = this.exchange;
    this.tabs = h("div", { class: "tabs", role: "tablist" }, TABS.map((name, i) => h("button", { role: "tab", id: `tab-${name}`, title: `key ${i + 1}`, onclick: () => this.select(name) }, name)));
    this.panel = h("section", { class: "panel", role: "tabpanel", tabindex: "0" });
    replace(
      this,
      h(
        "header",
        {},
        exported ? "" : h("a", { href: "#/", class: "back" }, "← list"),
        h("h1", {}, `${summary.model || summary.action} `, summary.provider ? h("small", {}, `→ ${summary.provider}:${summary.target}`) : ""),
        h("p", { class: "facts" }, `${new Date(summary.time * 1000).toISOString().slice(0, 10)} ${clock(summary.time)} · ${summary.agent || "unknown agent"} · ${summary.client}${summary.upstream ? ` → ${summary.upstream}` : ""} · status ${summary.status} · ${duration(summary.ms)} · ${summary.id}`),
        summary.error ? h("p", { class: "error", role: "alert" }, summary.error) : "",
      ),
      this.tabs,
      this.panel,
    );
    this.select(tab);
  }

  select(name) {
    this.tab = name;
    for (const button of this.tabs.children) button.setAttribute("aria-selected", String(button.textContent === name));
    const draw = { Losses: this.losses, Route: this.route, Wires: this.wires, Stream: this.stream, Conversation: this.conversation, Window: this.window, Do: this.actions }[name];
    replace(this.panel, draw.call(this));
  }

  losses() {
    const { losses } = this.exchange;
    if (!losses.length) return h("p", { class: "none" }, "Nothing was lost.");
    const rows = losses.map((loss) =>
      h(
        "tr",
        {},
        h("td", {}, h("code", {}, loss.code || loss.kind)),
        h("td", {}, h("span", { class: `badge ${loss.severity}` }, loss.severity)),
        h("td", {}, h("button", { class: "path", onclick: () => this.reveal(loss) }, loss.where), loss.value ? h("code", { class: "sample" }, loss.value) : ""),
        h("td", {}, loss.target ? h("code", {}, loss.target) : ""),
        h("td", {}, loss.why, loss.meaning ? h("span", { class: "sample" }, loss.meaning) : ""),
        h("td", { class: "n" }, number(loss.today)),
        h("td", {}, loss.advice),
      ),
    );
    const titles = ["Code", "Severity", "Source path and value", "Target path", "Why", "Today", "What to do"];
    return h("table", { class: "losses" }, h("thead", {}, h("tr", {}, titles.map((it) => h("th", {}, it)))), h("tbody", {}, rows));
  }

  route() {
    const { summary, rule, attempts, request, reply } = this.exchange;
    const steps = [
      h("li", {}, h("b", {}, "asked"), ` ${summary.model || "(no model)"} over ${summary.client}`),
      h("li", {}, h("b", {}, "rule"), ` ${rule || "the model was named as provider:model, or there is one provider"}`),
      ...attempts.map((it, i) =>
        h(
          "li",
          { class: it.status >= 200 && it.status < 300 && !it.error ? "good" : "bad" },
          h("b", {}, `attempt ${i + 1}`),
          ` ${it.provider}:${it.model} (${it.protocol}) at ${duration(it.started_ms)}: `,
          it.error || (it.status ? `status ${it.status}` : "no reply"),
          it.problem ? h("pre", {}, it.problem) : "",
          h("details", {}, h("summary", {}, it.url), headersTable("request", it.headers), headersTable("reply", it.reply_headers)),
        ),
      ),
    ];
    return [h("ol", { class: "route" }, steps), h("h2", {}, "Headers of the client's side"), headersTable("request", request.headers), headersTable("reply", reply.headers)];
  }

  wires() {
    const { wires, repeated, tools, losses, states, previous } = this.exchange;
    const wanted = this.reply ? ["upstream_reply", "client_reply"] : ["client_request", "upstream_request"];
    const switcher = h(
      "div",
      { class: "switch" },
      h("button", { "aria-pressed": String(!this.reply), onclick: () => ((this.reply = false), this.select("Wires")) }, "Request"),
      h("button", { "aria-pressed": String(Boolean(this.reply)), onclick: () => ((this.reply = true), this.select("Wires")) }, "Reply"),
      previous ? h("a", { href: `#/e/${previous}` }, "previous turn of this session") : "",
      changes(tools),
    );
    const columns = wanted.map((name, side) => {
      const value = parse(wires[name].text);
      const marks = side === 0 ? marksOf(value, losses, "where") : marksOf(value, losses, "target");
      if (!this.reply && side === 0) for (const path of states) marks[path] ||= { kind: "state", title: "opaque state of a provider" };
      const view = h("json-view");
      view.show(value, { marks, folded: repeated[name] || {}, label: name });
      return h("div", { class: "wire-panel" }, h("h2", {}, title(name, this.exchange)), view);
    });
    const pair = this.reply ? this.exchange.reply_pairs : this.exchange.pairs;
    this.linked(columns[0].querySelector("json-view"), columns[1].querySelector("json-view"), pair);
    return [switcher, h("div", { class: "wires" }, columns)];
  }

  // Hovering or focusing a field lights up its counterpart on the other wire.
  linked(left, right, pairs) {
    const there = new Map(pairs);
    const back = new Map(pairs.map(([a, b]) => [b, a]));
    for (const [view, other, map] of [[left, right, there], [right, left, back]]) {
      const light = (event) => {
        const line = event.target.closest?.("[data-path]");
        for (const lit of this.querySelectorAll(".lit")) lit.classList.remove("lit");
        const path = line && map.get(line.dataset.path);
        if (!path) return;
        line.classList.add("lit");
        const found = [...other.querySelectorAll("[data-path]")].find((it) => it.dataset.path === path);
        found?.classList.add("lit");
      };
      view.addEventListener("mouseover", light);
      view.addEventListener("focusin", light);
      view.addEventListener("click", (event) => {
        const line = event.target.closest?.(".leaf");
        const path = line && map.get(line.dataset.path);
        if (path) other.find(path)?.scrollIntoView({ block: "center" });
      });
    }
  }

  reveal(loss) {
    this.reply = !resolves(parse(this.exchange.wires.client_request.text), loss.where);
    this.select("Wires");
    const view = this.querySelector("json-view");
    const found = view.find(loss.where);
    found?.scrollIntoView({ block: "center" });
    found?.classList.add("lit");
  }

  stream() {
    const { timeline, summary } = this.exchange;
    if (!timeline.length) return h("p", { class: "none" }, summary.stream ? "No frame was recorded." : "The reply was not streamed.");
    const end = Math.max(...timeline.map((it) => it.ms), 1);
    const grown = h("pre", { class: "grown", "aria-live": "off" });
    const detail = h("pre", { class: "detail" });
    const slider = h("input", { type: "range", min: "0", max: String(timeline.length - 1), value: String(timeline.length - 1), "aria-label": "step through the stream", oninput: () => step(Number(slider.value)) });
    const step = (at) => {
      grown.textContent = textUntil(timeline, at);
      const tick = timeline[at];
      detail.textContent = `${tick.ms.toFixed(1)} ms ${tick.track} ${tick.name}\n${tick.text.slice(0, 20000)}`;
      for (const [i, dot] of dots.entries()) dot.classList.toggle("past", i <= at);
    };
    const tracks = ["upstream", "neutral", "client"];
    const dots = timeline.map((tick, i) => h("button", { class: `dot ${tick.track}`, style: `left: ${(tick.ms / end) * 98}%; top: ${tracks.indexOf(tick.track) * 22}px`, title: `${tick.ms.toFixed(1)} ms ${tick.name}`, "aria-label": `${tick.track} ${tick.name} at ${tick.ms} ms`, tabindex: "-1", onclick: () => ((slider.value = String(i)), step(i)) }));
    const axis = h("div", { class: "axis" }, tracks.map((name, i) => h("span", { class: "track", style: `top: ${i * 22}px` }, name)), h("div", { class: "dots" }, dots.slice(0, 6000)));
    step(timeline.length - 1);
    return [axis, h("div", { class: "steps" }, slider, h("span", {}, `${timeline.length} frames and events in ${duration(end)}`)), h("div", { class: "two" }, h("div", {}, h("h2", {}, "The message so far"), grown), h("div", {}, h("h2", {}, "This step"), detail))];
  }

  conversation() {
    const { threads } = this.exchange;
    if (!threads.length) return h("p", { class: "none" }, "No call and no opaque state in this session.");
    const link = (id) => (id ? h("a", { href: `#/e/${id}` }, id.slice(-6)) : "with the first request");
    const rows = threads.map((it) =>
      h(
        "tr",
        { class: it.kind },
        h("td", {}, it.kind),
        h("td", {}, it.label),
        h("td", {}, h("code", {}, it.id)),
        h("td", {}, link(it.born)),
        h("td", {}, it.answered ? link(it.answered) : it.kind === "call" ? "not yet" : ""),
        h("td", {}, `${it.returned.length} ×`),
        h("td", {}, it.origin),
        h("td", {}, it.withheld.map(link)),
      ),
    );
    const titles = ["Kind", "What", "Id", "Born in", "Answered in", "Sent back", "Made by", "Withheld in"];
    return h("table", {}, h("thead", {}, h("tr", {}, titles.map((it) => h("th", {}, it)))), h("tbody", {}, rows));
  }

  window() {
    const { window: segments, prefix } = this.exchange;
    const total = segments.reduce((sum, it) => sum + it.tokens, 0);
    const unused = segments.filter((it) => it.kind === "tool" && !it.used);
    const map = treemap(segments.map((it) => ({ size: it.tokens, kind: it.kind + (it.used ? "" : " unused"), label: `${it.label} ${number(it.tokens)}`, title: `${it.kind} ${it.label}\n${it.path}\n≈ ${number(it.tokens)} tokens` })), { width: Math.max(320, this.panel.clientWidth) });
    return [
      h("p", {}, `About ${number(total)} tokens in ${segments.length} pieces.`),
      prefixNote(prefix),
      map,
      legend(segments),
      unused.length ? h("p", {}, `Declared and never called in this conversation: ${unused.map((it) => it.label).join(", ")} (≈ ${number(unused.reduce((sum, it) => sum + it.tokens, 0))} tokens).`) : "",
    ];
  }

  actions() {
    const { snippets, summary } = this.exchange;
    const copies = Object.entries(snippets).map(([name, text]) => h("div", { class: "snippet" }, h("h2", {}, name), h("button", { onclick: (event) => copy(text, event.target) }, "copy"), h("pre", {}, text.length > 3000 ? text.slice(0, 3000) + "…" : text)));
    if (exported) return copies;
    const model = h("input", { id: "replay-model", value: summary.model, list: "models", "aria-label": "model to replay to" });
    const result = h("div", { class: "result", "aria-live": "polite" });
    const run = async () => {
      replace(result, "sending…");
      try {
        const id = await replay(this.exchange, model.value);
        replace(result, "answered: ", h("a", { href: `#/e/${id}` }, id), " ", h("button", { onclick: () => this.compare(id, result) }, "compare"));
      } catch (error) {
        replace(result, String(error));
      }
    };
    const plan = h("div", { class: "plan" }, h("button", { id: "dry-run", onclick: async () => replace(plan, planTable(await get(`/exchanges/${summary.id}/plan`))) }, "dry run: what would be lost at each provider"));
    return [
      h("div", { class: "replay" }, h("h2", {}, "Replay"), model, h("button", { id: "replay", onclick: run }, "send again"), result),
      h("h2", {}, "Plan"),
      plan,
      h("p", {}, h("a", { href: `/inspect/api/exchanges/${summary.id}/export.html`, download: `${summary.id}.html` }, "export as one HTML file"), " · ", h("a", { href: `/inspect/api/exchanges/${summary.id}/exchange.json`, download: `${summary.id}.exchange.json` }, "download the recording")),
      copies,
    ];
  }

  async compare(id, place) {
    const other = await get(`/exchanges/${id}`);
    const side = (it) => h("div", { class: "wire-panel" }, h("h2", {}, `${it.summary.provider}:${it.summary.target} · ${duration(it.summary.ms)} · ${number(it.summary.output)} tokens`), h("json-view").show(parse(it.wires.client_reply.text)));
    place.append(h("div", { class: "wires" }, side(this.exchange), side(other)));
  }
}

function headersTable(name, headers) {
  const rows = Object.entries(headers || {});
  if (!rows.length) return "";
  return h("table", { class: "headers" }, h("caption", {}, name), h("tbody", {}, rows.map(([key, value]) => h("tr", {}, h("th", {}, key), h("td", {}, value)))));
}

function changes(tools) {
  const parts = ["added", "removed", "changed"].filter((it) => tools[it].length).map((it) => `${it}: ${tools[it].join(", ")}`);
  return parts.length ? h("span", { class: "tools" }, `tools since the last turn — ${parts.join("; ")}`) : "";
}

function title(name, { summary, attempts }) {
  const last = attempts[attempts.length - 1];
  return { client_request: `Client sends (${summary.client})`, upstream_request: `Upstream gets (${last?.protocol || "nothing was sent"})`, upstream_reply: `Upstream answers (${last?.protocol || ""})`, client_reply: `Client gets (${summary.client})` }[name];
}

// A body as a value: JSON, the frames of a stream, or text.
export function parse(text) {
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

export function resolves(value, path) {
  for (const step of path.match(/[^.[\]]+|\[\d+\]/g) || []) {
    const key = step.startsWith("[") ? Number(step.slice(1, -1)) : step;
    if (value === null || typeof value !== "object" || !(key in value)) return false;
    value = value[key];
  }
  return true;
}

function marksOf(value, losses, field) {
  const marks = {};
  for (const loss of losses) if (loss[field] && resolves(value, loss[field])) marks[loss[field]] = { kind: loss.kind, title: `${loss.code || loss.kind}: ${loss.why}` };
  return marks;
}

function textUntil(timeline, at) {
  const parts = new Map();
  for (const tick of timeline.slice(0, at + 1)) {
    if (tick.track !== "neutral") continue;
    const match = /^#(\d+) ?([\s\S]*)$/.exec(tick.text);
    if (tick.name === "PartStart" && match) parts.set(match[1], `[${match[2]}] `);
    if (tick.name === "PartDelta" && match) parts.set(match[1], (parts.get(match[1]) || "") + match[2]);
  }
  return [...parts.values()].join("\n");
}

function prefixNote(prefix) {
  if (!prefix) return h("p", {}, "The first turn of its session: nothing to compare the prefix with.");
  if (!prefix.path) return h("p", { class: "good" }, `The request begins with all of the last turn's (${number(prefix.same)} bytes are equal): a prompt cache can match.`);
  return h("p", { class: "bad" }, "The prefix broke at ", h("code", {}, prefix.path), ` (byte ${number(prefix.same)} of ${number(prefix.total)}): `, h("code", {}, prefix.before), " became ", h("code", {}, prefix.after));
}

function legend(segments) {
  const sums = new Map();
  for (const it of segments) sums.set(it.kind, (sums.get(it.kind) || 0) + it.tokens);
  return h("ul", { class: "legend" }, [...sums].map(([kind, tokens]) => h("li", { class: kind }, `${kind} ${number(tokens)}`)));
}

function planTable(plan) {
  const rows = plan.map((it) => h("tr", {}, h("td", {}, it.provider), h("td", {}, it.protocol), h("td", {}, it.error || it.losses.map((loss) => h("div", {}, h("span", { class: `badge ${loss.severity}` }, loss.severity), ` ${loss.code || loss.kind} `, h("code", {}, loss.where), ` ${loss.why}`)))));
  return h("table", {}, h("thead", {}, h("tr", {}, ["Provider", "Protocol", "Losses"].map((it) => h("th", {}, it)))), h("tbody", {}, rows));
}

customElements.define("exchange-view", ExchangeView);
