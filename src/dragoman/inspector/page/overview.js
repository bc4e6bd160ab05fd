// Overview: what passed in a stretch of time, with units; every total leads to the exchanges behind it.

import { get } from "./api.js";
import { bars, spark } from "./charts.js";
import { clock, duration, h, money, number, plural, replace, right, short, table } from "./dom.js";
import { remember, remembered } from "./state.js";

const SPANS = [["1", "1 h", "in the last hour"], ["24", "24 h", "in the last 24 hours"], ["0", "All", "since the first recording"]];

export class OverviewView extends HTMLElement {
  async open() {
    const hours = remembered("hours") || "1";
    const [, , during] = SPANS.find(([it]) => it === hours) || SPANS[0];
    const data = await get(`/overview?hours=${hours}`);
    const { totals: it, buckets } = data;
    const series = (name) => buckets.map((each) => each[name] || 0);
    const minutes = (data.bucket_seconds * buckets.length) / 60;
    const tile = (label, aside, value, line, kind, note, q) => h("a.tile", { href: `#/exchanges${q ? `?q=${q}` : ""}` }, h("span.l", label, h("span", aside)), h("b", value), spark(line, kind), h("small", note));
    const counted = (list) => list.map(([name, count]) => `${count} × ${name}`).join(", ");
    const unit = data.bucket_seconds === 60 ? "a minute" : `per ${duration(data.bucket_seconds * 1000)}`;
    const nothing = h("p.muted", `Nothing ${during}.`);
    replace(
      this,
      h("div.wrap",
        h("div.ohead", h("h1", "Overview"), h("span.muted", `${plural(data.recorded, "exchange")} recorded${data.recorded ? `, since ${clock(data.since)}` : ""}`), h("span.grow"), h("div.seg", SPANS.map(([value, label]) => h("button", { "aria-pressed": String(value === hours), onclick: () => (remember("hours", value), this.open()) }, label)))),
        h("div.tiles",
          tile("Requests", during, number(it.requests), series("requests"), "", `${(it.requests / minutes).toFixed(1)} a minute on average`),
          tile("Failed", it.requests ? `${((it.failed / it.requests) * 100).toFixed(1)} %` : "", number(it.failed), series("failed"), "bad", counted(it.failures) || "none", "is:failed"),
          tile("Tokens in", during, short(it.input), buckets.map((each) => each.input + each.cached), "", it.input ? `${Math.round((it.cached / it.input) * 100)} % read from the cache` : ""),
          tile("Cost", during, it.cost === null ? "unknown" : money(it.cost), series("cost"), "", it.unpriced ? `${plural(it.unpriced, "exchange")} without a known price` : "at the prices of the table", "cost:>0"),
          tile("First byte", "median", it.first_p50 === null ? "–" : duration(it.first_p50), series("first"), "", it.first_p95 === null ? "" : `p95 ${duration(it.first_p95)}`),
          tile("Material losses", during, number(it.material), series("material"), "warn", counted(it.material_codes) || "none", "loss:material"),
        ),
        h("div.ogrid",
          card("w8", `Tokens ${unit}`, legend(["cached", "input", "output"]), it.input ? bars(buckets.map((each) => ({ label: clock(each.time).slice(0, 5), values: [each.cached, each.input, each.output] })), ["b-cached", "b-input", "b-output"], `tokens ${unit}: cached, input, output`) : nothing),
          card("w4", "Cost by model", during, money2(data.models, "model"), h("h2", "Cost by key"), money2(data.keys, "key")),
          card("w6", "Latency", "first byte p50, p95, p99, and median of the whole", data.latency.length ? latency(data.latency) : nothing),
          card("w6", "Losses by code", `losses, ${during} · log scale`, data.codes.length ? codes(data.codes) : nothing),
          card("w12", "Providers", "", table(["Provider", "Protocol", "State", right("Requests"), right("Failed"), right("First byte p50"), right("p95"), right("Tokens in"), right("Cached"), right("Cost"), "Last failure"], data.providers.map((each) => [h("a", { href: `#/exchanges?q=provider:${each.name}` }, h("b", each.name)), each.protocol, h("span", { class: `pill ${each.circuit_seconds === null ? "ok" : "bad"}` }, each.circuit_seconds === null ? "ok" : `closed, next try in ${Math.ceil(each.circuit_seconds)} s`), each.requests, each.failed, right(duration(each.p50)), right(duration(each.p95)), right(short(each.input)), right(each.input ? `${Math.round((each.cached / each.input) * 100)} %` : "–"), right(money(each.cost)), each.last_failure ? `${clock(each.last_failure.time)} · ${each.last_failure.what} ${each.last_failure.error}`.slice(0, 90) : ""]))),
        ),
      ),
    );
  }
}

const card = (kind, title, aside, ...content) => h("section", { class: `ocard ${kind}` }, h("h2", title, h("small", aside)), content);
const legend = (names) => h("span.legend", names.map((it) => h("span", h("i", { class: `b-${it}` }), it)));

function money2(rows, filter) {
  if (!rows.length) return h("p.muted", "Nothing yet.");
  const most = Math.max(...rows.map((it) => it.cost || 0), 1e-9);
  return h("div.hb", rows.map((it) => [h("code", it.name ? h("a", { href: `#/exchanges?q=${filter}:${encodeURIComponent(it.name)}` }, it.name) : "(no key)"), h("span.b", h("i.b-input", { style: `width:${((it.cost || 0) / most) * 100}%` })), h("span.num", { title: `${number(it.input)} tokens in, ${number(it.output)} out` }, it.cost === null ? "unknown" : money(it.cost))]));
}

function codes(rows) {
  const most = Math.log10(Math.max(...rows.map((it) => it.count)) + 1);
  return h("div.hb", rows.slice(0, 14).map((it) => [h("code", h("a", { href: `#/exchanges?q=loss:${it.code}`, title: it.severity }, it.code)), h("span.b", h("i", { class: `l-${it.severity}`, style: `width:${(Math.log10(it.count + 1) / most) * 100}%` })), h("span.num", { title: `in ${plural(it.exchanges, "exchange")}` }, number(it.count))]));
}

function latency(rows) {
  const most = Math.max(...rows.map((it) => Math.max(it.p99 || 0, it.whole || 0)), 1);
  const at = (ms) => `${(ms / most) * 100}%`;
  return h("div.hb.lat", rows.map((it) => [h("code", it.name), h("span.b", h("i.span", { style: `left:${at(it.p50)};width:${at(it.p99 - it.p50)}` }), h("i.p50", { style: `left:${at(it.p50)}` }), h("i.p95", { style: `left:${at(it.p95)}` }), h("i.whole", { style: `left:${at(it.whole)}` })), h("span.num", { title: `p95 ${duration(it.p95)}, p99 ${duration(it.p99)}, whole ${duration(it.whole)}` }, `${duration(it.p50)} · ${duration(it.p95)}`)]), h("span"), h("span.scale", [0, 0.25, 0.5, 0.75, 1].map((it) => h("span", duration(it * most)))));
}

customElements.define("overview-view", OverviewView);
