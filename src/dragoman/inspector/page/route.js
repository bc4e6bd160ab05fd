// Which rule decided, each attempt on a time axis, and the headers.

import { duration, fold, h, icon, plural, table } from "./dom.js";

export function route(view) {
  const { summary: it, rule, attempts, executed, request, reply } = view.head;
  const end = Math.max(it.ms ?? Date.now() - it.time * 1000, ...attempts.map((each) => each.ended_ms || each.started_ms), 1);
  const percent = (ms) => `${((ms / end) * 100).toFixed(2)}%`;
  const bar = (kind, from, to, text = "") => [h("i", { class: kind, style: `left:${percent(from)};width:max(3px,${percent(Math.max(to - from, 0))})` }), text ? h("em", { style: from / end > 0.6 ? `right:calc(100% - ${percent(from)} + 6px)` : `left:calc(${percent(Math.min(to, end))} + 6px)` }, text) : ""];
  const stretch = (kind, from, to, text) => [bar(kind, from, to)[0], (to - from) / end > 0.2 ? h("em", { class: kind, style: `left:calc(${percent(from)} + 8px)` }, text) : ""];
  const line = (label, bars, right, kind = "") => h("div.gr", h("span", { class: kind }, label), h("span.bar", bars), h("span.num", right));
  const rows = [];
  const first = attempts[0]?.started_ms ?? it.ms ?? 0;
  rows.push(line("queue, translate", bar("q", 0, first), duration(first), "muted"));
  const ran = [...executed];
  const calls = (until) => {
    while (ran.length && ran[0].began * 1000 < until) {
      const { name, began, seconds, error } = ran.shift();
      rows.push(line([icon("tool"), " ", name], bar(error ? "f" : "c", began * 1000, (began + seconds) * 1000, error), duration(seconds * 1000), "muted"));
    }
  };
  let last = first;
  attempts.forEach((each, i) => {
    calls(each.started_ms);
    if (i && each.started_ms - last > 5 && !each.round) rows.push(line("waits before the next attempt", bar("x", last, each.started_ms), duration(each.started_ms - last), "muted"));
    const failed = each.error || each.status >= 400;
    const stop = each.ended_ms ?? attempts[i + 1]?.started_ms ?? (it.ms || end);
    const begin = each.first_ms ?? stop;
    const label = [h("b", `${each.provider}:${each.model}`), it.rounds ? ` · round ${each.round + 1}` : ""];
    if (failed) rows.push(line(label, bar("f", each.started_ms, stop, each.error || problem(each)), h("span.pill.bad", each.status || "no answer")));
    else rows.push(line(label, [...stretch("w", each.started_ms, begin, `first byte ${duration(begin - each.started_ms)}`), ...stretch("s", begin, stop, `streaming ${duration(stop - begin)}`)], each.status ? h("span.pill.ok", each.status) : "…"));
    last = stop;
  });
  calls(Infinity);
  const noticed = it.state === "failed" ? `The client got ${it.cut ? "a stream that ends with an error" : `status ${it.status}`}.` : it.state === "active" ? "The answer is still running." : it.rounds ? `One answer. The gateway ran ${plural(executed.length, "call")} of hosted tools in between.` : attempts.length > 1 ? `Nothing but a later first byte, after ${duration(it.first_ms ?? it.ms)}.` : "One attempt, and its answer.";
  const heads = [["Client request", request.headers], ...attempts.flatMap((each, i) => [[`Upstream request${attempts.length > 1 ? ` ${i + 1}` : ""}`, each.headers, `${each.method} ${each.url}`], [`Upstream reply${attempts.length > 1 ? ` ${i + 1}` : ""}`, each.reply_headers]]), ["Client reply", reply.headers]];
  return h("div.pad",
    h("h3", "Which rule decided"),
    h("pre.rulebox", rule ? `[models]\n${rule.replaceAll("'", '"')}` : it.provider ? "No rule: the model was named as provider:model, or there is one provider." : "No rule matched and no provider was asked."),
    h("h3", "Attempts"),
    h("div.gantt", rows, h("div.gr", h("span"), h("span.scale", [0, 0.25, 0.5, 0.75, 1].map((part) => h("span", duration(end * part)))), h("span"))),
    h("h3", "What the client noticed"),
    h("p.muted", noticed),
    attempts.filter((each) => each.problem).map((each) => [h("h3", `${each.provider} answered`), h("pre.code.in", each.problem)]),
    h("h3", "Headers"),
    heads.filter(([, held]) => Object.keys(held || {}).length).map(([title, held, url]) => fold("turn", [h("b", title), h("span.prevw", url || ""), h("span.faint", `${plural(Object.keys(held).length, "header")}${masked(held)}`)], () => table(["Name", "Value"], Object.entries(held).map(([key, value]) => [h("code", key), h("span.breaks", value)])))),
  );
}

const masked = (headers) => {
  const count = Object.values(headers).filter((it) => it === "***").length;
  return count ? ` · ${count} masked` : "";
};

function problem(attempt) {
  try {
    const value = JSON.parse(attempt.problem);
    return String(value.error?.message || value.error?.code || value.message || value.detail || "").slice(0, 90);
  } catch {
    return attempt.problem.slice(0, 90);
  }
}
