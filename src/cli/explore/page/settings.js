// What the controls say: values by flag, which of them differ from the start's, and the same in the address. Without DOM.

/** All controls of the start's groups, in order. */
export function controlsOf(start) {
  return start.groups.flatMap((group) => group.controls);
}

/** The text that a control starts with, as the server wants it; null: it has none of its own. */
export function initial(control) {
  return control.value === null || control.value === undefined ? null : String(control.value);
}

/** Why a text will not do for a control, or null. Limits are the server's to know: only what is no value at all is refused here. */
export function fault(control, text) {
  if (control.kind === "number") {
    const trimmed = text.trim();
    if (trimmed === "") return "a number is needed";
    const isNumber = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed) || trimmed === "inf";
    if (!isNumber) return `“${trimmed}” is not a number`;
    if (control.whole && trimmed !== "inf" && !Number.isInteger(Number(trimmed))) return `“${trimmed}” is not a whole number`;
    return null;
  }
  if (control.kind === "switch") return ["true", "false"].includes(text) ? null : `“${text}” is neither true nor false`;
  return control.choices.some((choice) => choice.value === text) ? null : `“${text}” is not among the choices`;
}

/** Whether two texts mean the same value of a control. */
export function isSame(control, one, other) {
  if (one === other) return true;
  if (one === null || other === null || control.kind !== "number") return false;
  return one !== "" && other !== "" && Number(one) === Number(other);
}

/** The flags to send: those whose value differs from the start's, in the start's order. `values` is a map by flag. */
export function changedFlags(start, values) {
  const flags = {};
  for (const control of controlsOf(start)) {
    const text = values.get(control.flag) ?? null;
    if (text !== null && !isSame(control, text, initial(control))) flags[control.flag] = text;
  }
  return flags;
}

/** Every control's first value. */
export function initialValues(start) {
  return new Map(controlsOf(start).map((control) => [control.flag, initial(control)]));
}

/** The address's part behind #: `request-rate=12&gpu=L40S-48GB`. */
export function toHash(flags) {
  const escape = (text) => encodeURIComponent(text).replace(/%40/g, "@").replace(/%3A/gi, ":");
  return Object.entries(flags).map(([flag, text]) => `${escape(flag)}=${escape(text)}`).join("&");
}

/** Reads an address's part behind #: the values, and what of it is ignored and why. */
export function fromHash(start, hash) {
  const values = initialValues(start);
  const ignored = [];
  const controls = new Map(controlsOf(start).map((control) => [control.flag, control]));
  for (const part of hash.replace(/^#/, "").split("&").filter((piece) => piece !== "")) {
    const at = part.indexOf("=");
    const [flag, text] = [decode(at < 0 ? part : part.slice(0, at)), at < 0 ? null : decode(part.slice(at + 1))];
    const control = controls.get(flag);
    if (flag === null || (at >= 0 && text === null)) ignored.push(`${part}: not readable`);
    else if (!control) ignored.push(`${part}: there is no such control here`);
    else if (text === null) ignored.push(`${part}: no value`);
    else if (fault(control, text)) ignored.push(`${part}: ${fault(control, text)}`);
    else values.set(flag, text);
  }
  return { values, ignored };
}

function decode(text) {
  try {
    return decodeURIComponent(text.replace(/\+/g, "%20"));
  } catch {
    return null;
  }
}

/** Flags of a load's strength: a knee does not depend on them, since it looks for them. */
const LOADS = ["request-rate", "max-concurrency", "users"];

/** The flags for a knee: without those that it looks for. */
export function kneeFlags(flags) {
  return Object.fromEntries(Object.entries(flags).filter(([flag]) => !LOADS.includes(flag)));
}

/** The control that says how strong the load is, or null (a replayed trace). */
export function loadControl(start) {
  return controlsOf(start).find((control) => LOADS.includes(control.flag)) ?? null;
}
