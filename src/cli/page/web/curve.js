// The chart of latency against rate: the knee and the saturation with their intervals, the SLO, and where the controls are now.

import { byId, h, say, show, svg } from "./dom.js";
import { SERIES, apart, extents, isSame, nearest, quoted, unquotedFrom } from "./curve-layout.js";
import { downwards, grouped, outwards, percent, significant, time } from "./format.js";
import { latency, limitOf } from "./reading.js";
import { linearTicks, logTicks, scale } from "./scale.js";

const MARGIN = { left: 58, right: 96, top: 44, bottom: 44 };

/** Builds the chart; `choose(rate)` is called with where the user clicks. Returns {show(view)}, view: {curve, pinned, answer, answerLoad, load, unit, isStale, note, goesTo}; `goesTo(rate)` is the load that a click there sets, null: none. */
export function buildCurve(choose) {
  const frame = byId("curve");
  const picture = svg("svg", { role: "img", "aria-labelledby": "curve-title curve-about" });
  const tip = h("div", { class: "tip", hidden: true });
  frame.append(picture, tip);
  let view = null;
  let drawn = null;
  let reached = null;
  const redraw = () => { drawn = view && draw(picture, frame.getBoundingClientRect(), view); };
  new ResizeObserver(redraw).observe(frame);
  const rateAt = (event) => {
    const box = frame.getBoundingClientRect();
    const at = event.clientX - box.left;
    return drawn && at >= MARGIN.left && at <= box.width - MARGIN.right ? drawn.x.back(at) : null;
  };
  frame.addEventListener("pointermove", (event) => {
    const rate = rateAt(event);
    show(tip, rate !== null);
    tip.setAttribute("aria-live", "off");
    if (rate !== null) showTip(tip, frame, drawn, view, rate);
  });
  frame.addEventListener("pointerleave", () => show(tip, false));
  frame.addEventListener("blur", () => show(tip, false));
  frame.addEventListener("keydown", (event) => {
    const points = (drawn && view.curve?.points.filter((point) => point.x <= drawn.x.back(drawn.box.right))) || [];
    if (event.key === "Escape") show(tip, false);
    if (event.key === "Enter" && reached && !tip.hidden && view.load !== null) choose(reached.x);
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || points.length === 0) return;
    event.preventDefault();
    const from = tip.hidden || !reached ? nearest(view.curve, view.load ?? 0) : reached;
    const at = points.findIndex((point) => point.x === from?.x) + (tip.hidden ? 0 : by);
    reached = points[Math.min(Math.max(at, 0), points.length - 1)];
    show(tip, true);
    tip.setAttribute("aria-live", "polite");
    showTip(tip, frame, drawn, view, reached.x, "Enter");
  });
  frame.addEventListener("click", (event) => {
    const rate = rateAt(event);
    if (rate !== null && view.load) choose(rate);
  });
  return { show: (next) => { view = next; redraw(); }, redraw };
}

function draw(picture, { width, height }, view) {
  if (width < 50) return null;
  const { curve, answer, load } = view;
  // A curve over another kind of load has no place on this axis.
  const kept = view.pinned?.curve;
  const pinned = kept && (!curve || (curve.unit === kept.unit && !isSame(curve, kept))) ? kept : null;
  const result = answer?.result;
  const limits = ["ttft", "tpot"].map((key) => (result && limitOf(result, key)) ?? curve?.goodput[key] ?? null);
  const here = load === null ? null : { ...hereOf(result, view.answerLoad), x: load };
  const domain = extents([curve, pinned], here, limits.filter((limit) => limit !== null));
  const x = scale("linear", domain.x, [MARGIN.left, width - MARGIN.right]);
  const y = scale("log", domain.y, [height - MARGIN.bottom, MARGIN.top]);
  const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const unit = curve?.unit ?? (view.unit || "req/s");
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.classList.toggle("is-stale", Boolean(view.isStale));
  picture.replaceChildren(
    pattern(), axes(x, y, domain, box, unit),
    svg("g", { class: "before" }, pinned ? before(pinned, x, y, box) : []),
    svg("g", { class: "now" }, curve ? regions(curve, x, box) : [], limitLines(limits, y, box), curve ? [series(curve, x, y, box, "now"), ends(curve, x, y, box)] : [], limitNames(limits, curve, x, y, box)),
    here ? marker(here, unit, x, y, box) : "",
  );
  say(byId("curve-title"), titleOf(view.isStale ? null : curve));
  say(byId("curve-about"), view.note ?? (curve?.limitedBy ? `limited by ${curve.limitedBy.split(":")[0]}` : ""));
  byId("curve-about").title = curve?.limitedBy ?? "";
  return { x, y, box, unit };
}

