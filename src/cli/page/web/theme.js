// Light or dark: as the system has it, or as the user chooses for this visit.

import { byId, say } from "./dom.js";

const ORDER = ["auto", "light", "dark"];

/** Wires the button; `changed` is called whenever colours are others. */
export function buildTheme(changed) {
  const button = byId("theme");
  let now = "auto";
  button.addEventListener("click", () => {
    now = ORDER[(ORDER.indexOf(now) + 1) % ORDER.length];
    if (now === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = now;
    say(button, `theme: ${now}`);
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
