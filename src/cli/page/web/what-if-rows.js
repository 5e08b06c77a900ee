// What each change alone would do, as `explain` tells it: rows with figures before and after, and the controls that a change's flags stand for. Without DOM.

import { downwards, grouped, outwards, percent, time } from "./format.js";
import { controlOf, fault } from "./settings.js";

const UNITS = { rate: "req/s", users: "users", requests: "in flight" };
const LATENCIES = [["ttft", "p99 TTFT"], ["itl", "p99 ITL"], ["tpot", "p99 TPOT"]];

/** Short names of flags, as `explain` writes them. */
const SHORT = { tp: "tensor-parallel-size" };

/**
 * The table of an answer: {heads, rows}. A row is {name, flags, gpus, cells}, a cell {text, note, change, isBeyond}: `change` is relative and there
 * where it is beyond chance. The first row is the scenario as it is.
 */
export function tableOf(explained) {
  const base = explained.as_it_is;
  const unit = UNITS[explained.load_of] ?? explained.load_of;
  const hasKnee = !explained.no_knee;
  const isLost = [base, ...explained.what_ifs].some((one) => one.unanswered > 0);
  const row = (one, name) => ({
    name, flags: one.flags ?? "", kind: one.kind ?? "", gpus: one.gpus ?? null,
    cells: one.was_tried === false ? [] : [
      ...(hasKnee ? [kneeCell(one, base, unit)] : []),
      ...(isLost ? [{ text: percent(one.unanswered), note: "", change: null }] : []),
      ...LATENCIES.map(([key]) => latencyCell(one, key, key === "ttft")),
    ],
  });
  return {
    heads: ["change", "GPUs", ...(hasKnee ? [`knee, ${unit}`] : []), ...(isLost ? ["no answer"] : []), ...LATENCIES.map(([, name]) => name)],
    rows: [row(base, "as it is"), ...explained.what_ifs.map((one) => row(one, one.name))],
  };
}

function kneeCell(one, base, unit) {
  const figure = (value) => (unit === "req/s" ? downwards(value) : grouped(String(Math.floor(value))));
  if (!one.knee) return { text: noKnee(one.no_knee), note: "", title: one.no_knee ?? "", change: null };
  const { value, low, high } = one.knee;
  const before = one !== base && base.knee ? `${figure(base.knee.value)} → ` : "";
  const ends = !Number.isFinite(low) ? "" : unit === "req/s" ? outwards(low, high ?? Infinity) : `[${figure(low)}, ${high === null ? "–" : figure(Math.ceil(high))}]`;
  return { text: `${before}${figure(value)}`, note: ends, change: one.knee_change_beyond_chance ?? null, isGood: one.knee_change_beyond_chance > 0 };
}

function noKnee(why) {
  if (!why) return "–";
  if (why.startsWith("no load")) return "SLO never met";
  return why.startsWith("the client") ? "the client's" : "none";
}

/** Where no latency is told the state is, once. */
function latencyCell(one, key, isFirst) {
  const ms = one[`p99_${key}_ms`];
  if (!Number.isFinite(ms)) return { text: isFirst ? one.verdict.replace(/_/g, " ") : "–", note: "", change: null };
  const change = one[`p99_${key}_change_beyond_chance`] ?? null;
  return { text: time(ms / 1e3), note: "", change, isRescue: Boolean(one.makes_the_load_stable), isGood: change < 0 || Boolean(one.makes_the_load_stable) };
}

/** What `explain` says first, without the sum that stands over the bars already: what binds, how far the knee is, what helps most. */
export function sentenceOf(said) {
  const line = (said ?? "").split("\n")[0].trim();
  const isSum = /^p99 TTFT [^;]* = /.test(line);
  return isSum ? line.slice(line.indexOf("; ") + 2) : line;
}

/** What the mark means: with requests that all come to an end no interval of a latency is known. */
export function markOf(explained) {
  const isFinite = explained.as_it_is.verdict === "finite";
  const marked = isFinite ? "the 95 % intervals are apart; a figure without one is other by more than 2 %" : "beyond chance: the 95 % intervals are apart";
  return `${marked}${explained.as_it_is.verdict === "unstable" ? ", or stable where this load is not" : ""}`;
}

/** The controls that stand for a change's flags, as [[flag, text], …]; null where one has no control here. */
export function settingsOf(flags, groups) {
  const words = flags.trim().split(/\s+/).filter(Boolean);
  const pairs = [];
  while (words.length > 0) {
    const [dashed, own] = words.shift().split(/=(.*)/s);
    const name = dashed.replace(/^--?/, "");
    const flag = SHORT[name] ?? name;
    const control = controlOf(groups, flag);
    if (!dashed.startsWith("-") || !control) return null;
    const isSwitch = control.kind === "switch";
    const text = own ?? (isSwitch && (words.length === 0 || words[0].startsWith("--")) ? "true" : words.shift());
    if (text === undefined || fault(control, text)) return null;
    pairs.push([flag, text]);
  }
  return pairs.length > 0 ? pairs : null;
}
