// What the page says of itself: what of the address or the controls it did not take, and that a run takes long.

import { byId, h, say, show } from "./dom.js";

/** What takes longer than this is told to be under way. */
const SLOW_MS = 300;

/** Names what is not taken. */
export function tell(lines) {
  byId("ignored-list").replaceChildren(...lines.map((line) => h("li", {}, line)));
  show(byId("ignored"), lines.length > 0);
}

/** What is named now. */
export function told() {
  return [...byId("ignored-list").children].map((item) => item.textContent);
}

let timer = null;

/** Says that a run is under way where no answer has come for long, and pales the ones before. */
export function busy(isBusy) {
  if (isBusy) {
    timer ??= setTimeout(() => tellBusy(true), SLOW_MS);
    return;
  }
  clearTimeout(timer);
  timer = null;
  tellBusy(false);
}

function tellBusy(isBusy) {
  say(byId("busy"), isBusy ? "simulating …" : "");
  document.body.classList.toggle("waiting", isBusy);
}
