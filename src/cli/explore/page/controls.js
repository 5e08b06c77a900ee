// The controls at the left: sliders with a number field, selects, switches. A changed one is marked and can be put back.

import { h, say, show } from "./dom.js";
import { withUnit } from "./format.js";
import { POSITIONS, isBeyond, nudged, position, valueAt } from "./scale.js";
import { fault, initial, isSame } from "./settings.js";

const UNSET = "as the scenario has it";
/** From so many choices on a list is searched by typing. */
const SEARCHABLE = 15;

/** Builds all groups into `place`; `changed(flag, text)` is told of every new value. Returns {set(flag, text), focus(flag)}. */
export function buildControls(place, start, changed) {
  const controls = new Map();
  for (const group of start.groups) {
    const count = h("span", { class: "count" });
    const built = group.controls.map((control) => {
      const one = build(control, (text) => {
        one.put(text);
        tell();
        changed(control.flag, text);
      });
      controls.set(control.flag, one);
      return one;
    });
    const tell = () => {
      const number = built.filter((one) => one.isChanged()).length;
      say(count, number ? `${number} changed` : "");
    };
    for (const one of built) one.tell = tell;
    place.append(h("details", { open: true }, h("summary", {}, group.name, count), built.map((one) => one.element)));
  }
  const set = (flag, text) => {
    const one = controls.get(flag);
    one.put(text);
    one.tell();
  };
  return { set };
}

/** One control: its element, `put(text)` to show a value, `isChanged()`. `touched(text)` is told of what the user does. */
function build(control, touched) {
  const id = `control-${control.flag}`;
  const first = initial(control);
  const fit = { number, choice, switch: toggle }[control.kind];
  const problem = h("p", { class: "fault", role: "alert", hidden: true });
  const enter = (text) => {
    const wrong = fault(control, text);
    say(problem, wrong ? `${wrong}; the last value stands` : "");
    show(problem, Boolean(wrong));
    if (!wrong) touched(text);
  };
  const inner = fit(control, id, enter);
  const back = first === null ? UNSET : withUnit(nameOf(control, first), control.unit);
  const reset = h("button", {
    type: "button", class: "reset", title: `back to ${back}`, "aria-label": `${control.name} back to ${back}`,
    onclick: () => { touched(first); inner.focus(); },
  }, "↺");
  const unset = h("span", { class: "unset" }, UNSET);
  const element = h("div", { class: `control ${control.kind}`, title: control.help },
    h("div", { class: "head" }, h("label", { for: id }, control.name), unset, reset),
    inner.element, h("p", { class: "hidden-words", id: `${id}-help` }, control.help), problem);
  let now = first;
  const put = (text) => {
    now = text;
    show(problem, false);
    const isChanged = !isSame(control, text, first);
    element.classList.toggle("changed", isChanged);
    element.classList.toggle("is-unset", text === null);
    reset.disabled = !isChanged;
    show(unset, text === null);
    inner.put(text);
  };
  put(first);
  return { element, put, isChanged: () => !isSame(control, now, first), tell: () => {} };
}

function nameOf(control, text) {
  return control.kind === "choice" ? control.choices.find((choice) => choice.value === text)?.name ?? text : text;
}

/** A slider and a field for one number. */
function number(control, id, enter) {
  const slider = h("input", { type: "range", id, min: 0, max: POSITIONS, step: 1, "aria-describedby": `${id}-help` });
  const field = h("input", {
    type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", size: 7, placeholder: "–",
    "aria-label": `${control.name}${control.unit && ` in ${control.unit}`}, typed`,
  });
  const unit = control.unit ? h("span", { class: "unit" }, control.unit) : null;
  const beyond = h("span", { class: "beyond", hidden: true, title: "beyond the slider" }, "⇥");
  let value = null;
  slider.addEventListener("input", () => {
    const next = valueAt(control, Number(slider.value));
    if (next !== value) enter(String(next));
  });
  slider.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
    if (!steps) return;
    event.preventDefault();
    const from = value ?? valueAt(control, Number(slider.value));
    enter(String(nudged(control, from, Math.sign(steps), Math.abs(steps))));
  });
  let text = null;
  field.addEventListener("change", () => {
    if (field.value.trim() !== (text ?? "")) enter(field.value.trim());
  });
  const put = (next) => {
    text = next;
    value = next === null ? null : Number(next);
    const isNumber = value !== null && Number.isFinite(value);
    const at = isNumber ? position(control, value) : value === Infinity || next === "inf" ? POSITIONS : POSITIONS / 2;
    if (Number(slider.value) !== at && !(document.activeElement === slider && valueAt(control, Number(slider.value)) === value)) slider.value = at;
    slider.style.setProperty("--at", `${(100 * Number(slider.value)) / POSITIONS}%`);
    slider.setAttribute("aria-valuetext", next === null ? UNSET : withUnit(next, control.unit));
    show(beyond, next === "inf" || (isNumber && isBeyond(control, value)));
    field.value = next ?? "";
  };
  return { element: h("div", { class: "body" }, slider, beyond, field, unit), put, focus: () => slider.focus() };
}

/** A select, or a field with a list where there are many. */
function choice(control, id, enter) {
  if (control.choices.length >= SEARCHABLE) return searched(control, id, enter);
  const unset = control.value === null ? h("option", { value: "" }, UNSET) : null;
  const select = h("select", { id, "aria-describedby": `${id}-help`, onchange: () => enter(select.value) }, unset,
    control.choices.map((one) => h("option", { value: one.value }, one.name)));
  const put = (text) => {
    if (unset) unset.disabled = text !== null;
    select.value = text ?? "";
  };
  return { element: h("div", { class: "body" }, select), put, focus: () => select.focus() };
}

function searched(control, id, enter) {
  const list = h("datalist", { id: `${id}-list` }, control.choices.map((one) => h("option", { value: one.name })));
  const field = h("input", { type: "text", id, list: list.id, autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-help`, placeholder: "type to search" });
  let now = "";
  field.addEventListener("focus", () => field.select());
  field.addEventListener("change", () => {
    const typed = field.value.trim();
    if (typed === "" || typed === now) {
      field.value = now;
      return;
    }
    const lower = typed.toLowerCase();
    const exact = control.choices.find((one) => [one.name, one.value].some((word) => word.toLowerCase() === lower));
    const like = control.choices.filter((one) => `${one.name} ${one.value}`.toLowerCase().includes(lower));
    const found = exact ?? (like.length === 1 ? like[0] : null);
    enter(found ? found.value : typed);
  });
  const put = (text) => {
    now = text === null ? "" : nameOf(control, text);
    field.value = now;
  };
  return { element: h("div", { class: "body" }, field, list), put, focus: () => field.focus() };
}

function toggle(control, id, enter) {
  const box = h("input", { type: "checkbox", role: "switch", id, "aria-describedby": `${id}-help`, onchange: () => enter(String(box.checked)) });
  const word = h("span", { class: "unit" });
  const put = (text) => {
    box.checked = text === "true";
    box.indeterminate = text === null;
    say(word, text === null ? "" : text === "true" ? "on" : "off");
  };
  return { element: h("div", { class: "body" }, box, word), put, focus: () => box.focus() };
}
