// The controls at the left. Those of a group stay where they are while answers come in; only what an answer changes is changed.

import { h, say, show } from "./dom.js";
import { withUnit } from "./format.js";
import { choiceField, numberField, searchField, stopsField, switchField } from "./fields.js";
import { SEARCHABLE, fault, ownText } from "./settings.js";

const UNSET = "as the scenario has it";
/** What no scenario has but where it says so. */
const NONE = "not set";

/** Builds controls into `place`; `changed(flag, text)` is told of what the user sets (null: puts back). Returns {show(groups, set)}. */
export function buildControls(place, changed) {
  const groups = new Map();
  const controls = new Map();

  const controlFor = (control) => {
    const key = `${control.flag} ${kindOf(control)}`;
    if (!controls.has(key)) controls.set(key, build(control, (text) => changed(control.flag, text)));
    return controls.get(key);
  };
  const groupFor = (name) => {
    if (!groups.has(name)) {
      const count = h("span", { class: "count" });
      const body = h("div");
      groups.set(name, { count, body, element: h("details", { open: true }, h("summary", {}, name, count), body) });
    }
    return groups.get(name);
  };
  const put = (told, set) => {
    arrange(place, told.map((group) => {
      const { element, body, count } = groupFor(group.name);
      arrange(body, group.controls.map((control) => {
        const one = controlFor(control);
        one.put(control, set.get(control.flag) ?? null);
        return one.element;
      }));
      const number = group.controls.filter((control) => set.has(control.flag)).length;
      say(count, number ? `${number} changed` : "");
      return element;
    }));
  };
  return { show: put };
}

/** Makes these the children, in this order, and touches none that is in its place. */
function arrange(place, elements) {
  if (place.children.length === elements.length && elements.every((element, i) => place.children[i] === element)) return;
  place.replaceChildren(...elements);
}

function kindOf(control) {
  return control.kind === "choice" && !control.isAxis && control.choices.length >= SEARCHABLE ? "search" : control.kind;
}

/** One control: its element, and `put(control, text)` to show what the server says of it and what the user set (null: nothing). */
export function build(first, touched, prefix = "control") {
  let control = first;
  const id = `${prefix}-${control.flag.replace(/[^\w-]/g, "-")}`;
  const make = { number: numberField, choice: choiceField, search: searchField, stops: stopsField, switch: switchField }[kindOf(control)];
  const problem = h("p", { class: "fault", role: "alert", hidden: true });
  const enter = (text) => {
    const wrong = fault(control, text);
    say(problem, wrong ? `${wrong}; the last value stands` : "");
    show(problem, Boolean(wrong));
    if (!wrong) touched(text);
  };
  const field = make(control, id, enter);
  const reset = h("button", { type: "button", class: "reset", onclick: () => { touched(null); field.focus(); } }, "↺");
  const unset = h("span", { class: "unset" }, first.flag.startsWith("goodput:") ? NONE : UNSET);
  const label = h("label", { for: id });
  const help = h("p", { class: "hidden-words", id: `${id}-help` });
  const element = h("div", { class: `control ${control.kind}` }, h("div", { class: "head" }, label, unset, reset), field.element, help, problem);
  let shown = null;
  const put = (next, text) => {
    control = next;
    const now = text ?? ownText(control);
    const key = JSON.stringify([control.name, control.value, control.low, control.high, control.choices?.length, text]);
    if (key === shown) return;
    shown = key;
    show(problem, false);
    say(label, control.name);
    say(help, control.help);
    element.title = control.help;
    element.classList.toggle("changed", text !== null);
    element.classList.toggle("is-unset", now === null);
    reset.disabled = text === null;
    reset.setAttribute("aria-label", `${control.name}: as if not set`);
    reset.title = "as if not set";
    show(unset, now === null);
    field.put(control, now, now === null ? unset.textContent : withUnit(now, control.unit));
  };
  return { element, put };
}
