// What "predict first" asks for: one figure at a time, with the value simulated and the formula with its numbers. Without DOM.

import { percent, significant, signedPercent, time } from "./format.js";
import { latency, littleOf, rhoOf, shownOf } from "./reading.js";

/**
 * The questions in turn. `answer(result, curve)` is {value, low, high} in the unit that is asked for, or null where it cannot be
 * asked; `hint` is a given figure from which it follows, or nearly; `formula` is how it does.
 */
export const QUESTIONS = [
  {
    id: "inside", name: "mean number in the system", ask: "How many requests are inside the system on average?", unit: "requests",
    answer: (result) => (system(result) ? { value: system(result).l } : null),
    hint: (result) => `a request stays ${time(system(result).w)} on average`,
    formula: (result) => `L = λ · W = ${significant(system(result).lambda)}/s × ${time(system(result).w)} = ${significant(system(result).product)}`,
  },
  {
    id: "output", name: "output tokens/s", ask: "How many output tokens a second does it deliver?", unit: "tok/s",
    answer: (result) => bounded(shownOf(result).figures.output_throughput, result.plimsoll.intervals_95?.output_throughput),
    hint: (result) => `an answer has ${significant(answerTokens(result))} tokens on average`,
    formula: (result) => {
      const { figures } = shownOf(result);
      const mean = answerTokens(result);
      return `tokens/s = requests completed a second × mean answer = ${significant(figures.request_throughput)}/s × ${significant(mean)} = ${significant(figures.request_throughput * mean)}`;
    },
  },
  {
    id: "ttft99", name: "p99 of TTFT", ask: "What is the 99th percentile of TTFT?", unit: "ms",
    answer: (result) => milliseconds(latency(result, "ttft", "p99")),
    hint: (result) => `its p50 is ${time(latency(result, "ttft", "p50").value)}`,
    formula: (result) => {
      const wait = shownOf(result).figures.p99_queue_time_ms;
      return `no closed form: it holds the wait for the step under way, the queue and the own prefill${wait ? ` (the wait in the queue alone has a p99 of ${time(wait / 1e3)})` : ""}`;
    },
  },
  {
    id: "knee", name: "the knee", ask: "Up to which load is the SLO kept?", unit: "",
    answer: (_, curve) => (curve?.knee?.value ? { value: curve.knee.value, low: curve.knee.low, high: curve.knee.high } : null),
    unitOf: (curve) => curve?.unit ?? "req/s",
    hint: (result, curve) => (curve.saturation ? `it saturates at ${significant(curve.saturation.value)} req/s` : `TPOT has a mean of ${time(latency(result, "tpot", "mean").value)} here`),
    formula: (_, curve) => (curve.limitedBy ? `searched, not computed: limited by ${curve.limitedBy.split(":")[0]}` : "searched, not computed"),
  },
  {
    id: "tpot", name: "mean TPOT", ask: "What is the mean time per output token?", unit: "ms",
    answer: (result) => milliseconds(latency(result, "tpot", "mean")),
    hint: (result) => `${significant(shownOf(result).figures.occupancy.running)} are in the batch on average`,
    formula: (result) => {
      const floor = result.plimsoll.utilisation?.bandwidth_bound_tpot_ms;
      const running = shownOf(result).figures.occupancy?.running;
      return floor ? `not below weights and KV over bandwidth, ${time(floor / 1e3)} with ${significant(running)} in the batch; arithmetic, prompts in the same steps and overheads come on top` : null;
    },
  },
  {
    id: "waiting", name: "mean number waiting", ask: "How many requests wait in the queue on average?", unit: "requests",
    answer: (result) => (queue(result) ? { value: queue(result).l } : null),
    hint: (result) => `a request waits ${time(queue(result).w)} there on average`,
    formula: (result) => `L = λ · W, of the queue alone: ${significant(queue(result).lambda)}/s × ${time(queue(result).w)} = ${significant(queue(result).product)}`,
  },
  {
    id: "rho", name: "ρ", ask: "What is ρ, the offered rate over the rate at which it saturates?", unit: "",
    answer: (result, curve) => rhoOf(result, curve),
    hint: (_, curve) => `it saturates at ${significant(curve.saturation.value)} req/s`,
    formula: (result, curve) => {
      const rho = rhoOf(result, curve);
      return `ρ = λ / λ_max = ${significant(rho.value * curve.saturation.value)} / ${significant(curve.saturation.value)} = ${significant(rho.value)}`;
    },
  },
  {
    id: "e2e", name: "mean time of a whole answer", ask: "How long does a request stay on average, from sending to the last token?", unit: "s",
    answer: (result) => {
      const mean = latency(result, "e2el", "mean");
      return mean.value === null ? null : mean;
    },
    hint: (result) => `an answer has ${significant(answerTokens(result))} tokens on average, ${time(latency(result, "itl", "mean").value)} apart`,
    formula: (result) => {
      const tokens = answerTokens(result);
      const [ttft, itl] = [latency(result, "ttft", "mean").value, latency(result, "itl", "mean").value];
      return `W ≈ TTFT + (answer − 1) × ITL = ${time(ttft)} + ${significant(tokens - 1)} × ${time(itl)} = ${time(ttft + (tokens - 1) * itl)}`;
    },
  },
  {
    id: "kv", name: "mean use of the KV pool", ask: "How much of the KV pool is in use on average?", unit: "%",
    answer: (result) => {
      const used = steady(result)?.occupancy?.kv_usage;
      return Number.isFinite(used) ? { value: used * 100 } : null;
    },
    hint: (result) => `${significant(shownOf(result).figures.occupancy.running)} are in the batch on average, and at most ${percent(shownOf(result).figures.occupancy.kv_usage_max)} of the pool was in use`,
    formula: (result) => {
      const { figures } = shownOf(result);
      return `blocks = running × mean tokens held by each / block size: ${significant(figures.occupancy.running)} running fill ${percent(figures.occupancy.kv_usage)}`;
    },
  },
];

