// What each change alone would do: asked for by a button, since it takes seconds, and no more than said to be old when the controls move.

import { byId, copy, h, say, show } from "./dom.js";
import { signedPercent } from "./format.js";
import { Asker } from "./server.js";
import { markOf, sentenceOf, settingsOf, tableOf } from "./what-if-rows.js";

/**
 * Builds the card. `asks()` are the flags to ask with, `groups()` the controls, `set(pairs)` puts a change on the page (null: it cannot), `gone()` is
 * told that there is no server. Returns {moved(), put(answer)}.
 */
export function buildWhatIfs({ asks, groups, set, gone }) {
  const [card, button, about] = [byId("what-ifs"), byId("what-ifs-try"), byId("what-ifs-about")];
  const at = { isAsking: false, hasAnswer: false, isOld: false, isSame: false, asked: null, of: null };
  const now = () => JSON.stringify(asks());
  const rest = () => {
    say(button, at.isAsking ? "Stop" : at.hasAnswer && !at.isOld ? "Try again" : "Try changes");
    card.classList.toggle("has-answer", at.hasAnswer);
    card.classList.toggle("is-pale", at.isOld);
    if (at.isAsking) say(about, "trying each change, with a search for its knee …");
    else if (at.isOld) say(about, "of the settings before the last change");
    else if (at.hasAnswer) say(about, `each change alone${at.isSame ? ", with the same requests" : ""}; latencies at this load`);
    else say(about, "each setting changed alone: what would help, and what would not");
  };
  const put = (answer) => {
    Object.assign(at, { hasAnswer: true, isOld: false, isSame: answer.explained.same_requests === true, of: now() });
    fill(answer, (flags) => (set ? settingsOf(flags, groups()) : null), set);
    rest();
  };
  const asker = new Asker("/api/explain", true, {
    answer: put,
    problems: (answer) => say(about, `not possible: ${answer.problems?.map(({ message }) => message).join("; ") ?? "no reason given"}`),
    gone,
    busy: (isAsking) => { at.isAsking = isAsking; rest(); },
  });
  const ask = () => {
    at.asked = now();
    asker.ask({ flags: asks() });
  };
  button.addEventListener("click", () => (at.isAsking ? asker.stop() : ask()));
  byId("copy-what-ifs").addEventListener("click", () => copy(byId("copy-what-ifs"), byId("what-ifs-command").textContent));
  rest();
  return {
    put,
    /** The controls may have moved: then what is under way is of other settings, and so is what is shown. */
    moved: () => {
      at.isOld = at.hasAnswer && at.of !== now();
      if (at.asked !== now()) asker.stop();
      rest();
    },
  };
}

function fill({ command, said, explained }, settings, set) {
  const { heads, rows } = tableOf(explained);
  const table = byId("what-ifs-table");
  table.tHead.replaceChildren(h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head))));
  table.tBodies[0].replaceChildren(...rows.map((row) => h("tr", {}, h("th", { scope: "row" }, changeName(row, settings(row.flags), set)), h("td", {}, row.gpus ?? "–"),
    row.cells.length ? row.cells.map(cellFor) : heads.slice(2).map(() => h("td", {}, "–")))));
  say(byId("what-ifs-said"), sentenceOf(said));
  byId("what-ifs-mark").replaceChildren(h("b", {}, "▲ ▼"), ` ${markOf(explained)}; unmarked: perhaps no difference`);
  const notes = [explained.at_the_knee && `at the knee: ${explained.at_the_knee}`, explained.no_knee && `no knees: ${explained.no_knee}`].filter(Boolean);
  byId("what-ifs-notes").replaceChildren(...notes.map((note) => h("p", { class: "about" }, note)));
  byId("left-out").replaceChildren(...explained.left_out.map(({ name, why }) => h("li", {}, h("b", {}, name), `: ${why}`)));
  say(byId("left-out-count"), `Left out: ${explained.left_out.length}`);
  show(byId("left-out-fold"), explained.left_out.length > 0);
  say(byId("what-ifs-command"), command);
  say(byId("what-ifs-printed"), said);
  show(byId("what-ifs-body"), true);
}

/** The change by its name; a button where its flags have controls. */
function changeName({ name, flags, kind }, pairs, set) {
  const words = kind === "number_format" ? h("small", {}, " answers may be others") : null;
  if (!pairs) return [h("span", { title: flags || null }, name), words];
  return [h("button", { type: "button", class: "change", title: `sets ${flags}`, onclick: () => set(pairs) }, name), words];
}

/** A figure, and where it differs by more than chance by how much and whether that is for the better. */
function cellFor({ text, note, title, change, isRescue, isGood }) {
  const isBeyond = change !== null || isRescue;
  const word = change !== null ? `${change > 0 ? "▲" : "▼"} ${signedPercent(change)}` : isRescue ? "▲ stable" : "";
  return h("td", { title: title || null, class: isBeyond ? `beyond-chance ${isGood ? "good" : "bad"}` : null },
    h("span", { class: "figure" }, text), note && h("small", {}, note), word && h("small", { class: "moved" }, word));
}
