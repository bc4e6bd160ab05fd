// What fills the context window, how much of it a prompt cache can match, and which tools nobody calls.

import { empty, h, icon, metric, money, number, plural, short, sum } from "./dom.js";
import { treemap } from "./charts.js";

const NAMES = { system: "system", tool: "tools, called", toolx: "tools, never called", text: "text", result: "tool results", call: "calls", reason: "reasoning", media: "media" };

export async function windowTab(view) {
  const data = await view.tab("window");
  const { summary: it } = view.head;
  if (!data.segments.length) return empty("Nothing was counted", h("p", "The request cannot be read as a conversation."));
  const kind = (segment) => (segment.kind === "tool" ? (segment.used ? "tool" : "toolx") : segment.kind === "reasoning" ? "reason" : segment.kind);
  const estimate = sum(data.segments, (each) => each.tokens);
  const counted = it.input || estimate;
  const unused = data.segments.filter((each) => kind(each) === "toolx");
  const spent = sum(unused, (each) => each.tokens);
  const sums = new Map();
  for (const each of data.segments) sums.set(kind(each), (sums.get(kind(each)) || 0) + each.tokens);
  const share = it.window ? counted / it.window : 0;
  return h("div.pad",
    h("div.metrics", metric(it.input ? number(it.input) : `≈ ${number(estimate)}`, it.input ? `tokens in, as counted by ${it.provider}` : "tokens in, estimated"), it.window ? metric(`${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`, `of ${number(it.window)}`) : "", it.input ? metric(`${Math.round((it.cached / it.input) * 100)} %`, "read from the cache") : "", spent ? metric(`≈ ${short(spent)}`, "tokens of tools never called") : "", spent && data.price ? metric(money((spent * data.price.input) / 1e6), "what those cost, uncached") : ""),
    it.window ? [h("div.gauge", h("span", { style: `width:${Math.min(share * 100, 100)}%` }), data.earlier.map((tokens) => h("i", { style: `left:${Math.min((tokens / it.window) * 100, 100)}%` }))), h("div.scale", h("span", "0"), h("span", "25 %"), h("span", "50 %"), h("span", "75 %"), h("span", `${short(it.window)}, the window of ${it.target}`))] : "",
    prefix(view, data),
    h("div.stackbar", { role: "img", "aria-label": "share of each kind" }, [...sums].map(([name, tokens]) => h("span", { class: `k-${name}`, style: `width:${(tokens / estimate) * 100}%` }))),
    h("div.legend", [...sums].map(([name, tokens]) => h("span", h("i", { class: `k-${name}` }), `${NAMES[name] || name} `, h("b", short(tokens))))),
    treemap(grouped(data.segments, kind).map((each) => ({ ...each, onclick: () => each.path && view.reveal("Wires", { path: each.path }) }))),
    h("p.faint", "Sizes are estimates. A click shows the place in the wires."),
    unused.length ? [h("h3", "Never called in this conversation"), h("p.muted", `${names(unused)} take about ${Math.round((spent / estimate) * 100)} % of every request. Turn off the MCP servers and tools that this project does not need.`)] : "",
  );
}

// Tools of one MCP server are one field of the map.
function grouped(segments, kind) {
  const out = [];
  const servers = new Map();
  for (const each of segments) {
    const server = each.kind === "tool" && /^mcp__(.+?)__/.exec(each.label)?.[1];
    const item = { size: each.tokens, kind: kind(each), label: each.label, path: each.path, title: `${each.label}: ${each.kind}, about ${number(each.tokens)} tokens` };
    if (!server) out.push(item);
    else if (servers.has(server)) (servers.get(server).size += each.tokens), servers.get(server).count++;
    else servers.set(server, { ...item, count: 1, server });
  }
  for (const it of servers.values()) out.push({ ...it, label: `mcp ${it.server} · ${plural(it.count, "tool")}`, title: `MCP server ${it.server}: ${plural(it.count, "tool")}, about ${number(it.size)} tokens` });
  return out;
}

function names(segments) {
  const labels = segments.map((it) => it.label);
  return labels.length > 8 ? `${labels.slice(0, 7).join(", ")} and ${labels.length - 7} more` : labels.join(", ");
}

function prefix(view, { prefix: it, other_provider: other, price }) {
  const { summary } = view.head;
  if (!it) return h("div.prefix.ok", h("span", h("b", "The first turn of its conversation.")));
  if (other) return h("div.prefix", h("span", icon("warn"), h("b", " Another provider answered the turn before. "), `A prompt cache of ${other} does not help ${summary.provider}.`));
  if (!it.path) return h("div.prefix.ok", h("span", h("b", "✓ The prefix is whole. "), `All of the last turn, about ${number(it.same)} tokens, is the beginning of this request. A prompt cache can match it.`), h("small.faint", "compared in cache order: tools, system, messages"));
  const tokens = summary.input || it.total;
  const behind = Math.round(tokens * (1 - it.same / Math.max(it.total, 1)));
  const costs = price?.cached_input != null ? ` That is ${money((behind * price.input) / 1e6)} instead of ${money((behind * price.cached_input) / 1e6)}.` : "";
  return h("div.prefix", h("div.ph", h("span", icon("warn"), h("b", " The prefix broke here: "), h("button.linkish", { onclick: () => view.reveal("Wires", { path: "", target: it.path }) }, h("code", it.path))), h("small.faint", "compared in cache order: tools, system, messages")), h("pre.lines.diff", it.before ? h("span.del", h("i", "-"), it.before, "\n") : "", it.after ? h("span.add", h("i", "+"), it.after, "\n") : ""), h("div.bar2", h("i", { style: `width:${(it.same / Math.max(it.total, 1)) * 100}%` })), h("p", `About ${number(tokens - behind)} tokens still match. The ${number(behind)} behind them cannot be read from the cache.${costs}`));
}
