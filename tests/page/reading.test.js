// Reading answers: verdicts, figures, Little's law, curves, and the questions of "predict first".

import assert from "node:assert/strict";
import { test } from "node:test";
import { apart, extents, isSame, nearest, quoted, unquotedFrom } from "../../src/cli/page/web/curve-layout.js";
import { QUESTIONS, judged, nextQuestion } from "../../src/cli/page/web/questions.js";
import { classesOf, curveOf, firstLine, latency, limitOf, littleOf, modelErrors, poolsOf, rhoByVerdict, rhoOf, shownOf, trustOf, verdictOf } from "../../src/cli/page/web/reading.js";

/** A stable run of ten requests a second that stay two seconds each. */
function run(changes = {}) {
  const figures = {
    request_throughput: 10, output_throughput: 2000, output_tokens: 200000, completed: 1000, p99_queue_time_ms: 40,
    p99_ttft_ms: 240, p50_ttft_ms: 60, mean_ttft_ms: 80, mean_itl_ms: 9.6, mean_tpot_ms: 10, mean_e2el_ms: 2000, occupancy: { running: 19.8, waiting: 0.2, kv_usage: 0.05, kv_usage_max: 0.2 },
  };
  return {
    request_rate: 10,
    plimsoll: {
      verdict: "stable", slo_kept: true, slo_decided: true, goodput_s: { ttft: 0.5, tpot: 0.05 }, steady: figures, whole: figures,
      intervals_95: { p99_ttft_ms: [230, 255], output_throughput: [1950, 2050] }, offered_per_s: 9.9,
      little: { system: { l: 20, lambda_per_s: 10, w_s: 2 }, waiting: { l: 0.2, lambda_per_s: 10, w_s: 0.02 }, running: { l: 19.8, lambda_per_s: 10, w_s: 1.98 } },
      utilisation: { bandwidth_bound_tpot_ms: 6 }, trust: { host: "prior", "linear layers": "calibrated", "decode attention": "calibrated" },
      model_interval: { p99_ttft_ms: { factors_90: [0.7, null] } }, ...changes,
    },
  };
}

const point = (rate, verdict, p99) => ({ request_rate: rate, verdict, attainment: 1, median_ttft_ms: p99 && p99 / 3, p99_ttft_ms: p99, p99_tpot_ms: p99 && p99 / 10, p99_ttft_low_ms: p99 && p99 * 0.9, p99_ttft_high_ms: verdict === "critical" ? null : p99 && p99 * 1.1 });
const knee = {
  knee_of: "rate",
  knee: { value: 18.5, low: 18.1, high: 18.8 }, saturation: { value: 20, low: 19, high: 22 }, limited_by: "TPOT p99: a step …", goodput: { ttft_ms: 500, tpot_ms: 50 },
  points: [point(21, "critical", 9000), point(8, "stable", 190), point(24, "unstable", null), point(16, "stable", 310)],
};

test("the verdict says state and SLO in words, and its tone is the worse of the two", () => {
  const of = (changes) => Object.values(verdictOf(run(changes)));
  assert.deepEqual(of({}), ["STABLE", "SLO met", "calm"]);
  assert.deepEqual(of({ slo_kept: false }), ["STABLE", "SLO not met", "alert"]);
  assert.deepEqual(of({ slo_decided: false }), ["STABLE", "SLO not decided", "caution"]);
  assert.deepEqual(of({ verdict: "critical" }), ["CRITICAL", "SLO met", "caution"]);
  assert.deepEqual(of({ verdict: "unstable", slo_kept: false }), ["UNSTABLE", "", "alert"], "of an unstable run no SLO is spoken of");
  assert.deepEqual(of({ verdict: "finite", slo_kept: null, slo_decided: null }), ["FINITE", "", "neutral"]);
  assert.deepEqual(of({ goodput_s: {}, slo_kept: false }), ["STABLE", "SLO not met", "alert"], "classes have limits of their own");
});

test("the first line is parted at its colon, without what is said beside it", () => {
  assert.deepEqual(firstLine("stable at 12.0 req/s: TTFT p50 55.8 ms, 2,540 tok/s out  (95 % below)\n  why x"), { head: "stable at 12.0 req/s", rest: "TTFT p50 55.8 ms, 2,540 tok/s out" });
  assert.deepEqual(firstLine("stable at 20.8 req/s: 4,390 tok/s out; SLO MISSED  (95 % below)"), { head: "stable at 20.8 req/s", rest: "4,390 tok/s out" });
  assert.deepEqual(firstLine("UNSTABLE at 30.0 req/s: backlog grows 9.49 req/s; no steady-state latency exists").rest, "backlog grows 9.49 req/s; no steady-state latency exists");
  assert.deepEqual(firstLine(""), { head: "", rest: "" });
});

