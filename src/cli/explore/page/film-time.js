// Draws the film over time: running, waiting and KV as lines, and every request as a bar of waits, prefill and decode, under one cursor.

import { font } from "./film-stage.js";
import { grouped, percent, significant } from "./format.js";
import { lastAtMost } from "./film-data.js";
import { linearTicks } from "./scale.js";

export const LEFT = 74;
export const RIGHT = 60;
const FOOT = 24;
const LINE_HIGH = 38;
const STRIP_HIGH = 14;
const LINES = [
  { name: "running", column: "running", colour: "decode", word: (value) => grouped(String(value)) },
  { name: "waiting", column: "waiting", colour: "wait", word: (value) => grouped(String(value)) },
  { name: "KV pool", column: "kv", colour: "kv", word: (value, reel) => percent(value / reel.replica.kv_blocks) },
];

/** The stretch of time to show: `span` seconds with the cursor in it, inside the film. */
export function windowAt(film, t, span) {
  if (span >= film.until) return [0, film.until];
  const from = Math.min(Math.max(t - span * 0.7, 0), film.until - span);
  return [from, from + span];
}

/**
 * Draws all of it at `t`. What does not depend on the cursor is kept in `kept`, an object that is the caller's, and painted
 * anew only where film, window, size or colours are others.
 */
export function drawTime({ context: c, width, height }, film, reel, t, [from, to], colour, kept = {}) {
  const x = (time) => LEFT + ((time - from) / (to - from)) * (width - LEFT - RIGHT);
  const parts = [film, reel, from, to, width, height, c.canvas.width, colour];
  if (!kept.parts || parts.some((part, i) => part !== kept.parts[i])) {
    kept.canvas ??= document.createElement("canvas");
    Object.assign(kept.canvas, { width: c.canvas.width, height: c.canvas.height });
    const under = kept.canvas.getContext("2d");
    under.setTransform(c.getTransform());
    paint(under, { width, height }, film, reel, [from, to], x, colour);
    kept.parts = parts;
  }
  c.drawImage(kept.canvas, 0, 0, width, height);
  c.strokeStyle = colour.ink;
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x(t), 0);
  c.lineTo(x(t), height - FOOT + 4);
  c.stroke();
  c.lineWidth = 1;
  LINES.forEach((line, i) => {
    const word = line.word(valueAt(reel, line.column, t), reel);
    label(c, word, topOf(i) + LINE_HIGH - 8, colour.ink, "left", width - RIGHT + 8, 600);
  });
}

function topOf(line) {
  return 4 + line * (LINE_HIGH + 10);
}

/** All but the cursor and the values at it. */
function paint(c, { width, height }, film, reel, [from, to], x, colour) {
  LINES.forEach((line, i) => drawLine(c, reel, line, { y: topOf(i), h: LINE_HIGH, width }, [from, to], colour));
  const strip = topOf(LINES.length);
  const top = strip + STRIP_HIGH + 10;
  const bottom = height - FOOT;
  drawSteps(c, reel, { y: strip, h: STRIP_HIGH, width }, [from, to], x, colour);
  drawRequests(c, film, reel, { y: top, h: bottom - top, width }, [from, to], x, colour);
  drawAxis(c, width, bottom, [from, to], x, colour);
}

function label(c, name, y, colour, align = "right", x = LEFT - 8, weight = 400) {
  c.font = font(11, weight);
  c.fillStyle = colour;
  c.textAlign = align;
  c.textBaseline = "middle";
  c.fillText(name, x, y);
}

/** One quantity as steps filled to the ground; of the rows in a pixel the most is drawn. */
function drawLine(c, reel, line, { y, h, width }, [from, to], colour) {
  const most = Math.max(reel.most[line.column], 1);
  const inner = width - LEFT - RIGHT;
  c.strokeStyle = colour.line;
  c.beginPath();
  c.moveTo(LEFT, y + h + 0.5);
  c.lineTo(width - RIGHT, y + h + 0.5);
  c.stroke();
  const heights = heightsOf(stretchesOf(reel, line.column, from, to), (to - from) / inner, from, Math.ceil(inner));
  c.beginPath();
  c.moveTo(LEFT, y + h);
  heights.forEach((value, px) => {
    const at = y + h - (h * value) / most;
    c.lineTo(LEFT + px, at);
    c.lineTo(LEFT + px + 1, at);
  });
  c.lineTo(LEFT + heights.length, y + h);
  c.globalAlpha = 0.25;
  c.fillStyle = colour[line.colour];
  c.fill();
  c.globalAlpha = 1;
  c.strokeStyle = colour[line.colour];
  c.lineWidth = 1.25;
  c.stroke();
  c.lineWidth = 1;
  label(c, line.name, y + h - 8, colour.ink, "right", LEFT - 8, 600);
  label(c, `to ${line.word(most, reel)}`, y + 7, colour.muted);
}

/** Every step as a block: above what it computes of prompts, below who decodes. Steps that would be thinner than a pixel are left out. */
function drawSteps(c, reel, { y, h, width }, [from, to], x, colour) {
  const right = width - RIGHT;
  let drawn = -1;
  for (let row = Math.max(reel.rowAt(from), 0); row <= reel.rowAt(to); row += 1) {
    const each = (reel.end[row] - reel.begin[row]) / reel.count[row];
    const isApart = x(from + each) - x(from) >= 3;
    const parts = isApart ? reel.count[row] : 1;
    const long = (reel.end[row] - reel.begin[row]) / parts;
    const [prefills, decodes] = [reel.prefillTokens[row] > 0, reel.decodes[row] > 0];
    for (let part = 0; part < parts; part += 1) {
      const begin = reel.begin[row] + part * long;
      const [a, b] = [Math.max(x(begin), LEFT), Math.min(x(begin + long), right)];
      if (b <= LEFT || a >= right || (b <= drawn && !prefills)) continue;
      drawn = Math.ceil(b);
      const wide = Math.max(b - a - (isApart ? 1 : 0), 0.8);
      c.fillStyle = colour.prefill;
      if (prefills) c.fillRect(a, y, wide, decodes ? h / 2 : h);
      c.fillStyle = colour.decode;
      if (decodes) c.fillRect(a, prefills ? y + h / 2 : y, wide, prefills ? h / 2 : h);
    }
  }
  label(c, "steps", y + h / 2, colour.ink, "right", LEFT - 8, 600);
}

