// Losses by severity, then by code: what was there, what became of it, what to do. Each leads to its field.

import { empty, fold, h, icon, number, plural, SEVERITIES } from "./dom.js";
import { address } from "./state.js";

const MEANS = { material: "the model or the agent behaves differently", minor: "a detail that somebody may miss", cosmetic: "another spelling of the same thing" };
const MOST_PLACES = 12; // places of one code that are shown at once

export function losses(view) {
  const all = view.head.losses;
  if (!all.length) return empty("Nothing was lost", h("p", "Everything that the client sent reached the upstream, and everything that it answered reached the client."));
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
    const list = h("div", members.slice(0, MOST_PLACES).map((it) => place(view, it)));
    if (members.length > MOST_PLACES) {
      const more = h("button.more", { onclick: () => (more.remove(), list.append(...members.slice(MOST_PLACES).map((it) => place(view, it)))) }, `${plural(members.length - MOST_PLACES, "more place")}`);
      list.append(more);
    }
    return h("div.occ", list, first.advice ? h("p.advice", icon("bulb"), first.advice) : "", h("p.links", h("a", { href: address({ id: "", q: `loss:${code}` }) }, "All exchanges with it")));
  }, open, { code });
}

function place(view, loss) {
  const target = h("div", { class: loss.kind === "dropped" ? "none" : "" }, h("span.p", loss.target || (loss.kind === "dropped" ? "not sent" : loss.kind)), h("span.why", loss.why));
  return h("div.from", h("button.place", { title: "show in wires", data: { where: loss.where }, onclick: () => view.reveal("Wires", { path: loss.where, target: loss.target }) }, h("span.p", loss.where), loss.value || "—"), h("span.ar", "→"), target);
}
