// What the film shows, in words: its caption, and the instant under the cursor. Without DOM.

import { LANES } from "./film-lanes.js";
import { stepInWords } from "./film-steps.js";
import { counted, grouped, significant } from "./format.js";

/** The instant: the step of one replica, or how many are where in all of them. */
export function inWords(film, reel, t) {
  if (reel) return stepInWords(reel, t);
  const computing = film.reels.filter((one) => one.stepAt(t)?.isIdle === false).length;
  const crossing = film.crossings.at(t).length;
  const parts = [`${grouped(String(film.all.stays.at(t).length))} running`, `${grouped(String(film.all.waits.at(t).length))} waiting`];
  if (film.crossings.items.length > 0) parts.push(`${grouped(String(crossing))} with KV on its way`);
  if (film.returns.items.length > 0) parts.push(`${grouped(String(film.returns.at(t).length))} sent back`);
  return `${parts.join(", ")}; ${computing} of ${counted(film.reels.length, "replica")} in a step${film.reels.length > LANES ? `, the first ${LANES} are drawn` : ""}`;
}

/** How many requests are done with a place. */
export function doneInWords(film, reel, t) {
  const place = reel?.place ?? film.all;
  return `${grouped(String(place.endedBy(t)))} ${reel?.replica.role === "prefills" ? "prefilled" : "done"}`;
}

/** What the film is of; where it ends long before the run, what that means. `isAll`: of all replicas at once. */
export function captionOf(film, isAll = false) {
  const number = film.requests.arrival.length;
  const ended = film.all.endedBy(film.until);
  const first = `the first ${significant(film.until)} s of the simulated run, from an empty server on, ${counted(number, "request")}`;
  const scale = isAll ? "a square is a request" : "areas of squares as prompts, lengths of bars as roots of tokens";
  if (ended === 0) return `${first}: they come in so fast that it is over before anybody has the whole answer`;
  const [running, waiting] = [film.all.stays.at(film.until).length, film.all.waits.at(film.until).length];
  // A film holds so many requests, and no more: where many come at once it is over before most have left.
  if (running + waiting > number / 2) return `${first}, of which ${grouped(String(running))} run and ${grouped(String(waiting))} wait when it ends; ${scale}`;
  return `${first}; ${scale}`;
}
