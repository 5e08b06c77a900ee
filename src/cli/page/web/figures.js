// The figures: latencies with their 95 % intervals, throughput, gauges, and the meter of Little's law. Pinned values stand beside in grey.

import { byId, h, say, show } from "./dom.js";
import { change, interval, percent, significant, time, timeInterval } from "./format.js";
import { LATENCIES, hasSlo, latency, limitOf, littleOf, rhoByVerdict, rhoOf, shownOf } from "./reading.js";
import { showTables } from "./tables.js";

const cells = new Map();
const tiles = new Map();
const gauges = new Map();
const laws = new Map();

const TILES = [
  ["requests", "req/s", "completed"], ["output", "tok/s", "output"], ["input", "tok/s", "prompt"],
  ["good", "", "requests within SLO"], ["inside", "", "running · waiting"], ["cost", "", "per M output tokens"],
];
const GAUGES = [
  ["rho", "ρ", "offered rate over the rate at which it saturates, where the search for the knee has found that; before, what the verdict says. A closed loop has none"], ["kv", "KV", "blocks in use, mean; the tick is the most"],
  ["mfu", "MFU", "arithmetic done over the datasheet's peak, while busy"], ["bandwidth", "HBM", "memory traffic over the datasheet's bandwidth, while busy"],
];

/** Builds everything empty, so that nothing jumps when answers come. */
export function buildFigures() {
  const body = byId("latencies");
  for (const { key, name, long } of LATENCIES) {
    const limit = h("span", { class: "limit" });
    const row = h("tr", {}, h("th", { scope: "row" }, h("abbr", { title: long }, name), h("span", { class: "long" }, long, limit)));
    cells.set(`${key} limit`, limit);
    for (const at of ["p50", "p99"]) {
      const parts = { value: h("span", { class: "value" }, "–"), range: h("span", { class: "range" }, " "), pinned: h("span", { class: "pinned", hidden: true }) };
      cells.set(`${key} ${at}`, parts);
      row.append(h("td", {}, parts.value, parts.range, parts.pinned));
    }
    body.append(row);
  }
  for (const [key, unit, name] of TILES) {
    const parts = { value: h("span", { class: "value" }, "–"), range: h("span", { class: "range" }, " "), pinned: h("span", { class: "pinned", hidden: true }) };
    tiles.set(key, { ...parts, unit });
    byId("tiles").append(h("div", { class: "tile" }, h("span", { class: "name" }, name), parts.value, parts.range, parts.pinned));
  }
  for (const [key, name, help] of GAUGES) {
    const parts = { fill: h("i", { class: "fill" }), most: h("i", { class: "most" }), was: h("i", { class: "was" }), value: h("span", { class: "value" }, "?") };
    gauges.set(key, parts);
    byId("gauges").append(h("div", { class: "gauge", "data-gauge": key, title: help }, h("span", { class: "name" }, name),
      h("span", { class: "track" }, parts.fill, parts.was, parts.most), parts.value));
  }
  for (const name of ["system", "queue", "batch"]) {
    const parts = { l: h("b", {}, "–"), law: h("span", { class: "law" }, " "), left: h("i"), right: h("i"), mark: h("span", { class: "mark" }) };
    laws.set(name, parts);
    byId("little").append(h("div", { class: "little-row" }, h("span", { class: "name" }, name),
      h("span", { class: "balance" }, h("span", { class: "bar l" }, parts.left), h("span", { class: "bar w" }, parts.right)),
      h("span", { class: "sum" }, parts.l, parts.law, parts.mark)));
  }
}

/** Shows an answer, and beside it the pinned one. */
export function showFigures(answer, curve, pinned) {
  showLatencies(answer.result, pinned?.answer.result);
  showTiles(answer.result, pinned?.answer.result);
  showGauges(answer.result, curve, pinned);
  showLittle(answer.result);
  showTables(answer.result);
}

function showLatencies(result, before) {
  const { isSteady, isQuotable } = shownOf(result);
  for (const { key } of LATENCIES) {
    const limit = limitOf(result, key);
    say(cells.get(`${key} limit`), limit === null ? "" : ` · ≤ ${time(limit)}`);
    for (const at of ["p50", "p99"]) {
      const now = latency(result, key, at);
      const parts = cells.get(`${key} ${at}`);
      say(parts.value, now.value === null ? "–" : time(now.value));
      parts.value.classList.toggle("beyond-limit", limit !== null && at === "p99" && now.value > limit);
      say(parts.range, now.low === null ? " " : timeInterval(now.low, now.high));
      beside(parts.pinned, now.value, before && latency(before, key, at).value, time);
    }
  }
  const note = !isQuotable ? "not quoted: the backlog grows"
    : isSteady ? "steady state, [95 % interval]" : "of the whole run: it has no steady state";
  say(byId("latency-note"), note);
}

