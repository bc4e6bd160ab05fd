// Overview: requests, failures, tokens and losses over time, providers and keys. Setup: agents and providers.

import { get } from "inspector/api";
import { bars } from "inspector/charts";
import { copy, duration, h, number, replace } from "inspector/dom";

export class OverviewView extends HTMLElement {
  async open(rows) {
    const overview = await get("/overview");
    const minutes = perMinute(rows);
    replace(
      this,
      h("h1", {}, "Overview"),
      h("div", { class: "charts" }, [
        chart("Requests a minute", minutes, (it) => it.requests),
        chart("Failures a minute", minutes, (it) => it.failures, "bad"),
        chart("Tokens a minute", minutes, (it) => it.tokens),
        chart("Losses a minute", minutes, (it) => it.losses),
      ]),
      h("h2", {}, "Losses by code"),
      table(["Code", "Times"], overview.codes.map((it) => [it.code, number(it.count)])),
      h("h2", {}, "Providers"),
      table(["Provider", "Protocol", "Requests", "Failures", "Median duration", "Circuit breaker"], overview.providers.map((it) => [it.name, it.protocol, number(it.requests), number(it.failures), duration(it.median_ms), it.circuit])),
      h("h2", {}, "Keys"),
      table(["Key", "Requests", "Input tokens", "Output tokens"], overview.keys.map((it) => [it.name || "(no key)", number(it.requests), number(it.input), number(it.output)])),
    );
  }
}

export class SetupView extends HTMLElement {
  async open() {
    const setup = await get("/setup");
    replace(
      this,
      h("h1", {}, "Setup"),
      h("h2", {}, "Agents"),
      h("ul", { class: "agents" }, setup.agents.map((it) => h("li", { class: it.found ? "good" : "" }, h("b", {}, it.name), it.found ? " is installed " : " was not found on this machine ", h("code", {}, it.command), h("button", { onclick: (event) => copy(it.command, event.target) }, "copy")))),
      h("h2", {}, "Providers"),
      table(["Provider", "Protocol", "Usable", "Why"], setup.providers.map((it) => [it.name, it.protocol, it.usable ? "yes" : "no", it.why])),
      h("h2", {}, "Models by name"),
      table(["Asked for", "Goes to"], setup.models.map((it) => [it.name, it.targets.join(", then ")])),
    );
  }
}

function chart(name, minutes, read, kind = "") {
  const values = minutes.map((it) => ({ value: read(it), label: it.label, kind }));
  const total = values.reduce((sum, it) => sum + it.value, 0);
  return h("figure", {}, h("figcaption", {}, `${name} `, h("b", {}, number(total))), bars(values, { label: name }));
}

function perMinute(rows) {
  const now = Math.floor(Date.now() / 60000);
  const minutes = Array.from({ length: 60 }, (_, i) => ({ requests: 0, failures: 0, tokens: 0, losses: 0, label: new Date((now - 59 + i) * 60000).toTimeString().slice(0, 5) }));
  for (const row of rows) {
    const it = minutes[59 - (now - Math.floor(row.time / 60))];
    if (!it) continue;
    it.requests++;
    if (row.state === "failed") it.failures++;
    it.tokens += (row.input || 0) + (row.output || 0);
    it.losses += Object.values(row.losses).reduce((sum, count) => sum + count, 0);
  }
  return minutes;
}

function table(titles, rows) {
  if (!rows.length) return h("p", { class: "none" }, "Nothing yet.");
  return h("table", {}, h("thead", {}, h("tr", {}, titles.map((it) => h("th", {}, it)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((it) => h("td", {}, it))))));
}

customElements.define("overview-view", OverviewView);
customElements.define("setup-view", SetupView);
