// Draws an instant of the film: the waiting queue at the left, the batch as bars that fill, the KV pool at the right.

import { font } from "./dom.js";
import { valueAt } from "./film-lines.js";
import { grouped, percent } from "./format.js";

const GAP = 2;

/** Draws replica `reel` at `t` into a canvas of `width` × `height`. */
export function drawStage({ context: c, width, height }, film, reel, t, colour) {
  const small = width < 620;
  const queueWide = Math.round(width * (small ? 0.26 : 0.24));
  const poolWide = small ? 46 : 76;
  const top = 24;
  const high = height - top - 4;
  const queue = { x: 0, y: top, w: queueWide - 22, h: high };
  const batch = { x: queueWide, y: top, w: width - queueWide - poolWide - 22, h: high };
  const pool = { x: width - poolWide, y: top, w: poolWide, h: high };
  c.lineWidth = 1;
  drawQueue(c, queue, film, reel, t, colour);
  drawArrow(c, queue.x + queue.w + 5, top + high / 2, colour);
  drawBatch(c, batch, film, reel, t, colour);
  drawArrow(c, batch.x + batch.w + 5, top + high / 2, colour);
  drawPool(c, pool, reel, t, colour);
}

function title(c, box, name, value, colour, tone) {
  c.textBaseline = "alphabetic";
  c.textAlign = "left";
  c.font = font(13, 600);
  const valueWide = c.measureText(value).width;
  c.font = font(12);
  const nameWide = c.measureText(`${name} `).width + 2;
  // What is wider than its box ends where the box ends.
  const x = box.x + Math.min(0, box.w - nameWide - valueWide);
  c.fillStyle = colour.muted;
  c.fillText(name, x, box.y - 9);
  c.font = font(13, 600);
  c.fillStyle = tone ?? colour.ink;
  c.fillText(value, x + nameWide, box.y - 9);
}

function drawArrow(c, x, y, colour) {
  c.strokeStyle = colour.faint;
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x, y - 5);
  c.lineTo(x + 6, y);
  c.lineTo(x, y + 5);
  c.stroke();
  c.lineWidth = 1;
}

/** The queue as a line of squares, the head at the right and at the top, areas as the prompts. Rows fill from the right. */
function drawQueue(c, box, film, reel, t, colour) {
  const waiting = reel.place.waits.at(t);
  const front = reel.place.fronts.at(t).length;
  title(c, box, "waiting", grouped(String(waiting.length)), colour, waiting.length ? colour.wait : colour.ink);
  c.strokeStyle = colour.line;
  c.strokeRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1);
  const inner = { x: box.x + 5, y: box.y + 5, w: box.w - 10, h: box.h - 28 };
  c.fillStyle = colour.muted;
  c.font = font(11);
  const crossing = film.crossings.at(t).filter((piece) => piece.replica === reel.index).length;
  const before = reel.replica.role === "decodes" ? `KV on its way ${grouped(String(crossing))}` : `front end ${grouped(String(front))}`;
  c.fillText(before, inner.x + 1, box.y + box.h - 7);
  // As large as they all find room; then drawn in order until the box is full.
  const largest = [34, 26, 20, 15, 11, 8, 6].find((side) => fits(waiting, film, side, inner)) ?? 5;
  let [x, y, rowHigh] = [inner.x + inner.w, inner.y, 0];
  c.fillStyle = colour.wait;
  for (const [index, wait] of waiting.entries()) {
    const side = sideOf(film, wait.request, largest);
    if (x - side < inner.x) [x, y, rowHigh] = [inner.x + inner.w, y + rowHigh + GAP, 0];
    if (y + side > inner.y + inner.h) {
      c.fillStyle = colour.card;
      c.fillRect(inner.x, inner.y + inner.h - 17, inner.w, 17);
      c.fillStyle = colour.ink;
      c.font = font(11, 600);
      c.fillText(`and ${grouped(String(waiting.length - index))} more`, inner.x + 2, inner.y + inner.h - 4);
      return;
    }
    c.globalAlpha = index === 0 ? 1 : 0.72;
    c.fillRect(x - side, y, side, side);
    c.globalAlpha = 1;
    x -= side + GAP;
    rowHigh = Math.max(rowHigh, side);
  }
}

function sideOf(film, request, largest) {
  return Math.max(3, largest * Math.sqrt(film.requests.prompt[request] / film.longest.prompt));
}

