// A report answers from what it keeps: the same questions, the same answers, no server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { Kept, unpacked } from "../../src/cli/page/web/kept.js";
import { fault, flagsOf, fromHash, inWords, loadAt, loadControl, turnable } from "../../src/cli/page/web/settings.js";

const axis = (flag, values, value) => ({ flag, name: flag, unit: flag === "request-rate" ? "req/s" : "", help: "", load: flag === "request-rate", values, value });
const run = (rate, seqs) => ({ flags: { "request-rate": rate, "max-num-seqs": seqs }, answer: { said: `${rate} ${seqs}` } });
const problem = { command: "plimsoll run x", problems: [{ message: "it does not fit", help: [] }] };

function report(changes = {}) {
  return {
    version: "0.1.0", made: "2026-11-29 17:20 UTC", title: null, explained: null,
    start: { version: "0.1.0", subject: "a model on a card", base: "quickstart", groups: [
      { name: "Engine", controls: [
        { flag: "gpu", name: "GPU", unit: "", kind: "choice", choices: [{ value: "h100", name: "H100" }], value: "h100" }] },
    ] },
    axes: [axis("request-rate", ["12", "4", "8"], "8"), axis("max-num-seqs", ["16", "64"], "16")],
    runs: [run("4", "16"), run("8", "16"), run("12", "16"), run("8", "64"), { flags: { "request-rate": "12", "max-num-seqs": "64" }, problem }],
    knees: [{ flags: { "max-num-seqs": "16" }, answer: { said: "knee 16" } }, { flags: { "max-num-seqs": "64" }, problem }],
    ...changes,
  };
}

test("what is kept is read back", async () => {
  const text = gzipSync(JSON.stringify(report())).toString("base64");
  assert.deepEqual(await unpacked(`\n${text}\n`), report());
  await assert.rejects(unpacked(text.slice(0, 40)));
});

test("an axis that is not among the flags has its own value, and 8 is 8.0", () => {
  const kept = new Kept(report());
  const said = (flags) => kept.answer("/api/run", { flags }).answer.said;
  assert.deepEqual([said({}), said({ "max-num-seqs": "64" }), said({ "request-rate": "4.0" })], ["8 16", "8 64", "4 16"]);
  assert.equal(kept.answer("/api/knee", { flags: {} }).answer.said, "knee 16");
});

test("each answer brings the list of its own settings, beside the axes", () => {
  const groups = [{ name: "Engine", controls: [{ flag: "block-size", name: "Block", unit: "", kind: "number", value: 16 }] }];
  const one = { flags: { "request-rate": "4", "max-num-seqs": "16" }, answer: { said: "4 16", groups } };
  const { answer } = new Kept(report({ runs: [one] })).answer("/api/run", { flags: { "request-rate": "4" } });
  assert.deepEqual(answer.groups.map(({ name, controls }) => [name, controls.map(({ flag }) => flag)]), [["Simulated", ["request-rate", "max-num-seqs"]], ["Engine", ["block-size"]]]);
});

test("a point that could not be simulated is a problem, and what is not there is one that says so", () => {
  const kept = new Kept(report());
  assert.deepEqual(kept.answer("/api/run", { flags: { "request-rate": "12", "max-num-seqs": "64" } }), { isAnswer: false, answer: problem });
  assert.deepEqual(kept.answer("/api/knee", { flags: { "max-num-seqs": "64" } }), { isAnswer: false, answer: problem });
  const { isAnswer, answer } = kept.answer("/api/run", { flags: { "request-rate": "5" } });
  assert.deepEqual([isAnswer, answer.problems.length], [false, 1]);
  assert.equal(kept.answer("/api/explain", { flags: {} }).isAnswer, false);
});

test("the axes are controls, sorted stops, and all else is fixed", () => {
  const { groups, kept, subject } = new Kept(report()).start();
  assert.deepEqual([subject, kept.hasAxes, kept.hasKnees, kept.explained], ["a model on a card", true, true, null]);
  assert.deepEqual(turnable(groups).map(({ name, controls }) => [name, controls.map(({ flag }) => flag)]), [["Simulated", ["request-rate", "max-num-seqs"]]]);
  assert.deepEqual(groups.map(({ name }) => name), ["Simulated", "Engine"], "the axes first");
  assert.deepEqual(groups[0].controls[0].values, ["4", "8", "12"]);
  assert.ok(groups[1].controls.every(({ isFixed }) => isFixed));
});

test("values that are no numbers are a choice, and a switch is on or off", () => {
  const { groups: [{ controls: [gpu, caching] }] } = new Kept(report({ axes: [axis("gpu", ["h100", "l40s"], "h100"), axis("enable-prefix-caching", ["true", "false"], "true")] })).start();
  assert.deepEqual([gpu.kind, gpu.choices], ["choice", [{ value: "h100", name: "h100" }, { value: "l40s", name: "l40s" }]]);
  assert.deepEqual(caching.choices.map(({ name }) => name), ["on", "off"]);
});

test("without axes nothing can be turned", () => {
  const { groups, kept } = new Kept(report({ axes: [], knees: [], runs: [{ flags: {}, answer: { said: "one" } }], explained: null })).start();
  assert.deepEqual([turnable(groups), kept.hasAxes, kept.hasKnees, kept.explained], [[], false, false, null]);
  assert.equal(loadAt(loadControl(groups), 9), null, "a click on the curve goes nowhere");
});

test("an address sets only what was simulated, as it is listed", () => {
  const { groups } = new Kept(report()).start();
  const { set, ignored } = fromHash(groups, "#request-rate=12.0&max-num-seqs=32&gpu=h100");
  assert.deepEqual(flagsOf(groups, set), { "request-rate": "12" });
  assert.deepEqual(ignored, ["max-num-seqs=32: “32” is not among what was simulated: 16, 64", "gpu=h100: this report holds one value of it only"]);
  assert.equal(fault(groups[0].controls[0], "4"), null);
});

test("a click on the curve goes to the nearest stop, and every axis is said in words", () => {
  const { groups } = new Kept(report()).start();
  const load = loadControl(groups);
  assert.deepEqual([loadAt(load, 5), loadAt(load, 6.5), loadAt(load, 99), loadAt(load, 0)], ["4", "8", "12", null]);
  assert.equal(inWords(groups, { "request-rate": "4" }), "request-rate 4 req/s, max-num-seqs 16");
  assert.deepEqual([loadAt({ kind: "number" }, 7.1234), loadAt({ kind: "number", whole: true }, 0.2)], ["7.12", "1"]);
});

test("the page asks as ever, and a report needs no server and loses none", async () => {
  const text = gzipSync(JSON.stringify(report())).toString("base64");
  globalThis.document = { getElementById: (id) => (id === "kept" ? { textContent: text } : null) };
  globalThis.fetch = () => assert.fail("a report asks nobody");
  const { Asker, start } = await import("../../src/cli/page/web/server.js?kept");
  assert.equal((await start()).kept.made, "2026-11-29 17:20 UTC");
  const heard = [];
  const asker = new Asker("/api/run", false, { answer: (a) => heard.push(a.said), problems: (p) => heard.push(p.problems[0].message), gone: () => heard.push("gone"), busy: () => {} });
  for (const rate of ["4", "12"]) {
    asker.ask({ flags: { "request-rate": rate, "max-num-seqs": rate === "12" ? "64" : "16" }, film: true });
    await pause(5);
  }
  assert.deepEqual(heard, ["4 16", "it does not fit"]);
});
