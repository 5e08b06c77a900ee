// Asks the server, or what a report keeps in itself. At most one question of a kind is under way, and of those that wait only the newest is asked.

import { Kept, unpacked } from "./kept.js";

/** After so long a question under way is given up for a newer one. */
const PATIENCE_MS = 300;

/** Answers that the page keeps in itself; null: there is a server. */
let kept = null;

/** The element that holds a report's answers, or null. */
export function keptPlace() {
  return globalThis.document?.getElementById("kept") ?? null;
}

/** What the page begins with. */
export async function start() {
  const place = keptPlace();
  if (place) {
    kept = new Kept(await unpacked(place.textContent));
    return kept.start();
  }
  const answer = await fetch("/api/start");
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}

/**
 * One kind of question. `heard` has: `answer(answer, body)`, `problems(answer, body)`, `gone()`, `busy(isBusy)`.
 * An eager asker gives up what is under way at once; the other lets it end if that is soon, so that a slider that moves all the time sees answers.
 */
export class Asker {
  #path;
  #heard;
  #isEager;
  #running = null;
  #next = null;

  constructor(path, isEager, heard) {
    this.#path = path;
    this.#isEager = isEager;
    this.#heard = heard;
  }

  /** Asks, as soon as what is under way has ended. */
  ask(body) {
    if (!this.#running) {
      this.#send(body);
      return;
    }
    this.#next = body;
    const left = this.#isEager ? 0 : PATIENCE_MS - (performance.now() - this.#running.since);
    if (left <= 0) this.#running.abort.abort();
    else this.#running.timer ??= setTimeout(() => this.#next && this.#running?.abort.abort(), left);
  }

  /** Gives up what is under way and what waits. */
  stop() {
    this.#next = null;
    this.#running?.abort.abort();
  }

  async #send(body) {
    const running = { abort: new AbortController(), since: performance.now(), timer: null };
    this.#running = running;
    this.#heard.busy(true);
    let heard = null;
    try {
      heard = kept ? kept.answer(this.#path, body) : await posted(this.#path, body, running.abort.signal);
    } catch (error) {
      if (error.name !== "AbortError") {
        if (kept || !(error instanceof TypeError)) throw error;
        this.#next = null;
        this.#heard.gone();
      }
    } finally {
      clearTimeout(running.timer);
      this.#running = null;
      const next = this.#next;
      this.#next = null;
      if (next) this.#send(next);
      else this.#heard.busy(false);
    }
    // Out here: what goes wrong in showing an answer is no lost server.
    if (heard?.isAnswer) this.#heard.answer(heard.answer, body);
    else if (heard) this.#heard.problems(heard.answer, body);
  }
}

async function posted(path, body, signal) {
  const response = await fetch(path, { method: "POST", signal, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  return { isAnswer: response.ok, answer: await read(response) };
}

/** The JSON of a response; what is none is a problem that says so. */
async function read(response) {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return { problems: [{ message: `the server answered ${response.status} and not as agreed: ${text.slice(0, 200)}`, help: [] }] };
  }
}
