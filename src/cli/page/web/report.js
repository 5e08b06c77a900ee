// What the page says that it shows; and a page that is a report: what stands on top of it, what it lists, and what it has no buttons for.

import { byId, say, show } from "./dom.js";
import { listed } from "./listed.js";
import { loadControl } from "./settings.js";

/** Makes the page one; `start` is what it begins with. */
export function dressAsReport({ groups, kept }) {
  document.documentElement.classList.add("report");
  document.documentElement.classList.toggle("has-axes", kept.hasAxes);
  document.querySelector("aside").setAttribute("aria-label", kept.hasAxes ? "Controls and settings" : "Settings");
  for (const id of ["save", "paper"]) show(byId(id), false);
  for (const id of ["turned", "groups", "pin", "copy-link"]) show(byId(id), kept.hasAxes);
  show(byId("curve-card"), kept.hasKnees);
  show(byId("what-ifs"), kept.explained !== null);
  show(byId("what-ifs-try"), false);
  byId("curve").classList.toggle("is-fixed", !loadControl(groups)?.isAxis);
  if (!loadControl(groups)?.isAxis) byId("curve").setAttribute("aria-label", "Points of the curve: arrow keys go through them");
  say(byId("report-made"), `A report of plimsoll ${kept.version}, made ${kept.made}; nothing in it is computed anew.`);
  show(byId("report"), true);
  if (kept.title) {
    say(byId("subject"), kept.title);
    show(byId("under-title"), true);
  }
  showSettings(groups, new Map());
  show(byId("settings"), true);
}

/** The settings as a list; those that can be turned stand in it on paper only. */
export function showSettings(groups, set) {
  const sections = listed(groups, set);
  if (groups[0]?.controls.some((control) => control.isAxis)) sections[0].classList.add("on-paper");
  byId("settings").replaceChildren(...sections);
}

/** What is simulated, as an answer or the begin says it; in a report, too, the command that computes it again. `kept`: null where it is none. */
export function showSubject(kept, { subject, command }) {
  if (kept && command) {
    say(byId("report-command"), command);
    say(byId("report-page"), command.replace(/^plimsoll run/, "plimsoll explore"));
  }
  const name = subject ?? kept?.subject;
  if (!name) return;
  say(byId(kept?.title ? "under-title" : "subject"), name);
  const title = `${kept?.title ?? name} · plimsoll${kept ? "" : " explore"}`;
  if (document.title !== title) document.title = title;
}