function titleOf(curve) {
  if (!curve) return "Latency against load";
  const unit = curve.unit;
  const parts = [curve.knee ? `${kneeAmount(curve.knee.value, unit)} ${unit} within the SLO` : curve.words || "Latency against load"];
  if (curve.saturation) parts.push(`saturates at ${significant(curve.saturation.value)} ${unit}`);
  return parts.join(", ");
}

/** The figures of the run that was answered last, and the load that it had: the controls may be further already. */
function hereOf(result, load) {
  const at = (key, part) => (result ? latency(result, key, part) : { value: null, low: null, high: null });
  const [p99, p50, tpot] = [at("ttft", "p99"), at("ttft", "p50"), at("tpot", "p99")];
  return { dotsAt: load, ttft99: p99.value, low: p99.low, high: p99.high, ttft50: p50.value, tpot99: tpot.value };
}

function pattern() {
  return svg("defs", {}, svg("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("line", { x1: 0, y1: 0, x2: 0, y2: 7, class: "hatch" })));
}

function axes(x, y, domain, box, unit) {
  const ticksX = linearTicks(domain.x[0], domain.x[1], Math.max(Math.floor((box.right - box.left) / 80), 2));
  const ticksY = logTicks(domain.y[0], domain.y[1], Math.max(Math.floor((box.bottom - box.top) / 26), 2));
  return svg("g", { class: "axes" },
    ticksY.map((tick) => [svg("line", { x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), class: "grid" }), svg("text", { x: box.left - 8, y: y(tick), class: "tick end" }, time(tick).replace(/\.0+ /, " "))]),
    svg("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "axis" }),
    ticksX.map((tick) => [svg("line", { x1: x(tick), x2: x(tick), y1: box.bottom, y2: box.bottom + 4, class: "axis" }), svg("text", { x: x(tick), y: box.bottom + 14, class: "tick middle" }, tick.toLocaleString("en"))]),
    svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 34, class: "axis-name middle" }, unit === "req/s" ? "offered load, requests per second" : unit === "users" ? "users" : "requests in flight"));
}

function regions(curve, x, box) {
  const parts = [];
  const inside = (value) => Math.min(Math.max(x(value), box.left), box.right);
  const from = unquotedFrom(curve);
  if (from !== null && inside(from) < box.right) {
    parts.push(svg("rect", { x: inside(from), y: box.top, width: box.right - inside(from), height: box.bottom - box.top, class: "unquoted" }));
    const words = box.right - inside(from) > 90 ? ["unstable:", "not quoted"] : [];
    words.forEach((word, i) => parts.push(svg("text", { x: inside(from) + 8, y: box.bottom - 30 + 17 * i, class: "in-region" }, word)));
  }
  for (const [mark, name, align] of [[curve.knee, "knee", "end"], [curve.saturation, "saturates", "start"]]) {
    if (!mark?.value || x(mark.value) > box.right) continue;
    const [a, b] = [inside(mark.low ?? mark.value), inside(mark.high ?? mark.value)];
    const side = align === "end" ? x(mark.value) + 3 : x(mark.value) - 3;
    parts.push(svg("rect", { x: a, y: box.top, width: Math.max(b - a, 1), height: box.bottom - box.top, class: `band ${name}` }),
      svg("line", { x1: x(mark.value), x2: x(mark.value), y1: box.top - 6, y2: box.bottom, class: `mark ${name}` }),
      svg("text", { x: side, y: box.top - 28, class: `mark-name ${name} ${align}` }, `${name} ${(name === "knee" ? kneeAmount : amount)(mark.value, curve.unit)}`),
      svg("text", { x: side, y: box.top - 13, class: `mark-range ${name} ${align}` }, mark.low && mark.high ? outwards(mark.low, mark.high) : ""));
  }
  return parts;
}

