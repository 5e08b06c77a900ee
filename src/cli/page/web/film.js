// The player of the film: play, pause, speed, scrubbing, single steps, replicas; it asks stage and charts to draw the same instant.

import { byId, colours, em, h, say, sharp, show } from "./dom.js";
import { Film } from "./film-data.js";
import { LANES, drawLanes } from "./film-lanes.js";
import { timeAt, windowAt } from "./film-lines.js";
import { drawStage } from "./film-stage.js";
import { drawTime } from "./film-time.js";
import { captionOf, doneInWords, inWords } from "./film-words.js";
import { clock } from "./format.js";

const SPEEDS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000];
const SPANS = [[0.5, "0.5 s"], [2, "2 s"], [10, "10 s"], [Infinity, "all"]];
const SCRUB = 10000;
const ALL = "all";

/** Builds the player; returns {load(film), play(), recolour(), draw()}. */
export function buildFilm() {
  const at = { film: null, t: 0, replica: ALL, names: "", speed: 1, span: 10, isPlaying: false, last: null, isSeen: true, window: [0, 1], frame: 0 };
  const parts = {
    play: byId("film-play"), scrub: byId("film-scrub"), clock: byId("film-clock"), words: byId("film-words"),
    speed: byId("film-speed"), replica: byId("film-replica"), stage: byId("film-stage"), time: byId("film-time"), done: byId("film-done"),
  };
  let colour = colours();
  const kept = {};
  const reel = () => (at.replica === ALL ? null : at.film.reels[at.replica]);

  const draw = () => {
    at.frame = 0;
    if (!at.film) return;
    at.window = at.dragWindow ?? windowAt(at.film, at.t, at.span);
    if (reel()) drawStage(sharp(parts.stage), at.film, reel(), at.t, colour);
    else drawLanes(sharp(parts.stage), at.film, at.t, colour);
    drawTime(sharp(parts.time), at.film, reel(), at.t, at.window, colour, kept);
    parts.scrub.value = Math.round((SCRUB * at.t) / at.film.until);
    parts.scrub.setAttribute("aria-valuetext", clock(at.t));
    say(parts.clock, `${clock(at.t)} of ${at.film.until.toFixed(1)} s`);
    say(parts.words, inWords(at.film, reel(), at.t));
    say(parts.done, doneInWords(at.film, reel(), at.t));
    const { waits, stays } = reel()?.place ?? at.film.all;
    parts.stage.setAttribute("aria-label", `At ${clock(at.t)}: ${waits.at(at.t).length} waiting, ${stays.at(at.t).length} running; ${parts.words.textContent}`);
  };
  const redraw = () => { at.frame ||= requestAnimationFrame(draw); };
  const tick = (now) => {
    if (!at.isPlaying) return;
    if (at.last !== null && at.film && at.isSeen) at.t += ((now - at.last) / 1000) * at.speed;
    at.last = now;
    if (at.film && at.t >= at.film.until) {
      at.t = at.film.until;
      play(false);
    }
    if (at.isSeen) draw();
    if (at.isPlaying) requestAnimationFrame(tick);
  };
  const play = (isPlaying) => {
    if (isPlaying === at.isPlaying) return;
    if (isPlaying && at.film && at.t >= at.film.until - 1e-9) at.t = 0;
    Object.assign(at, { isPlaying, last: null });
    say(parts.play, isPlaying ? "❚❚" : "▶");
    parts.play.setAttribute("aria-label", isPlaying ? "Pause" : "Play");
    if (isPlaying) requestAnimationFrame(tick);
  };
  const go = (t) => {
    if (!at.film) return;
    at.t = Math.min(Math.max(t, 0), at.film.until);
    redraw();
  };
  const step = (direction) => {
    if (!at.film) return;
    play(false);
    const places = (reel() ? [reel()] : at.film.reels).map((one) => one.neighbour(at.t, direction)).filter((t) => direction * (t - at.t) > 0);
    // A little inside the step, so that rounding does not put it into the one before.
    if (places.length > 0) go((direction > 0 ? Math.min(...places) : Math.max(...places)) + 1e-9);
  };
  /** All replicas need more room than one, and other words. */
  const makeRoom = () => {
    const lanes = at.replica === ALL ? Math.min(at.film.reels.length, LANES) : 0;
    parts.stage.style.height = lanes ? `${1.7 + Math.max(lanes * (lanes > 8 ? 2.1 : 3.2), 11)}rem` : "";
    parts.time.style.height = lanes ? `${14 + Math.max(lanes * (lanes > 8 ? 2.2 : 4.5), 16)}rem` : "";
    say(byId("film-caption"), captionOf(at.film, at.replica === ALL));
    show(byId("film-cross"), at.film.crossings.items.length > 0);
    show(byId("film-return"), at.film.returns.items.length > 0);
  };
  wire(parts, at, { play, go, step, redraw, makeRoom });
  const observer = new IntersectionObserver(([entry]) => { at.isSeen = entry.isIntersecting; if (at.isSeen) redraw(); });
  observer.observe(byId("film"));
  new ResizeObserver(redraw).observe(byId("film"));
  const load = (told) => {
    at.film = told ? new Film(told) : null;
    show(byId("film-none"), !told);
    show(byId("film-body"), Boolean(told));
    if (!told) return;
    const names = told.replicas.map((replica) => replica.name).join();
    if (names !== at.names) Object.assign(at, { names, replica: told.replicas.length > 1 ? ALL : 0 });
    at.t = Math.min(at.t, at.film.until);
    showReplicas(parts.replica, told.replicas, at.replica);
    makeRoom();
    redraw();
  };
  return {
    load, redraw,
    play: () => play(true),
    recolour: () => { colour = colours(); redraw(); },
    /** Draws at once, in the colours of now. For paper a film that nobody has begun to watch is drawn at its middle: at its begin there is nothing. */
    draw: (isPaper = false) => {
      const { t } = at;
      if (isPaper && at.film && t < at.film.until / 50) at.t = at.film.until / 2;
      colour = colours();
      draw();
      at.t = t;
    },
  };
}

