// Axes, ticks and the way from a slider to a value and back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { POSITIONS, isBeyond, linearTicks, logTicks, nudged, position, scale, valueAt } from "../../src/cli/page/web/scale.js";

const rate = { scale: "log", low: 0.1, high: 1000, whole: false };
const replicas = { scale: "linear", low: 1, high: 16, whole: true };

test("a scale and its inverse undo each other", () => {
  for (const kind of ["linear", "log"]) {
    const x = scale(kind, [0.5, 80], [40, 900]);
    for (const value of [0.5, 1, 17.3, 80]) assert.ok(Math.abs(x.back(x(value)) - value) < 1e-9 * value);
  }
});

test("ticks are round and inside", () => {
  assert.deepEqual(linearTicks(0, 26, 6), [0, 5, 10, 15, 20, 25]);
  assert.deepEqual(linearTicks(64.97, 74.97, 5), [66, 68, 70, 72, 74]);
  assert.deepEqual(linearTicks(0, 0.5, 5), [0, 0.1, 0.2, 0.3, 0.4, 0.5]);
  assert.deepEqual(linearTicks(3, 3), [3]);
});

test("logarithmic ticks thin out to the powers", () => {
  assert.deepEqual(logTicks(0.009, 1.2, 8), [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]);
  assert.deepEqual(logTicks(0.009, 1.2, 5), [0.01, 0.03, 0.1, 0.3, 1]);
  assert.deepEqual(logTicks(0.009, 1.2, 3), [0.01, 0.1, 1]);
});

test("a slider's position gives the value that it stands for", () => {
  for (const control of [rate, replicas]) {
    for (let at = 0; at <= POSITIONS; at += 25) {
      const value = valueAt(control, at);
      assert.ok(Math.abs(valueAt(control, position(control, value)) - value) <= 0.01 * value, `${at}`);
    }
    assert.equal(valueAt(control, 0), control.low);
    assert.equal(valueAt(control, POSITIONS), control.high);
  }
  assert.ok(Number.isInteger(valueAt(replicas, 333)));
});

test("a value beyond the slider stands at its end and is told", () => {
  assert.equal(position(rate, 5000), POSITIONS);
  assert.equal(position(rate, 0), 0);
  assert.ok(isBeyond(rate, 5000) && isBeyond(rate, 0.01));
  assert.ok(!isBeyond(rate, 1000) && !isBeyond(rate, 0.1));
});

test("an arrow key always changes the value, and does not leave the slider", () => {
  for (const control of [rate, replicas, { scale: "log", low: 1, high: 4096, whole: true }]) {
    for (let value = control.low, i = 0; value < control.high; i += 1) {
      const next = nudged(control, value, 1);
      assert.ok(next > value && next <= control.high, `${value} → ${next}`);
      assert.ok(i < 2000, "it arrives");
      value = next;
    }
    assert.equal(nudged(control, control.low, -1), control.low);
  }
  assert.equal(nudged(rate, 5000, -1), 4900, "what is beyond is not pulled to the end");
});
