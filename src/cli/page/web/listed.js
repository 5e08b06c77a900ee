// Settings as a plain list: those of a page that is kept.

import { h } from "./dom.js";
import { withUnit } from "./format.js";
import { ownText } from "./settings.js";

/** A section for each group with the values of its controls; what the user changed stands out. */
export function listed(groups, set) {
  const item = (control) => {
    const text = set.get(control.flag) ?? ownText(control);
    if (text === null) return null;
    const name = control.choices?.find((choice) => choice.value === text)?.name ?? text;
    const value = withUnit(control.kind === "switch" ? { true: "on", false: "off" }[text] ?? text : name, control.unit);
    return h("div", { class: set.has(control.flag) ? "changed" : null }, h("dt", {}, control.name), h("dd", {}, value));
  };
  return groups.map((group) => ({ name: group.name, items: group.controls.map(item).filter(Boolean) })).filter(({ items }) => items.length > 0)
    .map(({ name, items }) => h("section", {}, h("h3", {}, name), h("dl", {}, items)));
}
