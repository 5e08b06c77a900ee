// Looking up a film by time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Film, piecesOf } from "../../src/cli/page/web/film-data.js";
import { windowAt } from "../../src/cli/page/web/film-lines.js";
import { grid } from "../../src/cli/page/web/film-stage.js";
import { stepInWords } from "../../src/cli/page/web/film-steps.js";
import { captionOf, doneInWords, inWords } from "../../src/cli/page/web/film-words.js";
import { Stretches, lastAtMost, stack } from "../../src/cli/page/web/stretches.js";

/** Two requests on one replica: the first is preempted once and ends, the second is inside when the film ends. */
function example() {
  return new Film({
    until: 2,
    replicas: [{ name: "0", role: "serves", kv_blocks: 100, block_size: 16, max_num_seqs: 8, max_num_batched_tokens: 512 }],
    requests: {
      arrival: [0.0, 0.1], queued: [0.01, 0.11], admitted: [0.02, 0.3], first_token: [0.1, 0.5], end: [1.5, null],
      prompt: [300, 900], output: [11, null], cached: [0, 0], preemptions: [1, 0], replica: [0, 0], fate: ["completed", null],
    },
    waits: { request: [0, 1, 0], replica: [0, 0, 0], from: [0.01, 0.11, 0.6], to: [0.02, 0.3, 0.7] },
    stays: { request: [0, 1, 0], replica: [0, 0, 0], from: [0.02, 0.3, 0.7], to: [0.6, null, 1.5] },
    steps: {
      replica: [0, 0, 0, 0], begin: [0.02, 0.1, 0.3, 0.5], end: [0.1, 0.3, 0.5, 2.0], count: [1, 4, 1, 15],
      prefill_tokens: [300, 0, 900, 0], prefills: [1, 0, 1, 0], decodes: [0, 1, 1, 2], running: [1, 1, 2, 2], waiting: [0, 1, 0, 0], kv_used: [19, 20, 77, 80],
    },
  });
}

