// The conversation as people read it: what is new in this turn and the reply to it; what repeats is one line each.

import { duration, fold, h, icon, money, number, plural, short, size, sum } from "./dom.js";
import { inline, markdown } from "./markdown.js";
import { go } from "./state.js";

const MOST_FOLDS = 14; // earlier turns with a line of their own
const LONG = 60; // lines of an output that are shown at once
const EXIT = /^(?:Exit code|Process exited with code) (\d+)/m;
const SHELLS = new Set(["bash", "shell", "exec", "run_shell_command", "local_shell", "exec_command", "execute_command"]);

export async function conversation(view) {
  const data = await view.tab("conversation");
  const { summary } = view.head;
  const page = new Reader(view, data);
  const last = data.turns.at(-1);
  const earlier = data.turns.slice(0, -1);
  const hidden = earlier.length > MOST_FOLDS ? earlier.splice(0, earlier.length - MOST_FOLDS + 1) : [];
  const calls = data.reply.filter((it) => it.kind === "call").length;
  const running = summary.state === "active";
  const facts = [summary.output !== null ? `${number(summary.output)} tokens` : "", summary.cost !== null ? money(summary.cost) : "", running ? "" : duration(summary.ms), calls ? "stopped to call tools" : ""].filter(Boolean).join(" · ");
  return h("div.conv",
    page.system(),
    hidden.length ? fold("turn", [h("b", `Turns ${hidden[0].number}–${hidden.at(-1).number}`), h("span.grow")], () => hidden.map((it) => page.turn(it))) : "",
    earlier.map((it) => page.turn(it)),
    last ? [page.news(last), last.came.map((it) => page.block(it, "came"))] : h("p.muted", "The request cannot be read as a conversation. Wires shows it as it came."),
    h("div.rule", h("b", "Reply"), summary.provider ? h("span.up", `${summary.provider}:${summary.target}`) : "", h("span.faint", running ? "so far" : facts)),
    page.settings(),
    data.rounds.map((it, i) => [h("div.rule", h("b", `Round ${i + 1}`), h("span.up", it.name), h("span.faint", duration(it.ms))), it.parts.map((part) => page.block(part, "reply", part.answer))]),
    data.rounds.length ? "" : data.reply.map((it) => page.block(it, "reply")),
    running ? h("span.caret", { "aria-label": "the reply is still running" }) : data.reply.length ? "" : h("p.muted", summary.error || "The reply holds nothing to read."),
  );
}

class Reader {
  constructor(view, data) {
    this.view = view;
    this.data = data;
    this.losses = view.head.losses;
    this.paths = [];
    const walk = (part) => (part.path && this.paths.push(part.path), part.content?.forEach(walk));
    for (const turn of data.turns) [...turn.came, ...turn.reply].forEach(walk);
    data.system.parts.forEach(walk);
  }

  system() {
    const { parts, tools } = this.data.system;
    if (!parts.length && !tools.length) return "";
    const tokens = sum([...parts, ...tools], (it) => it.tokens);
    const text = parts.map((it) => it.text).find((it) => it && !it.startsWith("x-anthropic")) || "";
    const notes = this.notes((where) => /^(system|tools|instructions|systemInstruction)\b/.test(where));
    return fold("turn", [h("b", "System"), h("span.prevw", text.slice(0, 200)), h("span.faint", `≈ ${short(tokens)} tokens · ${plural(tools.length, "tool")}`)], () => [
      parts.map((it) => h("div.msg", h("div.body", markdown(it.text || "")))),
      tools.length ? h("p.toolnames", tools.map((it) => h("code", { class: it.used ? "used" : "", title: `≈ ${number(it.tokens)} tokens${it.used ? "" : ", never called"}` }, it.label))) : "",
      notes.length ? h("aside.notes", notes) : "",
    ]);
  }

