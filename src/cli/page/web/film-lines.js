// What the charts over time are drawn from: the stretch shown, lines of numbers, the strip of steps, the axis.

import { font } from "./dom.js";
import { significant } from "./format.js";
import { linearTicks } from "./scale.js";
import { lastAtMost } from "./stretches.js";

export const LEFT = 74;
export const RIGHT = 60;
export const FOOT = 24;

/** The stretch of time to show: `span` seconds with the cursor in it, inside the film. */
export function windowAt(film, t, span) {
  if (span >= film.until) return [0, film.until];
  const from = Math.min(Math.max(t - span * 0.7, 0), film.until - span);
  return [from, from + span];
}

/** The instant under a place of the canvas. */
export function timeAt(place, width, [from, to]) {
  const share = (place - LEFT) / (width - LEFT - RIGHT);
  return Math.min(Math.max(from + share * (to - from), from), to);
}

/** A word beside the chart; what is longer than `most`, or than there is room at the left, is set narrower. */
export function label(c, name, y, colour, align = "right", x = LEFT - 8, weight = 400, most = undefined) {
  c.font = font(11, weight);
  c.fillStyle = colour;
  c.textAlign = align;
  c.textBaseline = "middle";
  c.fillText(name, x, y, most ?? (align === "right" ? LEFT - 10 : undefined));
}

/** A line of numbers as a path in a box, `most` at its top; of the rows in a pixel the most is drawn. */
export function tracePath(c, heights, most, { y, h }) {
  heights.forEach((value, px) => {
    const at = y + h - (h * value) / most;
    c.lineTo(LEFT + px, at);
    c.lineTo(LEFT + px + 1, at);
  });
}

/** Every step as a block: above what it computes of prompts, below who decodes. Steps that would be thinner than a pixel are left out. */
export function drawSteps(c, reel, { y, h, width }, [from, to], x, colour) {
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
}

/** What a line is at `t`: who waits and who runs to the instant, blocks as of the step's begin. */
export function valueAt(reel, column, t) {
  if (column !== "kv") return reel.place.numberAt(column, t);
  const row = reel.rowAt(t);
  return row < 0 || (t >= reel.end[row] && reel.place.numberAt("running", t) === 0) ? 0 : reel.kv[row];
}

/** The stretches of [from, to] in which a line is constant: [begin, end, value]. */
export function stretchesOf(reel, column, from, to) {
  const found = [];
  if (column !== "kv") {
    const { at, number } = reel.place.numbers[column];
    for (let i = Math.max(lastAtMost(at, from), 0); i < at.length && at[i] <= to; i += 1) found.push([at[i], at[i + 1] ?? at[i], number[i]]);
    return found;
  }
  for (let row = Math.max(reel.rowAt(from), 0); row <= reel.rowAt(to); row += 1) found.push([reel.begin[row], reel.end[row], reel.kv[row]]);
  return found;
}

/** The most in each pixel. */
export function heightsOf(stretches, perPixel, from, pixels) {
  const heights = new Float64Array(pixels).fill(0);
  for (const [begin, end, value] of stretches) {
    const last = Math.min(Math.floor((end - from) / perPixel), pixels - 1);
    for (let px = Math.max(Math.floor((begin - from) / perPixel), 0); px <= last; px += 1) {
      if (value > heights[px]) heights[px] = value;
    }
  }
  return heights;
}

/** The ground of a chart and its ticks in seconds. */
export function drawAxis(c, width, bottom, [from, to], x, colour) {
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
