// Wires the page: a change of a control asks the server, or a report what it keeps, and answers go to verdict, figures, bars, curve, film and predictions.

import { go } from "./address.js";
import { buildAnatomy } from "./anatomy.js";
import { buildControls } from "./controls.js";
import { buildCurve } from "./curve.js";
import { byId, copy, say, show } from "./dom.js";
import { buildFigures, showFigures } from "./figures.js";
import { buildFilm } from "./film.js";
import { busy, tell, told } from "./notices.js";
import { buildOffer } from "./offer.js";
import { buildPredict } from "./predict.js";
import { curveOf } from "./reading.js";
import { dressAsReport, showSettings, showSubject } from "./report.js";
import { buildPaper } from "./save.js";
import { Asker, keptPlace, start as askStart } from "./server.js";
import { dropped, flagsOf, fromHash, inWords, kneeFlags, loadAt, loadControl, ownText, settled, turnable } from "./settings.js";
import { buildTheme } from "./theme.js";
import { buildVerdict, clearProblems, showGone, showProblems, showUnreadable, showVerdict } from "./verdict.js";
import { buildWhatIfs } from "./what-ifs.js";

/** After so long without a change the film is asked for, and after so long the knee. */
const FILM_MS = 180;
const KNEE_MS = 600;

/** Everything that changes. */
const state = {
  base: "", version: "", kept: null, groups: [], set: new Map(), unknown: new Map(),
  last: null, probe: null,
  answer: null, answerOf: "", answerWords: "", answerLoad: null, curve: null, kneeOf: null, kneeNote: null, isSloMissing: false, answeredAt: null, pinned: null, isMoving: false,
};
const curves = new Map();
const view = {};
const timers = {};

async function main() {
  let start;
  try {
    start = await askStart();
  } catch (error) {
    if (keptPlace()) throw showUnreadable(error);
    showGone(true, "");
    byId("again").addEventListener("click", () => location.reload());
    return;
  }
  Object.assign(state, { base: start.base, version: start.version, groups: start.groups, kept: start.kept ?? null });
  say(byId("version"), `plimsoll ${start.version}`);
  if (state.kept) dressAsReport(start);
  showSubject(state.kept, start);
  view.controls = buildControls(byId("groups"), changed);
  buildVerdict();
  buildFigures();
  view.anatomy = buildAnatomy();
  view.film = buildFilm();
  view.curve = buildCurve(setLoad);
  view.predict = buildPredict(() => inWords(state.groups, flags()));
  view.offer = buildOffer(changed);
  view.whatIfs = buildWhatIfs({ asks: flags, groups: () => state.groups, set: state.kept ? null : changedTo, gone });
  if (state.kept?.explained) view.whatIfs.put(state.kept.explained);
  buildPaper(() => ({ ...state, words: state.answerWords, draw: (isPaper) => { view.film.draw(isPaper); view.curve.redraw(); } }));
  buildTheme(() => { view.film.recolour(); view.curve.redraw(); });
  view.run = new Asker("/api/run", false, { answer: heardRun, problems: heardProblems, gone, busy });
  view.knee = new Asker("/api/knee", true, { answer: heardKnee, problems: heardKneeProblems, gone, busy: () => {} });
  byId("reset-all").addEventListener("click", () => { state.isMoving = false; state.set.clear(); moved(); });
  byId("pin").addEventListener("click", pin);
  byId("copy-link").addEventListener("click", () => copy(byId("copy-link"), location.href));
  byId("copy-knee").addEventListener("click", () => copy(byId("copy-knee"), byId("knee-command").textContent));
  byId("again").addEventListener("click", ask);
  byId("skip").addEventListener("click", (event) => {
    // The address is the controls': it must not follow the link.
    event.preventDefault();
    byId("answers").focus();
  });
  addEventListener("hashchange", readHash);
  readHash();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) view.film.play();
}

/** The user set a control, or put it back (null). */
function changed(flag, text) {
  changedTo([[flag, text]]);
}