  turn(turn) {
    const failed = turn.came.filter((it) => it.failed).length;
    const came = turn.came.filter((it) => it.kind === "text" && it.role === "user" && it.text && !it.text.trimStart().startsWith("<")).at(-1);
    const link = turn.exchange ? h("button.linkish", { onclick: () => go({ id: turn.exchange }) }, "Open this turn") : "";
    return fold("turn", [h("b", `Turn ${turn.number}`), h("span.prevw", came ? [came.text.slice(0, 160), h("i", " → ")] : "", failed ? h("span.bad", `✕ ${plural(failed, "failed result")} → `) : "", turn.gave), h("span.faint.wide", spent(turn.spent))], () => {
      const next = this.data.turns[turn.number];
      const answers = new Map((next?.came || []).filter((it) => it.kind === "result").map((it) => [it.id, it]));
      return [link, turn.came.filter((it) => it.kind !== "result").map((it) => this.block(it, "came")), turn.reply.map((it) => this.block(it, "reply", answers.get(it.id)))];
    });
  }

  news(turn) {
    const { summary, tools_changed: changed } = this.view.head;
    const results = turn.came.filter((it) => it.kind === "result").length;
    const tokens = sum(turn.came, (it) => it.tokens);
    const tools = ["added", "removed", "changed"].filter((it) => changed[it]?.length).map((it) => `tools ${it}: ${changed[it].slice(0, 4).join(", ")}`);
    const waited = this.data.waited_ms;
    const facts = [results ? plural(results, "result") : "", results && waited > 0 ? `after ≤ ${duration(waited)}` : "", `≈ +${number(tokens)} tokens`, summary.cached ? `${number(summary.cached)} read from the cache` : summary.input ? "nothing read from the cache" : "", ...tools].filter(Boolean);
    return h("div.rule.new", h("b", `New in turn ${turn.number}`), h("span", facts.join(" · ")), turn.number > 1 ? h("button.linkish", { onclick: () => go({ tab: "Window" }) }, "prefix") : "");
  }

  // Losses of settings, which belong to no message.
  settings() {
    const notes = this.notes((where) => !this.owner(where) && !/^(system|tools|instructions|systemInstruction)\b/.test(where), ["material", "minor"], true);
    return notes.length ? h("aside.notes.row-notes", notes) : "";
  }

  owner(where) {
    let best = "";
    for (const path of this.paths) if ((where === path || where.startsWith(`${path}.`) || where.startsWith(`${path}[`)) && path.length > best.length) best = path;
    return best;
  }

  notes(wanted, severities = ["material", "minor", "cosmetic"], named = false) {
    const groups = new Map();
    for (const loss of this.losses) {
      if (!severities.includes(loss.severity) || !wanted(loss.where)) continue;
      const key = loss.code || loss.why;
      groups.has(key) ? groups.get(key).count++ : groups.set(key, { loss, count: 1 });
    }
    return [...groups.values()].map(({ loss, count }) => h("div", { class: `note ${loss.severity}` }, h("div.h", loss.severity, count > 1 ? ` ×${count}` : "", named ? [" · ", h("code", loss.where)] : ""), h("p", inline(loss.why)), h("button.linkish", { onclick: () => this.view.reveal("Losses", { code: loss.code || loss.kind, where: loss.where }) }, h("code", loss.code || loss.kind))));
  }

  block(part, kind, answer) {
    const notes = part.path && kind === "came" ? this.notes((where) => this.owner(where) === part.path || part.content?.some((it) => it.path && it.path !== part.path && this.owner(where) === it.path)) : [];
    const body = h("div.body", this.part(part, answer));
    return h("div", { class: `msg ${kind}${notes.length ? " has" : ""}` }, body, notes.length ? h("aside.notes", notes) : "");
  }

