// A report keeps its answers in itself: reads them, and finds the one for given flags. Without DOM.

import { isSame } from "./settings.js";

const ON_OFF = { true: "on", false: "off" };

/** Reads what is kept: the base64 of gzip of JSON. */
export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

/** The answers of a report, in place of the server's. */
export class Kept {
  #data;

  constructor(data) {
    this.#data = data;
  }

  /** What the page begins with: as the server says it, and `kept`, what it has to know of the report. */
  start() {
    const { version, made, title, start, axes, knees, explained } = this.#data;
    return { ...start, groups: this.#groups(start.groups), kept: { version, made, title, subject: start.subject, hasAxes: axes.length > 0, hasKnees: knees.length > 0, explained } };
  }

  /** The answer to a question, as `{isAnswer, answer}`. An axis that is not among the flags has its own value. */
  answer(path, { flags }) {
    const entries = { "/api/run": this.#data.runs, "/api/knee": this.#data.knees }[path] ?? [];
    const at = (flag) => flags[flag] ?? this.#data.axes.find((axis) => axis.flag === flag)?.value;
    const found = entries.find((entry) => Object.entries(entry.flags).every(([flag, value]) => isSame(at(flag), value)));
    // Other settings, other defaults: each answer has the list that it was simulated with.
    if (found?.answer) return { isAnswer: true, answer: found.answer.groups ? { ...found.answer, groups: this.#groups(found.answer.groups) } : found.answer };
    return { isAnswer: false, answer: found?.problem ?? { problems: [{ message: "this setting was not simulated: whoever made the report stopped it before", help: [] }] } };
  }

  /** The axes as controls of a group of their own, and all other controls of the scenario, which cannot be turned. */
  #groups(groups) {
    const others = groups.map((group) => ({ ...group, controls: group.controls.map((control) => ({ ...control, isFixed: true })) }));
    const turned = { name: "Simulated", controls: this.#data.axes.map(axisControl) };
    return [turned, ...others].filter((group) => group.controls.length > 0);
  }
}

/** An axis as a control: stops of a slider where all values are numbers, else a choice. */
function axisControl(axis) {
  const number = (text) => (text === "inf" ? Infinity : Number(text));
  const { values } = axis;
  const control = { ...axis, isAxis: true };
  if (values.every((text) => text.trim() !== "" && !Number.isNaN(number(text)))) return { ...control, kind: "stops", values: [...values].sort((a, b) => number(a) - number(b)) };
  return { ...control, kind: "choice", choices: values.map((text) => ({ value: text, name: ON_OFF[text] ?? text })) };
}