function showReplicas(select, replicas, chosen) {
  show(byId("film-replica-label"), replicas.length > 1);
  const names = replicas.map((replica) => replica.name);
  if (select.dataset.names !== names.join()) {
    select.dataset.names = names.join();
    select.replaceChildren(h("option", { value: ALL }, `all ${names.length} replicas`), ...names.map((name, index) => h("option", { value: index }, name)));
  }
  select.value = chosen;
}

function wire(parts, at, { play, go, step, redraw, makeRoom }) {
  parts.play.addEventListener("click", () => play(!at.isPlaying));
  byId("film-back").addEventListener("click", () => step(-1));
  byId("film-forward").addEventListener("click", () => step(1));
  parts.scrub.max = SCRUB;
  parts.scrub.addEventListener("input", () => at.film && go((Number(parts.scrub.value) / SCRUB) * at.film.until));
  parts.speed.append(...SPEEDS.map((speed) => h("option", { value: speed }, `${speed.toLocaleString("en")}×`)));
  parts.speed.value = at.speed;
  parts.speed.addEventListener("change", () => { at.speed = Number(parts.speed.value); });
  parts.replica.addEventListener("change", () => {
    at.replica = parts.replica.value === ALL ? ALL : Number(parts.replica.value);
    makeRoom();
    redraw();
  });
  for (const [span, name] of SPANS) {
    const button = h("button", { type: "button", "aria-pressed": String(span === at.span), onclick: () => {
      at.span = span;
      for (const other of byId("film-spans").children) other.setAttribute("aria-pressed", String(other === button));
      redraw();
    } }, name);
    byId("film-spans").append(button);
  }
  let isDragged = false;
  const drag = (event) => {
    const box = parts.time.getBoundingClientRect();
    go(timeAt((event.clientX - box.left) / em(), box.width / em(), at.dragWindow ?? at.window));
  };
  parts.time.addEventListener("pointerdown", (event) => {
    isDragged = true;
    at.dragWindow = at.window;
    parts.time.setPointerCapture(event.pointerId);
    drag(event);
  });
  parts.time.addEventListener("pointermove", (event) => { if (isDragged) drag(event); });
  for (const end of ["pointerup", "pointercancel"]) parts.time.addEventListener(end, () => { isDragged = false; at.dragWindow = null; });
  byId("film").addEventListener("keydown", (event) => {
    if (["INPUT", "SELECT", "BUTTON"].includes(event.target.tagName)) return;
    const act = { " ": () => play(!at.isPlaying), ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => go(0) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
