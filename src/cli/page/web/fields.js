// The fields that controls are made of: a slider with a number field, a slider of few stops, a select, a field with a list to search, a switch.
// Each is {element, put(control, text, words), focus()}; `enter(text)` is told of what the user gives.

import { h, say, show } from "./dom.js";
import { withUnit } from "./format.js";
import { isSame } from "./settings.js";
import { POSITIONS, isBeyond, nudged, position, valueAt } from "./scale.js";

/** A slider and a field for one number. Arrow keys change it by a hundredth, Page Up and Page Down by a tenth. */
export function numberField(first, id, enter) {
  let [control, text] = [first, null];
  const slider = h("input", { type: "range", id, min: 0, max: POSITIONS, step: 1, "aria-describedby": `${id}-help` });
  const field = h("input", {
    type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", size: 7, placeholder: "–",
    "aria-label": `${control.name}${control.unit && ` in ${control.unit}`}`,
  });
  const beyond = h("span", { class: "beyond", hidden: true, title: "beyond the slider" });
  const here = () => (text === null ? null : Number(text));
  slider.addEventListener("input", () => {
    const next = valueAt(control, Number(slider.value));
    if (next !== here()) enter(String(next));
  });
  slider.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
    if (!steps) return;
    event.preventDefault();
    const from = here() ?? valueAt(control, Number(slider.value));
    const next = nudged(control, from, Math.sign(steps), Math.abs(steps));
    if (next !== from) enter(String(next));
  });
  field.addEventListener("change", () => {
    if (field.value.trim() !== (text ?? "")) enter(field.value.trim());
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.value = text ?? "";
  });
  const put = (next, now, words) => {
    [control, text] = [next, now];
    const value = now === "inf" ? Infinity : here();
    const at = value === null ? POSITIONS / 2 : value === Infinity ? POSITIONS : position(control, value);
    // Under the user's hand it stays where the hand is.
    const isHeld = document.activeElement === slider && valueAt(control, Number(slider.value)) === value;
    if (!isHeld) slider.value = at;
    slider.style.setProperty("--at", `${(100 * Number(slider.value)) / POSITIONS}%`);
    slider.setAttribute("aria-valuetext", words);
    show(beyond, value !== null && isBeyond(control, value));
    say(beyond, value !== null && value < control.low ? "⇤" : "⇥");
    field.value = now ?? "";
  };
  const unit = control.unit ? h("span", { class: "unit" }, control.unit) : null;
  return { element: h("div", { class: "body" }, slider, beyond, field, unit), put, focus: () => slider.focus() };
}

/** So many stops can be named under a slider. */
const NAMED_STOPS = 8;

/** A slider that knows the values that were simulated and no others, and the value beside it. */
export function stopsField(first, id, enter) {
  let values = first.values;
  const last = values.length - 1;
  const slider = h("input", { type: "range", id, min: 0, max: last, step: 1, "aria-describedby": `${id}-help` });
  slider.addEventListener("input", () => enter(values[Number(slider.value)]));
  const shown = h("output", { class: "stop", for: id });
  const ticks = h("div", { class: "ticks", "aria-hidden": "true" }, values.map((value, i) => {
    const isNamed = values.length <= NAMED_STOPS || i === 0 || i === last;
    const tick = h("span", {}, isNamed ? value : "");
    tick.style.left = `${last ? (100 * i) / last : 0}%`;
    return tick;
  }));
  const put = (next, now, words) => {
    values = next.values;
    const at = Math.max(values.findIndex((value) => isSame(value, now)), 0);
    slider.value = at;
    slider.style.setProperty("--at", `${last ? (100 * at) / last : 0}%`);
    slider.setAttribute("aria-valuetext", words);
    say(shown, now === null ? "–" : withUnit(values[at], next.unit));
  };
  return { element: h("div", { class: "body" }, h("div", { class: "stops-body" }, slider, ticks), shown), put, focus: () => slider.focus() };
}

/** A select. */
export function choiceField(first, id, enter) {
  const select = h("select", { id, "aria-describedby": `${id}-help`, onchange: () => enter(select.value) });
  let listed = null;
  const put = (control, now, words) => {
    const key = JSON.stringify([control.choices, now === null]);
    if (key !== listed) {
      listed = key;
      select.replaceChildren(...(now === null ? [h("option", { value: "" }, words)] : []), ...control.choices.map((one) => h("option", { value: one.value }, one.name)));
    }
    select.value = now ?? "";
  };
  return { element: h("div", { class: "body" }, select), put, focus: () => select.focus() };
}

/** A field with a list to search; what is like one choice only is that choice, and other text is the server's to judge. */
export function searchField(first, id, enter) {
  let [control, now] = [first, ""];
  const list = h("datalist", { id: `${id}-list` });
  const field = h("input", { type: "text", id, list: list.id, autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-help`, placeholder: "type to search" });
  field.addEventListener("focus", () => field.select());
  field.addEventListener("change", () => {
    const typed = field.value.trim();
    if (typed === "" || typed === now) field.value = now;
    else enter(match(control.choices, typed));
  });
  let listed = -1;
  const put = (next, text) => {
    control = next;
    if (listed !== control.choices.length) {
      listed = control.choices.length;
      list.replaceChildren(...control.choices.map((one) => h("option", { value: one.name })));
    }
    now = text === null ? "" : control.choices.find((one) => one.value === text)?.name ?? text;
    field.value = now;
  };
  return { element: h("div", { class: "body" }, field, list), put, focus: () => field.focus() };
}

/** The value of the choice that a text names, or the text. */
function match(choices, typed) {
  const lower = typed.toLowerCase();
  const exact = choices.find((one) => [one.name, one.value].some((word) => word.toLowerCase() === lower));
  const like = choices.filter((one) => `${one.name} ${one.value}`.toLowerCase().includes(lower));
  return (exact ?? (like.length === 1 ? like[0] : null))?.value ?? typed;
}

/** A switch. */
export function switchField(first, id, enter) {
  const box = h("input", { type: "checkbox", role: "switch", id, "aria-describedby": `${id}-help`, onchange: () => enter(String(box.checked)) });
  const word = h("span", { class: "unit" });
  const put = (control, now) => {
    box.checked = now === "true";
    box.indeterminate = now === null;
    say(word, now === null ? "" : now === "true" ? "on" : "off");
  };
  return { element: h("div", { class: "body" }, box, word), put, focus: () => box.focus() };
}