/** The same of several at once. */
function changedTo(pairs) {
  for (const [flag, text] of pairs) {
    if (text === null) state.set.delete(flag);
    else state.set.set(flag, text);
    state.last = flag;
  }
  moved();
}

/** The address and the questions follow. The first of a row of changes is a new entry of the history, so that Back goes to where it rested. */
function moved() {
  go(flags(), !state.isMoving);
  state.isMoving = true;
  state.unknown.clear();
  tell([]);
  view.predict.moved();
  ask();
}

function flags() {
  return flagsOf(state.groups, state.set);
}

/** The address says what is set; what of it cannot be read is named. */
function readHash() {
  const { set, unknown, ignored } = fromHash(state.groups, location.hash);
  Object.assign(state, { set, unknown, isMoving: false });
  // A report's controls are what they are; the answer of a server tells what else there is.
  tell(state.kept ? [...ignored, ...settled(state.groups, unknown).ignored] : ignored);
  view.predict.moved();
  ask();
}

/** Asks for the run now, for its film and for the knee when the controls have come to rest. */
function ask() {
  const number = state.set.size;
  say(byId("changes"), number ? `${number} changed` : state.kept ? "as the report begins" : "as the scenario has it");
  showControls();
  byId("reset-all").disabled = number === 0;
  view.whatIfs.moved();
  // The figures are those of other settings until the answer comes.
  byId("save").disabled = true;
  view.run.ask({ flags: flags(), film: Boolean(state.kept) });
  showCurve();
  clearTimeout(timers.film);
  clearTimeout(timers.knee);
  if (!state.kept) timers.film = setTimeout(() => view.run.ask({ flags: flags(), film: true }), FILM_MS);
  const key = kneeKey();
  if (key !== state.kneeOf) {
    view.knee.stop();
    const known = curves.get(key);
    if (known) heardKnee(known, { flags: kneeFlags(state.groups, flags()) });
    else if (!state.kept || state.kept.hasKnees) timers.knee = setTimeout(() => view.knee.ask({ flags: kneeFlags(state.groups, flags()) }), state.kept ? 0 : KNEE_MS);
  }
  clearTimeout(timers.rest);
  timers.rest = setTimeout(() => { state.isMoving = false; }, KNEE_MS);
}

function showControls() {
  view.controls.show(turnable(state.groups), state.set);
  if (state.kept) showSettings(state.groups, state.set);
}

function kneeKey() {
  return JSON.stringify(kneeFlags(state.groups, flags()));
}

function heardRun(answer, body) {
  busy(false);
  showGone(false);
  if (body === state.probe?.body) {
    heardProbe(answer);
    return;
  }
  clearProblems();
  byId("save").disabled = false;
  if (answer.groups) heardGroups(answer.groups, body.flags);
  showSubject(state.kept, answer);
  Object.assign(state, { answer, answerOf: JSON.stringify(body.flags), answerWords: inWords(state.groups, body.flags), answerLoad: loadOf(body.flags), answeredAt: new Date() });
  if (state.kept) show(byId("film"), Boolean(answer.film));
  if (body.film) {
    view.film.load(answer.film);
    view.anatomy.show(answer, state.groups);
  } else view.anatomy.pale();
  showVerdict(answer);
  // Spoken when the controls are at rest, not while a slider moves.
  if (body.film && !view.predict.isHiding()) say(byId("live"), answer.said.split("\n")[0]);
  refresh();
}

/** The controls as they are with these flags: other defaults, perhaps other controls. What there is no control for any more is let go, and named. */
function heardGroups(groups, asked) {
  state.groups = groups;
  const gone = dropped(groups, asked).filter((flag) => state.set.has(flag));
  for (const flag of gone) {
    tell([...told(), `${flag}=${state.set.get(flag)}: let go, there is no such control with these settings`]);
    state.set.delete(flag);
  }
  const { set, ignored } = settled(groups, state.unknown);
  state.unknown.clear();
  if (ignored.length > 0) tell([...told(), ...ignored]);
  for (const [flag, text] of set) state.set.set(flag, text);
  if (gone.length > 0) go(flags(), false);
  if (gone.length + set.size > 0) ask();
  else showControls();
}

