// What changes alone would do: the table of `explain`, what is beyond chance, and the controls behind a change's flags.

import assert from "node:assert/strict";
import { test } from "node:test";
import { markOf, sentenceOf, settingsOf, tableOf } from "../../src/cli/page/web/what-if-rows.js";

const none = { knee_change_beyond_chance: null, p99_ttft_change_beyond_chance: null, p99_itl_change_beyond_chance: null, p99_tpot_change_beyond_chance: null, makes_the_load_stable: false };
const tried = (knee, ttft, more = {}) => ({ gpus: 1, verdict: "stable", unanswered: 0, knee: knee && { value: knee, low: knee - 0.5, high: knee + 0.5 }, no_knee: null, p99_ttft_ms: ttft, p99_itl_ms: 100, p99_tpot_ms: 20, ...more });
const what = (name, flags, ...of) => ({ name, flags, kind: "setting", was_tried: true, ...none, ...tried(...of) });
const explained = (base, ...what_ifs) => ({ load_of: "rate", no_knee: null, as_it_is: base, what_ifs, left_out: [] });

test("a change beyond chance has its size, and whether it is for the better; one within has none", () => {
  const better = what("replicas 1 → 2", "--replicas 2", 38.67, 148, { gpus: 2, knee_change_beyond_chance: 1.09, p99_ttft_change_beyond_chance: -0.4, p99_itl_change_beyond_chance: 0.1 });
  const { heads, rows } = tableOf(explained(tried(18.53, 246), better, what("budget", "--max-num-batched-tokens 4096", 18.6, 236)));
  assert.deepEqual(heads, ["change", "GPUs", "knee, req/s", "p99 TTFT", "p99 ITL", "p99 TPOT"]);
  assert.deepEqual(rows.map(({ name, gpus }) => [name, gpus]), [["as it is", 1], ["replicas 1 → 2", 2], ["budget", 1]]);
  const [knee, ttft, itl, tpot] = rows[1].cells;
  assert.deepEqual([knee.text, knee.note, knee.change, knee.isGood], ["18.5 → 38.6", "[38.1, 39.2]", 1.09, true], "rounded down, its interval outwards");
  assert.deepEqual([ttft.text, ttft.change, ttft.isGood], ["148 ms", -0.4, true]);
  assert.deepEqual([itl.change, itl.isGood, tpot.change], [0.1, false, null]);
  assert.deepEqual(rows[2].cells.map(({ change }) => change), [null, null, null, null]);
  assert.equal(rows[0].cells[0].text, "18.5");
});

test("where no latency is told the state is, and what makes the load stable is marked", () => {
  const past = tried(18.5, null, { verdict: "unstable", p99_itl_ms: null, p99_tpot_ms: null });
  const { rows } = tableOf(explained(past, what("replicas 1 → 2", "--replicas 2", 38.6, 243, { makes_the_load_stable: true })));
  assert.deepEqual(rows[0].cells.slice(1).map(({ text }) => text), ["unstable", "–", "–"]);
  assert.deepEqual(rows[1].cells.map(({ isRescue }) => Boolean(isRescue)), [false, true, true, true]);
  assert.match(markOf(explained(past)), /or stable where this load is not/);
  assert.match(markOf(explained(tried(null, 1, { verdict: "finite" }))), /more than 2 %/);
});

test("without knees there is no column of them; with lost requests there is one of those; what was not reached is empty", () => {
  const told = explained(tried(null, 246, { unanswered: 0.02 }), { ...what("later", "--x 1", null, null), was_tried: false });
  const { heads, rows } = tableOf({ ...told, no_knee: "no SLO is given" });
  assert.deepEqual(heads, ["change", "GPUs", "no answer", "p99 TTFT", "p99 ITL", "p99 TPOT"]);
  assert.equal(rows[0].cells[0].text, "2.00 %");
  assert.deepEqual(rows[1].cells, []);
  const never = tableOf(explained(tried(null, 246, { no_knee: "no load meets the SLO" }))).rows[0].cells[0];
  assert.deepEqual([never.text, never.title], ["SLO never met", "no load meets the SLO"]);
});

test("knees of a closed loop are whole", () => {
  const { heads, rows } = tableOf({ ...explained(tried(23.9, 246)), load_of: "requests" });
  assert.deepEqual([heads[2], rows[0].cells[0].text, rows[0].cells[0].note], ["knee, in flight", "23", "[23, 25]"]);
});

test("the first line is told without the sum that stands above it", () => {
  assert.equal(sentenceOf("p99 TTFT 246 ms = queue 131 ms + own prefill 40.0 ms; SLO met; most help: x (knee 38.6 req/s)\n  subject …"), "SLO met; most help: x (knee 38.6 req/s)");
  assert.equal(sentenceOf("p99 TTFT 246 ms, about it 244 ms = queue 131 ms; SLO met"), "SLO met");
  assert.equal(sentenceOf("PAST SATURATION: 30.0 req/s is more; past the knee"), "PAST SATURATION: 30.0 req/s is more; past the knee");
});

test("flags of a change are settings of controls, all of them or none", () => {
  const groups = [{ name: "Engine", controls: [
    { flag: "max-num-seqs", kind: "number", whole: true }, { flag: "tensor-parallel-size", kind: "choice", choices: ["1", "2", "4", "8"].map((value) => ({ value })) },
    { flag: "enable-chunked-prefill", kind: "switch" }, { flag: "chunked-prefill-size", kind: "number" }] }];
  assert.deepEqual(settingsOf("--max-num-seqs 512", groups), [["max-num-seqs", "512"]]);
  assert.deepEqual(settingsOf("-tp 2", groups), [["tensor-parallel-size", "2"]]);
  assert.deepEqual(settingsOf("--enable-chunked-prefill=false --max-num-seqs 8", groups), [["enable-chunked-prefill", "false"], ["max-num-seqs", "8"]]);
  assert.deepEqual(settingsOf("--enable-chunked-prefill --max-num-seqs=8", groups), [["enable-chunked-prefill", "true"], ["max-num-seqs", "8"]]);
  assert.deepEqual(settingsOf("--chunked-prefill-size -1", groups), [["chunked-prefill-size", "-1"]]);
  for (const flags of ["-tp 3", "--num-gpu-blocks-override 9", "--max-num-seqs 8 --other 1", "--max-num-seqs", ""]) assert.equal(settingsOf(flags, groups), null, flags);
});
