// The difference of two lists: what stayed, what was removed, what was added. Long ones are compared only where they differ.

const MOST_COMPARED = 1500; // entries on each side that are compared exactly

// [[kind, entry], …] with kind " ", "-" or "+".
export function difference(before, after) {
  let begin = 0;
  while (begin < before.length && begin < after.length && before[begin] === after[begin]) begin++;
  let end = 0;
  while (end < before.length - begin && end < after.length - begin && before.at(-1 - end) === after.at(-1 - end)) end++;
  const same = (list) => list.map((it) => [" ", it]);
  const old = before.slice(begin, before.length - end);
  const now = after.slice(begin, after.length - end);
  return [...same(before.slice(0, begin)), ...middle(old, now), ...same(end ? before.slice(-end) : [])];
}

function middle(old, now) {
  if (old.length > MOST_COMPARED || now.length > MOST_COMPARED || !old.length || !now.length) return [...old.map((it) => ["-", it]), ...now.map((it) => ["+", it])];
  const width = now.length + 1;
  const longest = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      longest[i * width + j] = old[i] === now[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < old.length && j < now.length) {
    if (old[i] === now[j]) out.push([" ", old[i++]]), j++;
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) out.push(["-", old[i++]]);
    else out.push(["+", now[j++]]);
  }
  return [...out, ...old.slice(i).map((it) => ["-", it]), ...now.slice(j).map((it) => ["+", it])];
}

export const words = (text) => text.match(/\s+|[\w]+|[^\s\w]/g) || [];
