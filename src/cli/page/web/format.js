// Numbers for people, as the command line writes them: three significant figures and a unit. Without DOM.

const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

/** Three significant figures, thousands grouped: 0.0123, 7.41, 24.2, 412, 1,280; 1.23e-12 where zeros would hide them. */
export function significant(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return "not bounded";
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(3));
  const size = Math.abs(value);
  if (size < 1e-6 || size >= 1e18) return value.toExponential(2).replace("e+", "e");
  const decimals = Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(rounded))), 0), 9);
  return grouped(rounded.toFixed(decimals));
}

/** Digits before the point in groups of three. */
export function grouped(text) {
  const [whole, fraction] = String(text).split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? spaced : `${spaced}.${fraction}`;
}

/** A duration given in seconds: 412 ms, 18.3 ms, 24.2 s. */
export function time(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return significant(seconds);
  const [size, name] = prefix(seconds);
  return `${significant(seconds / size)} ${name}`;
}

/** `[34.1, 35.1] ms`: both ends in the unit of the upper one. An end that is not known is said so. */
export function timeInterval(low, high) {
  if (high === null || high === undefined || !Number.isFinite(high)) return `≥ ${time(low)}`;
  const [size, name] = prefix(high);
  return `[${significant(low / size)}, ${significant(high / size)}] ${name}`;
}

/** `[1.0, 2.0] req/s`. */
export function interval(low, high, unit = "") {
  return `[${significant(low)}, ${significant(high)}]${unit && " "}${unit}`;
}

/** The same of a knee, rounded outwards: the interval that is shown holds the one that was found. */
export function outwards(low, high, unit = "") {
  return interval(toFigures(low, Math.floor), toFigures(high, Math.ceil), unit);
}

/** A knee, which must not be said larger than it is: three figures, rounded down. */
export function downwards(value) {
  return significant(toFigures(value, Math.floor));
}

function toFigures(value, round) {
  if (!Number.isFinite(value) || value === 0) return value;
  const digit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 2);
  // A value of three figures is itself, whatever its last bit says.
  const figures = value / digit;
  return (Math.abs(figures - Math.round(figures)) < 1e-9 * Math.abs(figures) ? Math.round(figures) : round(figures)) * digit;
}

function prefix(seconds) {
  const size = Math.abs(Number(seconds.toPrecision(3)));
  return size === 0 ? TIMES[0] : TIMES.find(([least]) => size >= least) ?? TIMES[TIMES.length - 1];
}

/** A fraction as a percentage: 15.0 %, 0.320 %; 100 % is the whole, to the last digit. */
export function percent(fraction) {
  if (fraction === null || fraction === undefined || !Number.isFinite(fraction)) return significant(fraction);
  // Three figures would round a share that is not whole up to 100 %.
  if (fraction >= 0.9995 && fraction < 1) return `${(Math.floor(fraction * 1e4) / 1e2).toFixed(2)} %`;
  return `${significant(fraction * 100)} %`;
}

/** A relative difference with its sign: +4.20 %, −0.880 %. */
export function signedPercent(fraction) {
  if (!Number.isFinite(fraction)) return significant(fraction);
  if (Math.abs(fraction) < 5e-7) return "±0 %";
  return `${fraction < 0 ? "−" : "+"}${significant(100 * Math.abs(fraction))} %`;
}

/** How `now` stands to `before`: as a ratio in per cent, or as a factor where it is more than tenfold. */
export function change(now, before) {
  if (!Number.isFinite(now) || !Number.isFinite(before) || before === 0) return "";
  const ratio = now / before;
  if (ratio >= 10) return `×${significant(ratio)}`;
  if (ratio > 0 && ratio <= 0.1) return `÷${significant(1 / ratio)}`;
  return signedPercent(ratio - 1);
}

/** A count and what is counted: 1 request, 12,345 requests. */
export function counted(count, noun) {
  return `${grouped(String(count))} ${noun}${count === 1 ? "" : "s"}`;
}

/** A value with the unit of its control, for a label: `12 req/s`. */
export function withUnit(text, unit) {
  return unit ? `${text} ${String(text) === "1" ? ONE[unit] ?? unit : unit}` : text;
}

/** Units that are words, of one. */
const ONE = { GPUs: "GPU", tokens: "token" };

/** A share of the simulated clock, to the millisecond: 12.345 s. */
export function clock(seconds) {
  return `${seconds.toFixed(3)} s`;
}
