// What times are made of: bars, words, the sum, as the command line has them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { barsOf, limitWords, sentenceOf, signed, tableOf } from "../../src/cli/page/web/anatomy-parts.js";

const NONE = { gateway: 0, front_end_in: 0, step_under_way: 0, token_budget: 0, seats: 0, kv_pool: 0, other_wait: 0, preempted: 0, step_ahead: 0, own_prefill: 0, interference: 0, hand_over: 0, front_end_out: 0 };
const QUEUE = ["step_under_way", "token_budget", "seats", "kv_pool", "other_wait"];

function group(name, parts) {
  const parts_ms = { ...NONE, ...parts };
  const sum = (names) => names.reduce((total, part) => total + parts_ms[part], 0);
  return { group: name, requests: 10, parts_ms, mean_ttft_ms: sum(Object.keys(NONE)), queue_ms: sum(QUEUE) };
}

const slow = { kv_pool: 100, step_under_way: 31, own_prefill: 40, front_end_in: 6, front_end_out: 6, step_ahead: 0.1 };
const anatomy = (...groups) => ({ requests_kept: 1000, one_in: 1, ttft: groups, tpot: [{ group: "all", requests: 1000, mean_tpot_ms: 12, parts_ms: { decode: 9, prompts: 3.5, preempted: 0, no_step: 0, delivery: -0.5 } }] });
const run = (p99) => ({ plimsoll: { verdict: "stable", steady: { p99_ttft_ms: p99 } } });
const words = limitWords([]);

test("pieces of a bar add up to it, in order of time, and what is nothing is left out", () => {
  const { bars: [bar], legend, low, high } = barsOf(anatomy(group("p99", slow)), "ttft", words);
  assert.deepEqual([bar.name, bar.requests], ["around p99", 10]);
  assert.deepEqual(bar.pieces.map(({ name }) => name), ["front end in", "queue", "step ahead", "own prefill", "hand-over, front end out"]);
  assert.deepEqual(legend.map(({ name }) => name), bar.pieces.map(({ name }) => name));
  assert.ok(Math.abs(bar.pieces.reduce((sum, piece) => sum + piece.value, 0) - bar.total) < 1e-12);
  bar.pieces.forEach((piece, i) => assert.equal(piece.from, bar.pieces[i - 1]?.to ?? 0, "each begins where the one before ends"));
  assert.ok(low === 0 && Math.abs(high - bar.total) < 1e-12);
  assert.deepEqual(bar.pieces[1].parts.map(({ name }) => name), ["queue: step under way", "queue: KV pool"]);
});

test("what is less than nothing lies left of zero, and the rest begins there", () => {
  const { bars: [bar], low, high } = barsOf(anatomy(), "tpot", words);
  assert.deepEqual(bar.pieces.map(({ name, from, to }) => [name, Math.round(from * 1e6) + 0, Math.round(to * 1e6) + 0]), [["decodes alone", 0, 9000], ["prompts in their steps", 9000, 12500], ["delivery", -500, 0]]);
  assert.deepEqual([Math.round(low * 1e6), Math.round(high * 1e6)], [-500, 12500]);
});

test("the sum names what matters, the largest first, and the sign of what is less than nothing", () => {
  assert.equal(sentenceOf(run(183.1), anatomy(group("p99", slow))), "p99 TTFT 183 ms = queue 131 ms + own prefill 40.0 ms + front end 12.0 ms");
  const helped = group("p99", { ...slow, interference: -10 });
  assert.equal(sentenceOf(run(180), anatomy(helped)), "p99 TTFT 180 ms, about it 173 ms = queue 131 ms + own prefill 40.0 ms + front end 12.0 ms + interference −10.0 ms");
  const many = group("p99", { kv_pool: 100, gateway: 1.5, preempted: 1.5 });
  assert.equal(sentenceOf(run(103), anatomy(many)), "p99 TTFT 103 ms = queue 100 ms + rest 3.00 ms", "what is too little for a word each is not lost");
});

test("without those about p99, or where none is quoted, there is no sum", () => {
  assert.equal(sentenceOf(run(246), anatomy(group("all", slow))), "");
  assert.equal(sentenceOf({ plimsoll: { verdict: "unstable", whole: { p99_ttft_ms: 9 } } }, anatomy(group("p99", slow))), "");
  assert.equal(sentenceOf(run(246), null), "");
  assert.deepEqual(barsOf({ ttft: [], tpot: [] }, "ttft", words).bars, []);
});

test("limits have the names that the engine has for them", () => {
  const of = (engine, chunk) => limitWords([{ name: "Engine", controls: [{ flag: "engine", value: engine }, ...(chunk === undefined ? [] : [{ flag: "chunked-prefill-size", value: chunk }])] }]);
  assert.deepEqual(of("vllm@0.33"), { tokens: "max_num_batched_tokens", seats: "max_num_seqs" });
  assert.deepEqual(of("tensorrt-llm@1.2"), { tokens: "--max-num-tokens", seats: "--max-batch-size" });
  assert.equal(of("sglang@0.5.23", 8192).tokens, "--chunked-prefill-size");
  assert.equal(of("sglang@0.5.23", null).tokens, "--max-prefill-tokens");
  const { bars: [bar] } = barsOf(anatomy(group("all", { seats: 5 })), "ttft", of("sglang@0.5.23", 8192));
  assert.equal(bar.pieces[0].parts[0].name, "queue: --max-running-requests run");
});

test("the table has every part that any bar has, and the whole first", () => {
  const { heads, rows } = tableOf(barsOf(anatomy(group("all", { own_prefill: 30 }), group("p99", slow)), "ttft", words));
  assert.deepEqual(heads, ["all", "around p99"]);
  assert.deepEqual(rows[0].values.map((value) => signed(value)), ["30.0 ms", "183 ms"]);
  assert.deepEqual(rows.find(({ name }) => name === "queue: KV pool").values.map((value) => signed(value)), ["0", "100 ms"]);
  assert.ok(!rows.some(({ name }) => name === "hand-over"));
});
