// The bars of what times are made of: a bar for each group of requests, its parts by pointer and by keys, and all of it as a table for who does not see.

import { byId, h, say, show } from "./dom.js";
import { barsOf, limitWords, sentenceOf, signed, tableOf } from "./anatomy-parts.js";
import { counted, percent, time } from "./format.js";

const SIDES = [["ttft", "Time to first token", "TTFT"], ["tpot", "Time per output token", "TPOT"]];

/** Builds the card; returns {show(answer, groups), pale()}. An answer without parts, of a slider that still moves, pales those before. */
export function buildAnatomy() {
  const card = byId("anatomy");
  const charts = SIDES.map(([side, title, short]) => ({ side, ...buildChart(title, short) }));
  byId("anatomy-charts").append(...charts.map(({ element }) => element));
  const pale = () => card.classList.add("is-pale");
  return {
    pale,
    show: (answer, groups) => {
      const { anatomy, result } = answer;
      if (!anatomy) {
        show(card, false);
        return;
      }
      card.classList.remove("is-pale");
      for (const { side, put } of charts) put(barsOf(anatomy, side, limitWords(groups)));
      say(byId("anatomy-about"), anatomy.one_in > 1 ? `means that add up, of one in ${anatomy.one_in} requests` : "means that add up");
      say(byId("anatomy-sum"), sentenceOf(result, anatomy));
      show(byId("anatomy-sum"), byId("anatomy-sum").textContent !== "");
      show(card, charts.some(({ element }) => !element.hidden));
    },
  };
}

function buildChart(title, short) {
  const legend = h("p", { class: "legend" });
  const rows = h("div", { class: "bars", "aria-hidden": "true" });
  const tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  const spoken = h("p", { class: "hidden-words", "aria-live": "polite" });
  const frame = h("div", { class: "bars-frame", tabindex: 0, role: "group", "aria-label": `${title}: arrow keys go through its parts` }, rows, tip, spoken);
  const table = h("div", { class: "hidden-words" });
  const element = h("section", { class: "chart", "aria-label": title }, h("h3", {}, title, " ", h("small", {}, short)), legend, frame, table);
  let now = { bars: [] };
  let reached = null;
  const point = (bar, piece) => {
    reached = bar === null ? null : { bar, piece };
    show(tip, reached !== null);
    for (const one of rows.querySelectorAll(".piece")) one.classList.toggle("at", one.dataset.at === `${bar} ${piece}`);
    if (reached) showTip(tip, frame, rows.children[bar], now.bars[bar], piece);
  };
  const follow = (event) => {
    const row = event.target.closest(".bar-row");
    const piece = event.target.closest(".piece");
    if (row) point([...rows.children].indexOf(row), piece ? Number(piece.dataset.at.split(" ")[1]) : null);
    else point(null);
  };
  for (const kind of ["pointermove", "pointerdown"]) frame.addEventListener(kind, follow);
  frame.addEventListener("pointerleave", () => point(null));
  frame.addEventListener("blur", () => point(null));
  frame.addEventListener("focus", () => { if (!reached && now.bars.length && frame.matches(":focus-visible")) point(0, 0); });
  frame.addEventListener("keydown", (event) => {
    if (event.key === "Escape") point(null);
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    if ((!down && !right) || now.bars.length === 0) return;
    event.preventDefault();
    const from = reached ?? { bar: 0, piece: -right };
    const bar = inside(from.bar + down, now.bars.length);
    point(bar, inside((from.piece ?? 0) + right, now.bars[bar].pieces.length));
    const { name, pieces } = now.bars[bar];
    const at = pieces[reached.piece];
    say(spoken, at ? `${name}: ${at.name} ${signed(at.value)}, ${percent(at.value / now.bars[bar].total)}` : name);
  });
  const put = (next) => {
    now = next;
    show(element, now.bars.length > 0);
    legend.replaceChildren(...now.legend.map(({ name, colour }) => h("span", { class: "key", "data-part": colour }, name)));
    rows.replaceChildren(...now.bars.map((bar, i) => barRow(bar, i, now)));
    table.replaceChildren(tableFor(title, tableOf(now)));
    point(null);
  };
  return { element, put };
}

function inside(index, count) {
  return Math.min(Math.max(index, 0), count - 1);
}

/** One bar: its name, its pieces from 0 to both sides, its length. */
function barRow({ name, total, pieces }, index, { low, high }) {
  const span = high - low || 1;
  const track = h("span", { class: "bar-track" }, pieces.map(({ colour, value, from, to }, i) => {
    const piece = h("i", { class: "piece", "data-part": colour, "data-at": `${index} ${i}` }, h("b", {}, signed(value)));
    piece.style.left = `${(100 * (from - low)) / span}%`;
    piece.style.width = `${(100 * (to - from)) / span}%`;
    return piece;
  }));
  if (-low > span / 200) {
    const zero = h("i", { class: "zero" });
    zero.style.left = `${(-100 * low) / span}%`;
    track.append(zero);
  }
  return h("div", { class: "bar-row" }, h("span", { class: "name" }, name), track, h("span", { class: "total" }, time(total)));
}

/** All parts of the bar; those of the piece that is pointed at stand out. */
function showTip(tip, frame, row, { name, requests, total, pieces }, at) {
  const line = (word, value, isAt) => h("div", { class: isAt ? "at" : null }, h("span", {}, word), h("b", {}, `${signed(value)} · ${percent(value / total)}`));
  tip.replaceChildren(
    h("div", { class: "tip-head" }, h("span", {}, `${name}, ${counted(requests, "request")}`), h("b", {}, time(total))),
    ...pieces.flatMap(({ parts }, i) => parts.map((part) => line(part.name, part.value, i === at))));
  const [outer, inner] = [frame.getBoundingClientRect(), row.getBoundingClientRect()];
  tip.style.top = `${inner.bottom - outer.top + 4}px`;
  const piece = row.querySelectorAll(".piece")[at]?.getBoundingClientRect() ?? inner;
  const left = (piece.left + piece.right) / 2 - outer.left - tip.offsetWidth / 2;
  tip.style.left = `${Math.max(Math.min(left, outer.width - tip.offsetWidth), 0)}px`;
}

function tableFor(title, { heads, rows }) {
  return h("table", {}, h("caption", {}, title),
    h("thead", {}, h("tr", {}, h("td"), heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map(({ name, values }) => h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td", {}, signed(value)))))));
}
