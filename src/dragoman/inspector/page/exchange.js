// One exchange: its head, its tabs, and the tab that is open. A running one is fetched again until it ends.

import { exported, get } from "./api.js";
import { alertBox, badges, copy, duration, h, icon, iconButton, message, money, number, replace } from "./dom.js";
import { conversation } from "./conversation.js";
import { losses } from "./losses.js";
import { go, state, TABS } from "./state.js";
import { wires } from "./wires.js";
import { mark } from "./list.js";
import { isFallback } from "./filter.js";
import { actions } from "./actions.js";
import { route } from "./route.js";
import { stream } from "./stream.js";
import { windowTab } from "./window.js";

const DRAW = { Conversation: conversation, Wires: wires, Losses: losses, Stream: stream, Window: windowTab, Route: route, Actions: actions };
const POLL = 700; // milliseconds between looks at a running exchange

export class ExchangeView extends HTMLElement {
  async open(id) {
    if (this.id_ === id) return this.head && this.show(state.tab); // without a head it is being fetched
    this.id_ = id;
    this.head = null;
    this.cache = new Map();
    this.options = {};
    this.target = null;
    clearTimeout(this.timer);
    const slow = setTimeout(() => this.id_ === id && replace(this, h("div.skel", { "aria-label": "loading" }, Array.from({ length: 9 }, () => h("i")))), 150);
    try {
      const head = await get(`/exchanges/${encodeURIComponent(id)}`);
      clearTimeout(slow);
      if (this.id_ !== id) return;
      this.head = head;
      this.frame();
      await this.show(state.tab);
      this.follow();
    } catch (error) {
      if (this.id_ !== id) return;
      this.id_ = "";
      replace(this, alertBox(message(error), " ", h("button.btn", { onclick: () => this.open(id) }, "Try again")));
    } finally {
      clearTimeout(slow); // also where it failed
    }
  }

  // A part of the exchange, fetched once.
  tab(name) {
    if (!this.cache.has(name)) this.cache.set(name, get(`/exchanges/${encodeURIComponent(this.id_)}/${name}`).then((it) => ((this.arrived = performance.now()), it)));
    return this.cache.get(name);
  }

  frame() {
    const { summary: it, turns } = this.head;
    const place = turns.indexOf(it.id);
    const step = (by, label, name) => iconButton(label, name, () => this.step(by), { disabled: !turns[place + by] || (exported && !exported[`/exchanges/${turns[place + by]}`]) });
    const close = (kind, name) => iconButton("close the exchange (Esc)", name, () => go({ id: "" }), { class: kind });
    const cached = it.cached && it.input ? ` (${Math.round((it.cached / it.input) * 100)} % cached)` : "";
    this.facts = h("div.facts",
      h("span", it.agent || "unknown client"),
      h("span", h("span.cl", it.client), " → ", h("span.up", it.upstream || "–"), it.upstream === it.client ? " · same protocol" : ""),
      h("span", h("b", it.ms === null ? duration(Date.now() - it.time * 1000) : duration(it.ms)), it.first_ms !== null ? [" · first byte ", h("b", duration(it.first_ms))] : ""),
      it.rounds ? h("span", h("b", it.rounds + 1), " rounds") : "",
      it.input !== null ? h("span", h("b", number(it.input)), ` in${cached} · `, h("b", number(it.output)), " out") : "",
      it.input !== null ? h("span", { title: it.cost === null ? "the price of this model is not known" : "at the prices of the table" }, it.cost === null ? "cost unknown" : h("b", money(it.cost))) : "",
      h("button.chain", { title: `copy the id ${it.id}`, onclick: (event) => copy(it.id, event.target) }, icon("copy"), " ", it.id.length > 14 ? `${it.id.slice(0, 11)}…` : it.id),
    );
    this.tabs = h("div.tabs", { role: "tablist", "aria-label": "views of the exchange", onkeydown: (event) => this.tabKey(event) }, TABS.map((name, i) => h("button", { role: "tab", id: `tab-${name}`, "aria-controls": "panel", title: `key ${i + 1}`, onclick: () => go({ tab: name }) }, name, this.count(name))));
    this.panel = h("section.panelbody", { id: "panel", role: "tabpanel", tabindex: "0" });
    replace(
      this,
      h("header.dhead",
        h("div.l1", exported ? "" : close("sheet-only", "←"), h("h2", h("span.cl", it.model || it.action), h("span.faint", " → "), h("span.up", it.provider ? `${it.provider}:${it.target}` : it.state === "active" ? "…" : "not sent")), pill(it), h("span.grow"), turns.length > 1 ? [h("span.faint.wide", `turn ${place + 1} of ${turns.length}`), step(-1, "previous turn ([)", "↑"), step(1, "next turn (])", "↓")] : "", exported ? "" : close("wide", "✕")),
        this.facts,
        alertLine(this.head),
      ),
      this.tabs,
      this.panel,
    );
  }

