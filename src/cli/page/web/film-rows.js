// Draws requests over time, a row each: front end, waits, prefill, decode, and the crossing between two replicas.

import { LEFT, RIGHT, label } from "./film-lines.js";
import { grouped } from "./format.js";

/** From so many waiting on a queue is what there is to see. */
const MANY_WAIT = 20;
/** What a request does elsewhere is so pale. */
const ELSEWHERE = 0.3;

/**
 * The requests of a place, one row each; `index` is its replica, null: all of them. Few: a row is free again when its request
 * has left, so that rows are high. Where many wait: in order of arrival, so that one sees the queue move up.
 */
export function drawRequests(c, film, place, index, { y, h, width }, [from, to], x, colour) {
  const lives = place.lives.within(from, to);
  const byArrival = place.mostWaiting >= MANY_WAIT;
  const rows = byArrival ? Math.max(place.mostWithin(to - from), lives.length) : place.lanes;
  const lane = h / Math.max(rows, 12);
  const bar = Math.max(lane - (lane > 4 ? 1 : 0), 0.6);
  c.save();
  c.beginPath();
  c.rect(LEFT, y, width - LEFT - RIGHT, h);
  c.clip();
  const part = (a, b, top, fill, alpha) => {
    if (b <= from || a >= to || b <= a) return;
    const [left, wide] = [x(Math.max(a, from)), Math.max(x(Math.min(b, to)) - x(Math.max(a, from)), 0.7)];
    c.globalAlpha = 1;
    c.fillStyle = colour.card;
    c.fillRect(left, top, wide, bar);
    c.globalAlpha = alpha;
    c.fillStyle = fill;
    c.fillRect(left, top, wide, bar);
  };
  for (const [rank, life] of lives.entries()) {
    const top = y + (byArrival ? rank : life.row) * lane;
    for (const piece of film.pieces[life.request]) {
      if (piece.from >= life.to) break;
      const alpha = index === null || piece.replica === index || ["cross", "back"].includes(piece.kind) ? 1 : ELSEWHERE;
      if (piece.kind === "stay") {
        part(piece.from, Math.min(piece.decodeFrom, piece.to), top, colour.prefill, alpha);
        part(piece.decodeFrom, piece.to, top, colour.decode, alpha);
      } else part(piece.from, piece.to, top, { front: colour.faint, wait: colour.wait, cross: colour.kv, back: colour["tone-alert"] }[piece.kind], alpha);
    }
  }
  c.restore();
  c.globalAlpha = 1;
  label(c, "requests", y + 8, colour.ink, "right", LEFT - 8, 600);
  label(c, byArrival ? "by arrival" : `in ${grouped(String(place.lanes))} rows`, y + 23, colour.muted);
}
