// The page: a top bar, the list beside an exchange, overview and setup. What is shown stands in the address.

import { exported, get, live } from "./api.js";
import { alertBox, h, iconButton, message, money, replace, short, sum, svg, toast } from "./dom.js";
import { go, readAddress, remember, remembered, state, TABS } from "./state.js";
import { spark } from "./charts.js";
import "./exchange.js";
import { tokensOf } from "./list.js";
import "./overview.js";
import "./setup.js";

const KEYS = [["Filter", "/"], ["Next, previous exchange", "j k"], ["Next, previous turn", "] ["], ["Tabs", "1 … 7"], ["Group by session", "g"], ["Overview", "o"], ["Light or dark", "t"], ["Close the exchange", "Esc"], ["This list", "?"], ["Width of the list, at its divider", "← →"]];

class InspectorApp extends HTMLElement {
  async connectedCallback() {
    theme(remembered("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
    this.detail = h("exchange-view.detail");
    addEventListener("keydown", (event) => this.key(event));
    if (exported) {
      state.id = exported.id;
      addEventListener("navigate", () => (exported[`/exchanges/${state.id}`] ? this.detail.open(state.id) : ((state.id = this.detail.id_), toast("This file does not hold that turn."))));
      replace(this, h("main", { id: "main", class: "file" }, h("h1.sr", "Exchange"), this.detail));
      return this.detail.open(exported.id);
    }
    this.list = h("exchange-list.list");
    this.grip = h("div.grip", { role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": "width of the list", "aria-valuemin": "330", "aria-valuemax": "1400", "aria-valuenow": "540", onpointerdown: (event) => this.drag(event), onkeydown: (event) => this.widen(event) });
    this.shell = h("div.shell.solo", h("h1.sr", "Exchanges"), this.list, this.grip, this.detail);
    this.other = h("div.over", { hidden: true });
    this.lamp = h("span.stat.live", { role: "status" }, h("i.lamp"), h("span", "connecting"));
    this.stats = h("div.figures");
    const nav = h("nav.nav", { "aria-label": "pages" }, [["exchanges", "Exchanges"], ["overview", "Overview"], ["setup", "Setup"]].map(([page, title]) => h("a", { href: `#/${page}`, data: { page } }, title)));
    this.help = keysDialog();
    replace(this, h("header.top", h("a.brand", { href: "#/exchanges", "aria-label": "dragoman" }, logo(), h("span", "dragoman")), nav, h("div.stats", this.lamp, this.stats, iconButton("light or dark (t)", "◐", otherTheme), iconButton("keys (?)", "?", () => this.help.showModal()))), h("main", { id: "main" }, this.shell, this.other), this.help);
    if (remembered("split")) this.shell.style.setProperty("--split", remembered("split"));
    readAddress();
    addEventListener("hashchange", () => (readAddress(), this.navigate()));
    addEventListener("popstate", () => (readAddress(), this.navigate()));
    addEventListener("navigate", () => this.navigate());
    this.navigate();
    live((row) => this.changed(row), (on) => this.connected(on));
    await this.load();
    setInterval(() => this.figures(), 5000);
  }

  // The newest rows are on screen at once; older ones follow in portions.
  async load() {
    let more = "";
    try {
      while (more !== null) {
        const part = await get(`/exchanges?before=${encodeURIComponent(more)}`);
        this.list.loaded = true;
        this.list.load(part.rows);
        more = part.more;
        this.figures();
        if (more) await new Promise((resolve) => setTimeout(resolve));
      }
    } catch (error) {
      replace(this.list.spacer, alertBox(message(error)));
    }
  }

  changed(row) {
    this.list.put(row);
    this.figures();
  }

  connected(on) {
    this.lamp.classList.toggle("on", on);
    this.isLive = on;
    this.figures();
    if (on && this.list.loaded && this.wasOff) this.load();
    this.wasOff = !on;
  }

  figures() {
    const rows = [...this.list.rows.values()];
    const running = rows.filter((it) => it.state === "active").length;
    replace(this.lamp, h("i", { class: `lamp${this.isLive ? " on" : ""}` }), this.isLive ? ["Live", running ? [" · ", h("b", running), " running"] : ""] : "Offline · trying again");
    const now = Date.now() / 1000;
    const hour = rows.filter((it) => now - it.time < 3600);
    const minutes = Array.from({ length: 30 }, (_, i) => hour.filter((it) => Math.floor((now - it.time) / 120) === 29 - i).length);
    const costs = hour.filter((it) => it.cost !== null);
    const failing = new Map();
    for (const it of hour) if (it.state === "failed" && it.provider && now - it.time < 900) failing.set(it.provider, [...(failing.get(it.provider) || []), it.cut ? "cut" : it.status]);
    replace(this.stats, hour.length ? [h("span.stat.opt", spark(minutes), h("b", hour.length), " in the last hour"), h("span.stat.opt", h("b", short(sum(hour, tokensOf))), " tokens"), costs.length ? h("span.stat.opt", h("b", money(sum(costs, (it) => it.cost)))) : ""] : "", [...failing].slice(0, 3).map(([name, list]) => h("a", { class: `pill ${list.includes(429) ? "warn" : "bad"} opt`, href: `#/exchanges?q=provider:${name}+is:failed`, title: `${name} failed ${list.length} times in the last 15 minutes` }, `${name} ${list.at(-1)} ×${list.length}`)));
  }

  navigate() {
    const { page, id } = state;
    for (const link of this.querySelectorAll(".nav a")) link.toggleAttribute("aria-current", link.dataset.page === page), link.dataset.page === page && link.setAttribute("aria-current", "page");
    this.shell.hidden = page !== "exchanges";
    this.other.hidden = page === "exchanges";
    if (page !== "exchanges") {
      this.openPage(page).catch((error) => replace(this.other, alertBox(message(error))));
      return;
    }
    const was = this.shell.classList.contains("solo");
    this.shell.classList.toggle("solo", !id);
    document.body.classList.toggle("sheet", Boolean(id));
    this.list.refilter();
    if (id) {
      this.list.reveal();
      this.list.draw();
      this.detail.open(id);
    } else {
      this.detail.id_ = "";
      replace(this.detail);
      if (!was) this.list.body.focus({ preventScroll: true });
    }
  }

  async openPage(page) {
    const view = h(`${page}-view`);
    replace(this.other, view);
    await view.open();
  }

  key(event) {
    if (event.target.matches?.("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const tab = /^[1-7]$/.test(event.key) && state.id && TABS[Number(event.key) - 1];
    const act = {
      "/": () => (state.page !== "exchanges" && go({ page: "exchanges" }), this.list.input.focus(), this.list.input.select()),
      j: () => this.list.move(1),
      k: () => this.list.move(-1),
      "]": () => this.detail.head && this.detail.step(1),
      "[": () => this.detail.head && this.detail.step(-1),
      g: () => this.list.group(),
      o: () => (location.hash = state.page === "overview" ? "#/exchanges" : "#/overview"),
      t: otherTheme,
      "?": () => this.help.showModal(),
      Escape: () => state.id && go({ id: "" }),
    }[event.key];
    if (tab) go({ tab });
    else if (!act || (exported && event.key !== "t")) return;
    else act();
    event.preventDefault();
  }

  drag(event) {
    event.preventDefault();
    const move = (it) => this.width(it.clientX);
    addEventListener("pointermove", move);
    addEventListener("pointerup", () => removeEventListener("pointermove", move), { once: true });
  }

  widen(event) {
    const by = { ArrowLeft: -24, ArrowRight: 24 }[event.key];
    if (by) this.width(this.list.offsetWidth + by), event.preventDefault();
  }

  width(pixels) {
    const value = Math.max(330, Math.min(innerWidth - 420, pixels));
    this.shell.style.setProperty("--split", `${value}px`);
    this.grip.setAttribute("aria-valuenow", String(Math.round(value)));
    remember("split", `${value}px`);
  }
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  remember("theme", name);
}

const otherTheme = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

function keysDialog() {
  const dot = (kind, label) => h("div", label, h("span", { class: `dotc ${kind}` }, kind === "failed" ? "✕" : ""));
  return h("dialog", { "aria-label": "keys" }, h("form", { method: "dialog" }, h("b", "Keys"), h("button.icon-btn", { "aria-label": "close" }, "✕")), h("div.keys", KEYS.map(([label, keys]) => h("div", label, h("span", keys.split(" ").map((it) => (it === "…" ? it : h("kbd", it))))))), h("b", "Marks"), h("div.keys", dot("", "Done"), dot("fallback", "Answered by a fallback"), dot("failed", "Failed"), dot("run", "Running"), h("div", "Losses: material, minor, cosmetic", h("span.sevs", ["material", "minor", "cosmetic"].map((it, i) => h("span", { class: `sev ${it}` }, i + 1)))), h("div", "Waiting, then streaming", h("span.wf.sample", h("i.w", { style: "left:0;width:40%" }), h("i.s", { style: "left:40%;width:60%" })))));
}

const logo = () => svg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path.one", { d: "M2 5h7a3 3 0 0 1 3 3v4a3 3 0 0 0 3 3h3" }), svg("path.two", { d: "M2 15h5a3 3 0 0 0 3-3V8a3 3 0 0 1 3-3h5" }));

customElements.define("inspector-app", InspectorApp);