/** What a line is at `t`: who waits to the instant, who runs and blocks as of the step's begin. */
function valueAt(reel, column, t) {
  if (column === "waiting") return reel.waitingAt(t);
  const row = reel.rowAt(t);
  if (column === "running") return row < 0 || t >= reel.end[row] ? 0 : reel.running[row];
  return row < 0 ? 0 : reel.kv[row];
}

/** The stretches of [from, to] in which a line is constant: [begin, end, value]. */
function stretchesOf(reel, column, from, to) {
  const found = [];
  if (column === "waiting") {
    const { at, number } = reel.queue;
    for (let i = Math.max(lastAtMost(at, from), 0); i < at.length && at[i] <= to; i += 1) found.push([at[i], at[i + 1] ?? at[i], number[i]]);
    return found;
  }
  for (let row = Math.max(reel.rowAt(from), 0); row <= reel.rowAt(to); row += 1) found.push([reel.begin[row], reel.end[row], reel[column][row]]);
  return found;
}

/** The most in each pixel. */
function heightsOf(stretches, perPixel, from, pixels) {
  const heights = new Float64Array(pixels).fill(0);
  for (const [begin, end, value] of stretches) {
    const last = Math.min(Math.floor((end - from) / perPixel), pixels - 1);
    for (let px = Math.max(Math.floor((begin - from) / perPixel), 0); px <= last; px += 1) {
      if (value > heights[px]) heights[px] = value;
    }
  }
  return heights;
}

/** From so many waiting on a queue is what there is to see. */
const MANY_WAIT = 20;

/**
 * The requests, one row each. Few: a row is free again when its request has ended, so that rows are high. Where many wait: in
 * order of arrival, so that one sees the queue move up.
 */
function drawRequests(c, film, reel, { y, h, width }, [from, to], x, colour) {
  const lives = reel.lives.within(from, to);
  const byArrival = reel.most.waiting >= MANY_WAIT;
  const rows = byArrival ? Math.max(reel.mostWithin(to - from), lives.length) : reel.lanes;
  const lane = h / Math.max(rows, 12);
  const bar = Math.max(lane - (lane > 4 ? 1 : 0), 0.6);
  c.save();
  c.beginPath();
  c.rect(LEFT, y, width - LEFT - RIGHT, h);
  c.clip();
  const part = (a, b, top, fill, alpha = 1) => {
    if (a === null || b <= from || a >= to) return;
    c.globalAlpha = alpha;
    c.fillStyle = fill;
    c.fillRect(x(Math.max(a, from)), top, Math.max(x(Math.min(b, to)) - x(Math.max(a, from)), 0.7), bar);
  };
  const { admitted, first_token: first, queued } = film.requests;
  for (const [rank, life] of lives.entries()) {
    const top = y + (byArrival ? rank : life.row) * lane;
    const i = life.request;
    part(life.from, queued[i] ?? admitted[i] ?? life.to, top, colour.faint);
    if (admitted[i] !== null) {
      part(admitted[i], first[i] ?? life.to, top, colour.prefill);
      if (first[i] !== null) part(first[i], life.to, top, colour.decode);
    }
    for (const wait of life.waits) part(wait.from, wait.to, top, colour.card), part(wait.from, wait.to, top, colour.wait);
  }
  c.restore();
  c.globalAlpha = 1;
  label(c, "requests", y + 8, colour.ink, "right", LEFT - 8, 600);
  label(c, byArrival ? "by arrival" : `in ${grouped(String(reel.lanes))} rows`, y + 23, colour.muted);
}

function drawAxis(c, width, bottom, [from, to], x, colour) {
  c.strokeStyle = colour.faint;
  c.beginPath();
  c.moveTo(LEFT, bottom + 0.5);
  c.lineTo(width - RIGHT, bottom + 0.5);
  for (const tick of linearTicks(from, to, Math.max(Math.floor((width - LEFT - RIGHT) / 90), 2))) {
    c.moveTo(x(tick) + 0.5, bottom);
    c.lineTo(x(tick) + 0.5, bottom + 4);
  }
  c.stroke();
  for (const tick of linearTicks(from, to, Math.max(Math.floor((width - LEFT - RIGHT) / 90), 2))) {
    label(c, tick === 0 ? "0" : trimmed(tick, to - from), bottom + 13, colour.muted, "center", x(tick));
  }
  label(c, "seconds", bottom + 13, colour.muted);
}

/** A tick in as many decimals as tell it from its neighbours. */
function trimmed(tick, span) {
  const decimals = span >= 5 ? 0 : span >= 0.5 ? 1 : span >= 0.05 ? 2 : 3;
  const text = tick.toFixed(decimals);
  return Number(text) === Number(tick.toPrecision(9)) ? text : significant(tick);
}

/** The instant under a place of the canvas. */
export function timeAt(place, width, [from, to]) {
  const share = (place - LEFT) / (width - LEFT - RIGHT);
  return Math.min(Math.max(from + share * (to - from), from), to);
}

/** How many requests had ended by `t`. */
export function endedBy(reel, t) {
  return lastAtMost(reel.ends, t) + 1;
}