test("trust goes from the best known parts to the least", () => {
  assert.deepEqual(trustOf(run()), [{ mark: "●●○", word: "calibrated", parts: ["linear layers", "decode attention"] }, { mark: "●◐○", word: "prior", parts: ["host"] }]);
  const [error] = modelErrors(run());
  assert.ok(Math.abs(error.low + 0.3) < 1e-9);
  assert.equal(error.high, Infinity, "no bound from above");
});

test("latencies are in seconds with their interval, and not quoted of an unstable run", () => {
  assert.deepEqual(latency(run(), "ttft", "p99"), { value: 0.24, low: 0.23, high: 0.255 });
  assert.deepEqual(latency(run(), "tpot", "mean"), { value: 0.01, low: null, high: null });
  assert.equal(latency(run({ verdict: "unstable", steady: null }), "ttft", "p99").value, null);
  assert.equal(shownOf(run({ steady: null })).isSteady, false);
  assert.equal(limitOf(run(), "ttft"), 0.5);
  assert.equal(limitOf(run(), "itl"), null);
});

test("ρ is the offered rate over the saturation, its interval the other way round", () => {
  const rho = rhoOf(run(), curveOf(knee));
  assert.equal(rho.value, 0.5);
  assert.ok(rho.low < 0.5 && 0.5 < rho.high);
  assert.equal(rhoOf(run(), null), null);
  assert.equal(rhoOf({ ...run(), request_rate: "inf" }, curveOf(knee)).value, 9.9 / 20);
});

test("a curve is sorted, and only what is quoted is drawn", () => {
  const curve = curveOf(knee);
  assert.deepEqual(curve.points.map(({ x }) => x), [8, 16, 21, 24]);
  assert.deepEqual(quoted(curve).map(({ x }) => x), [8, 16, 21]);
  assert.equal(quoted(curve)[2].high, null);
  assert.equal(unquotedFrom(curve), 22);
  assert.equal(nearest(curve, 17).x, 16);
  assert.equal(nearest(null, 17), null);
});

test("a closed loop's knee is a number in flight", () => {
  const told = { knee_of: "users", knee: { value: 325, low: 317, high: 337 }, saturation: null, points: [{ in_flight: 2, request_rate: 0.2, verdict: "finite", attainment: 1, median_ttft_ms: 30, p99_ttft_ms: 115, p99_tpot_ms: 7 }] };
  const curve = curveOf(told, "325 users within SLO  (95 % [317, 337])\n  limited by …");
  assert.deepEqual([curve.of, curve.unit, curve.knee.value, curve.saturation, curve.words], ["users", "users", 325, null, "325 users within SLO"]);
  assert.deepEqual([curve.points[0].x, curve.points[0].ttft50, curve.points[0].attainment], [2, 0.03, 1]);
  assert.equal(rhoOf(run(), curve), null, "a loop has no ρ");
});

test("axes hold all that is drawn", () => {
  const { x, y } = extents([curveOf(knee), null], { x: 30, ttft99: 0.2, ttft50: null, tpot99: 0.01 }, [0.5, 0.05]);
  assert.ok(x[0] === 0 && x[1] > 30 && y[0] < 0.01 && y[1] > 9);
  const far = extents([curveOf(knee), null], { x: 4000, ttft99: null, ttft50: null, tpot99: null }, []);
  assert.ok(far.x[1] < 100, "a load far beyond does not press the curve to the left end");
  assert.ok(isSame(curveOf(knee), curveOf(knee)) && !isSame(curveOf(knee), curveOf({ ...knee, points: knee.points.slice(1) })));
  const nothing = extents([null], null, []);
  assert.ok(nothing.x[1] > 0 && nothing.y[1] > nothing.y[0] && nothing.y[0] > 0);
});

test("labels move apart and stay inside", () => {
  const labels = apart([{ y: 50 }, { y: 52 }, { y: 98 }, { y: 99 }], 15, 40, 100);
  const ys = labels.map(({ y }) => y).sort((a, b) => a - b);
  for (let i = 1; i < ys.length; i += 1) assert.ok(ys[i] - ys[i - 1] >= 15 - 1e-9);
  assert.ok(ys[0] >= 40 && ys[3] <= 100);
});

