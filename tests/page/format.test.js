// Figures as the command line writes them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { change, counted, interval, percent, signedPercent, significant, time, timeInterval, outwards, withUnit } from "../../src/cli/page/web/format.js";

function check(write, pairs) {
  for (const [value, expected] of pairs) assert.equal(write(value), expected, `${write.name}(${value})`);
}

test("people get three figures at every size", () => {
  check(significant, [
    [0, "0"], [0.01234, "0.0123"], [9.996, "10.0"], [412.4, "412"], [999.7, "1,000"], [-1279.6, "-1,280"],
    [1.234e-12, "1.23e-12"], [16055348, "16,100,000"], [0.099996, "0.100"], [2e20, "2.00e20"],
  ]);
});

test("what is not known or has no bound is said in words", () => {
  check(significant, [[null, "–"], [undefined, "–"], [NaN, "–"], [Infinity, "not bounded"]]);
});

test("times take the unit that fits", () => {
  check(time, [[0.0558, "55.8 ms"], [2.7, "2.70 s"], [0.9996, "1.00 s"], [0.99949, "999 ms"], [7.5e-6, "7.50 µs"], [0, "0 s"], [null, "–"], [116.04, "116 s"]]);
});

test("both ends of an interval are in the unit of the upper one", () => {
  assert.equal(timeInterval(0.23932, 0.25348), "[239, 253] ms");
  assert.equal(timeInterval(0.428, 2.6), "[0.428, 2.60] s");
  assert.equal(timeInterval(1.125, null), "≥ 1.13 s");
  assert.equal(interval(18.135, 18.822, "req/s"), "[18.1, 18.8] req/s");
});

test("a share that is not whole is not rounded up to it", () => {
  check(percent, [[1, "100 %"], [0.99996, "99.99 %"], [0.9994, "99.9 %"], [0.0988, "9.88 %"], [0, "0 %"], [null, "–"]]);
});

test("changes have signs, and factors where they are large", () => {
  check(signedPercent, [[0.042, "+4.20 %"], [-0.0088, "−0.880 %"], [0, "±0 %"]]);
  assert.equal(change(30, 1), "×30.0");
  assert.equal(change(1, 50), "÷50.0");
  assert.equal(change(2, 1), "+100 %");
  assert.equal(change(2, 0), "");
});

test("counts have plurals", () => {
  assert.equal(counted(1, "request"), "1 request");
  assert.equal(counted(12345, "request"), "12,345 requests");
});

test("the interval of a knee is rounded outwards, and figures of three stay", () => {
  assert.equal(outwards(18.135, 18.8218), "[18.1, 18.9]");
  assert.equal(outwards(18.1, 18.9), "[18.1, 18.9]");
  assert.equal(outwards(0.98212, 1234.1), "[0.982, 1,240]");
});

test("one of a unit that is a word is one", () => {
  assert.equal(withUnit("1", "GPUs"), "1 GPU");
  assert.equal(withUnit("2", "GPUs"), "2 GPUs");
  assert.equal(withUnit(1, "req/s"), "1 req/s");
  assert.equal(withUnit("0", ""), "0");
});
