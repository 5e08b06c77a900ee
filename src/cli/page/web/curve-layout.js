// What the chart of latency against rate shows, as numbers: extents, series, labels that do not collide, the nearest point. Without DOM.

export const SERIES = [
  { key: "ttft99", name: "TTFT p99", colour: "ttft99" },
  { key: "ttft50", name: "TTFT p50", colour: "ttft50" },
  { key: "tpot99", name: "TPOT p99", colour: "tpot99" },
];

/** Points that have figures to quote: those of unstable rates have none. */
export function quoted(curve) {
  return curve.points.filter((point) => point.verdict !== "unstable" && point.ttft99 !== null);
}

/** The axes: x from 0 to beyond what saturates or is asked, y over all that is drawn, in seconds. */
export function extents(curves, here, limits) {
  const known = curves.filter(Boolean);
  const xs = known.flatMap((curve) => {
    const good = quoted(curve).map((point) => point.x);
    const full = curve.saturation?.value ?? curve.knee?.value ?? good[good.length - 1] ?? 0;
    return [full * 1.22, Math.min(good[good.length - 1] ?? 0, full * 1.4)];
  });
  // Far beyond all that is known the marker points out of the chart: else the curve would be a stroke at its left end.
  const most = Math.max(...xs.filter(Number.isFinite), 0) * 2;
  const at = here?.x ? here.x * (known.length ? 1.06 : 1.6) : 0;
  const rates = [...xs, most > 0 ? Math.min(at, most) : at].filter(Number.isFinite);
  const values = known.flatMap((curve) => quoted(curve).flatMap((point) => [point.ttft99, point.ttft50, point.tpot99]));
  const all = [...values, here?.ttft99, here?.ttft50, here?.tpot99, ...limits].filter((value) => Number.isFinite(value) && value > 0);
  const [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [0.01, 10];
  const widest = Math.max(...rates, 0);
  return { x: [0, widest > 0 ? widest : 10], y: [low / 1.5, Math.max(high * 1.6, low * 10)] };
}

/** Moves labels apart that would lie on each other, in their order, inside [top, bottom]. */
export function apart(labels, gap, top, bottom) {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  let least = top;
  for (const label of sorted) {
    label.y = Math.max(label.y, least);
    least = label.y + gap;
  }
  let most = bottom;
  for (const label of sorted.reverse()) {
    label.y = Math.min(label.y, most);
    most = label.y - gap;
  }
  return labels;
}

/** The point of a curve that is nearest to `x`, or null. */
export function nearest(curve, x) {
  const points = curve?.points ?? [];
  return points.reduce((best, point) => (best === null || Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best), null);
}

/** The part of the axis from which on rates are not quoted, or null: from the first unstable point, or where it saturates at the latest. */
export function unquotedFrom(curve) {
  const unstable = curve.points.find((point) => point.verdict === "unstable");
  return curve.saturation?.high ?? unstable?.x ?? null;
}

/** Whether two curves are one: where only the load is another, what is pinned lies on what is now. */
export function isSame(one, other) {
  return JSON.stringify(one.points) === JSON.stringify(other.points);
}