test("Little's law of each part has its product beside it", () => {
  assert.deepEqual(littleOf(run()).map(({ name, l, product }) => [name, l, product]), [["system", 20, 20], ["queue", 0.2, 0.2], ["batch", 19.8, 19.8]]);
});

test("each question has an answer and a formula with its numbers", () => {
  const [result, curve] = [run(), curveOf(knee)];
  for (const question of QUESTIONS) {
    assert.ok(Number.isFinite(question.answer(result, curve).value), question.id);
    for (const words of [question.formula(result, curve), question.hint(result, curve)]) assert.doesNotMatch(words, /NaN|undefined|–/, question.id);
  }
  const formula = (id) => QUESTIONS.find((question) => question.id === id).formula(result, curve);
  assert.equal(formula("inside"), "L = λ · W = 10.0/s × 2.00 s = 20.0");
  assert.equal(formula("output"), "tokens/s = requests completed a second × mean answer = 10.0/s × 200 = 2,000");
  assert.equal(formula("rho"), "ρ = λ / λ_max = 10.0 / 20.0 = 0.500");
  assert.equal(formula("e2e"), "W ≈ TTFT + (answer − 1) × ITL = 80.0 ms + 199 × 9.60 ms = 1.99 s");
});

test("what cannot be answered is not asked", () => {
  const ids = [];
  for (let turn = 0, i = 0; i < QUESTIONS.length; i += 1) {
    const next = nextQuestion(turn, run(), null);
    ids.push(next.question.id);
    turn = next.turn + 1;
  }
  assert.ok(!ids.includes("knee") && !ids.includes("rho") && ids.includes("inside") && ids.includes("kv"));
  const unstable = run({ verdict: "unstable", steady: null });
  const asked = QUESTIONS.filter((question) => question.answer(unstable, curveOf(knee))).map(({ id }) => id);
  assert.deepEqual(asked, ["output", "knee", "rho"], "without a steady state numbers inside are a matter of how long one ran");
});

test("a prediction inside the interval is as good as can be", () => {
  assert.deepEqual(judged(240, { value: 250, low: 230, high: 270 }), { error: -0.04, text: "−4.00 %", words: "inside the 95 % interval" });
  assert.equal(judged(300, { value: 250, low: 230, high: 270 }).words, "near");
  assert.equal(judged(100, { value: 250 }).words, "the right order of magnitude");
  assert.equal(judged(5, { value: 250 }).words, "far off", "a fiftieth is as far off as fifty times");
  assert.equal(judged(2500, { value: 250 }).words, "far off");
  assert.equal(judged(1, { value: 0 }).text, "–");
});

test("classes and pools are read, and latencies of an unstable run are not quoted", () => {
  const one = { name: "code", request_throughput: 1.26, rejected: 2, timed_out: 1, failed: 0, p50_ttft_ms: 392, p99_ttft_ms: 9690, p99_tpot_ms: 54.6, attainment: 0.16 };
  const told = (verdict) => ({ plimsoll: { verdict, classes: [one], pools: [{ name: "decode", replicas: 3, running: { l: 6.78 }, waiting: { l: 0.04 }, busy: 0.98, kv_usage_max: 0.03, utilisation: { mfu: 0.005, memory_bandwidth: 0.69 } }] } });
  assert.deepEqual(classesOf(told("stable")), [{ name: "code", perSecond: 1.26, lost: 3, ttft50: 0.392, ttft99: 9.69, tpot99: 0.0546, good: 0.16 }]);
  const [unstable] = classesOf(told("unstable"));
  assert.deepEqual([unstable.ttft99, unstable.good, unstable.perSecond], [null, null, 1.26]);
  assert.deepEqual(poolsOf(told("stable")), [{ name: "decode", replicas: 3, running: 6.78, waiting: 0.04, busy: 0.98, kv: 0.03, mfu: 0.005, bandwidth: 0.69 }]);
  assert.deepEqual([classesOf({ plimsoll: {} }), poolsOf({ plimsoll: {} })], [[], []]);
});

test("without a saturation the verdict says what is known of ρ, for an open stream alone", () => {
  const rho = (verdict, request_rate = 8) => rhoByVerdict({ request_rate, plimsoll: { verdict } });
  assert.deepEqual(["stable", "critical", "unstable", "too_short", "finite"].map((verdict) => rho(verdict)), ["< 1", "≈ 1", "> 1", null, null]);
  assert.deepEqual([rho("stable", "inf"), rho("stable", null), rhoByVerdict(undefined)], [null, null, null]);
});
