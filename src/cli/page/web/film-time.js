// Draws the film over time, of one replica or of all: numbers as lines, steps, and every request as a bar, under one cursor.

import { FOOT, LEFT, RIGHT, drawAxis, drawSteps, heightsOf, label, stretchesOf, tracePath, valueAt } from "./film-lines.js";
import { drawRequests } from "./film-rows.js";
import { LANES } from "./film-lanes.js";
import { grouped, percent } from "./format.js";

const LINE_HIGH = 38;
const STRIP_HIGH = 14;
const LINES = [
  { name: "running", column: "running", colour: "decode", word: (value) => grouped(String(value)) },
  { name: "waiting", column: "waiting", colour: "wait", word: (value) => grouped(String(value)) },
  { name: "KV pool", column: "kv", colour: "kv", word: (value, reel) => percent(value / reel.replica.kv_blocks) },
];

/**
 * Draws all of it at `t`; `reel` null: all replicas. What does not depend on the cursor is kept in `kept`, an object that is the
 * caller's, and painted anew only where film, window, size or colours are others.
 */
export function drawTime({ context: c, width, height }, film, reel, t, [from, to], colour, kept = {}) {
  const x = (time) => LEFT + ((time - from) / (to - from)) * (width - LEFT - RIGHT);
  const parts = [film, reel, from, to, width, height, c.canvas.width, colour];
  if (!kept.parts || parts.some((part, i) => part !== kept.parts[i])) {
    kept.canvas ??= document.createElement("canvas");
    Object.assign(kept.canvas, { width: c.canvas.width, height: c.canvas.height });
    const under = kept.canvas.getContext("2d");
    under.setTransform(c.getTransform());
    (reel ? paint : paintAll)(under, { width, height }, film, reel, [from, to], x, colour);
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
  const say = (word, y) => label(c, word, y, colour.ink, "left", width - RIGHT + 8, 600, RIGHT - 10);
  if (reel) LINES.forEach((line, i) => say(line.word(valueAt(reel, line.column, t), reel), topOf(i) + LINE_HIGH - 8));
  else lanesOf(film, height).forEach(({ reel: one, y, h }) => say(`${grouped(String(valueAt(one, "running", t)))} + ${grouped(String(valueAt(one, "waiting", t)))}`, y + h - 12));
}

function topOf(line) {
  return 4 + line * (LINE_HIGH + 10);
}

/** One replica, but for the cursor and the values at it. */
function paint(c, { width, height }, film, reel, [from, to], x, colour) {
  LINES.forEach((line, i) => drawLine(c, reel, line, { y: topOf(i), h: LINE_HIGH, width }, [from, to], colour));
  const strip = topOf(LINES.length);
  const top = strip + STRIP_HIGH + 10;
  const bottom = height - FOOT;
  drawSteps(c, reel, { y: strip, h: STRIP_HIGH, width }, [from, to], x, colour);
  label(c, "steps", strip + STRIP_HIGH / 2, colour.ink, "right", LEFT - 8, 600);
  drawRequests(c, film, reel.place, reel.index, { y: top, h: bottom - top, width }, [from, to], x, colour);
  drawAxis(c, width, bottom, [from, to], x, colour);
}

/** One quantity as steps filled to the ground. */
function drawLine(c, reel, line, { y, h, width }, [from, to], colour) {
  const most = Math.max(reel.most[line.column], 1);
  const inner = width - LEFT - RIGHT;
  ground(c, y + h, width, colour);
  const heights = heightsOf(stretchesOf(reel, line.column, from, to), (to - from) / inner, from, Math.ceil(inner));
  fillUnder(c, heights, most, { y, h }, colour[line.colour]);
  label(c, line.name, y + h - 8, colour.ink, "right", LEFT - 8, 600);
  label(c, `to ${line.word(most, reel)}`, y + 7, colour.muted);
}

function ground(c, y, width, colour) {
  c.strokeStyle = colour.line;
  c.beginPath();
  c.moveTo(LEFT, y + 0.5);
  c.lineTo(width - RIGHT, y + 0.5);
  c.stroke();
}

function fillUnder(c, heights, most, { y, h }, fill) {
  c.beginPath();
  c.moveTo(LEFT, y + h);
  tracePath(c, heights, most, { y, h });
  c.lineTo(LEFT + heights.length, y + h);
  c.globalAlpha = 0.25;
  c.fillStyle = fill;
  c.fill();
  c.globalAlpha = 1;
  c.strokeStyle = fill;
  c.lineWidth = 1.25;
  c.stroke();
  c.lineWidth = 1;
}

/** The part between two lines, which are never below each other. */
function fillBetween(c, low, high, most, { y, h }, fill) {
  c.fillStyle = fill;
  c.globalAlpha = 0.75;
  high.forEach((value, px) => { if (value > low[px]) c.fillRect(LEFT + px, y + h - (h * value) / most, 1, (h * (value - low[px])) / most); });
  c.globalAlpha = 1;
}

/** The lanes of the replicas that there is room for: {reel, y, h}; they take the part that the requests leave. */
export function lanesOf(film, height) {
  const reels = film.reels.slice(0, LANES);
  const each = ((height - FOOT - 20) * shareOfLanes(reels.length)) / reels.length;
  return reels.map((reel, i) => ({ reel, y: 20 + i * each, h: each - 6 }));
}

function shareOfLanes(replicas) {
  return replicas <= 4 ? 0.55 : 0.65;
}

/** All replicas: a lane each, who waits on top of who runs, KV as a line, steps at the ground; then all requests. */
function paintAll(c, { width, height }, film, _, [from, to], x, colour) {
  const inner = width - LEFT - RIGHT;
  const lanes = lanesOf(film, height);
  const seen = (reel, column) => heightsOf(stretchesOf(reel, column, from, to), (to - from) / inner, from, Math.ceil(inner));
  const numbers = lanes.map(({ reel }) => ({ running: seen(reel, "running"), waiting: seen(reel, "waiting"), kv: seen(reel, "kv") }));
  const sums = numbers.map(({ running, waiting }) => running.map((value, i) => value + waiting[i]));
  const most = Math.max(1, ...sums.map((sum) => sum.reduce((a, b) => Math.max(a, b), 0)));
  lanes.forEach(({ reel, y, h }, i) => {
    const [strip, box] = [5, { y, h: h - 8 }];
    ground(c, y + box.h, width, colour);
    if (reel.place.mostWaiting > 0) fillBetween(c, numbers[i].running, sums[i], most, box, colour.wait);
    fillUnder(c, numbers[i].running, most, box, reel.replica.role === "prefills" ? colour.prefill : colour.decode);
    c.strokeStyle = colour.kv;
    c.beginPath();
    tracePath(c, numbers[i].kv, reel.replica.kv_blocks, box);
    c.stroke();
    drawSteps(c, reel, { y: y + h - strip - 1, h: strip, width }, [from, to], x, colour);
    label(c, reel.replica.name, y + h - 12, colour.ink, "right", LEFT - 8, 600);
  });
  label(c, `running, and waiting on top, each to ${grouped(String(most))}; the line is KV, to 100 %`, 8, colour.muted, "left", LEFT);
  const last = lanes[lanes.length - 1];
  const top = last.y + last.h + 12;
  const bottom = height - FOOT;
  drawRequests(c, film, film.all, null, { y: top, h: bottom - top, width }, [from, to], x, colour);
  drawAxis(c, width, bottom, [from, to], x, colour);
}
