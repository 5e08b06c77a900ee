// Reads answers of the server: the verdict, the figures with their intervals, Little's law, the curve of a knee. Without DOM.

/** The words and the tone of each verdict. */
const VERDICTS = {
  stable: ["STABLE", "calm"],
  critical: ["CRITICAL", "caution"],
  unstable: ["UNSTABLE", "alert"],
  too_short: ["TOO SHORT", "caution"],
  finite: ["FINITE", "neutral"],
};

/** The state to show: {word, slo, tone}; `slo` is "" where none is set. */
export function verdictOf(result) {
  const told = result.plimsoll;
  let [word, tone] = VERDICTS[told.verdict] ?? [String(told.verdict).toUpperCase(), "neutral"];
  let slo = "";
  if (hasSlo(told) && told.verdict !== "unstable") {
    if (told.slo_decided === false) slo = "SLO not decided";
    else if (told.slo_kept === false) slo = "SLO not met";
    else if (told.slo_kept === true) slo = "SLO met";
  }
  if (slo === "SLO not met" && tone !== "alert") tone = "alert";
  if (slo === "SLO not decided" && tone === "calm") tone = "caution";
  if (slo === "SLO met" && tone === "neutral") tone = "calm";
  return { word, slo, tone };
}

/** Whether an SLO is set, for all requests or for each class. */
export function hasSlo(told) {
  return typeof told.slo_kept === "boolean" || told.slo_decided === false;
}

/** The first line of what `run` prints, parted: what it is, and the figures behind the colon. What it says of the SLO is said beside it. */
export function firstLine(said) {
  const line = (said ?? "").split("\n")[0].replace(/\s+\(95 % below\)\s*$/, "").replace(/; SLO [A-Z ]+$/, "").trim();
  const at = line.indexOf(": ");
  return at < 0 ? { head: line, rest: "" } : { head: line.slice(0, at), rest: line.slice(at + 2) };
}

const MARKS = { measured: "●●●", calibrated: "●●○", prior: "●◐○", "roofline only": "●○○", DOUBTFUL: "○○○" };

/** Components of the step time by how well they are known: [{mark, word, parts}], best first. */
export function trustOf(result) {
  const by = new Map();
  for (const [part, word] of Object.entries(result.plimsoll.trust ?? {})) by.set(word, [...(by.get(word) ?? []), part]);
  const order = Object.keys(MARKS);
  return [...by].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b)).map(([word, parts]) => ({ mark: MARKS[word] ?? "", word, parts }));
}

/** How far the model may be off, 90 %: [{name, low, high}] as relative differences. */
export function modelErrors(result) {
  const names = { mean_ttft_ms: "TTFT mean", p99_ttft_ms: "TTFT p99", mean_tpot_ms: "TPOT mean", mean_e2el_ms: "E2EL mean", output_throughput: "tok/s" };
  return Object.entries(names).flatMap(([key, name]) => {
    const factors = result.plimsoll.model_interval?.[key]?.factors_90;
    return factors ? [{ name, low: factors[0] - 1, high: factors[1] === null ? Infinity : factors[1] - 1 }] : [];
  });
}

/** The figures of the steady state; where there is none, of the whole run, and then no latency is a property of the server. */
export function shownOf(result) {
  const told = result.plimsoll;
  return { figures: told.steady ?? told.whole ?? {}, isSteady: Boolean(told.steady), isQuotable: told.verdict !== "unstable" };
}

export const LATENCIES = [
  { key: "ttft", name: "TTFT", long: "time to first token" },
  { key: "tpot", name: "TPOT", long: "time per output token" },
  { key: "itl", name: "ITL", long: "gap between tokens" },
  { key: "e2el", name: "E2EL", long: "end to end, the whole answer" },
];

/** One latency in seconds: {value, low, high}; nulls where it is not known or not quoted. */
export function latency(result, key, at) {
  const { figures, isQuotable } = shownOf(result);
  const name = `${at}_${key}_ms`;
  const value = isQuotable ? figures[name] ?? null : null;
  const [low, high] = (isQuotable && result.plimsoll.intervals_95?.[name]) || [null, null];
  const s = (ms) => (ms === null || ms === undefined ? null : ms / 1e3);
  return { value: s(value), low: s(low), high: s(high) };
}

