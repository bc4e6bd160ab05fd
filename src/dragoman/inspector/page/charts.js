// Small charts: a line, stacked bars over time, and a treemap.

import { h, short, sum, svg } from "./dom.js";

export function spark(values, kind = "") {
  const most = Math.max(...values, 1e-9);
  const points = values.map((it, i) => `${((i / Math.max(values.length - 1, 1)) * 100).toFixed(1)},${(30 - (it / most) * 27).toFixed(1)}`).join(" ");
  return svg("svg", { class: `sparkline ${kind}`, viewBox: "0 0 100 32", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("polygon", { points: `0,31 ${points} 100,31` }), svg("polyline", { points, "vector-effect": "non-scaling-stroke" }));
}

// `stacks`: [{label, values: [a, b, c]}], drawn from the bottom in the classes of `kinds`.
export function bars(stacks, kinds, label) {
  const width = Math.min(900, innerWidth - 54);
  const height = 190;
  const most = nice(Math.max(1, ...stacks.map((it) => sum(it.values, (value) => value))));
  const step = (width - 50) / stacks.length;
  const y = (value) => height - 20 - (value / most) * (height - 34);
  const grid = [0, 0.25, 0.5, 0.75, 1].map((part) => [svg("line.grid", { x1: 46, x2: width, y1: y(most * part), y2: y(most * part) }), svg("text", { x: 40, y: y(most * part) + 4, "text-anchor": "end" }, short(most * part))]);
  const drawn = stacks.map((stack, i) => {
    let base = 0;
    const rects = stack.values.map((value, kind) => {
      base += value;
      return value ? svg("rect", { class: kinds[kind], x: 48 + i * step, width: Math.max(step - 2, 1), y: y(base), height: y(base - value) - y(base) }) : "";
    });
    return svg("g", svg("title", `${stack.label}: ${stack.values.map(short).join(", ")}`), rects);
  });
  const every = Math.ceil((stacks.length * 150) / width);
  const times = stacks.map((stack, i) => (i % every === Math.floor(every / 2) ? svg("text", { x: 48 + (i + 0.5) * step, y: height - 4, "text-anchor": "middle" }, stack.label) : ""));
  return svg("svg.chart", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, grid, drawn, times);
}

export function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((it) => it * power).find((it) => it >= value);
}

// Squarified treemap as positioned buttons. `items` have `size`, `kind`, `label`, `title`, `onclick`; shares are of the area.
export function treemap(items) {
  const sorted = items.filter((it) => it.size > 0).sort((a, b) => b.size - a.size);
  const scale = (100 * 46) / (sum(sorted, (it) => it.size) || 1);
  const cells = [];
  let area = { x: 0, y: 0, w: 100, h: 46 };
  let row = [];
  const total = (list) => sum(list, (it) => it.size * scale);
  const worst = (list, side) => {
    const all = total(list);
    return Math.max(...list.map((it) => Math.max((side * side * it.size * scale) / (all * all), (all * all) / (side * side * it.size * scale))));
  };
  const place = () => {
    const wide = area.w >= area.h;
    const depth = total(row) / (wide ? area.h : area.w);
    let offset = 0;
    for (const item of row) {
      const length = (item.size * scale) / depth;
      cells.push([item, wide ? { x: area.x, y: area.y + offset, w: depth, h: length } : { x: area.x + offset, y: area.y, w: length, h: depth }]);
      offset += length;
    }
    area = wide ? { x: area.x + depth, y: area.y, w: area.w - depth, h: area.h } : { x: area.x, y: area.y + depth, w: area.w, h: area.h - depth };
    row = [];
  };
  for (const item of sorted) {
    const side = Math.min(area.w, area.h);
    if (row.length && worst([...row, item], side) > worst(row, side)) place();
    row.push(item);
  }
  if (row.length) place();
  const button = ([item, it]) => h("button", { class: `k-${item.kind}`, style: `left:${it.x}%;top:${(it.y / 46) * 100}%;width:${it.w}%;height:${(it.h / 46) * 100}%`, title: item.title, "aria-label": item.title, onclick: item.onclick }, it.w > 5 && it.h > 4 ? [h("b", item.label), it.h > 7 ? short(item.size) : ""] : "");
  return h("div.tm", cells.map(button));
}
