// Wires the page: a change of a control asks the server, and answers go to verdict, figures, curve, film and predictions.

import { buildControls } from "./controls.js";
import { buildCurve } from "./curve.js";
import { byId, copy, h, say, show } from "./dom.js";
import { buildFigures, showFigures } from "./figures.js";
import { buildFilm } from "./film.js";
import { buildPredict } from "./predict.js";
import { curveOf } from "./reading.js";
import { Asker, start as askStart } from "./server.js";
import { changedFlags, controlsOf, fromHash, initialValues, kneeFlags, loadControl, toHash } from "./settings.js";
import { buildTheme } from "./theme.js";
import { buildVerdict, clearProblems, showCommand, showGone, showProblems, showVerdict } from "./verdict.js";

/** After so long without a change the film is asked for, and after so long the knee. */
const FILM_MS = 180;
const KNEE_MS = 600;
/** What takes longer than this is told to be under way. */
const SLOW_MS = 300;

/** Everything that changes. */
const state = { start: null, values: new Map(), answer: null, curve: null, kneeOf: null, kneeNote: null, pinned: null, isMoving: false };
const curves = new Map();
const view = {};
const timers = {};

async function main() {
  try {
    state.start = await askStart();
  } catch {
    showGone(true, "");
    return;
  }
  const { subject, version } = state.start;
  say(byId("subject"), subject);
  say(byId("version"), `plimsoll ${version}`);
  document.title = `${subject} · plimsoll explore`;
  state.values = initialValues(state.start);
  view.controls = buildControls(byId("groups"), state.start, changed);
  buildVerdict();
  buildFigures();
  view.film = buildFilm();
  view.curve = buildCurve(setLoad);
  view.predict = buildPredict(settingInWords, () => {});
  buildTheme(() => { view.film.recolour(); view.curve.redraw(); });
  view.run = new Asker("/api/run", false, { answer: heardRun, problems: heardProblems, gone, busy: busy("run") });
  view.knee = new Asker("/api/knee", true, { answer: heardKnee, problems: heardKneeProblems, gone, busy: busy("knee") });
  byId("reset-all").addEventListener("click", () => settle(initialValues(state.start)));
  byId("pin").addEventListener("click", pin);
  byId("copy-link").addEventListener("click", () => copy(byId("copy-link"), location.href));
  byId("again").addEventListener("click", ask);
  addEventListener("hashchange", () => readHash());
  readHash();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) view.film.play();
}

/** A control was changed by the user. */
function changed(flag, text) {
  state.values.set(flag, text);
  moved();
}

/** The address and the questions follow the values. The first of a row of changes is a new entry of the history, so that Back goes to where it rested. */
function moved() {
  const hash = toHash(flags());
  const address = hash ? `#${hash}` : location.pathname;
  if (state.isMoving) history.replaceState(null, "", address);
  else if (`#${hash}` !== location.hash) history.pushState(null, "", address);
  state.isMoving = true;
  show(byId("ignored"), false);
  view.predict.moved();
  ask();
}

function flags() {
  return changedFlags(state.start, state.values);
}

/** Puts all controls to these values, as one change. */
function settle(values) {
  state.isMoving = false;
  put(values);
  moved();
}

function put(values) {
  state.values = values;
  for (const [flag, text] of values) view.controls.set(flag, text);
}

/** The address says the values; what of it cannot be read is named. */
function readHash() {
  const { values, ignored } = fromHash(state.start, location.hash);
  put(values);
  byId("ignored-list").replaceChildren(...ignored.map((one) => h("li", {}, one)));
  show(byId("ignored"), ignored.length > 0);
  state.isMoving = false;
  view.predict.moved();
  ask();
}