/** The limit that a latency must keep, in seconds, or null. */
export function limitOf(result, key) {
  return result.plimsoll.goodput_s?.[key] ?? null;
}

/** L, λ and W of the system, the queue and the batch, as counted over the whole run. */
export function littleOf(result) {
  const told = result.plimsoll.little ?? {};
  const rows = [["system", "inside", told.system], ["queue", "waiting", told.waiting], ["batch", "running", told.running]];
  return rows.filter(([, , law]) => law).map(([name, word, law]) => ({ name, word, l: law.l, lambda: law.lambda_per_s, w: law.w_s, product: law.lambda_per_s * law.w_s }));
}

/** What is offered over what saturates: {value, low, high}, or null where the saturation is not known. */
export function rhoOf(result, curve) {
  const offered = Number.isFinite(result?.request_rate) ? result.request_rate : result?.plimsoll.offered_per_s;
  const full = curve?.saturation;
  if (!full?.value || curve.of !== "rate" || !Number.isFinite(offered)) return null;
  return { value: offered / full.value, low: full.high ? offered / full.high : null, high: full.low ? offered / full.low : null };
}

/** What is known of ρ where the saturation is not: a word, from the verdict. Only an open stream of requests has one. */
export function rhoByVerdict(result) {
  if (!Number.isFinite(result?.request_rate)) return null;
  return { stable: "< 1", critical: "≈ 1", unstable: "> 1" }[result.plimsoll.verdict] ?? null;
}

/** The classes of requests, of the whole run: latencies in seconds, null where they are not quoted. */
export function classesOf(result) {
  const { isQuotable } = shownOf(result);
  const s = (ms) => (isQuotable && Number.isFinite(ms) ? ms / 1e3 : null);
  return (result.plimsoll.classes ?? []).map((one) => ({
    name: one.name, perSecond: one.request_throughput, lost: (one.rejected ?? 0) + (one.timed_out ?? 0) + (one.failed ?? 0),
    ttft50: s(one.p50_ttft_ms), ttft99: s(one.p99_ttft_ms), tpot99: s(one.p99_tpot_ms), good: isQuotable ? one.attainment ?? null : null,
  }));
}

/** The pools of replicas, of the whole run. */
export function poolsOf(result) {
  return (result.plimsoll.pools ?? []).map((one) => ({
    name: one.name, replicas: one.replicas, running: one.running?.l ?? null, waiting: one.waiting?.l ?? null, busy: one.busy ?? null,
    kv: one.kv_usage_max ?? null, mfu: one.utilisation?.mfu ?? null, bandwidth: one.utilisation?.memory_bandwidth ?? null,
  }));
}

const UNITS = { rate: "req/s", users: "users", requests: "in flight" };

/** The curve of a knee's answer: over the rate, or over what a closed loop has in flight. `said` is what `knee` prints. */
export function curveOf(knee, said = "") {
  const isRate = knee.knee_of === "rate";
  const points = (knee.points ?? []).map((point) => pointOf(point, isRate ? point.request_rate : point.in_flight));
  return {
    of: knee.knee_of, unit: UNITS[knee.knee_of] ?? knee.knee_of, knee: knee.knee, saturation: knee.saturation,
    limitedBy: knee.limited_by, goodput: goodputOf(knee), words: said.split("\n")[0].split(/\s{2,}/)[0],
    points: points.filter(({ x }) => Number.isFinite(x)).sort((a, b) => a.x - b.x),
  };
}

function goodputOf(knee) {
  const told = knee.goodput ?? {};
  return { ttft: told.ttft_ms ? told.ttft_ms / 1e3 : null, tpot: told.tpot_ms ? told.tpot_ms / 1e3 : null };
}

function pointOf(point, x) {
  const s = (ms) => (ms === null || ms === undefined ? null : ms / 1e3);
  return {
    x, verdict: point.verdict, attainment: point.attainment ?? null,
    ttft50: s(point.median_ttft_ms), ttft99: s(point.p99_ttft_ms), low: s(point.p99_ttft_low_ms), high: s(point.p99_ttft_high_ms),
    tpot99: s(point.p99_tpot_ms), running: point.running, kv: point.kv_usage, output: point.output_throughput, growth: point.growth_per_s ?? null,
  };
}
