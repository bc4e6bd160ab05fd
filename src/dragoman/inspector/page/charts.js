// Small charts as SVG: bars over time, and a treemap.

import { svg } from "inspector/dom";

export function bars(values, { width = 320, height = 60, label = "" } = {}) {
  const most = Math.max(1, ...values.map((it) => it.value));
  const step = width / Math.max(values.length, 1);
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "bars", role: "img", "aria-label": label, preserveAspectRatio: "none" },
    values.map((it, i) =>
      svg(
        "rect",
        { x: i * step + 0.5, width: Math.max(step - 1, 0.5), y: height - (it.value / most) * height, height: (it.value / most) * height, class: it.kind || "" },
        svg("title", {}, `${it.label}: ${it.value}`),
      ),
    ),
  );
}

// Squarified treemap: `items` have `size`, `kind`, `label`, `title`.
export function treemap(items, { width = 900, height = 420 } = {}) {
  const sorted = items.filter((it) => it.size > 0).sort((a, b) => b.size - a.size);
  const total = sorted.reduce((sum, it) => sum + it.size, 0) || 1;
  const scale = (width * height) / total;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "treemap", role: "img", "aria-label": "what fills the context window" });
  let area = { x: 0, y: 0, w: width, h: height };
  let row = [];
  const worst = (list, side) => {
    const sum = list.reduce((s, it) => s + it.size * scale, 0);
    return Math.max(...list.map((it) => Math.max((side * side * it.size * scale) / (sum * sum), (sum * sum) / (side * side * it.size * scale))));
  };
  const place = () => {
    const sum = row.reduce((s, it) => s + it.size * scale, 0);
    const wide = area.w >= area.h;
    const depth = sum / (wide ? area.h : area.w);
    let offset = 0;
    for (const item of row) {
      const length = (item.size * scale) / depth;
      draw(item, wide ? { x: area.x, y: area.y + offset, w: depth, h: length } : { x: area.x + offset, y: area.y, w: length, h: depth });
      offset += length;
    }
    area = wide ? { x: area.x + depth, y: area.y, w: area.w - depth, h: area.h } : { x: area.x, y: area.y + depth, w: area.w, h: area.h - depth };
    row = [];
  };
  const draw = (item, box) => {
    const group = svg("g", { class: `cell ${item.kind}` }, svg("title", {}, item.title));
    group.append(svg("rect", { x: box.x, y: box.y, width: Math.max(box.w, 0), height: Math.max(box.h, 0) }));
    if (box.w > 60 && box.h > 16) {
      const letters = Math.floor((box.w - 8) / 6.6);
      group.append(svg("text", { x: box.x + 4, y: box.y + 13 }, item.label.slice(0, letters)));
    }
    root.append(group);
  };
  for (const item of sorted) {
    const side = Math.min(area.w, area.h);
    if (row.length && worst([...row, item], side) > worst(row, side)) place();
    row.push(item);
  }
  if (row.length) place();
  return root;
}