/** Asks for the run now, for its film and for the knee when the controls have come to rest. */
function ask() {
  const number = Object.keys(flags()).length;
  say(byId("changes"), number ? `${number} changed` : "as the scenario has it");
  byId("reset-all").disabled = number === 0;
  view.run.ask({ flags: flags(), film: false });
  showCurve();
  clearTimeout(timers.film);
  clearTimeout(timers.knee);
  timers.film = setTimeout(() => view.run.ask({ flags: flags(), film: true }), FILM_MS);
  const key = kneeKey();
  if (key !== state.kneeOf) {
    view.knee.stop();
    const known = curves.get(key);
    if (known) heardKnee(known, { flags: kneeFlags(flags()) });
    else timers.knee = setTimeout(() => view.knee.ask({ flags: kneeFlags(flags()) }), KNEE_MS);
  }
  clearTimeout(timers.rest);
  timers.rest = setTimeout(() => { state.isMoving = false; }, KNEE_MS);
}

function kneeKey() {
  return JSON.stringify(kneeFlags(flags()));
}

function heardRun(answer, body) {
  showGone(false);
  clearProblems();
  state.answer = answer;
  if (body.film) view.film.load(answer.film);
  showVerdict(answer);
  refresh();
}

function heardProblems(answer) {
  showGone(false);
  showProblems(answer);
}

function heardKnee(answer, body) {
  const key = JSON.stringify(body.flags);
  curves.set(key, answer);
  Object.assign(state, { curve: curveOf(answer.knee), kneeOf: key, kneeNote: null });
  refresh();
}

function heardKneeProblems(answer, body) {
  const problem = answer.problems?.[0]?.message ?? "no reason given";
  Object.assign(state, { curve: null, kneeOf: JSON.stringify(body.flags), kneeNote: `no knee: ${problem}` });
  refresh();
}

function gone() {
  clearTimeout(timers.film);
  clearTimeout(timers.knee);
  showGone(true, state.start.base);
}

/** The curve belongs to the controls as they are, but for the load. */
function isCurveOurs() {
  return state.kneeOf === kneeKey();
}

function refresh() {
  if (!state.answer) return;
  const curve = isCurveOurs() ? state.curve : null;
  showFigures(state.answer, curve, state.pinned);
  showCurve();
  view.predict.heard(state.answer, curve);
}

function showCurve() {
  const control = loadControl(state.start);
  const text = control ? state.values.get(control.flag) : null;
  const load = text === null || text === undefined || !Number.isFinite(Number(text)) ? null : Number(text);
  const isOurs = isCurveOurs();
  view.curve.show({
    curve: state.curve, pinned: state.pinned, answer: state.answer, load, unit: control?.unit || control?.name.toLowerCase(),
    isStale: !isOurs, note: isOurs ? state.kneeNote : "searching for the knee …",
  });
}

/** A click on the curve sets the load that it is drawn over. */
function setLoad(rate) {
  const control = loadControl(state.start);
  if (!control) return;
  const text = String(control.whole ? Math.max(Math.round(rate), 1) : Number(rate.toPrecision(3)));
  view.controls.set(control.flag, text);
  changed(control.flag, text);
}

/** Keeps the answer beside those to come, or lets it go. */
function pin() {
  state.pinned = state.pinned || !state.answer ? null : { answer: state.answer, curve: isCurveOurs() ? state.curve : null, words: settingInWords() };
  byId("pin").setAttribute("aria-pressed", String(Boolean(state.pinned)));
  show(byId("pinned"), Boolean(state.pinned));
  if (state.pinned) say(byId("pinned-words"), state.pinned.words);
  refresh();
}

/** The changed controls in words. */
function settingInWords() {
  const changes = flags();
  const load = loadControl(state.start);
  const words = controlsOf(state.start).filter((control) => control.flag in changes || control === load)
    .flatMap((control) => {
      const text = state.values.get(control.flag);
      return text === null ? [] : [control.unit ? `${control.name} ${text} ${control.unit}` : `${control.name} ${text}`];
    });
  return words.join(", ") || "as the scenario has it";
}

/** Says that something is under way where it takes long. */
function busy(kind) {
  const words = { run: "simulating …", knee: "searching for the knee …" };
  return (isBusy) => {
    clearTimeout(timers[`${kind} busy`]);
    const element = byId(`busy-${kind}`);
    if (isBusy) timers[`${kind} busy`] = setTimeout(() => say(element, words[kind]), SLOW_MS);
    else say(element, "");
  };
}

main();