/** The figures of the steady state; without one numbers inside are a matter of how long one ran, and nobody is asked for them. */
function steady(result) {
  const { figures, isQuotable } = shownOf(result);
  return isQuotable ? figures : null;
}

function system(result) {
  return steady(result) && littleOf(result).find((row) => row.name === "system");
}

function queue(result) {
  return steady(result) && littleOf(result).find((row) => row.name === "queue");
}

function answerTokens(result) {
  const { figures } = shownOf(result);
  return figures.output_tokens / figures.completed;
}

function bounded(value, ends) {
  return Number.isFinite(value) ? { value, low: ends?.[0] ?? null, high: ends?.[1] ?? null } : null;
}

function milliseconds({ value, low, high }) {
  const ms = (seconds) => (seconds === null ? null : seconds * 1e3);
  return value === null ? null : { value: ms(value), low: ms(low), high: ms(high) };
}

/** The first question from `turn` on that can be asked of these answers; null: none. */
export function nextQuestion(turn, result, curve) {
  for (let i = 0; i < QUESTIONS.length; i += 1) {
    const at = (turn + i) % QUESTIONS.length;
    if (QUESTIONS[at].answer(result, curve)) return { question: QUESTIONS[at], turn: at };
  }
  return null;
}

/** How a prediction stands to what was simulated: {error, words}; inside the 95 % interval nobody can do better. */
export function judged(predicted, { value, low, high }) {
  const error = value === 0 ? (predicted === 0 ? 0 : Infinity) : (predicted - value) / Math.abs(value);
  const isInside = Number.isFinite(low) && Number.isFinite(high) && predicted >= low && predicted <= high;
  // Half of it is as far off as twice of it.
  const ratio = predicted === value ? 1 : predicted * value > 0 ? Math.max(predicted / value, value / predicted) : Infinity;
  const words = isInside ? "inside the 95 % interval" : ratio <= 1.05 ? "very near" : ratio <= 1.25 ? "near" : ratio <= 3 ? "the right order of magnitude" : "far off";
  return { error, text: error === Infinity ? "–" : signedPercent(error), words };
}