/** The pinned value and how the new one stands to it. */
function beside(element, now, before, word) {
  const isKnown = before !== null && before !== undefined && Number.isFinite(before);
  show(element, isKnown);
  if (isKnown) say(element, `${word(before)} ${now === null || now === undefined ? "" : change(now, before)}`.trim());
}

function tilesOf(result) {
  const { figures, isSteady, isQuotable } = shownOf(result);
  const told = result.plimsoll;
  // Without a steady state the intervals are of what is served once it is full, not of these figures.
  const ends = isSteady ? told.intervals_95 ?? {} : {};
  const occupancy = figures.occupancy ?? {};
  const most = (name) => (occupancy[name] === undefined ? "" : significant(occupancy[name]));
  const share = figures.request_throughput ? figures.request_goodput / figures.request_throughput : null;
  const isAsked = hasSlo(told);
  // Promised are shares of requests, or percentiles of all: of these no request is good by itself.
  const promised = Object.entries(told.percentile_limits_s ?? {}).map(([name, limit]) => `${name.replace("_", " ")} ≤ ${time(limit)}`).join(", ");
  return {
    requests: { value: figures.request_throughput, ends: ends.throughput, word: significant },
    output: { value: figures.output_throughput, ends: ends.output_throughput, word: significant },
    input: { value: figures.input_throughput, word: significant },
    good: promised ? { value: null, range: promised, word: percent } : { value: isAsked && isQuotable ? share : null, range: isAsked ? (ends.attainment && isQuotable ? `[${percent(ends.attainment[0])}, ${percent(ends.attainment[1])}]` : " ") : "no SLO", word: percent },
    inside: { value: occupancy.running, range: `most ${most("running_max")} · ${most("waiting_max")}`, word: () => `${significant(occupancy.running)} · ${significant(occupancy.waiting)}` },
    cost: { value: told.cost?.usd_per_million_output_tokens, range: told.cost?.usd_per_hour ? `${significant(told.cost.usd_per_hour)} $/h` : " ", word: (v) => `${significant(v)} $` },
  };
}

function showTiles(result, before) {
  const [now, was] = [tilesOf(result), before ? tilesOf(before) : null];
  for (const [key, parts] of tiles) {
    const { value, ends, range, word } = now[key];
    say(parts.value, Number.isFinite(value) ? `${word(value)} ${parts.unit}`.trim() : "–");
    say(parts.range, range ?? (ends ? interval(ends[0], ends[1]) : " "));
    beside(parts.pinned, value, was?.[key].value, was?.[key].word);
  }
}

function gaugesOf(result, curve) {
  const { figures } = shownOf(result);
  const used = result.plimsoll.utilisation ?? {};
  const rho = rhoOf(result, curve);
  return {
    rho: { value: rho?.value, word: rho ? significant(rho.value) : curve && curve.of !== "rate" ? "–" : rhoByVerdict(result) ?? "–" },
    kv: { value: figures.occupancy?.kv_usage, most: figures.occupancy?.kv_usage_max },
    mfu: { value: used.mfu }, bandwidth: { value: used.memory_bandwidth },
  };
}

/** A gauge goes to 100 %, that of ρ to 1.5: what is offered can be more than what is served. */
function showGauges(result, curve, pinned) {
  const [now, was] = [gaugesOf(result, curve), pinned ? gaugesOf(pinned.answer.result, pinned.curve) : null];
  for (const [key, parts] of gauges) {
    const { value, most, word } = now[key];
    const full = key === "rho" ? 1.5 : 1;
    const at = (share) => `${Math.min(100, (100 * share) / full)}%`;
    parts.fill.style.width = Number.isFinite(value) ? at(value) : "0";
    parts.fill.classList.toggle("alert", key === "rho" && value >= 1);
    parts.fill.classList.toggle("beyond", value > full);
    parts.most.style.left = Number.isFinite(most) ? at(most) : key === "rho" ? at(1) : "-1px";
    parts.most.classList.toggle("one", key === "rho");
    show(parts.most, key === "rho" || Number.isFinite(most));
    const before = was?.[key].value;
    show(parts.was, Number.isFinite(before));
    if (Number.isFinite(before)) parts.was.style.left = at(before);
    say(parts.value, word ?? (Number.isFinite(value) ? percent(value) : "–"));
  }
}

/** L beside λ × W, each as a bar of the same scale: they are as long as each other, or the law is broken. */
function showLittle(result) {
  const rows = littleOf(result);
  const most = Math.max(...rows.map((row) => Math.max(row.l, row.product)), 1e-9);
  for (const { name, l, lambda, w, product } of rows) {
    const parts = laws.get(name);
    say(parts.l, significant(l));
    say(parts.law, ` = ${significant(lambda)}/s × ${time(w)}`);
    parts.left.style.width = `${(100 * l) / most}%`;
    parts.right.style.width = `${(100 * product) / most}%`;
    const isKept = Math.abs(l - product) <= 0.005 * Math.max(l, product);
    say(parts.mark, isKept ? " ✓" : ` ≠ ${significant(product)}`);
  }
}
