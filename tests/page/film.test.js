// Looking up a film by time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Film, Stretches, lastAtMost, stack, stepInWords } from "../../src/cli/explore/page/film-data.js";
import { endedBy, windowAt } from "../../src/cli/explore/page/film-time.js";
import { grid } from "../../src/cli/explore/page/film-stage.js";
import { grouped, time } from "../../src/cli/explore/page/format.js";

/** Two requests on one replica: the first is preempted once and ends, the second is inside when the film ends. */
function example() {
  return new Film({
    until: 2,
    replicas: [{ name: "0", role: "serves", kv_blocks: 100, block_size: 16, max_num_seqs: 8, max_num_batched_tokens: 512 }],
    requests: {
      arrival: [0.0, 0.1], queued: [0.01, 0.11], admitted: [0.02, 0.3], first_token: [0.1, 0.5], end: [1.5, null],
      prompt: [300, 900], output: [11, null], cached: [0, 0], preemptions: [1, 0], replica: [0, 0], fate: ["completed", null],
    },
    waits: { request: [0, 1, 0], from: [0.01, 0.11, 0.6], to: [0.02, 0.3, 0.7] },
    steps: {
      replica: [0, 0, 0, 0], begin: [0.02, 0.1, 0.3, 0.5], end: [0.1, 0.3, 0.5, 2.0], count: [1, 4, 1, 15],
      prefill_tokens: [300, 0, 900, 0], prefills: [1, 0, 1, 0], decodes: [0, 1, 1, 2], running: [1, 1, 2, 2], waiting: [0, 1, 0, 0], kv_used: [19, 20, 77, 80],
    },
  });
}

test("stretches at an instant are those that have begun and not ended", () => {
  const list = new Stretches([{ from: 0, to: 10 }, { from: 1, to: 2 }, { from: 3, to: 4 }, { from: 3, to: 3.5 }]);
  const spans = (items) => items.map(({ from, to }) => `${from}-${to}`);
  assert.deepEqual(spans(list.at(1.5)), ["0-10", "1-2"]);
  assert.deepEqual(spans(list.at(2)), ["0-10"], "the end is outside");
  assert.deepEqual(spans(list.at(3)), ["0-10", "3-4", "3-3.5"], "the begin is inside");
  assert.deepEqual(spans(list.within(2, 3)), ["0-10"]);
  assert.deepEqual(list.at(-1), []);
});

test("looking up agrees with looking at all, over many stretches", () => {
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const items = Array.from({ length: 500 }, () => { const from = random() * 100; return { from, to: from + random() ** 4 * 30 }; });
  const list = new Stretches(items);
  for (let t = 0; t < 130; t += 0.37) {
    assert.equal(list.at(t).length, items.filter(({ from, to }) => from <= t && t < to).length);
  }
});

test("rows of a stack do not overlap, and are as many as are busy at once", () => {
  const items = [{ from: 0, to: 5 }, { from: 1, to: 2 }, { from: 2, to: 3 }, { from: 2.5, to: 6 }];
  assert.equal(stack(items), 3);
  assert.deepEqual(items.map((item) => item.row), [0, 1, 1, 2]);
});

test("a request is in the batch from its admission, but for the time in which it waits again", () => {
  const [reel] = example().reels;
  assert.deepEqual(reel.stays.items.filter((stay) => stay.request === 0).map(({ from, to }) => [from, to]), [[0.02, 0.6], [0.7, 1.5]]);
  assert.deepEqual([0.15, 0.65, 0.75, 1.8].map((t) => reel.stays.at(t).length), [1, 1, 2, 1]);
  assert.deepEqual([0.005, 0.015, 0.2, 0.4, 0.65].map((t) => reel.waitingAt(t)), [0, 1, 1, 0, 1]);
  assert.equal(reel.most.waiting, 1);
});