/** One prompt prefilled at the first replica and decoded at the second, and one that is on its way between them when the film ends. */
function apart() {
  const replica = (name, role) => ({ name, role, kv_blocks: 100, block_size: 16, max_num_seqs: 8, max_num_batched_tokens: 512 });
  return new Film({
    until: 3,
    replicas: [replica("prefill 0", "prefills"), replica("decode 0", "decodes")],
    requests: {
      arrival: [0.0, 1.0], queued: [0.1, 1.1], admitted: [0.1, 1.1], first_token: [0.7, null], end: [2.0, null],
      prompt: [300, 900], output: [14, null], cached: [0, 0], preemptions: [0, 0], replica: [1, 0], fate: ["completed", null],
    },
    waits: { request: [0, 0, 0, 1], replica: [0, null, 1, null], from: [0.1, 0.4, 0.5, 2.5], to: [0.1, 0.5, 0.6, null] },
    stays: { request: [0, 0, 1], replica: [0, 1, 0], from: [0.1, 0.6, 1.1], to: [0.4, 2.0, 2.5] },
    steps: {
      replica: [0, 0, 1], begin: [0.1, 1.1, 0.6], end: [0.4, 2.5, 2.0], count: [1, 1, 14],
      prefill_tokens: [300, 900, 0], prefills: [1, 1, 0], decodes: [0, 0, 1], running: [1, 1, 1], waiting: [0, 0, 0], kv_used: [19, 57, 20],
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
  assert.deepEqual(reel.place.stays.items.filter((stay) => stay.request === 0).map(({ from, to }) => [from, to]), [[0.02, 0.6], [0.7, 1.5]]);
  assert.deepEqual([0.15, 0.65, 0.75, 1.8].map((t) => reel.place.stays.at(t).length), [1, 1, 2, 1]);
  assert.deepEqual([0.005, 0.015, 0.2, 0.4, 0.65].map((t) => reel.place.numberAt("waiting", t)), [0, 1, 1, 0, 1]);
  assert.deepEqual([0.15, 0.65, 0.75, 1.8].map((t) => reel.place.numberAt("running", t)), [1, 1, 2, 1]);
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
  const words = (t) => stepInWords(reel, t);
  assert.equal(words(0.05), "step 1: 300 prefill tokens of 1 prompt, 80.0 ms");
  assert.equal(words(0.12), "step 2: 1 decode, 50.0 ms");
  assert.equal(words(0.4), "step 6: 900 prefill tokens of 1 prompt + 1 decode, 200 ms");
  assert.equal(words(0), "before the first step: nobody is inside");
  assert.equal(words(2.5), "idle since step 21");
});

test("a request fills by prefill, then by decode", () => {
  const film = example();
  const [reel] = film.reels;
  const stay = reel.place.stays.at(0.06)[0];
  assert.ok(Math.abs(film.progress(stay, 0.06).prefill - 0.5) < 1e-9);
  assert.equal(film.progress(stay, 0.06).decode, 0);
  assert.deepEqual([film.progress(stay, 0.1).prefill, film.progress(stay, 0.1).tokens], [1, 1]);
  const again = reel.place.stays.at(0.8).find((item) => item.request === 0);
  assert.equal(film.progress(again, 1.5).tokens, 11);
  const second = reel.place.stays.items.find((item) => item.request === 1);
  assert.equal(film.progress(second, 1).decode, null, "nobody knows how long its answer will be");
  assert.equal(film.progress(second, 1).tokens, 6);
});

test("what was prefilled elsewhere decodes from the first, and what prefills does nothing else", () => {
  const film = apart();
  const [prefill, decode] = film.reels;
  const [first] = prefill.place.stays.items;
  assert.deepEqual([0.25, 0.4].map((t) => Number(film.progress(first, t).prefill.toFixed(3))), [0.5, 1]);
  assert.equal(film.progress(first, 0.39).decode, 0);
  const [stay] = decode.place.stays.items;
  assert.equal(film.progress(stay, 0.6).prefill, 1, "before its first token is out");
  assert.ok(Math.abs(film.progress(stay, 1.3).decode - 0.5) < 1e-9);
  assert.equal(film.progress(stay, 2.0).tokens, 14);
});

test("each replica sees who is in its queue and in its batch, all places see everybody once", () => {
  const film = apart();
  const at = (place, t) => [place.waits.at(t).length, place.stays.at(t).length];
  assert.deepEqual([0.2, 0.45, 0.55, 1.0].map((t) => at(film.reels[0].place, t)), [[0, 1], [0, 0], [0, 0], [0, 0]]);
  assert.deepEqual([0.2, 0.45, 0.55, 1.0].map((t) => at(film.reels[1].place, t)), [[0, 0], [0, 0], [1, 0], [0, 1]]);
  assert.deepEqual([0.2, 0.45, 0.55, 1.0].map((t) => at(film.all, t)), [[0, 1], [0, 0], [1, 0], [0, 1]]);
  assert.deepEqual([0.45, 1, 2.9].map((t) => film.crossings.at(t).map((piece) => piece.replica)), [[1], [], [null]], "to a replica that the film does not know yet");
  assert.deepEqual(film.reels.map((reel) => reel.place.lives.items.map(({ from, to }) => [from, to])), [[[0, 0.5], [1, 4]], [[0, 2]]], "with the crossing that follows");
});

test("the pieces of a request are all of its time, in order", () => {
  for (const film of [example(), apart()]) {
    film.pieces.forEach((pieces, request) => {
      assert.equal(pieces[0].from, film.requests.arrival[request]);
      assert.equal(pieces.at(-1).to, film.requests.end[request] ?? film.until + 1);
      assert.ok(film.requests.end[request] !== null || pieces.at(-1).to > film.until, "at the last instant it is still there");
      pieces.slice(1).forEach((piece, i) => assert.equal(piece.from, pieces[i].to));
    });
  }
});

test("all replicas are said in a line, and a replica that prefills has nobody done", () => {
  const film = apart();
  assert.equal(inWords(film, null, 0.45), "0 running, 0 waiting, 1 with KV on its way; 0 of 2 replicas in a step");
  assert.equal(inWords(film, null, 1.2), "2 running, 0 waiting, 0 with KV on its way; 2 of 2 replicas in a step");
  assert.deepEqual([film.reels[0], film.reels[1], null].map((reel) => doneInWords(film, reel, 2.9)), ["2 prefilled", "1 done", "1 done"]);
});

test("the caption says where nobody has ended, and where the backlog grows", () => {
  const film = example();
  assert.match(captionOf(film), /^the first 2\.00 s of .* 2 requests; areas/);
  film.all.ends = [];
  assert.match(captionOf(film), /over before anybody has the whole answer/);
  const crowd = apart();
  crowd.all.endedBy = () => 1;
  crowd.all.waits.at = () => [1, 2];
  assert.match(captionOf(crowd), /of which 0 run and 2 wait when it ends/);
});

test("who loses a replica is sent back, which is no crossing of KV", () => {
  const replica = (name, role) => ({ name, role, kv_blocks: 100 });
  const one = { replicas: [replica("prefill 0", "prefills"), replica("decode 0", "decodes")], until: 3, requests: { arrival: [0], queued: [0.1], first_token: [0.5], end: [null] } };
  const [pieces] = piecesOf({
    ...one, waits: { request: [0, 0], replica: [null, null], from: [0.3, 1.0], to: [0.4, 1.5] },
    stays: { request: [0, 0, 0], replica: [0, 1, 0], from: [0.1, 0.4, 1.5], to: [0.3, 1.0, null] },
  });
  assert.deepEqual(pieces.map(({ kind, replica: at }) => [kind, at]), [["front", 0], ["stay", 0], ["cross", 1], ["stay", 1], ["back", 0], ["stay", 0]]);
  assert.deepEqual(pieces.filter(({ kind }) => kind === "stay").map((stay) => stay.decodeFrom), [Infinity, 0.4, Infinity], "it is prefilled once more");
});

test("bars have room for answers that the film does not see end", () => {
  const film = example();
  assert.deepEqual(film.longest, { prompt: 900, output: 16 }, "fifteen steps after its first token");
});

test("the most inside of any stretch", () => {
  const [reel] = example().reels;
  assert.equal(reel.place.mostWithin(2), 2);
  assert.equal(reel.place.mostWithin(0.01), 2, "around 1 s both are inside");
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
  assert.deepEqual([1.4, 1.5, 2].map((t) => reel.place.endedBy(t)), [0, 1, 1]);
});

test("the last item at most a value", () => {
  assert.deepEqual([0, 1, 2.5, 9].map((value) => lastAtMost([1, 2, 3], value)), [-1, 0, 1, 2]);
});
