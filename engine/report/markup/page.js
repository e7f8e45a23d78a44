"use strict";

// Tables sort by a click on a column's head: up, down, and as they were.
const UNITS = {
  ns: 1e-9, us: 1e-6, "\u00b5s": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600,
  kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
};

// valueOf is the number that a cell begins with, in the base of its unit. "x15" is a gain of 1400 %.
function valueOf(cell) {
  const text = cell.textContent.trim().replace(/,/g, "");
  const match = /^[^\d+-]*?(x?)([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z\u00b5]*)/.exec(text);
  if (!match) return null;
  return match[1] ? 100 * (match[2] - 1) : match[2] * (UNITS[match[3]] || 1);
}

function compare(a, b) {
  const [x, y] = [valueOf(a), valueOf(b)];
  if (Number.isFinite(x) && Number.isFinite(y)) return x - y;
  return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}

for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  if (rows.length < 3) continue;
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.setAttribute("aria-sort", "none");
    const sort = () => {
      const now = head.getAttribute("aria-sort");
      const next = { none: "ascending", ascending: "descending", descending: "none" }[now];
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", next);
      const empty = (row) => (row.cells[column].textContent.trim() === "-" ? 1 : 0); // always last
      const sign = next === "descending" ? -1 : 1;
      const sorted = next === "none" ? rows : [...rows].sort((a, b) =>
        empty(a) - empty(b) || sign * compare(a.cells[column], b.cells[column]));
      body.append(...sorted);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (e) => { if (e.key === "Enter") sort(); });
  });
}

// Timelines zoom by buttons, keys and ctrl with the wheel, and move by dragging.
const clamp = (v, least, most) => Math.min(Math.max(v, least), most);
const time = (ms) => (ms < 0 ? `-${time(-ms)}` : ms >= 1000 ? `${(ms / 1000).toPrecision(4)} s` : ms >= 1 || ms === 0 ? `${ms && ms.toPrecision(4)} ms` : `${(1000 * ms).toPrecision(3)} \u00b5s`);

for (const box of document.querySelectorAll(".timeline")) {
  const svg = box.querySelector("svg"), axis = box.querySelector(".axis");
  const [first, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const from = Number(svg.dataset.from), all = Number(svg.dataset.to) - from;
  const ends = [document.createElement("span"), document.createElement("span")];
  axis.append(...ends);
  let x = first, w = width;
  const show = (to, wide) => {
    w = clamp(wide, all / 1e4, all);
    x = clamp(to, from, from + all - w);
    svg.setAttribute("viewBox", `${x} 0 ${w} ${height}`);
    ends[0].textContent = time(x);
    ends[1].textContent = `${time(x + w)} (${time(w)} shown)`;
  };
  const zoom = (by, at = 0.5) => show(x + w * (1 - by) * at, w * by);
  const acts = { "+": () => zoom(0.5), "\u2212": () => zoom(2), all: () => show(from, all), reset: () => show(first, width) };
  const bar = document.createElement("div");
  for (const [name, act] of Object.entries(acts)) {
    const button = document.createElement("button");
    button.textContent = name;
    button.addEventListener("click", act);
    bar.append(button);
  }
  box.prepend(bar);
  svg.addEventListener("wheel", (e) => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    const area = svg.getBoundingClientRect();
    zoom(e.deltaY > 0 ? 1.25 : 0.8, (e.clientX - area.left) / area.width);
  }, { passive: false });
  svg.addEventListener("keydown", (e) => {
    const act = { "+": acts["+"], "-": acts["\u2212"], ArrowLeft: () => show(x - w / 4, w), ArrowRight: () => show(x + w / 4, w) }[e.key];
    if (act) { e.preventDefault(); act(); }
  });
  svg.addEventListener("pointerdown", (e) => {
    const start = x, scale = w / svg.getBoundingClientRect().width;
    svg.setPointerCapture(e.pointerId);
    const move = (m) => show(start - (m.clientX - e.clientX) * scale, w);
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerup", () => svg.removeEventListener("pointermove", move), { once: true });
  });
  show(x, w);
}

// Pictures grow by a click.
for (const picture of document.querySelectorAll("figure img")) {
  picture.addEventListener("click", () => picture.classList.toggle("large"));
}