  count(name) {
    const { summary: it } = this.head;
    if (name === "Losses") return badges(it.losses);
    if (name === "Window" && it.window && it.input) return h("span.c", `${((it.input / it.window) * 100).toFixed(it.input / it.window < 0.1 ? 1 : 0)} %`);
    if (name === "Route" && it.attempts > 1) return h("span.c", it.attempts);
    return "";
  }

  async show(name) {
    for (const button of this.tabs.children) {
      const on = button.id === `tab-${name}`;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
      if (on) button.scrollIntoView({ inline: "nearest", block: "nearest" });
    }
    this.panel.setAttribute("aria-labelledby", `tab-${name}`);
    const token = (this.token = {});
    const began = performance.now();
    try {
      const made = await DRAW[name](this);
      if (this.token !== token) return;
      this.panel.className = `panelbody p-${name.toLowerCase()}`;
      this.panel.replaceChildren();
      replace(this.panel, made);
      this.after?.();
      this.after = null;
      this.panel.dataset.drawn = (performance.now() - Math.max(began, this.arrived || 0)).toFixed(1);
      this.panel.dataset.ms = (performance.now() - began).toFixed(1);
    } catch (error) {
      if (this.token !== token) return;
      console.error(error);
      replace(this.panel, alertBox(message(error)));
    }
  }

  // Opens a tab at something: {path} of a field, {code} of a loss.
  reveal(tab, target) {
    this.target = target;
    state.tab === tab ? this.show(tab) : go({ tab });
  }

  step(by) {
    const { summary, turns } = this.head;
    const next = turns[turns.indexOf(summary.id) + by];
    if (next) go({ id: next });
  }

  tabKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const name = TABS[(TABS.indexOf(state.tab) + by + TABS.length) % TABS.length];
    go({ tab: name });
    this.tabs.querySelector(`#tab-${name}`).focus();
    event.preventDefault();
  }

  follow() {
    if (exported || this.head.summary.state !== "active") return;
    const id = this.id_;
    this.timer = setTimeout(async () => {
      if (this.id_ !== id || !this.isConnected) return;
      const head = await get(`/exchanges/${encodeURIComponent(id)}`).catch(() => null);
      if (this.id_ !== id || !head) return;
      this.head = head;
      this.cache.clear();
      const atEnd = this.panel.scrollTop + this.panel.clientHeight > this.panel.scrollHeight - 40;
      const top = this.panel.scrollTop;
      const panel = this.panel;
      this.frame();
      this.panel.replaceChildren(...panel.childNodes);
      this.panel.className = panel.className;
      this.panel.scrollTop = top;
      if (["Conversation", "Stream", "Route"].includes(state.tab) || head.summary.state !== "active") {
        await this.show(state.tab);
        this.panel.scrollTop = atEnd && head.summary.state === "active" ? this.panel.scrollHeight : top;
      }
      this.follow();
    }, POLL);
  }
}

const pill = (it) => (it.state === "active" ? h("span.pill.run", mark(it), it.first_ms === null ? "waiting" : "streaming") : it.state === "failed" ? h("span.pill.bad", it.cut ? "cut" : it.status || "gone") : h("span.pill.ok", it.status));

function alertLine({ summary: it, attempts }) {
  if (it.state === "failed") return alertBox(h("b", it.cut ? "The answer was cut off. " : attempts.length > 1 ? "Every attempt failed. " : ""), it.error || `The client got status ${it.status}.`);
  if (!isFallback(it)) return "";
  const failed = attempts.slice(0, -1).map((each) => `${each.provider} ${each.status || "gave no answer"}`);
  return h("div.alert", icon("warn"), h("span", h("b", "Answered by a fallback. "), `${failed.join(", ")}, then ${it.provider} answered. A prompt cache of the other provider does not help here.`));
}

customElements.define("exchange-view", ExchangeView);
