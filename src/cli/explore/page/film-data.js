// The film of a run, ready to be looked up by time: who waits, who is in the batch, which step is under way. Without DOM.

/** Stretches of time, sorted by their begin, of which those at an instant are found by binary search. */
export class Stretches {
  /** `items` have `from` and `to`, in seconds. */
  constructor(items) {
    this.items = [...items].sort((a, b) => a.from - b.from);
    let latest = -Infinity;
    this.latest = this.items.map((item) => (latest = Math.max(latest, item.to)));
  }

  /** Those that overlap [a, b), in order of their begin. */
  within(a, b) {
    const found = [];
    for (let i = lastAtMost(this.items, b, (item) => item.from); i >= 0 && this.latest[i] > a; i -= 1) {
      const item = this.items[i];
      if (item.to > a && (item.from < b || (a === b && item.from === a))) found.push(item);
    }
    return found.reverse();
  }

  /** Those under way at `t`. */
  at(t) {
    return this.within(t, t);
  }
}

/** The index of the last item whose key is at most `value`, or -1. */
export function lastAtMost(items, value, key = (item) => item) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(items[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Gives each stretch the lowest row that is free when it begins; returns how many rows there are. */
export function stack(stretches) {
  const free = [];
  const busy = [];
  let rows = 0;
  for (const item of stretches) {
    for (let i = busy.length - 1; i >= 0; i -= 1) {
      if (busy[i].to <= item.from) {
        free.push(busy[i].row);
        busy.splice(i, 1);
      }
    }
    free.sort((a, b) => b - a);
    item.row = free.pop() ?? rows++;
    busy.push(item);
  }
  return rows;
}

/** How many stretches are under way from each instant on at which that changes. */
function counts(stretches) {
  const changes = stretches.flatMap(({ from, to }) => [[from, 1], [to, -1]]).sort(([a, one], [b, other]) => a - b || one - other);
  const [at, number] = [[], []];
  changes.forEach(([t, by]) => {
    at.push(t);
    number.push((number[number.length - 1] ?? 0) + by);
  });
  return { at: Float64Array.from(at), number: Float64Array.from(number) };
}

/** A film of one replica. */
class Reel {
  constructor(film, index) {
    const { requests, waits, steps } = film;
    this.replica = film.replicas[index];
    this.until = film.until;
    this.within = new Map();
    const rows = steps.begin.flatMap((_, i) => (steps.replica[i] === index ? [i] : []));
    const column = (name) => Float64Array.from(rows, (i) => steps[name][i]);
    Object.assign(this, { begin: column("begin"), end: column("end"), count: column("count"), running: column("running") });
    Object.assign(this, { kv: column("kv_used"), prefillTokens: column("prefill_tokens"), prefills: column("prefills"), decodes: column("decodes") });
    this.before = new Float64Array(rows.length + 1);
    this.count.forEach((count, i) => { this.before[i + 1] = this.before[i] + count; });
    const mine = requests.arrival.flatMap((_, i) => (requests.replica[i] === index || (requests.replica[i] === null && index === 0) ? [i] : []));
    const waiting = new Map(mine.map((i) => [i, []]));
    waits.request.forEach((request, i) => waiting.get(request)?.push({ request, from: waits.from[i], to: waits.to[i] ?? film.until }));
    this.waits = new Stretches([...waiting.values()].flat());
    this.stays = new Stretches(mine.flatMap((i) => staysOf(film, i, waiting.get(i))));
    this.slots = stack(this.stays.items);
    this.lives = new Stretches(mine.map((i) => ({ request: i, from: requests.arrival[i], to: requests.end[i] ?? film.until, waits: waiting.get(i) })));
    this.lanes = stack(this.lives.items);
    this.fronts = new Stretches(mine.map((i) => ({ request: i, from: requests.arrival[i], to: requests.queued[i] ?? requests.admitted[i] ?? film.until })));
    this.queue = counts(this.waits.items);
    this.ends = mine.map((i) => requests.end[i]).filter((end) => end !== null).sort((a, b) => a - b);
    const most = (values) => values.reduce((a, b) => Math.max(a, b), 0);
    this.most = { running: most(this.running), waiting: most(this.queue.number), kv: most(this.kv) };
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

  /** How many wait at `t`. */
  waitingAt(t) {
    const i = lastAtMost(this.queue.at, t);
    return i < 0 ? 0 : this.queue.number[i];
  }

  /** The index of the row under way or last ended at `t`, or -1. */
  rowAt(t) {
    return lastAtMost(this.begin, t);
  }

  /** The step at `t`: {row, number (from 1), begin, end, isIdle}; null before the first. */
  stepAt(t) {
    const row = this.rowAt(t);
    if (row < 0) return null;
    const each = (this.end[row] - this.begin[row]) / this.count[row];
    const isIdle = t >= this.end[row];
    const within = isIdle ? this.count[row] - 1 : Math.min(Math.floor((t - this.begin[row]) / each + 1e-6), this.count[row] - 1);
    const begin = this.begin[row] + within * each;
    return { row, number: this.before[row] + within + 1, begin, end: begin + each, isIdle };
  }

  /** How many steps have ended by `t`, the one under way by its share. */
  stepsBy(t) {
    const row = this.rowAt(t);
    if (row < 0) return 0;
    const share = Math.min((t - this.begin[row]) / (this.end[row] - this.begin[row]), 1);
    return this.before[row] + share * this.count[row];
  }

  /** Where the step after (1) or before (-1) the one at `t` begins. */
  neighbour(t, direction) {
    const now = this.stepAt(t);
    if (!now) return direction > 0 && this.begin.length ? this.begin[0] : t;
    if (direction < 0 && t - now.begin > 1e-8) return now.begin;
    const { row } = now;
    const each = (this.end[row] - this.begin[row]) / this.count[row];
    const at = Math.round((now.begin - this.begin[row]) / each) + direction;
    if (at >= 0 && at < this.count[row]) return this.begin[row] + at * each;
    const next = row + direction;
    if (next < 0 || next >= this.begin.length) return direction > 0 ? this.end[row] : this.begin[row];
    return direction > 0 ? this.begin[next] : this.end[next] - (this.end[next] - this.begin[next]) / this.count[next];
  }
}

/** The stretches that a request spends in the batch: from its admission, and from the end of each later wait. */
function staysOf(film, request, waits) {
  const admitted = film.requests.admitted[request];
  if (admitted === null) return [];
  const end = film.requests.end[request] ?? film.until;
  const stays = [];
  let from = admitted;
  for (const wait of waits) {
    if (wait.from < from || wait.from >= end) continue;
    stays.push({ request, from, to: wait.from });
    from = wait.to;
  }
  if (from < end) stays.push({ request, from, to: end });
  return stays;
}

/** A film and its reels, one for each replica. */
export class Film {
  constructor(film) {
    this.until = film.until;
    this.requests = film.requests;
    this.replicas = film.replicas;
    this.reels = film.replicas.map((_, index) => new Reel(film, index));
    const longest = (values) => values.reduce((most, value) => Math.max(most, value ?? 0), 1);
    // Of an answer that the film does not see end: the tokens that it has by then.
    const soFar = this.reels.flatMap((reel) => reel.lives.items.map(({ request }) => {
      const first = film.requests.first_token[request];
      return first === null || film.requests.output[request] !== null ? 0 : reel.stepsBy(film.until) - reel.stepsBy(first) + 1;
    }));
    this.longest = { prompt: longest(film.requests.prompt), output: Math.max(longest(film.requests.output), longest(soFar)) };
  }

  /** How far a request in the batch is at `t`: shares of its prompt and of its answer (null: how long it will be is not in the film), and tokens out. */
  progress(reel, stay, t) {
    const { first_token: firsts, end: ends, output } = this.requests;
    const first = firsts[stay.request];
    if (first === null || t < first) {
      const until = first ?? this.until;
      return { prefill: Math.min((t - stay.from) / Math.max(until - stay.from, 1e-9), 1), decode: 0, tokens: 0 };
    }
    const end = ends[stay.request];
    const steps = reel.stepsBy(t) - reel.stepsBy(first);
    const total = output[stay.request];
    if (end === null || total === null) return { prefill: 1, decode: null, tokens: Math.floor(steps) + 1 };
    const all = reel.stepsBy(end) - reel.stepsBy(first);
    const share = all > 0 ? Math.min(steps / all, 1) : 1;
    return { prefill: 1, decode: share, tokens: Math.min(Math.floor(share * (total - 1)) + 1, total) };
  }
}

/** What the step at `t` computes, in words. `write` has `grouped` and `time` of format.js. */
export function stepInWords(reel, t, { grouped, time }) {
  const step = reel.stepAt(t);
  if (!step) return "before the first step: nobody is inside";
  if (step.isIdle) return `idle since step ${grouped(String(step.number))}`;
  const { row } = step;
  const [tokens, prompts, decodes] = [reel.prefillTokens[row], reel.prefills[row], reel.decodes[row]];
  const parts = [];
  if (prompts > 0) parts.push(`${grouped(String(tokens))} prefill token${tokens === 1 ? "" : "s"} of ${prompts} prompt${prompts === 1 ? "" : "s"}`);
  if (decodes > 0) parts.push(`${grouped(String(decodes))} decode${decodes === 1 ? "" : "s"}`);
  return `step ${grouped(String(step.number))}: ${parts.join(" + ") || "nothing to compute"}, ${time(step.end - step.begin)}`;
}