test("a row of several steps is told apart into its steps", () => {
  const [reel] = example().reels;
  assert.equal(reel.stepAt(0.01), null);
  assert.equal(reel.stepAt(0.05).number, 1);
  assert.deepEqual([0.11, 0.16, 0.21, 0.27].map((t) => reel.stepAt(t).number), [2, 3, 4, 5]);
  assert.ok(Math.abs(reel.stepsBy(0.2) - 3) < 1e-9);
  assert.equal(reel.stepsBy(5), 21);
});

test("steps are walked forward and back, each of them once", () => {
  const [reel] = example().reels;
  let t = 0;
  const seen = [];
  for (let i = 0; i < 21; i += 1) {
    t = reel.neighbour(t, 1) + 1e-9;
    seen.push(reel.stepAt(t).number);
  }
  assert.deepEqual(seen, Array.from({ length: 21 }, (_, i) => i + 1));
  for (let number = 20; number >= 1; number -= 1) {
    t = reel.neighbour(t, -1) + 1e-9;
    assert.equal(reel.stepAt(t).number, number);
  }
  assert.ok(Math.abs(reel.neighbour(0.23, -1) - 0.2) < 1e-9, "from inside a step back to its begin");
});

test("what a step computes is said in words", () => {
  const [reel] = example().reels;
  const words = (t) => stepInWords(reel, t, { grouped, time });
  assert.equal(words(0.05), "step 1: 300 prefill tokens of 1 prompt, 80.0 ms");
  assert.equal(words(0.12), "step 2: 1 decode, 50.0 ms");
  assert.equal(words(0.4), "step 6: 900 prefill tokens of 1 prompt + 1 decode, 200 ms");
  assert.equal(words(0), "before the first step: nobody is inside");
  assert.equal(words(2.5), "idle since step 21");
});

test("a request fills by prefill, then by decode", () => {
  const film = example();
  const [reel] = film.reels;
  const stay = reel.stays.at(0.06)[0];
  assert.ok(Math.abs(film.progress(reel, stay, 0.06).prefill - 0.5) < 1e-9);
  assert.equal(film.progress(reel, stay, 0.06).decode, 0);
  assert.deepEqual([film.progress(reel, stay, 0.1).prefill, film.progress(reel, stay, 0.1).tokens], [1, 1]);
  assert.equal(film.progress(reel, stay, 1.5).tokens, 11);
  const second = reel.stays.items.find((item) => item.request === 1);
  assert.equal(film.progress(reel, second, 1).decode, null, "nobody knows how long its answer will be");
  assert.equal(film.progress(reel, second, 1).tokens, 6);
});

test("bars have room for answers that the film does not see end", () => {
  const film = example();
  assert.deepEqual(film.longest, { prompt: 900, output: 16 }, "fifteen steps after its first token");
});

test("the most inside of any stretch", () => {
  const [reel] = example().reels;
  assert.equal(reel.mostWithin(2), 2);
  assert.equal(reel.mostWithin(0.01), 2, "around 1 s both are inside");
});

test("the stretch of time shown holds the cursor and stays inside the film", () => {
  const film = { until: 75 };
  assert.deepEqual(windowAt(film, 0, 10), [0, 10]);
  assert.deepEqual(windowAt(film, 75, 10), [65, 75]);
  assert.deepEqual(windowAt(film, 30, Infinity), [0, 75]);
  const [from, to] = windowAt(film, 30, 10);
  assert.ok(from < 30 && 30 < to);
});

test("all slots find room in the stage", () => {
  for (const slots of [0, 1, 30, 120, 350, 1024, 4000]) {
    const { rows, columns, wide, high } = grid(slots, 640, 190);
    assert.ok(rows * columns >= slots && rows * high <= 190 && columns * wide <= 640.001, `${slots}`);
  }
});

test("requests that have ended are counted", () => {
  const [reel] = example().reels;
  assert.deepEqual([1.4, 1.5, 2].map((t) => endedBy(reel, t)), [0, 1, 1]);
});

test("the last item at most a value", () => {
  assert.deepEqual([0, 1, 2.5, 9].map((value) => lastAtMost([1, 2, 3], value)), [-1, 0, 1, 2]);
});