  part(part, answer) {
    switch (part.kind) {
      case "reasoning":
        return fold("think", [icon("think"), " Reasoning ", h("span.faint", part.text ? `≈ ${number(part.tokens)} tokens` : "the provider hides its text")], () => [h("div.md", h("p", part.text)), this.chain(part)], Boolean(part.text));
      case "call":
        return this.card(part, { body: argumentsOf(part), foot: this.answer(part, answer) });
      case "result":
        return this.card(part, { body: h("div", part.content.map((it) => this.output(it, part))), failed: part.failed, facts: `${size(sum(part.content, (it) => it.text?.length || 0))} · ≈ ${number(part.tokens)} tokens`, isResult: true });
      case "media":
        return media(part);
      case "foreign":
        return part.text ? markdown(part.text) : h("pre.code", JSON.stringify(part.body, null, 2).slice(0, 4000));
      default:
        return longText(part);
    }
  }

  answer(part, answer) {
    if (answer) return h("div", { class: `foot2 ${answer.failed ? "bad" : "ok"}` }, h("span", answer.failed ? "✕ failed" : "✓ result", answer.ms === undefined ? "" : ` · run by the gateway · ${duration(answer.ms)}`), answer.content.map((it) => this.output(it, part)));
    const later = this.data.answers[part.id];
    if (later) return h("div", { class: `foot2 ${later.failed ? "bad" : "ok"}` }, `${later.failed ? "✕ failed" : "✓ answered"} in turn ${later.turn} · ≤ ${duration(Math.max(later.most_ms, 0))} · ${size(later.size)} `, h("button.linkish", { onclick: () => go({ id: later.exchange }) }, "open"));
    return this.view.head.summary.state === "active" || this.data.reply.includes(part) ? h("div.foot2.faint", part.complete ? "no result was recorded yet" : "the arguments are still streaming, or were cut off") : "";
  }

  card(part, { body, foot = "", failed = false, facts = "", isResult = false }) {
    const name = part.name || "result";
    const kind = SHELLS.has(name.toLowerCase()) ? "shell" : /edit|write|patch/i.test(name) ? "pen" : /read|open|cat/i.test(name) ? "file" : "tool";
    const exit = isResult && kind === "shell" && EXIT.exec(part.content.map((it) => it.text).join("\n"))?.[1];
    failed ||= exit > 0;
    const state = isResult ? h("span", { class: `pill ${failed ? "bad" : "ok"}` }, exit ? `exit ${exit}` : failed ? "failed" : "ok") : "";
    return h("div", { class: `card${failed ? " bad" : ""}` }, h("div.chead", icon(kind), h("b", name), h("code.about", part.about || ""), h("span.grow"), h("span.faint", facts), state, this.chain(part)), body, foot);
  }

  // The life of the id, and of the opaque state that travels with it.
  chain(part) {
    const lives = this.data.lives.filter((it) => (part.id && it.id === part.id) || (part.path && it.kind === "state" && it.path === part.path));
    if (!lives.length && !part.state) return "";
    const turn = (n) => (n ? `turn ${n}` : "an earlier conversation");
    const steps = lives.flatMap((it) => [
      h("li", it.kind === "call" ? ["call ", h("code", it.id), ` born in the reply of ${turn(it.born)}`] : `opaque state of ${it.origin.split("/")[0]}${it.size ? ` (${size(it.size)})` : ""} born in ${turn(it.born)}`),
      it.kind === "call" ? h("li", it.answered ? `its result came back in turn ${it.answered}` : "its result has not come back yet") : "",
      it.withheld ? h("li.held", "withheld from the upstream in this turn") : it.kind === "state" && it.path ? h("li", "echoed by the client, passed on in this turn") : "",
    ]);
    if (!lives.length) steps.push(h("li", `opaque state of ${part.state.origin.split("/")[0]} (${size(part.state.size)})`));
    const box = h("details.life", h("summary", { title: "life of the id and of opaque state", "aria-label": "life of the id" }, icon("link"), part.state ? "+1" : ""), h("ol", steps));
    return box;
  }

