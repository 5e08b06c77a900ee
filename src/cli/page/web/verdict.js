// The verdict on top: what the run says first, its state in words and colour, trust, assumptions, problems, the command.

import { byId, copy, h, say, show } from "./dom.js";
import { signedPercent } from "./format.js";
import { firstLine, modelErrors, trustOf, verdictOf } from "./reading.js";

/** Wires the parts that have buttons. */
export function buildVerdict() {
  byId("copy-command").addEventListener("click", () => copy(byId("copy-command"), byId("command").textContent));
}

/** Shows an answer to `run`. */
export function showVerdict(answer) {
  const { word, slo, tone } = verdictOf(answer.result);
  const line = firstLine(answer.said);
  const card = byId("verdict");
  card.dataset.tone = tone;
  // The headline begins with the state's word in most cases; it is not said twice.
  const isSaid = line.head.toUpperCase().startsWith(word);
  say(byId("state"), [isSaid ? "" : word, slo].filter(Boolean).join(" · "));
  say(byId("headline"), line.head);
  say(byId("headline-rest"), line.rest);
  const chip = byId("chip");
  chip.dataset.tone = tone;
  say(chip, [line.head, slo].filter(Boolean).join(" · "));
  showReasons(answer.result.plimsoll);
  showTrust(answer.result);
  say(byId("assumed"), (answer.result.plimsoll.assumptions ?? []).join("  ·  "));
  showCommand(answer.command);
  say(byId("said"), answer.said ?? "");
  say(byId("why"), (answer.why ?? "").replace(/^\n+/, ""));
  show(byId("why"), Boolean(answer.why));
}

function showCommand(command) {
  if (command) say(byId("command"), command);
}

function showReasons(told) {
  const lines = [...(told.violations ?? []), ...(told.reasons ?? []), ...(told.notes ?? []).map((note) => `note: ${note}`), ...(told.ignored ?? []).map((one) => `no effect: ${one}`)];
  const list = byId("reasons");
  say(byId("reason"), lines[0] ?? "");
  if (list.dataset.text === lines.join("\n")) return;
  list.dataset.text = lines.join("\n");
  list.replaceChildren(...lines.map((line) => h("li", {}, line)));
}

function showTrust(result) {
  const trust = trustOf(result);
  say(byId("trust"), trust.map(({ mark, word, parts }) => `${mark} ${word}: ${parts.join(", ")}`).join("   "));
  say(byId("marks"), trust.map(({ mark, word }) => `${mark} ${word}`).join("   "));
  const errors = modelErrors(result).map(({ name, low, high }) => `${name} ${bound(low)} to ${bound(high)}`);
  say(byId("model-errors"), errors.length ? `model may be off by (90 %): ${errors.join(" · ")}` : "");
}

function bound(difference) {
  return difference === Infinity || difference > 9 ? "more than tenfold" : signedPercent(difference);
}

/** Shows what the server would not take; the last good answer stays, greyed. */
export function showProblems(answer) {
  const problems = answer.problems ?? [{ message: "the server gave no reason", help: [] }];
  byId("problems").replaceChildren(...problems.map((problem) => h("div", { class: "problem" },
    h("p", {}, h("strong", {}, "Not possible: "), quoted(problem.message)),
    (problem.help ?? []).map((help) => h("p", { class: "help" }, quoted(help))))));
  show(byId("problems"), true);
  document.body.classList.add("stale");
  const chip = byId("chip");
  chip.dataset.tone = "alert";
  say(chip, "not possible: see above the figures");
  showCommand(answer.command);
}

/** Shows that a report cannot be read, by this browser or at all; returns the error. */
export function showUnreadable(error) {
  const isOld = typeof DecompressionStream === "undefined";
  const help = isOld ? "this browser is too old: Chrome and Edge from 89, Firefox from 113 and Safari from 16.4 on can" : "the file is not whole: make it again, or ask who sent it";
  showProblems({ problems: [{ message: "the answers that are kept in this file cannot be read", help: [help] }] });
  return error;
}

/** A text with what stands between backticks as code. */
function quoted(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

export function clearProblems() {
  show(byId("problems"), false);
  document.body.classList.remove("stale");
}

/** Shows that the server has ended. */
export function showGone(isGone, base) {
  show(byId("gone"), isGone);
  document.body.classList.toggle("stale", isGone);
  if (!isGone) return;
  say(byId("gone-said"), "plimsoll explore has ended: start it again");
  say(byId("gone-command"), `plimsoll explore ${base}`.trim());
}
