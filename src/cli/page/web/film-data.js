// The film of a run, ready to be looked up by time: who waits, who is in a batch, who is between two replicas, and where. Without DOM.

import { Steps } from "./film-steps.js";
import { Stretches, counts, lastAtMost, stack } from "./stretches.js";

/** What the film does not see end lasts so many seconds longer than it: at the last instant it is still seen. */
const AFTER = 1;

function most(values) {
  return values.reduce((a, b) => Math.max(a, b), 0);
}

/** What there is to see at one place, a replica or all of them: waits, stays in a batch, lives of requests, counts of them. */
class Place {
  constructor(until, { waits, stays, lives, fronts, ends }) {
    Object.assign(this, { until, within: new Map(), ends: ends.sort((a, b) => a - b) });
    this.waits = new Stretches(waits);
    this.stays = new Stretches(stays);
    this.lives = new Stretches(lives);
    this.fronts = new Stretches(fronts);
    this.lanes = stack(this.lives.items);
    // How many wait and how many are in the batch, from each instant on at which that changes.
    this.numbers = { waiting: counts(this.waits.items), running: counts(this.stays.items) };
    this.mostWaiting = most(this.numbers.waiting.number);
  }

  /** The most requests that are inside at some time of a stretch of `span` seconds, wherever in the film it lies. */
  mostWithin(span) {
    const key = span.toPrecision(6);
    if (!this.within.has(key)) {
      const places = Array.from({ length: 61 }, (_, i) => (i * Math.max(this.until - span, 0)) / 60);
      this.within.set(key, Math.max(...places.map((from) => this.lives.within(from, from + span).length)));
    }
    return this.within.get(key);
  }

  /** How many are "waiting" or "running" at `t`. */
  numberAt(what, t) {
    const { at, number } = this.numbers[what];
    const i = lastAtMost(at, t);
    return i < 0 ? 0 : number[i];
  }

  /** How many had ended by `t`. */
  endedBy(t) {
    return lastAtMost(this.ends, t) + 1;
  }
}

/** A film of one replica: its steps, and what there is to see there. */
class Reel extends Steps {
  constructor(film, index) {
    super(film.steps, index);
    Object.assign(this, { index, replica: film.replicas[index], until: film.until });
  }

  /** Takes the place, with a row of the stage for each stay. */
  fill(place) {
    this.place = place;
    this.slots = stack(place.stays.items);
    this.most = { running: most(place.numbers.running.number), waiting: place.mostWaiting, kv: most(this.kv) };
  }
}