const LIMITS = [["TTFT", "ttft99"], ["TPOT", "tpot99"]];

function limitLines(limits, y, box) {
  return LIMITS.map(([, colour], i) => limits[i] !== null && svg("line", { x1: box.left, x2: box.right, y1: y(limits[i]), y2: y(limits[i]), class: `limit ${colour}` }));
}

/** The names of the limits, at the end that the lines leave free. */
function limitNames(limits, curve, x, y, box) {
  const full = curve?.saturation?.value ?? curve?.knee?.value;
  const isLeft = !full || x(full) > (box.left + box.right) / 2;
  const place = isLeft ? { x: box.left + 6 } : { x: box.right - 6 };
  return LIMITS.map(([name, colour], i) => limits[i] !== null && svg("text", { ...place, y: y(limits[i]) - 9, class: `limit-name ${colour}${isLeft ? "" : " end"}` }, `${name} limit ${time(limits[i])}`));
}

/** Lines through the points that are quoted, with the interval of the 99th percentile behind; critical points are hollow. */
function series(curve, x, y, box, kind) {
  const points = quoted(curve).filter((point) => x(point.x) <= box.right);
  const path = (key) => points.filter((point) => point[key] > 0).map((point, i) => `${i ? "L" : "M"}${x(point.x).toFixed(1)},${Math.max(y(point[key]), box.top).toFixed(1)}`).join("");
  const parts = [];
  const wide = points.filter((point) => point.low > 0);
  if (kind === "now" && wide.length > 1) {
    const top = wide.map((point) => `${x(point.x).toFixed(1)},${(point.high ? Math.max(y(point.high), box.top) : box.top).toFixed(1)}`);
    const low = wide.map((point) => `${x(point.x).toFixed(1)},${y(point.low).toFixed(1)}`).reverse();
    parts.push(svg("polygon", { points: [...top, ...low].join(" "), class: "ribbon" }));
  }
  for (const { key, colour } of SERIES) {
    parts.push(svg("path", { d: path(key), class: `line ${colour}` }));
    if (kind === "now") {
      for (const point of points) {
        if (point[key] > 0) parts.push(svg("circle", { cx: x(point.x), cy: Math.max(y(point[key]), box.top), r: 2.6, class: `point ${colour}${point.verdict === "critical" ? " hollow" : ""}` }));
      }
    }
  }
  return parts;
}

/** The pinned curve: thin lines, its knee as a short mark, and its name where it starts. */
function before(curve, x, y, box) {
  const [first] = quoted(curve);
  const at = curve.knee?.value && x(curve.knee.value) <= box.right ? x(curve.knee.value) : null;
  return [
    series(curve, x, y, box, "before"),
    at === null ? [] : [svg("line", { x1: at, x2: at, y1: box.bottom - 26, y2: box.bottom, class: "mark" }), svg("text", { x: at + 4, y: box.bottom - 18 }, `pinned knee ${kneeAmount(curve.knee.value, curve.unit)}`)],
    first && x(first.x) <= box.right ? svg("text", { x: x(first.x), y: y(first.ttft99) - 9 }, "pinned") : [],
  ];
}

