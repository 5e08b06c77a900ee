// Questions to the server: one at a time, the newest wins, an old one is given up.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Asker } from "../../src/cli/page/web/server.js";

/** A server that answers after so many milliseconds; what was asked and how it went is kept. */
function serve(delay, respond = (body) => [200, JSON.stringify({ heard: body })]) {
  const log = { asked: [], aborted: [], most: 0 };
  let open = 0;
  globalThis.fetch = (_, { body, signal }) => new Promise((resolve, reject) => {
    log.asked.push(JSON.parse(body));
    log.most = Math.max(log.most, ++open);
    const done = (act, value) => { open -= 1; act(value); };
    const timer = setTimeout(() => {
      const [status, text] = respond(JSON.parse(body));
      done(status === 0 ? reject : resolve, status === 0 ? new TypeError("no server") : { ok: status === 200, status, text: async () => text });
    }, delay);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      log.aborted.push(JSON.parse(body));
      done(reject, Object.assign(new Error("given up"), { name: "AbortError" }));
    });
  });
  return log;
}

function listen() {
  const heard = { answers: [], problems: [], gone: 0, busy: [] };
  const ears = { answer: (a) => heard.answers.push(a.heard), problems: (p) => heard.problems.push(p), gone: () => { heard.gone += 1; }, busy: (b) => heard.busy.push(b) };
  return [heard, ears];
}

test("of what waits only the newest is asked, one at a time", async () => {
  const log = serve(20);
  const [heard, ears] = listen();
  const asker = new Asker("/api/run", false, ears);
  for (const number of [1, 2, 3, 4]) asker.ask({ number });
  await pause(120);
  assert.deepEqual(log.asked, [{ number: 1 }, { number: 4 }]);
  assert.deepEqual(heard.answers, [{ number: 1 }, { number: 4 }], "a slider that moves all the time sees answers");
  assert.deepEqual([log.most, log.aborted.length, heard.busy[heard.busy.length - 1]], [1, 0, false]);
});

test("what takes too long is given up for a newer question", async () => {
  const log = serve(900);
  const [heard, ears] = listen();
  const asker = new Asker("/api/run", false, ears);
  asker.ask({ number: 1 });
  asker.ask({ number: 2 });
  await pause(500);
  assert.deepEqual(log.aborted, [{ number: 1 }]);
  assert.deepEqual(log.asked, [{ number: 1 }, { number: 2 }]);
  await pause(900);
  assert.deepEqual(heard.answers, [{ number: 2 }]);
});

test("without a newer question it may take its time", async () => {
  const log = serve(450);
  const [heard, ears] = listen();
  new Asker("/api/run", false, ears).ask({ number: 1 });
  await pause(600);
  assert.deepEqual([log.aborted.length, heard.answers.length], [0, 1]);
});

test("an eager asker gives up at once, and stop gives up all", async () => {
  const log = serve(50);
  const [heard, ears] = listen();
  const asker = new Asker("/api/knee", true, ears);
  asker.ask({ number: 1 });
  asker.ask({ number: 2 });
  await pause(10);
  assert.deepEqual(log.aborted, [{ number: 1 }]);
  asker.ask({ number: 3 });
  asker.stop();
  await pause(120);
  assert.deepEqual(heard.answers, []);
  assert.deepEqual([heard.problems.length, heard.gone], [0, 0], "who gave up is not told of an error");
});

test("problems, answers that are none, and a server that is gone are told apart", async () => {
  const [heard, ears] = listen();
  const asker = new Asker("/api/run", false, ears);
  serve(1, () => [422, JSON.stringify({ problems: [{ message: "no", help: [] }] })]);
  asker.ask({});
  await pause(20);
  assert.equal(heard.problems[0].problems[0].message, "no");
  serve(1, () => [500, "<html>"]);
  asker.ask({});
  await pause(20);
  assert.match(heard.problems[1].problems[0].message, /answered 500 and not as agreed: <html>/);
  serve(1, () => [0]);
  asker.ask({});
  await pause(20);
  assert.deepEqual([heard.gone, heard.busy[heard.busy.length - 1]], [1, false]);
});