/** A film, its reels, one for each replica, and all places as one. */
export class Film {
  constructor(film) {
    Object.assign(this, { until: film.until, requests: film.requests, replicas: film.replicas });
    this.reels = film.replicas.map((_, index) => new Reel(film, index));
    this.pieces = piecesOf(film);
    const stays = this.pieces.map((pieces) => pieces.filter((piece) => piece.kind === "stay"));
    this.decoded = stays.map((own) => this.#countDecodes(own));
    this.reels.forEach((reel) => reel.fill(new Place(film.until, this.#seenAt(reel.index))));
    this.all = new Place(film.until, this.#seenAt(null));
    const between = (kind) => new Stretches(this.pieces.flatMap((pieces) => pieces.filter((piece) => piece.kind === kind)));
    Object.assign(this, { crossings: between("cross"), returns: between("back") });
    const longest = (values) => values.reduce((most, value) => Math.max(most, value ?? 0), 1);
    // Of an answer that the film does not see end: the tokens that it has by then.
    const soFar = this.decoded.map((steps, i) => (film.requests.output[i] === null && steps > 0 ? steps + 1 : 0));
    this.longest = { prompt: longest(film.requests.prompt), output: Math.max(longest(film.requests.output), longest(soFar)) };
  }

  /** Gives each stay the decode steps before it, and returns those of all. */
  #countDecodes(stays) {
    let steps = 0;
    for (const stay of stays) {
      stay.before = steps;
      const reel = this.reels[stay.replica];
      if (stay.decodeFrom < stay.to) steps += reel.stepsBy(stay.to) - reel.stepsBy(stay.decodeFrom);
    }
    return steps;
  }

  /**
   * What a replica sees of the requests (null: all see it). A request's life there goes from its arrival, wherever it was before,
   * to the end of what it does there and of the crossing that follows.
   */
  #seenAt(index) {
    const seen = { waits: [], stays: [], lives: [], fronts: [], ends: [] };
    const isHere = (piece) => index === null || piece.replica === index;
    this.pieces.forEach((pieces, request) => {
      const { arrival, end, replica } = this.requests;
      const last = pieces.findLastIndex(isHere);
      const isOnly = this.replicas.length === 1;
      if (last < 0 && !isOnly && index !== null) return;
      const after = pieces[last + 1];
      const leaves = index === null || last < 0 ? end[request] ?? this.until + AFTER : ["cross", "back"].includes(after?.kind) ? after.to : pieces[last].to;
      seen.lives.push({ request, from: arrival[request], to: leaves });
      for (const piece of pieces.filter(isHere)) {
        if (piece.kind === "wait") seen.waits.push(piece);
        // Copies: a stay has a row at each place that it is seen at.
        if (piece.kind === "stay") seen.stays.push({ ...piece });
        if (piece.kind === "front") seen.fronts.push(piece);
        if (piece.kind === "stay" && this.replicas[piece.replica].role === "prefills" && index !== null && piece.to < this.until) seen.ends.push(piece.to);
      }
      if (end[request] !== null && (index === null || isOnly || (replica[request] === index && this.replicas[index].role !== "prefills"))) seen.ends.push(end[request]);
    });
    return seen;
  }

  /** How far a request in the batch is at `t`: shares of its prompt and of its answer (null: how long it will be is not in the film), and tokens out. */
  progress(stay, t) {
    const { first_token: firsts, end: ends, output } = this.requests;
    if (t < stay.decodeFrom) {
      const until = this.replicas[stay.replica].role === "prefills" ? stay.to : firsts[stay.request] ?? this.until;
      return { prefill: Math.min((t - stay.from) / Math.max(until - stay.from, 1e-9), 1), decode: 0, tokens: 0 };
    }
    const reel = this.reels[stay.replica];
    const steps = stay.before + reel.stepsBy(t) - reel.stepsBy(stay.decodeFrom);
    const total = output[stay.request];
    if (ends[stay.request] === null || total === null) return { prefill: 1, decode: null, tokens: Math.floor(steps) + 1 };
    const all = this.decoded[stay.request];
    const share = all > 0 ? Math.min(steps / all, 1) : 1;
    return { prefill: 1, decode: share, tokens: Math.min(Math.floor(share * (total - 1)) + 1, total) };
  }
}

/**
 * What each request does, in order of time: {kind, request, replica, from, to}. Kinds: "front", the front end; "wait", in a
 * queue; "stay", in a batch; "cross" and "back", between two replicas, with its KV or without, and the replica is the one that
 * it comes to, or null. A stay has `decodeFrom`, from when on it decodes: what was prefilled elsewhere does so from the first.
 */
export function piecesOf({ until, replicas, requests, waits, stays }) {
  const open = until + AFTER;
  const all = requests.arrival.map(() => []);
  waits.request.forEach((request, i) => all[request].push({ kind: waits.replica[i] === null ? "cross" : "wait", request, replica: waits.replica[i], from: waits.from[i], to: waits.to[i] ?? open }));
  stays.request.forEach((request, i) => all[request].push({ kind: "stay", request, replica: stays.replica[i], from: stays.from[i], to: stays.to[i] ?? open }));
  return all.map((pieces, request) => {
    pieces.sort((a, b) => a.from - b.from || a.to - b.to);
    const first = pieces.find((piece) => piece.replica !== null);
    const arrival = requests.arrival[request];
    const queued = requests.queued[request] ?? pieces[0]?.from ?? requests.end[request] ?? open;
    const been = [];
    for (const [at, piece] of pieces.entries()) {
      if (piece.kind === "cross") {
        piece.replica = pieces.slice(at).find((later) => later.replica !== null)?.replica ?? null;
        // KV goes to where it is decoded; who goes elsewhere has lost it with a replica that failed.
        if (piece.replica !== null && replicas[piece.replica].role !== "decodes") piece.kind = "back";
      }
      if (piece.kind !== "stay") continue;
      piece.decodeFrom = decodeFrom(piece, replicas[piece.replica].role, requests.first_token[request], been);
      been.push(piece.replica);
    }
    const front = { kind: "front", request, replica: first?.replica ?? (replicas.length === 1 ? 0 : null), from: arrival, to: queued };
    return [front, ...pieces].filter((piece) => piece.to > piece.from);
  });
}

function decodeFrom(stay, role, first, been) {
  if (role === "prefills") return Infinity;
  if (role === "decodes" && been.some((replica) => replica !== stay.replica)) return stay.from;
  return first === null || first >= stay.to ? Infinity : Math.max(first, stay.from);
}
