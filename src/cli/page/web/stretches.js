// Stretches of time: those at an instant, rows in which none lies on another, and how many there are. Without DOM.

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
export function counts(stretches) {
  const changes = stretches.flatMap(({ from, to }) => [[from, 1], [to, -1]]).sort(([a, one], [b, other]) => a - b || one - other);
  const [at, number] = [[], []];
  changes.forEach(([t, by]) => {
    at.push(t);
    number.push((number[number.length - 1] ?? 0) + by);
  });
  return { at: Float64Array.from(at), number: Float64Array.from(number) };
}
