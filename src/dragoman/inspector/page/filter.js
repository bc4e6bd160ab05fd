// The filter line: `provider:groq loss:material status:>=400 tool:Bash -is:active words`.
// Every word must match; a word with a minus must not.

const FIELDS = {
  provider: (row) => [row.provider, ...row.providers],
  model: (row) => [row.model, row.target],
  agent: (row) => [row.agent],
  is: (row) => [row.state === "active" ? "running" : row.state, row.stream ? "stream" : "whole", row.attempts > row.rounds + 1 ? "retried" : "", isFallback(row) ? "fallback" : "", row.cut ? "cut" : ""],
  loss: (row) => [...Object.keys(row.losses), ...row.codes],
  tool: (row) => row.tool_names,
  session: (row) => [row.session],
  key: (row) => [row.key],
  client: (row) => [row.client],
  upstream: (row) => [row.upstream],
  id: (row) => [row.id],
  error: (row) => [row.error],
};

export const isFallback = (row) => row.state === "done" && new Set(row.providers).size > 1;

const NUMBERS = {
  status: (row) => row.status,
  cost: (row) => row.cost,
  ms: (row) => row.ms,
  ttft: (row) => row.first_ms,
  input: (row) => row.input,
  output: (row) => row.output,
  cached: (row) => row.cached,
  tools: (row) => row.tools,
  calls: (row) => row.calls,
  attempts: (row) => row.attempts,
};

const ABOUT = {
  provider: "who answered", model: "asked for or answered by", agent: "which client", is: "running, failed, fallback, retried, stream, cut", loss: "severity or code", tool: "a tool that was called",
  session: "one session", key: "key of the gateway", client: "protocol of the client", upstream: "protocol of the provider", id: "of the exchange", error: "words in the error", in: "words in request or reply",
  status: "such as status:>=400", cost: "dollars: cost:>0.05", ms: "milliseconds in all", ttft: "milliseconds to the first byte", input: "tokens", output: "tokens", cached: "tokens", tools: "how many are declared", calls: "how many are in the reply", attempts: "at providers",
};
export const filterNames = Object.keys(ABOUT);

// The test for a row, the first name that is no filter, and the words to be found in bodies. `found`: ids with these words.
export function parseFilter(text, found) {
  const words = text.match(/-?\w+:"[^"]*"|\S+/g) || [];
  const named = words.map((it) => /^-?(\w+):/.exec(it)?.[1]).filter(Boolean);
  const inside = words.filter((it) => it.startsWith("in:") && it.length > 3).map((it) => it.slice(3).replaceAll('"', "")).join(" ");
  const tests = words.filter((it) => !it.startsWith("in:")).map(test);
  if (inside && found) tests.push((row) => found.has(row.id));
  return { passes: (row) => tests.every((passes) => passes(row)), unknown: named.find((it) => !(it in ABOUT)), inside };
}

// What may follow at the end of the line: names of filters, or values of one with how many rows have them.
export function completions(text, rows) {
  const word = /\S*$/.exec(text)[0].replace(/^-/, "");
  const colon = word.indexOf(":");
  if (colon < 0) return filterNames.filter((it) => it.startsWith(word)).map((it) => ({ text: `${it}:`, about: ABOUT[it], count: "" }));
  const name = word.slice(0, colon);
  const counts = new Map();
  if (name in FIELDS) for (const row of rows) for (const it of new Set(FIELDS[name](row))) if (it) counts.set(it, (counts.get(it) || 0) + 1);
  const begin = word.slice(colon + 1).replace(/^"/, "").toLowerCase();
  return [...counts].filter(([it]) => it.toLowerCase().includes(begin) && it.toLowerCase() !== begin).sort((a, b) => b[1] - a[1]).map(([it, count]) => ({ text: `${name}:${/\s/.test(it) ? `"${it}"` : it}`, about: "", count }));
}

function test(word) {
  if (word.startsWith("-") && word.length > 1) {
    const inner = test(word.slice(1));
    return (row) => !inner(row);
  }
  const colon = word.indexOf(":");
  const name = word.slice(0, colon);
  const value = word.slice(colon + 1).replace(/^"|"$/g, "").toLowerCase();
  if (colon > 0 && name in NUMBERS) return numeric(NUMBERS[name], value);
  if (colon > 0 && name in FIELDS) return (row) => FIELDS[name](row).some((it) => matches(it, value));
  const words = word.toLowerCase();
  return (row) => [row.preview, row.prompt, row.model, row.target, row.provider, row.agent, row.error, row.id].some((it) => matches(it, words));
}

const matches = (text, part) => String(text ?? "").toLowerCase().includes(part);

function numeric(read, text) {
  const match = /^(>=|<=|>|<|=)?(\d+(?:\.\d+)?)$/.exec(text);
  if (!match) return () => false;
  const bound = Number(match[2]);
  const compare = {
    ">=": (it) => it >= bound,
    "<=": (it) => it <= bound,
    ">": (it) => it > bound,
    "<": (it) => it < bound,
    "=": (it) => it === bound,
  }[match[1] || "="];
  return (row) => {
    const value = read(row);
    return value !== null && value !== undefined && compare(value);
  };
}
