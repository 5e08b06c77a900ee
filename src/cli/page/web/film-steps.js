// The steps of one replica, ready to be looked up by time. Without DOM.

import { counted, grouped, time } from "./format.js";
import { lastAtMost } from "./stretches.js";

/** The steps of one replica: a row is one step, or several alike. */
export class Steps {
  /** `steps` are the film's, of all replicas; `index` is the replica's. */
  constructor(steps, index) {
    const rows = steps.begin.flatMap((_, i) => (steps.replica[i] === index ? [i] : []));
    const column = (name) => Float64Array.from(rows, (i) => steps[name][i]);
    Object.assign(this, { begin: column("begin"), end: column("end"), count: column("count") });
    Object.assign(this, { kv: column("kv_used"), prefillTokens: column("prefill_tokens"), prefills: column("prefills"), decodes: column("decodes") });
    this.before = new Float64Array(rows.length + 1);
    this.count.forEach((count, i) => { this.before[i + 1] = this.before[i] + count; });
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

/** What the step at `t` computes, in words. */
export function stepInWords(steps, t) {
  const step = steps.stepAt(t);
  if (!step) return "before the first step: nobody is inside";
  if (step.isIdle) return `idle since step ${grouped(String(step.number))}`;
  return `step ${grouped(String(step.number))}: ${workInWords(steps, step.row)}, ${time(step.end - step.begin)}`;
}

function workInWords(steps, row) {
  const [tokens, prompts, decodes] = [steps.prefillTokens[row], steps.prefills[row], steps.decodes[row]];
  const parts = [];
  if (prompts > 0) parts.push(`${counted(tokens, "prefill token")} of ${counted(prompts, "prompt")}`);
  if (decodes > 0) parts.push(counted(decodes, "decode"));
  return parts.join(" + ") || "nothing to compute";
}
