// Copy it, export it, send it again as it was or edited, and compare the replies.

import { download, exported, get, replay } from "./api.js";
import { alertBox, badges, box, copy, duration, h, icon, message, money, number, plural, replace, table, textBox, toast } from "./dom.js";
import { difference, words } from "./diff.js";
import { go } from "./state.js";

export async function actions(view) {
  const snippets = await view.tab("snippets");
  const shown = textBox("what is copied", first(Object.values(snippets)[0]));
  const copies = box("Copy as", "", h("div.in", h("p.btns", Object.entries(snippets).map(([name, text]) => h("button.btn", { onclick: (event) => (copy(text, event.target), (shown.textContent = first(text))) }, icon("copy"), name))), shown));
  if (exported) return h("div.pad", copies);
  const { id } = view.head.summary;
  const save = (path, name, label) => h("button.btn", { onclick: () => download(`/exchanges/${id}/${path}`, name).catch((error) => toast(String(error.message))) }, icon("load"), label);
  const files = box("Export", "", h("div.in", h("p.btns", save("exchange.json", `${id}.exchange.json`, "This exchange, JSON"), save("export.html", `${id}.html`, "This exchange, HTML"), view.head.turns.length > 1 ? save("session.html", `${id}.session.html`, "The session, HTML") : ""), h("p.muted", "HTML opens without a server. A session ends with this turn. Prompts and results are in it, keys are masked.")));
  return h("div.pad", h("div.cards2", copies, files), h("h3", "Edit and replay"), await editor(view));
}

const first = (text) => (text.length > 1500 ? `${text.slice(0, 1500)}…` : text);

async function editor(view) {
  const { summary } = view.head;
  let [text, setup] = await Promise.all([view.tab("request"), get("/setup").catch(() => ({ models: [] }))]);
  try {
    text = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // a body that is no JSON is sent as it is
  }
  const area = h("textarea.editor", { spellcheck: "false", "aria-label": "request to replay", oninput: () => later() });
  area.value = text;
  const names = [...new Set([summary.model, summary.provider && `${summary.provider}:${summary.target}`, ...setup.models.flatMap((it) => it.targets)].filter(Boolean))];
  const model = h("input.sel", { id: "replay-model", value: summary.model, list: "models", "aria-label": "model to replay to", onchange: () => later() });
  const list = h("datalist", { id: "models" }, names.map((it) => h("option", { value: it })));
  const plan = h("div.in.plan", { "aria-live": "polite" });
  const result = h("div.result", { "aria-live": "polite" });
  let timer;
  const later = () => (clearTimeout(timer), (timer = setTimeout(dry, 400)));
  const dry = async () => {
    try {
      JSON.parse(area.value);
      replace(plan, planTable(await get(`/exchanges/${summary.id}/plan`, area.value)));
    } catch (error) {
      replace(plan, h("p.bad", `This request cannot be sent. ${error.message}`));
    }
  };
  const send = async () => {
    replace(result, h("p.muted", "…"));
    try {
      const id = await replay(view.head, area.value, model.value);
      replace(result, await compare(view, id));
    } catch (error) {
      replace(result, alertBox(message(error)));
    }
  };
  dry();
  return [
    h("div.cards2", box("Request", `client side, ${summary.client}`, h("div.in", area, h("p.btns", model, list, h("button.btn.primary", { id: "replay", onclick: send }, icon("play"), "Send"), h("span.muted", "Tools do not run.")))), box("What would be lost", "nothing is sent", plan)),
    result,
  ];
}

function planTable(plans) {
  return table(["Provider", "Protocol", "Losses"], plans.map((it) => {
    const counts = {};
    for (const loss of it.losses) counts[loss.severity] = (counts[loss.severity] || 0) + 1;
    const codes = [...new Set(it.losses.filter((loss) => loss.severity !== "cosmetic").map((loss) => loss.code || loss.kind))].slice(0, 5).join(", ");
    return [h("b", it.provider), it.taken ? it.protocol : `${it.protocol}, not taken`, it.error ? h("span.bad", it.error) : it.losses.length ? h("span", badges(counts), " ", h("code", codes)) : h("span.pill.ok", "nothing is lost")];
  }));
}

// Two replies as they were put together, not as their frames came.
async function compare(view, id) {
  let other;
  for (let i = 0; i < 20; i++) {
    other = await get(`/exchanges/${encodeURIComponent(id)}`).catch(() => null);
    if (other && other.summary.state !== "active") break;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  if (!other) throw new Error(`${id} was answered and is not recorded.`);
  const [mine, theirs] = await Promise.all([view.tab("conversation"), get(`/exchanges/${encodeURIComponent(id)}/conversation`)]);
  const text = (reply) => reply.filter((it) => it.kind === "text").map((it) => it.text).join("\n\n");
  const calls = (reply) => reply.filter((it) => it.kind === "call");
  const parts = difference(words(text(mine.reply)), words(text(theirs.reply)));
  const side = (it, reply, kind, others) =>
    box(
      h("span.up", `${it.summary.provider}:${it.summary.target}`),
      [duration(it.summary.ms), `${number(it.summary.output)} tok`, money(it.summary.cost)].join(" · "),
      h("div.in.md", h("p.pre", merged(parts.filter(([mark]) => mark === " " || mark === kind)).map(([mark, text]) => (mark === " " ? text : h("mark", { class: kind === "+" ? "a" : "x" }, text)))), calls(reply).map((call) => h("div", { class: `call ${others.some((it) => it.name === call.name && it.raw === call.raw) ? "" : kind === "+" ? "a" : "x"}` }, icon("tool"), " ", h("b", call.name), " ", h("code", call.raw.slice(0, 300))))),
    );
  return [h("h3", "Compare"), h("div.cards2", side(view.head, mine.reply, "-", calls(theirs.reply)), side(other, theirs.reply, "+", calls(mine.reply))), h("p", "Answered as ", h("button.linkish", { id: "replayed", onclick: () => go({ id }) }, id), ` with ${plural(calls(theirs.reply).length, "call")}.`)];
}

// Neighbours of one kind as one piece.
function merged(parts) {
  const out = [];
  for (const [kind, text] of parts) out.at(-1)?.[0] === kind ? (out.at(-1)[1] += text) : out.push([kind, text]);
  return out;
}
