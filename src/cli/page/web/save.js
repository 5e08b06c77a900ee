// What is seen now for paper: printed, or kept as one file without scripts that opens anywhere.

import { byId, h, say } from "./dom.js";
import { listed } from "./listed.js";
import { controlsOf, flagsOf } from "./settings.js";

/** Wires the button and the printing. `state()` is what the page knows, with `words` of the setting and `draw(isPaper)` to draw all at once. */
export function buildPaper(state) {
  byId("save").addEventListener("click", () => save(state()));
  let before = null;
  addEventListener("beforeprint", () => {
    const now = state();
    before = document.documentElement.dataset.theme ?? "";
    document.documentElement.dataset.theme = "light";
    now.draw(true);
    say(byId("paper"), `plimsoll explore ${now.version}, simulated ${instant(now.answeredAt)}: ${now.words}`);
  });
  addEventListener("afterprint", () => {
    setTheme(before);
    state().draw();
  });
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

async function save(state) {
  const sheets = [...document.querySelectorAll("link[rel=stylesheet]")].map((link) => link.href);
  const styles = await Promise.all(sheets.map(async (sheet) => (await fetch(sheet)).text()));
  const before = document.documentElement.dataset.theme ?? "";
  // Paper is white: pictures are drawn in light colours, whatever the screen has.
  document.documentElement.dataset.theme = "light";
  state.draw(true);
  const text = snapshot(state, styles.join("\n"));
  setTheme(before);
  state.draw();
  const address = URL.createObjectURL(new Blob([text], { type: "text/html" }));
  h("a", { href: address, download: fileName(state) }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** The page as it is, as a text: canvases as pictures, no scripts, no fields, what is set as a table. */
function snapshot(state, style) {
  const copy = document.documentElement.cloneNode(true);
  const find = (selector) => copy.querySelector(selector);
  copy.classList.add("snapshot");
  const isVeiled = find("body").classList.contains("veiled");
  const pictures = [...document.querySelectorAll("canvas")].map((canvas) => (canvas.offsetParent ? canvas.toDataURL() : null));
  [...copy.querySelectorAll("canvas")].forEach((canvas, i) => {
    if (pictures[i]) canvas.replaceWith(h("img", { id: canvas.id, src: pictures[i], alt: canvas.getAttribute("aria-label") ?? "" }));
  });
  find(".player")?.replaceWith(h("p", { class: "about" }, filmInstant()));
  // The answers of a question that is still asked do not go into what is handed out.
  if (isVeiled) for (const one of copy.querySelectorAll("#answers, #chip, #scores-fold")) one.remove();
  find("#predict-form .row")?.replaceWith(h("p", {}, "My prediction: ……………… ", byId("predict-unit").textContent));
  if (!isVeiled) find("#predict-form").remove();
  for (const one of copy.querySelectorAll("button.change")) one.replaceWith(one.textContent);
  find("aside").replaceWith(h("aside", { "aria-label": "Settings" }, listed(state.groups, state.set)));
  find("main").prepend(note(state));
  for (const one of copy.querySelectorAll("script, noscript, link[rel=stylesheet], .is-pale, #what-ifs:not(.has-answer), #report, button, .skip, #film-spans, .hidden-words:empty, #live, #paper, .busy, .tip, .stamp, .bars-frame > .hidden-words, [hidden]")) one.remove();
  for (const one of copy.querySelectorAll("[tabindex], [inert]")) ["tabindex", "inert"].forEach((name) => one.removeAttribute(name));
  for (const one of copy.querySelectorAll(".bars-frame")) ["role", "aria-label"].forEach((name) => one.removeAttribute(name));
  find("body").classList.remove("veiled", "waiting");
  find("title").textContent += `, ${instant(state.answeredAt)}`;
  find("head").append(h("style", {}, style));
  return `<!DOCTYPE html>\n${copy.outerHTML}\n`;
}

function filmInstant() {
  const replica = byId("film-replica");
  const place = byId("film-replica-label").hidden ? "" : `, ${replica.selectedOptions[0]?.textContent ?? ""}`;
  return `at ${byId("film-clock").textContent}${place}`;
}

function note(state) {
  return h("section", { class: "notice" }, h("p", {},
    `A snapshot of plimsoll explore ${state.version}, simulated ${instant(state.answeredAt)}: ${state.words}. Nothing in it changes; `,
    h("code", {}, byId("command").textContent), " computes it again, ", h("code", {}, `plimsoll explore ${state.base}`.trim()), " shows it with its controls."));
}

/** `2026-11-29 15:10`, by the clock on the wall. */
export function instant(date) {
  if (!date) return "not yet";
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** `plimsoll-quickstart-request-rate-12.html`: what was typed and what is set. */
export function fileName({ base, groups, set }) {
  const flags = Object.entries(flagsOf(groups, set)).map(([flag, text]) => `${flag}-${text}`);
  const words = [base || controlsOf(groups).find((control) => control.flag === "model")?.value || "", ...flags].join("-");
  const slug = words.replace(/[^A-Za-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 100);
  return `plimsoll-${slug || "explore"}.html`;
}
