// What times to first token and per output token are made of, as numbers: parts in the command line's words, bars, the sum in a sentence. Without DOM.

import { time } from "./format.js";
import { latency } from "./reading.js";
import { controlOf } from "./settings.js";

/** Parts that have one colour, with their name, in order of time. The colours are those of `--charts`. */
const TTFT = [
  { name: "before the replica", colour: "gateway", parts: ["gateway"] },
  { name: "front end in", colour: "front", parts: ["front_end_in"] },
  { name: "queue", colour: "queue", parts: ["step_under_way", "token_budget", "seats", "kv_pool", "other_wait"] },
  { name: "preempted", colour: "preempted", parts: ["preempted"] },
  { name: "step ahead", colour: "ahead", parts: ["step_ahead"] },
  { name: "own prefill", colour: "own", parts: ["own_prefill"] },
  { name: "interference", colour: "company", parts: ["interference"] },
  { name: "hand-over, front end out", colour: "out", parts: ["hand_over", "front_end_out"] },
];
/** Here, too, what is one's own is blue and what others in the same steps add is orange. */
const TPOT = [
  { name: "decodes alone", colour: "own", parts: ["decode"] },
  { name: "prompts in their steps", colour: "company", parts: ["prompts"] },
  { name: "preempted", colour: "preempted", parts: ["preempted"] },
  { name: "no step", colour: "ahead", parts: ["no_step"] },
  { name: "delivery", colour: "out", parts: ["delivery"] },
];
const SIDES = { ttft: TTFT, tpot: TPOT };

const GROUPS = { all: "all", p50: "around p50", p90: "around p90", p99: "around p99", slowest_10_percent: "slowest 10 %", slowest_1_percent: "slowest 1 %" };

/** In milliseconds: below it a part is a rounding of none. */
const NONE_MS = 1e-9;
/** Of a whole, below which a part is not worth a word in a sentence; and what is left, below which it is within the figures of the others. */
const WORTH_A_WORD = 0.02;
const WORTH_A_FIGURE = 0.002;

/** What an engine calls its limits, by the begin of its name; `groups` are the controls. */
export function limitWords(groups) {
  const engine = String(controlOf(groups, "engine")?.value ?? "");
  if (engine.startsWith("tensorrt-llm")) return { tokens: "--max-num-tokens", seats: "--max-batch-size" };
  if (!engine.startsWith("sglang")) return { tokens: "max_num_batched_tokens", seats: "max_num_seqs" };
  const chunk = controlOf(groups, "chunked-prefill-size")?.value;
  return { tokens: chunk === null || chunk < 0 ? "--max-prefill-tokens" : "--chunked-prefill-size", seats: "--max-running-requests" };
}

/** A part of a time in a word or two. */
function partName(part, limits) {
  const names = {
    gateway: "before the replica", step_under_way: "queue: step under way", token_budget: `queue: ${limits.tokens} used up`, seats: `queue: ${limits.seats} run`,
    kv_pool: "queue: KV pool", other_wait: "queue: other rules", hand_over: "hand-over",
    decode: "decodes alone", prompts: "prompts in their steps",
  };
  return names[part] ?? part.replace(/_/g, " ");
}

/**
 * The bars of one side, "ttft" or "tpot": {bars, legend, low, high}. A bar is a group of requests: {name, requests, total, pieces}, a piece
 * {name, colour, value, from, to, parts: [{name, value}]}, in seconds. What is less than nothing lies left of 0; what is nothing is left out.
 */
export function barsOf(anatomy, side, limits) {
  const kinds = SIDES[side];
  const bars = (anatomy?.[side] ?? []).map((group) => {
    const ends = { above: 0, below: 0 };
    const pieces = kinds.flatMap(({ name, colour, parts }) => {
      const there = parts.map((part) => ({ name: partName(part, limits), value: (group.parts_ms[part] ?? 0) / 1e3 })).filter(({ value }) => Math.abs(value) * 1e3 > NONE_MS);
      const value = there.reduce((sum, part) => sum + part.value, 0);
      if (Math.abs(value) * 1e3 <= NONE_MS) return [];
      const end = value < 0 ? "below" : "above";
      const from = ends[end];
      ends[end] += value;
      return [{ name, colour, value, from: Math.min(from, ends[end]), to: Math.max(from, ends[end]), parts: there }];
    });
    return { name: GROUPS[group.group] ?? group.group, requests: group.requests, total: group[`mean_${side}_ms`] / 1e3, pieces };
  });
  const reached = bars.flatMap(({ pieces }) => pieces.flatMap(({ from, to }) => [from, to]));
  const legend = kinds.filter(({ name }) => bars.some(({ pieces }) => pieces.some((piece) => piece.name === name)));
  return { bars, legend, low: Math.min(0, ...reached), high: Math.max(0, ...reached) };
}

/** All parts of a side as a table: {heads, rows: [{name, values}]}, in seconds, of what any bar has. */
export function tableOf({ bars }) {
  const names = [...new Set(bars.flatMap(({ pieces }) => pieces.flatMap(({ parts }) => parts.map(({ name }) => name))))];
  const of = (bar, name) => bar.pieces.flatMap(({ parts }) => parts).find((part) => part.name === name)?.value ?? 0;
  return { heads: bars.map(({ name }) => name), rows: [{ name: "all of it", values: bars.map(({ total }) => total) }, ...names.map((name) => ({ name, values: bars.map((bar) => of(bar, name)) }))] };
}

/** `p99 TTFT 246 ms = interference 89.9 ms + queue 64.5 ms + …`, as `explain` says it; "" where there is no such group. */
export function sentenceOf(result, anatomy) {
  const group = anatomy?.ttft?.find((one) => one.group === "p99");
  const p99 = latency(result, "ttft", "p99").value;
  if (!group || p99 === null) return "";
  const mean = time(group.mean_ttft_ms / 1e3);
  return `p99 TTFT ${time(p99)}${time(p99) === mean ? "" : `, about it ${mean}`} = ${sumOf(group)}`;
}

/** The parts that matter, the largest first; of the wait in the queue the sum. */
function sumOf(group) {
  const part = (...names) => names.reduce((sum, name) => sum + (group.parts_ms[name] ?? 0), 0);
  const parts = [
    ["before the replica", part("gateway")], ["queue", group.queue_ms], ["preempted", part("preempted")], ["step ahead", part("step_ahead")], ["own prefill", part("own_prefill")],
    ["interference", part("interference")], ["hand-over", part("hand_over")], ["front end", part("front_end_in", "front_end_out")],
  ].sort(([, one], [, other]) => other - one);
  const isWorth = ([, ms]) => Math.abs(ms) > WORTH_A_WORD * group.mean_ttft_ms;
  const rest = parts.filter((one) => !isWorth(one)).reduce((sum, [, ms]) => sum + ms, 0);
  const left = Math.abs(rest) > WORTH_A_FIGURE * group.mean_ttft_ms ? [["rest", rest]] : [];
  return [...parts.filter(isWorth), ...left].map(([name, ms]) => `${name} ${signed(ms / 1e3)}`).join(" + ");
}

/** A duration with its sign; `0` of none. */
export function signed(seconds) {
  if (Math.abs(seconds) * 1e3 <= NONE_MS) return "0";
  return seconds < 0 ? `−${time(-seconds)}` : time(seconds);
}
