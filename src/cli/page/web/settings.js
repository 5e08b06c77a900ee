// What the user set: texts by flag, which of them there are controls for, and the same in the address. Without DOM.
//
// A control's own value can depend on others (another GPU, another default), and another engine has other controls. So what
// the user set is kept as a map of flags, and never told from a comparison of values.

import { withUnit } from "./format.js";

/** All controls of the groups, in order. */
export function controlsOf(groups) {
  return groups.flatMap((group) => group.controls);
}

/** The control of a flag, or null. */
export function controlOf(groups, flag) {
  return controlsOf(groups).find((control) => control.flag === flag) ?? null;
}

/** The groups with what of them can be turned: in a report only its axes. */
export function turnable(groups) {
  return groups.map((group) => ({ ...group, controls: group.controls.filter((control) => !control.isFixed) })).filter((group) => group.controls.length > 0);
}

/** Whether two texts are one value: 8 is 8.0. */
export function isSame(one, other) {
  return one === other || (String(one).trim() !== "" && Number(one) === Number(other));
}

/** A text as a report's axis lists it; of another control as it is. */
function asListed(control, text) {
  return control.isAxis ? control.values.find((value) => isSame(value, text)) : text;
}

/** The text of a control's own value; null: it has none. */
export function ownText(control) {
  return control.value === null || control.value === undefined ? null : String(control.value);
}

/** From so many choices on a list is searched by typing, and what is not on it may be typed too. */
export const SEARCHABLE = 15;

/** Why a text will not do for a control, or null. Limits are the server's to know: only what is no value at all is refused here. */
export function fault(control, text) {
  const trimmed = text.trim();
  if (control.isFixed) return "this report holds one value of it only";
  if (control.isAxis) return control.values.some((value) => isSame(value, trimmed)) ? null : `“${trimmed}” is not among what was simulated: ${control.values.join(", ")}`;
  if (trimmed === "") return control.kind === "number" ? "a number is needed" : "a value is needed";
  if (control.kind === "number") {
    const isNumber = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed) || trimmed === "inf";
    if (!isNumber) return `“${trimmed}” is not a number`;
    if (control.whole && trimmed !== "inf" && !Number.isInteger(Number(trimmed))) return `“${trimmed}” is not a whole number`;
    return null;
  }
  if (control.kind === "switch") return ["true", "false"].includes(text) ? null : `“${text}” is neither true nor false`;
  const isOpen = control.choices.length >= SEARCHABLE;
  return isOpen || control.choices.some((choice) => choice.value === text) ? null : `“${text}” is not among the choices`;
}

/** The flags to send, in the order of their controls. `set` is a map by flag of what the user set. */
export function flagsOf(groups, set) {
  const order = controlsOf(groups).map((control) => control.flag);
  const flags = [...set.keys()].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  return Object.fromEntries(flags.map((flag) => [flag, set.get(flag)]));
}

/** Of the flags that were asked with: those for which the answer has no control any more. */
export function dropped(groups, flags) {
  return Object.keys(flags).filter((flag) => !controlOf(groups, flag));
}

/** The address's part behind #: `request-rate=12&gpu=L40S-48GB`. */
export function toHash(flags) {
  const escape = (text) => encodeURIComponent(text).replace(/%40/g, "@").replace(/%3A/gi, ":").replace(/%2F/gi, "/");
  return Object.entries(flags).map(([flag, text]) => `${escape(flag)}=${escape(text)}`).join("&");
}

/**
 * Reads an address's part behind #: what it sets, and what of it is ignored and why. `unknown` are flags without a control
 * here: other settings may bring one, and the answer to them tells.
 */
export function fromHash(groups, hash) {
  const [set, unknown, ignored] = [new Map(), new Map(), []];
  for (const part of hash.replace(/^#/, "").split("&").filter((piece) => piece !== "")) {
    const at = part.indexOf("=");
    const [flag, text] = [decode(at < 0 ? part : part.slice(0, at)), at < 0 ? null : decode(part.slice(at + 1))];
    const control = controlOf(groups, flag);
    if (flag === null || (at >= 0 && text === null)) ignored.push(`${part}: not readable`);
    else if (text === null) ignored.push(`${part}: no value`);
    else if (!control) unknown.set(flag, text);
    else if (fault(control, text)) ignored.push(`${part}: ${fault(control, text)}`);
    else set.set(flag, asListed(control, text));
  }
  return { set, unknown, ignored };
}

/** Flags that had no control, against the groups of an answer: those that have one now, and what is wrong with the others. */
export function settled(groups, unknown) {
  const [set, ignored] = [new Map(), []];
  for (const [flag, text] of unknown) {
    const control = controlOf(groups, flag);
    const wrong = control ? fault(control, text) : "there is no such control here";
    if (wrong) ignored.push(`${flag}=${text}: ${wrong}`);
    else set.set(flag, text);
  }
  return { set, ignored };
}

function decode(text) {
  try {
    return decodeURIComponent(text.replace(/\+/g, "%20"));
  } catch {
    return null;
  }
}

/** The flags for a knee: without that of the load, which it looks for. */
export function kneeFlags(groups, flags) {
  const load = loadControl(groups)?.flag;
  return Object.fromEntries(Object.entries(flags).filter(([flag]) => flag !== load));
}

/** The control that says how strong the load is, or null (a replayed trace). */
export function loadControl(groups) {
  return controlsOf(groups).find((control) => control.load) ?? null;
}

/** The load that a click at `rate` sets, as a text: of a report the nearest of its stops; null: none. */
export function loadAt(control, rate) {
  if (!control || control.isFixed || !(rate > 0)) return null;
  if (!control.isAxis) return String(control.whole ? Math.max(Math.round(rate), 1) : Number(rate.toPrecision(3)));
  const stops = control.values.filter((value) => Number.isFinite(Number(value)));
  return stops.reduce((best, value) => (best === null || Math.abs(value - rate) < Math.abs(best - rate) ? value : best), null);
}

/** A setting in words: the load, what is set, and of a report all that can be. */
export function inWords(groups, flags) {
  const load = loadControl(groups);
  const words = controlsOf(groups).filter((control) => control.flag in flags || control === load || control.isAxis).flatMap((control) => {
    const text = flags[control.flag] ?? ownText(control);
    return text === null ? [] : [`${control.name} ${withUnit(text, control.unit)}`];
  });
  return words.join(", ") || "as the scenario has it";
}
