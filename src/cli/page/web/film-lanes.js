// Draws an instant of all replicas: a lane each, with its queue, its batch, its step and its KV pool.

import { font } from "./dom.js";
import { valueAt } from "./film-lines.js";
import { counted, grouped, percent } from "./format.js";

/** So many replicas find room; each of the others can be chosen. */
export const LANES = 32;
const HEAD = 20;

/** Draws all replicas at `t` into a canvas of `width` × `height`. */
export function drawLanes({ context: c, width, height }, film, t, colour) {
  const reels = film.reels.slice(0, LANES);
  const high = Math.min((height - HEAD - 2) / reels.length, 84);
  const columns = columnsOf(width);
  const between = [...film.returns.at(t), ...film.crossings.at(t)];
  const far = (stay) => film.progress(stay, t);
  heads(c, columns, colour);
  const [nowWaiting, nowIn] = [Math.max(...reels.map((reel) => reel.most.waiting)), Math.max(...reels.map((reel) => reel.slots))];
  reels.forEach((reel, i) => {
    const box = { y: HEAD + i * high + 4, h: high - 8 };
    const middle = box.y + box.h / 2;
    c.strokeStyle = colour.line;
    c.beginPath();
    c.moveTo(0, HEAD + i * high + 0.5);
    c.lineTo(width, HEAD + i * high + 0.5);
    c.stroke();
    text(c, reel.replica.name, columns.name.x, high > 32 && roleOf(reel) ? middle - 7 : middle, colour.ink, 12, 600, "left", columns.name.w);
    if (high > 32) text(c, roleOf(reel), columns.name.x, middle + 8, colour.muted, 11, 400, "left", columns.name.w);
    const coming = between.filter((piece) => piece.replica === reel.index);
    const waiting = reel.place.waits.at(t);
    const stays = reel.place.stays.at(t);
    number(c, waiting.length, columns.waiting, middle, waiting.length ? colour.wait : colour.muted);
    dots(c, { ...box, ...inner(columns.waiting) }, [...coming.map((piece) => (piece.kind === "back" ? colour["tone-alert"] : colour.kv)), ...waiting.map(() => colour.wait)], Math.max(nowWaiting, 8));
    number(c, stays.length, columns.running, middle, colour.ink);
    dots(c, { ...box, ...inner(columns.running) }, stays.map((stay) => (far(stay).decode === 0 ? colour.prefill : colour.decode)), Math.max(nowIn, 8));
    drawWork(c, reel, t, columns.step, box, colour);
    drawKv(c, reel, t, columns.kv, middle, colour);
  });
}

function columnsOf(width) {
  const small = width < 620;
  const [name, kv, step] = small ? [76, 56, 84] : [100, 130, 190];
  const rest = width - name - kv - step - 24;
  const waiting = Math.round(rest * 0.36);
  return {
    name: { x: 2, w: name }, waiting: { x: name + 2, w: waiting }, running: { x: name + waiting + 12, w: rest - waiting },
    step: { x: name + rest + 20, w: step - 12 }, kv: { x: width - kv, w: kv }, small,
  };
}

function heads(c, columns, colour) {
  const names = { waiting: "waiting", running: "running", step: "step under way", kv: "KV" };
  for (const [key, name] of Object.entries(names)) text(c, columns.small && key === "step" ? "step" : name, columns[key].x, 9, colour.muted, 12);
}

function text(c, word, x, y, fill, size, weight = 400, align = "left", most = undefined) {
  c.font = font(size, weight);
  c.fillStyle = fill;
  c.textAlign = align;
  c.textBaseline = "middle";
  c.fillText(word, x, y, most);
}

function roleOf(reel) {
  return reel.replica.role === "serves" || reel.replica.name.startsWith(reel.replica.role.replace(/s$/, "")) ? "" : reel.replica.role;
}

function number(c, value, column, y, fill) {
  text(c, grouped(String(value)), column.x + 26, y, fill, 13, 600, "right");
}

function inner(column) {
  return { x: column.x + 34, w: column.w - 40 };
}

/** Squares in columns from the left, one for each colour, of a size that `most` of them find room for. */
function dots(c, { x, y, w, h }, fills, most) {
  let side = Math.min(h, 16);
  while (side > 2 && Math.floor(h / side) * Math.floor(w / side) < most) side -= 0.5;
  const rows = Math.max(Math.floor(h / side), 1);
  const top = y + (h - rows * side) / 2;
  fills.forEach((fill, i) => {
    const left = x + Math.floor(i / rows) * side;
    if (left + side > x + w + 0.5) return;
    c.fillStyle = fill;
    c.fillRect(left, top + (i % rows) * side, side - (side > 4 ? 2 : 0.5), side - (side > 4 ? 2 : 0.5));
  });
}

/** The step under way: how far it is, and what it computes. */
function drawWork(c, reel, t, { x, w }, { y, h }, colour) {
  const step = reel.stepAt(t);
  const isIdle = !step || step.isIdle;
  const at = y + h / 2;
  c.fillStyle = colour.line;
  c.fillRect(x, at + 7, w, 4);
  if (isIdle) {
    text(c, "idle", x, at - 3, colour.muted, 11);
    return;
  }
  const [tokens, decodes] = [reel.prefillTokens[step.row], reel.decodes[step.row]];
  const wide = w * Math.min((t - step.begin) / (step.end - step.begin), 1);
  const share = tokens + decodes > 0 ? tokens / (tokens + decodes) : 0;
  c.fillStyle = colour.prefill;
  c.fillRect(x, at + 7, wide * share, 4);
  c.fillStyle = colour.decode;
  c.fillRect(x + wide * share, at + 7, wide * (1 - share), 4);
  const [long, short] = [[`${grouped(String(tokens))} prefill`, counted(decodes, "decode")], [`${grouped(String(tokens))} p`, `${grouped(String(decodes))} d`]];
  const said = (words) => words.filter((_, i) => [tokens, decodes][i] > 0).join(" + ") || "nothing to compute";
  c.font = font(11);
  text(c, c.measureText(said(long)).width <= w ? said(long) : said(short), x, at - 3, colour.ink, 11);
}

function drawKv(c, reel, t, { x, w }, y, colour) {
  const used = valueAt(reel, "kv", t);
  const share = reel.replica.kv_blocks ? used / reel.replica.kv_blocks : 0;
  const wide = w - 64;
  if (wide > 20) {
    c.strokeStyle = colour.line;
    c.strokeRect(x + 0.5, y - 5.5, wide, 11);
    c.fillStyle = share > 0.98 ? colour["tone-alert"] : colour.kv;
    c.fillRect(x + 1, y - 5, (wide - 1) * Math.min(share, 1), 10);
  }
  text(c, percent(share), x + w - 2, y, colour.ink, 12, 600, "right");
}
