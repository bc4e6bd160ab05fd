// Losses by severity, then by code: what was there, what became of it, what to do. Each leads to its field.

import { empty, fold, h, icon, number, plural, SEVERITIES } from "./dom.js";
import { address } from "./state.js";

const MEANS = { material: "the model or the agent behaves differently", minor: "a detail that somebody may miss", cosmetic: "another spelling of the same thing" };
const MOST_PLACES = 12; // places of one code that are shown at once

export function losses(view) {
  const all = view.head.losses;
  if (!all.length) return empty("Nothing was lost", h("p", "What the client sent reached the upstream, and its answer the client."));
  const wanted = view.target?.code;
  view.target = null;
  const groups = new Map();
  for (const loss of all) {
    const key = `${loss.severity} ${loss.code || loss.kind}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(loss);
  }
  let opened = Boolean(wanted);
  const made = SEVERITIES.map((severity) => {
    const mine = [...groups.values()].filter((it) => it[0].severity === severity);
    if (!mine.length) return "";
    const boxes = mine.map((members) => {
      const code = members[0].code || members[0].kind;
      const open = wanted ? code === wanted : severity === "material" || (severity !== "cosmetic" && !opened) || groups.size === 1;
      if (open && severity !== "material") opened = true;
      return group(view, members, open, code === wanted);
    });
    return h("section.lossgroup", h("h3", h("span", { class: `sev ${severity}` }, mine.flat().length), severity[0].toUpperCase() + severity.slice(1), h("small", MEANS[severity])), boxes);
  });
  view.after = () => view.panel.querySelector(".lrow.here")?.scrollIntoView({ block: "center" });
  return h("div.pad", made);
}

function group(view, members, open, here) {
  const [first] = members;
  const code = first.code || first.kind;
  const summary = [h("span.ltitle", h("code", code), h("span.mean", first.meaning || first.why)), h("span.cnt", `${number(members.length)}× here · ${number(first.today)} today`)];
  return fold(`lrow ${first.severity}${here ? " here" : ""}`, summary, () => {
    const alike = members.length > 1 && members.every((it) => it.why === first.why);
    const place = (it) => h("div.from", h("button.place", { title: "show in wires", data: { where: it.where }, onclick: () => view.reveal("Wires", { path: it.where, target: it.target }) }, h("span.p", it.where), it.value || "—"), alike && !it.target && it.kind !== "dropped" ? "" : [h("span.ar", "→"), h("div", { class: it.kind === "dropped" ? "none" : "" }, h("span.p", it.target || (it.kind === "dropped" ? "not sent" : it.kind)), alike ? "" : h("span.why", it.why))]);
    const list = h("div", alike ? h("p.why", first.why) : "", members.slice(0, MOST_PLACES).map(place));
    if (members.length > MOST_PLACES) {
      const more = h("button.more", { onclick: () => (more.remove(), list.append(...members.slice(MOST_PLACES).map(place))) }, `${plural(members.length - MOST_PLACES, "more place")}`);
      list.append(more);
    }
    return h("div.occ", list, first.advice ? h("p.advice", icon("bulb"), first.advice) : "", h("p.links", h("a", { href: address({ id: "", q: `loss:${code}` }) }, "All exchanges with it")));
  }, open, { code });
}