/** The names of the lines at their ends. */
function ends(curve, x, y, box) {
  const points = quoted(curve).filter((point) => x(point.x) <= box.right);
  const labels = SERIES.flatMap(({ key, name, colour }) => {
    const last = points.filter((point) => point[key] > 0).pop();
    return last ? [{ name, colour, y: Math.max(y(last[key]), box.top) }] : [];
  });
  return apart(labels, 15, box.top, box.bottom - 4).map((label) => svg("text", { x: box.right + 8, y: label.y, class: `end-name ${label.colour}` }, label.name));
}

/** A load: a rate in three figures, a number of users or of requests whole. */
function amount(load, unit) {
  return unit === "req/s" ? significant(load) : grouped(String(Math.round(load)));
}

/** A knee is not said larger than it is. */
function kneeAmount(load, unit) {
  return unit === "req/s" ? downwards(load) : grouped(String(Math.floor(load)));
}

/** The line that moves with the slider, and the last run's own figures where it was. */
function marker(here, unit, x, y, box) {
  const at = Math.min(Math.max(x(here.x), box.left), box.right);
  const isBeyond = x(here.x) > box.right + 0.5;
  const dot = here.dotsAt !== null && x(here.dotsAt) <= box.right + 0.5 ? x(here.dotsAt) : null;
  const dots = SERIES.flatMap(({ key, colour }) => (here[key] > 0 && dot !== null ? [svg("circle", { cx: dot, cy: y(here[key]), r: 5, class: `here-dot ${colour}` })] : []));
  const range = here.low > 0 && here.high > 0 && dot !== null ? [svg("line", { x1: dot, x2: dot, y1: y(here.low), y2: Math.max(y(here.high), box.top), class: "here-range" })] : [];
  const left = at > (box.left + box.right) / 2;
  return svg("g", { class: "here" },
    svg("line", { x1: at, x2: at, y1: box.top, y2: box.bottom, class: "here-line" }),
    svg("path", { d: `M${at - 6},${box.bottom + 1}h12l-6,-8z`, class: "here-handle" }),
    range, dots,
    svg("text", { x: at + (left ? -8 : 8), y: box.top + 10, class: `here-name ${left ? "end" : "start"}` }, `now ${amount(here.x, unit)}${isBeyond ? " →" : ""}`));
}

function showTip(tip, frame, { x, box, unit }, { curve, load, goesTo }, rate, how = "click") {
  const point = nearest(curve, rate);
  const goal = load === null ? null : goesTo(rate);
  const isThere = goal !== null && amount(Number(goal), unit) === amount(rate, unit);
  const rows = [["", `${amount(rate, unit)} ${unit}${goal === null ? "" : ` — ${how} ${isThere ? "to set" : `for ${goal}`}`}`]];
  if (point) {
    rows.push(["simulated at", `${amount(point.x, unit)} ${unit}`]);
    if (point.verdict === "unstable") rows.push(["unstable", point.growth ? `backlog grows ${significant(point.growth)} req/s` : "not quoted"]);
    else {
      rows.push(["TTFT p50", time(point.ttft50)], ["TTFT p99", point.low ? `${time(point.ttft99)}, ${point.high ? `to ${time(point.high)}` : "at least"}` : time(point.ttft99)], ["TPOT p99", time(point.tpot99)]);
      if (point.attainment !== null) rows.push(["good", percent(point.attainment)]);
      if (Number.isFinite(point.running)) rows.push(["running", significant(point.running)]);
      if (point.verdict === "critical") rows.push(["critical", "at least so much"]);
    }
  }
  tip.replaceChildren(...rows.map(([name, value]) => h("div", {}, h("span", {}, name), h("b", {}, value))));
  const at = x(point ? Math.min(point.x, x.back(box.right)) : rate);
  const width = frame.getBoundingClientRect().width;
  tip.style.left = at > width / 2 ? "" : `${at + 12}px`;
  tip.style.right = at > width / 2 ? `${width - at + 12}px` : "";
}
