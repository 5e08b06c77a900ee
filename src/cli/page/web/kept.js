// A report keeps its answers in itself: reads them, and finds the one for given flags. Without DOM.

import { isSame } from "./settings.js";

/** Reads what is kept: the base64 of gzip of JSON. */
export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

/** The answers of a report, in place of the server's. */
export class Kept {
  #data;

  constructor(data) {
    // A scenario may have a value of its own that was not simulated: then the first that was is what the page begins with.
    const among = ({ value, values }) => values.find((one) => isSame(one, value)) ?? values[0];
    this.#data = { ...data, axes: data.axes.map((axis) => ({ ...axis, value: among(axis) })) };
  }

  /** What the page begins with: as the server says it, and `kept`, what it has to know of the report. */
  start() {
    const { version, made, title, start, axes, knees, explained } = this.#data;
    return { ...start, groups: this.#groups(), kept: { version, made, title, subject: start.subject, hasAxes: axes.length > 0, hasKnees: knees.length > 0, explained: explained?.explained ? explained : null } };
  }

  /** The answer to a question, as `{isAnswer, answer}`. An axis that is not among the flags has its own value. */
  answer(path, { flags }) {
    const entries = { "/api/run": this.#data.runs, "/api/knee": this.#data.knees }[path] ?? [];
    const at = (flag) => flags[flag] ?? this.#data.axes.find((axis) => axis.flag === flag)?.value;
    const found = entries.find((entry) => Object.entries(entry.flags).every(([flag, value]) => isSame(at(flag), value)));
    if (found?.answer) return { isAnswer: true, answer: found.answer };
    return { isAnswer: false, answer: found?.problem ?? { problems: [{ message: "this report holds no answer to that", help: [] }] } };
  }

  /** The axes as controls of a group of their own, and all other controls of the scenario, which cannot be turned. */
  #groups() {
    const { axes, start } = this.#data;
    const isAxis = (control) => axes.some((axis) => axis.flag === control.flag);
    const own = (flag) => start.groups.flatMap((group) => group.controls).find((control) => control.flag === flag);
    const others = start.groups.map((group) => ({ ...group, controls: group.controls.filter((control) => !isAxis(control)).map((control) => ({ ...control, isFixed: true })) }));
    const turned = { name: "Simulated", controls: axes.map((axis) => axisControl(axis, own(axis.flag))) };
    return [turned, ...others].filter((group) => group.controls.length > 0);
  }
}

/** An axis as a control: stops of a slider where all values are numbers, else a choice, with the names that the scenario's control has. */
function axisControl(axis, own) {
  const number = (text) => (text === "inf" ? Infinity : Number(text));
  const values = axis.values.map(String);
  const control = { ...axis, isAxis: true, values, value: String(axis.value), unit: axis.unit ?? "", help: axis.help ?? "" };
  if (values.every((text) => text.trim() !== "" && !Number.isNaN(number(text)))) return { ...control, kind: "stops", values: [...values].sort((a, b) => number(a) - number(b)) };
  const name = (text) => own?.choices?.find((choice) => choice.value === text)?.name ?? (own?.kind === "switch" ? { true: "on", false: "off" }[text] : null) ?? text;
  return { ...control, kind: "choice", choices: values.map((text) => ({ value: text, name: name(text) })) };
}
