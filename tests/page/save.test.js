// What a kept view is called, and when it says that it was simulated.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileName, instant } from "../../src/cli/page/web/save.js";

const groups = [{ name: "Traffic", controls: [{ flag: "request-rate", value: 8 }, { flag: "goodput:ttft", value: null }, { flag: "model", value: "org/Name-8B" }] }];

test("a file is named after what was typed and what is set, in letters that every system takes", () => {
  const name = (base, set = []) => fileName({ base, groups, set: new Map(set) });
  assert.equal(name("quickstart"), "plimsoll-quickstart.html");
  assert.equal(name("quickstart", [["goodput:ttft", "250"], ["request-rate", "12.5"]]), "plimsoll-quickstart-request-rate-12.5-goodput-ttft-250.html");
  assert.equal(name("'a b/c.toml' --seed 3"), "plimsoll-a-b-c.toml-seed-3.html");
  assert.equal(name(""), "plimsoll-org-Name-8B.html");
  assert.ok(name("x".repeat(500)).length < 120);
});

test("an instant is written to the minute, by the clock on the wall", () => {
  assert.equal(instant(new Date(2026, 0, 9, 7, 5)), "2026-01-09 07:05");
  assert.equal(instant(null), "not yet");
});