function fits(waiting, film, largest, box) {
  let [x, y, rowHigh] = [0, 0, 0];
  for (const wait of waiting) {
    const side = sideOf(film, wait.request, largest);
    if (x + side > box.w) [x, y, rowHigh] = [0, y + rowHigh + GAP, 0];
    x += side + GAP;
    rowHigh = Math.max(rowHigh, side);
    if (y + rowHigh > box.h) return false;
  }
  return true;
}

/** Rows and columns for so many slots: rows as high as possible, columns not narrower than can be read. */
export function grid(slots, width, height) {
  for (let high = 15; high >= 3; high -= 1) {
    const rows = Math.max(1, Math.floor(height / high));
    const columns = Math.ceil(Math.max(slots, 1) / rows);
    if (width / columns >= (high > 6 ? 84 : 46)) return { rows, columns, high, wide: width / columns };
  }
  const rows = Math.max(1, Math.floor(height / 3));
  const columns = Math.ceil(slots / rows);
  return { rows, columns, high: 3, wide: width / columns };
}

/** The batch: one bar for each request, its prompt and its answer on a root scale, filled as far as they are computed. */
function drawBatch(c, box, film, reel, t, colour) {
  const stays = reel.place.stays.at(t);
  const most = reel.replica.max_num_seqs;
  title(c, box, "running", `${grouped(String(stays.length))}${most ? ` of at most ${grouped(String(most))}` : ""}`, colour);
  drawStep(c, box, reel, t, colour);
  const area = { ...box, y: box.y + 10, h: box.h - 10 };
  const { rows, high, wide } = grid(reel.slots, area.w, area.h);
  const bar = Math.max(high - (high > 6 ? 3 : 1), 1.5);
  const room = wide - 10;
  const full = Math.sqrt(film.longest.prompt) + Math.sqrt(film.longest.output);
  for (const stay of stays) {
    const x = area.x + Math.floor(stay.row / rows) * wide;
    const y = area.y + (stay.row % rows) * high;
    const { prompt, output } = film.requests;
    const far = film.progress(stay, t);
    const prefillWide = (room * Math.sqrt(prompt[stay.request])) / full;
    const answer = output[stay.request] ?? far.tokens;
    const decodeWide = (room * Math.sqrt(answer)) / full;
    c.globalAlpha = 0.22;
    c.fillStyle = colour.prefill;
    c.fillRect(x, y, prefillWide, bar);
    c.fillStyle = colour.decode;
    c.fillRect(x + prefillWide, y, decodeWide, bar);
    c.globalAlpha = 1;
    c.fillStyle = colour.prefill;
    c.fillRect(x, y, prefillWide * far.prefill, bar);
    if (far.decode === 0) continue;
    c.fillStyle = colour.decode;
    c.fillRect(x + prefillWide, y, decodeWide * (far.decode ?? 1), bar);
  }
}

/** The step under way: how far it is, and its share of prefill tokens and of decodes. */
function drawStep(c, box, reel, t, colour) {
  const step = reel.stepAt(t);
  c.fillStyle = colour.line;
  c.fillRect(box.x, box.y, box.w, 4);
  if (!step || step.isIdle) return;
  const share = Math.min((t - step.begin) / (step.end - step.begin), 1);
  const [tokens, decodes] = [reel.prefillTokens[step.row], reel.decodes[step.row]];
  const prefill = tokens + decodes > 0 ? tokens / (tokens + decodes) : 0;
  const wide = box.w * Math.max(share, 0.004);
  c.fillStyle = colour.prefill;
  c.fillRect(box.x, box.y, wide * prefill, 4);
  c.fillStyle = colour.decode;
  c.fillRect(box.x + wide * prefill, box.y, wide * (1 - prefill), 4);
}

/** The pool of KV blocks, filled from below. */
function drawPool(c, box, reel, t, colour) {
  const used = valueAt(reel, "kv", t);
  const share = reel.replica.kv_blocks ? used / reel.replica.kv_blocks : 0;
  title(c, box, "KV", percent(share), colour);
  c.strokeStyle = colour.line;
  c.strokeRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1);
  c.fillStyle = share > 0.98 ? colour["tone-alert"] : colour.kv;
  const filled = (box.h - 2) * Math.min(share, 1);
  c.fillRect(box.x + 1, box.y + box.h - 1 - filled, box.w - 2, filled);
}
