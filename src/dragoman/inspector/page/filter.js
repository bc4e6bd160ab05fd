// The filter line: `provider:groq loss:material status:>=400 tool:Bash -is:active words`.
// Every word must match; a word with a minus must not.

const FIELDS = {
  provider: (row) => [row.provider, ...row.providers],
  model: (row) => [row.model, row.target],
  agent: (row) => [row.agent],
  session: (row) => [row.session],
  key: (row) => [row.key],
  client: (row) => [row.client],
  upstream: (row) => [row.upstream],
  tool: (row) => row.tool_names,
  loss: (row) => [...Object.keys(row.losses), ...row.codes],
  id: (row) => [row.id],
  error: (row) => [row.error],
  is: (row) => [
    row.state,
    row.stream ? "stream" : "whole",
    row.attempts > 1 ? "retried" : "",
    new Set(row.providers).size > 1 ? "fallback" : "",
  ],
};

const NUMBERS = {
  status: (row) => row.status,
  ms: (row) => row.ms,
  first: (row) => row.first_ms,
  input: (row) => row.input,
  output: (row) => row.output,
  cached: (row) => row.cached,
  tools: (row) => row.tools,
  calls: (row) => row.calls,
  attempts: (row) => row.attempts,
};

export function parseFilter(text) {
  const words = text.match(/-?\w+:"[^"]*"|\S+/g) || [];
  const tests = words.map(test);
  return (row) => tests.every((passes) => passes(row));
}

export const filterNames = [...Object.keys(FIELDS), ...Object.keys(NUMBERS)];

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
  return (row) => [row.model, row.target, row.provider, row.agent, row.error, row.id].some((it) => matches(it, words));
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