function heardProblems(answer, body) {
  busy(false);
  showGone(false);
  // The figures are those of other settings now.
  byId("save").disabled = true;
  const { last, probe } = state;
  const isProbe = body === probe?.body;
  showProblems(isProbe ? probe.answer : answer);
  showSubject(state.kept, answer);
  // Another engine or model may not know what was set for the one before: its controls tell, asked for without the rest.
  state.last = null;
  state.probe = null;
  if (state.kept || isProbe || !(last in body.flags) || Object.keys(body.flags).length === 1) return;
  state.probe = { answer, body: { flags: { [last]: body.flags[last] }, film: false } };
  clearTimeout(timers.film);
  view.run.ask(state.probe.body);
}

/** The controls with the last change alone: what they do not have is let go, and if that is nothing the problem stands. */
function heardProbe(answer) {
  state.probe = null;
  if (answer.groups && dropped(answer.groups, flags()).length > 0) heardGroups(answer.groups, flags());
}

function heardKnee(answer, body) {
  const key = JSON.stringify(body.flags);
  curves.set(key, answer);
  Object.assign(state, { curve: curveOf(answer.knee, answer.said), kneeOf: key, kneeNote: null, isSloMissing: false });
  say(byId("knee-command"), answer.command);
  say(byId("knee-said"), answer.said);
  refresh();
}

function heardKneeProblems(answer, body) {
  const problem = answer.problems?.[0]?.message ?? "no reason given";
  say(byId("knee-command"), answer.command ?? "");
  say(byId("knee-said"), "");
  const isSloMissing = problem.startsWith("no SLO is given");
  Object.assign(state, { curve: null, kneeOf: JSON.stringify(body.flags), kneeNote: isSloMissing ? "no knee without an SLO" : `no knee: ${problem}`, isSloMissing });
  refresh();
}

function gone() {
  clearTimeout(timers.film);
  clearTimeout(timers.knee);
  showGone(true, state.base);
  byId("save").disabled = true;
}

/** The curve belongs to the controls as they are, but for the load. */
function isCurveOurs() {
  return state.kneeOf === kneeKey();
}

function refresh() {
  if (!state.answer) {
    showCurve();
    return;
  }
  const curve = isCurveOurs() ? state.curve : null;
  showFigures(state.answer, curve, state.pinned);
  showCurve();
  // An answer to other settings is none to what was predicted.
  if (state.answerOf === JSON.stringify(flags())) view.predict.heard(state.answer, curve);
}

function showCurve() {
  const control = loadControl(state.groups);
  const load = loadOf(flags());
  const isOurs = isCurveOurs();
  if (!state.kept) view.offer.show(state.groups, state.set, isOurs && state.isSloMissing, state.answer?.result);
  view.curve.show({
    curve: state.curve, pinned: state.pinned, answer: state.answer, answerLoad: state.answerLoad, load, unit: control?.unit || control?.name.toLowerCase(),
    goesTo: (rate) => loadAt(control, rate), isStale: !isOurs, note: isOurs ? state.kneeNote : state.curve ? "searching for the knee … (pale: before the change)" : "searching for the knee …",
  });
}

/** The load with such flags; null where it has no number. */
function loadOf(flags) {
  const control = loadControl(state.groups);
  const text = control ? flags[control.flag] ?? ownText(control) : null;
  return text === null || !Number.isFinite(Number(text)) ? null : Number(text);
}

/** A click on the curve sets the load that it is drawn over. */
function setLoad(rate) {
  const control = loadControl(state.groups);
  const text = loadAt(control, rate);
  if (text !== null) changed(control.flag, text);
}

/** Keeps the answer beside those to come, or lets it go. */
function pin() {
  state.pinned = state.pinned || !state.answer ? null : { answer: state.answer, curve: isCurveOurs() ? state.curve : null, words: state.answerWords };
  byId("pin").setAttribute("aria-pressed", String(Boolean(state.pinned)));
  show(byId("pinned"), Boolean(state.pinned));
  if (state.pinned) say(byId("pinned-words"), state.pinned.words);
  refresh();
}

main();
