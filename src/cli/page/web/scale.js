// Scales and ticks of axes, and the way from a slider to a value and back. Without DOM.

/** A linear or logarithmic scale from `domain` to `range`; `back` is its inverse. */
export function scale(kind, [low, high], [from, to]) {
  const bend = kind === "log" ? Math.log : (value) => value;
  const unbend = kind === "log" ? Math.exp : (value) => value;
  const [a, b] = [bend(low), bend(high)];
  const to_range = (value) => from + ((bend(value) - a) / (b - a || 1)) * (to - from);
  to_range.back = (at) => unbend(a + ((at - from) / (to - from || 1)) * (b - a));
  return to_range;
}

/** Round numbers that divide an axis into about `wanted` parts. */
export function linearTicks(low, high, wanted = 6) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((candidate) => candidate >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

/** Powers of ten, with 2 and 5 between them where there is room (`wanted` at most, or the powers alone). */
export function logTicks(low, high, wanted = 8) {
  const ticks = (factors) => {
    const found = [];
    for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)); power += 1) {
      for (const factor of factors) {
        const value = Number((factor * 10 ** power).toPrecision(6));
        if (value >= low * 0.9999 && value <= high * 1.0001) found.push(value);
      }
    }
    return found;
  };
  for (const factors of [[1, 2, 5], [1, 3]]) {
    const found = ticks(factors);
    if (found.length <= wanted) return found;
  }
  return ticks([1]);
}

/** As many positions as a slider has. */
export const POSITIONS = 1000;

/** Where on its slider (0 to POSITIONS) a value stands; beyond its ends it stands at them, and `isBeyond` says so. */
export function position(control, value) {
  const at = scale(control.scale, [control.low, control.high], [0, POSITIONS])(value);
  return Number.isFinite(at) ? Math.round(Math.min(Math.max(at, 0), POSITIONS)) : 0;
}

export function isBeyond(control, value) {
  return value < control.low * (1 - 1e-9) || value > control.high * (1 + 1e-9);
}

/** The value at a position of the slider: three significant figures, or whole. */
export function valueAt(control, at) {
  if (at <= 0) return control.low;
  if (at >= POSITIONS) return control.high;
  return rounded(control, scale(control.scale, [control.low, control.high], [0, POSITIONS]).back(at));
}

/** One small step up (1) or down (-1) from a value, for the arrow keys: about a hundredth, at least the last digit. */
export function nudged(control, value, direction, factor = 1) {
  const span = control.high - control.low;
  const step = control.scale === "log" ? Math.abs(value) * 0.02 * factor : (span / 100) * factor;
  const least = control.whole ? 1 : 10 ** (Math.floor(Math.log10(Math.abs(value) || span)) - 2);
  const next = rounded(control, value + direction * Math.max(step, least));
  return Math.min(Math.max(next, Math.min(control.low, value)), Math.max(control.high, value));
}

function rounded(control, value) {
  if (!control.whole) return Number(value.toPrecision(3));
  return value >= 1000 && control.scale === "log" ? Number(value.toPrecision(3)) : Math.round(value);
}
