// What is set, flags and the address.

import assert from "node:assert/strict";
import { test } from "node:test";
import { controlOf, dropped, fault, flagsOf, fromHash, inWords, kneeFlags, loadControl, settled, toHash } from "../../src/cli/page/web/settings.js";

const number = (flag, value, whole = false) => ({ flag, name: flag, unit: "", kind: "number", scale: "log", low: 0.1, high: 100, whole, value });
const groups = [
  { name: "Traffic", controls: [{ ...number("request-rate", 8), name: "Request rate", unit: "req/s", load: true }, number("input-len", null, true)] },
  { name: "Machines", controls: [
    { flag: "gpu", name: "GPU", unit: "", kind: "choice", choices: [{ value: "H100", name: "H100" }, { value: "L40S & co", name: "L40S" }], value: "H100" },
    { flag: "model", name: "Model", unit: "", kind: "choice", choices: Array.from({ length: 30 }, (_, i) => ({ value: `m${i}`, name: `m${i}` })), value: "m0" },
    { flag: "enable-prefix-caching", name: "Prefix caching", unit: "", kind: "switch", value: true }] },
];

test("what the user set is sent, in the order of the controls, equal to the start's or not", () => {
  const set = new Map([["gpu", "H100"], ["request-rate", "8"]]);
  assert.deepEqual(Object.entries(flagsOf(groups, set)), [["request-rate", "8"], ["gpu", "H100"]]);
  assert.deepEqual(flagsOf(groups, new Map()), {});
});

test("the address holds what is set, and gives it back", () => {
  const flags = { "request-rate": "12.5", "input-len": "1e3", gpu: "L40S & co", model: "Qwen/Qwen3-8B" };
  const { set, unknown, ignored } = fromHash(groups, `#${toHash(flags)}`);
  assert.deepEqual([ignored, unknown.size], [[], 0]);
  assert.deepEqual(flagsOf(groups, set), flags);
  assert.equal(toHash({}), "");
  assert.equal(toHash({ "goodput:ttft": "500", model: "Qwen/Qwen3-8B" }), "goodput:ttft=500&model=Qwen/Qwen3-8B", "as people would write it");
});

test("what of an address cannot be read is named, and the rest is taken", () => {
  const { set, unknown, ignored } = fromHash(groups, "#request-rate=fast&gpu=TPU&burst&input-len=1.5&%E0%A4%A=1&foo=2&request-rate=20&gpu");
  assert.equal(ignored.length, 6);
  assert.match(ignored.join("\n"), /request-rate=fast: “fast” is not a number/);
  assert.match(ignored.join("\n"), /gpu=TPU: “TPU” is not among the choices/);
  assert.match(ignored.join("\n"), /input-len=1.5: “1.5” is not a whole number/);
  assert.match(ignored.join("\n"), /gpu: no value/);
  assert.deepEqual(flagsOf(groups, set), { "request-rate": "20" });
  assert.deepEqual([...unknown], [["foo", "2"]], "other settings may bring a control for it");
});

test("a flag without a control waits for the answer's controls", () => {
  const unknown = new Map([["chunked-prefill-size", "2048"], ["page-size", "x"], ["foo", "2"]]);
  const sglang = [{ name: "Engine", controls: [number("chunked-prefill-size", 8192, true), number("page-size", 1, true)] }];
  const { set, ignored } = settled(sglang, unknown);
  assert.deepEqual([...set], [["chunked-prefill-size", "2048"]]);
  assert.deepEqual(ignored, ["page-size=x: “x” is not a number", "foo=2: there is no such control here"]);
});

test("a flag whose control is gone is told", () => {
  assert.deepEqual(dropped(groups, { gpu: "H100", "max-running-requests": "64" }), ["max-running-requests"]);
});

test("an address without anything sets nothing", () => {
  for (const hash of ["", "#", "#&&"]) assert.deepEqual(fromHash(groups, hash), { set: new Map(), unknown: new Map(), ignored: [] });
});

test("numbers are refused only where they are none: limits are the server's to know", () => {
  const control = number("request-rate", 8);
  for (const text of ["1000000", "0", "-3", "1e-3", ".5", "inf", " 7 "]) assert.equal(fault(control, text), null, text);
  for (const text of ["", "8 req/s", "1,5", "0x10", "NaN", "Infinity"]) assert.notEqual(fault(control, text), null, text);
});

test("what is searched may be typed freely, a short list not", () => {
  assert.equal(fault(controlOf(groups, "model"), "/models/mine/config.json"), null);
  assert.notEqual(fault(controlOf(groups, "gpu"), "mine"), null);
  assert.notEqual(fault(controlOf(groups, "enable-prefix-caching"), "yes"), null);
});

test("a knee is asked without what it looks for", () => {
  assert.deepEqual(kneeFlags(groups, { "request-rate": "12", "max-concurrency": "3", gpu: "H100" }), { "max-concurrency": "3", gpu: "H100" });
  assert.equal(loadControl(groups).flag, "request-rate");
  assert.equal(loadControl([]), null);
});

test("a setting is said as its load and what is set", () => {
  assert.equal(inWords(groups, {}), "Request rate 8 req/s");
  assert.equal(inWords(groups, { "request-rate": "12", gpu: "H100" }), "Request rate 12 req/s, GPU H100");
  assert.equal(inWords([], {}), "as the scenario has it");
});