  output(item, part) {
    if (item.kind === "media") return media(item);
    const text = item.text ?? JSON.stringify(item.body, null, 2) ?? "";
    if (!text) return h("p.in.faint", "empty");
    const name = (part.name || "").toLowerCase();
    if (SHELLS.has(name)) return clipped(text, (lines) => h("pre.term", lines.map((line) => h("span", { class: /^(E\s|>\s|.*\b(error|failed|FAILED|Traceback|Error)\b)/.test(line) ? "tbad" : /\b(passed|ok|success)\b/.test(line) ? "tok" : "" }, `${line}\n`))));
    if (/^\s*\d+[→\t]/.test(text)) return clipped(text, numbered);
    return clipped(text, (lines) => h("pre.code.in", lines.join("\n")));
  }
}

// What a turn took: tokens, money, time.
const spent = (it) => (it?.input ? [`${short(it.input)} → ${number(it.output)} tok`, it.cost === null ? "" : money(it.cost), duration(it.ms)].filter(Boolean).join("  ·  ") : "");

// Only the beginning of something long; the rest on demand.
function clipped(text, draw) {
  const lines = text.split("\n");
  if (lines.length <= LONG) return draw(lines);
  const box = h("div", draw(lines.slice(0, LONG)));
  const more = h("button.more", { onclick: () => box.replaceChildren(draw(lines)) }, `${number(lines.length - LONG)} more lines`);
  box.append(more);
  return box;
}

function numbered(lines) {
  return h("pre.lines", lines.map((line) => {
    const match = /^\s*(\d+)[→\t](.*)$/.exec(line);
    return h("span", h("i", match ? match[1] : ""), match ? match[2] : line, "\n");
  }));
}

function argumentsOf(part) {
  const given = part.arguments;
  if (!given) return part.raw ? patch(part.raw) : "";
  if (typeof given.old_string === "string" && typeof given.new_string === "string") return edit(given.old_string, given.new_string);
  if (Array.isArray(given.edits) && given.edits[0]?.old_string !== undefined) return h("div", given.edits.map((it) => edit(it.old_string, it.new_string)));
  const text = given.patch || given.input;
  if (typeof text === "string" && text.startsWith("*** Begin Patch")) return patch(text);
  const command = given.command || given.cmd;
  if (command) return h("pre.term", h("span.tdim", "$ "), Array.isArray(command) ? command.join(" ") : command);
  const entries = Object.entries(given);
  if (!entries.length) return "";
  return h("dl.kv", entries.map(([key, value]) => [h("dt", key), h("dd", typeof value === "string" ? clipped(value, (lines) => h("pre", lines.join("\n"))) : h("pre", JSON.stringify(value, null, 1).slice(0, 4000)))]));
}

function edit(before, after) {
  const line = (kind, text) => h("span", { class: kind === "+" ? "add" : "del" }, h("i", kind), text, "\n");
  return h("pre.lines.diff", before.split("\n").map((it) => line("-", it)), after.split("\n").map((it) => line("+", it)));
}

const patch = (text) => clipped(text, (lines) => h("pre.lines.diff", lines.map((it) => h("span", { class: it.startsWith("+") ? "add" : it.startsWith("-") ? "del" : "" }, `${it}\n`))));

export function media(part) {
  const name = [part.type || part.media, part.size ? size(part.size) : "", part.name].filter(Boolean).join(" · ");
  const safe = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/.test(part.source || "");
  return h("figure.media", safe ? h("img", { src: part.source, alt: part.name || "image in the conversation" }) : "", h("figcaption", name, part.url ? ` · ${part.url.slice(0, 200)}` : safe ? "" : " · not shown"));
}

// What agents add around a prompt is folded.
function longText(part) {
  const text = part.text || "";
  const tag = part.role !== "assistant" && text.length > 200 && /^\s*<([a-z][\w-]*)[\s>]/.exec(text)?.[1];
  if (tag || ["system", "developer"].includes(part.role)) return fold("think", [h("code", tag ? `<${tag}>` : part.role), h("span.faint", ` added by the agent · ≈ ${number(part.tokens)} tokens`)], () => h("pre.code.in", text));
  return h("div", { class: part.role === "user" ? "prompt" : "" }, markdown(text));
}
