// The page of `plimsoll explore` and the file of `plimsoll report` in a real browser, by the real binary: what a person does first, and that the browser
// complains of nothing.
//
//   node tests/page/in-browser.mjs PLIMSOLL PLAYWRIGHT [PICTURE]
//
// PLIMSOLL is the binary, PLAYWRIGHT the folder of the npm package playwright-core; the browser is CHROMIUM, or /usr/bin/chromium. PICTURE is where a
// photograph of the page goes, that of the README. Exit code 3: there is no browser that can be started.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [binary, library, picture] = process.argv.slice(2).map((path) => resolve(path));
const { chromium } = createRequire(import.meta.url)(library);

const server = spawn(binary, ["explore", "quickstart", "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
const address = await new Promise((found, lost) => {
  let said = "";
  server.stdout.on("data", (text) => {
    said += text;
    const at = said.match(/http:\/\/\S+/);
    if (at) found(at[0]);
  });
  server.on("exit", (code) => lost(new Error(`plimsoll explore ended with ${code} before it listened`)));
});

const complaints = [];

/** A page of which all that the browser complains of is kept, and that may ask for what begins so. */
async function watched(browser, begins) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 1330 }, colorScheme: "light" });
  // What is refused is told by the browser, too.
  page.on("console", (message) => {
    if (!/status of 422/.test(message.text())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith(begins) && !request.url().startsWith("data:")) complaints.push(`asks ${request.url()}`);
  });
  const shows = (id, pattern) =>
    page.waitForFunction(
      ([id, pattern]) => new RegExp(pattern).test(document.getElementById(id)?.textContent ?? ""),
      [id, pattern],
      { timeout: 60_000 },
    );
  return { page, shows };
}

/** A report with two controls, opened from its file. */
async function opensReport(browser, folder) {
  const file = join(folder, "report.html");
  const words = "report quickstart --request-rate 2 --num-prompts 1500 --no-knee --title Seats -L gpu l40s,h100 -L max-num-seqs 4,128 --quiet -o";
  execFileSync(binary, [...words.split(" "), file]);
  const { page, shows } = await watched(browser, pathToFileURL(file).href);
  await page.goto(pathToFileURL(file).href);
  await shows("subject", "^Seats$");
  // It begins with the scenario's own card.
  await shows("command", "--gpu h100 --max-num-seqs 4");
  await shows("settings", "Token budget of a step8192 tokens");
  await shows("anatomy-sum", "^p99 TTFT ");
  const before = await page.locator("#headline-rest").textContent();
  await page.getByRole("slider", { name: "Most running sequences" }).press("ArrowRight");
  await shows("command", "--gpu h100 --max-num-seqs 128");
  assert.notEqual(await page.locator("#headline-rest").textContent(), before);
  // Another card, other defaults.
  await page.getByLabel("GPU", { exact: true }).selectOption("l40s");
  await shows("settings", "Token budget of a step2048 tokens");
  assert.match(page.url(), /#gpu=l40s&max-num-seqs=128$/);
  await page.close();
}

let browser;
try {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
  });
} catch (error) {
  console.error(`no browser can be started: ${error.message.split("\n")[0]}`);
  server.kill("SIGKILL");
  process.exit(3);
}
try {
  const { page, shows } = await watched(browser, address);
  await page.goto(address);
  await shows("headline", "^stable at 8.00 req/s");
  await shows("command", "^plimsoll run quickstart$");
  await shows("curve-title", "^18\\.\\d req/s within the SLO, saturates at 21\\.\\d req/s");

  // What times are made of: a bar for each group of requests, and the sum of the slow ones.
  await shows("anatomy-sum", "^p99 TTFT \\d+ ms.* = .*own prefill");
  assert.ok((await page.locator("#anatomy .bar-row").count()) >= 6);

  // Turned beyond saturation: the verdict and the address say so, and no steady latency is quoted.
  const rate = page.getByLabel("Request rate").last();
  await rate.fill("40");
  await rate.press("Enter");
  await shows("headline", "UNSTABLE");
  await page.waitForFunction(() => document.getElementById("anatomy").hidden);
  assert.match(page.url(), /#.*request-rate=40/);

  // Back is where it was.
  await page.goBack();
  await shows("headline", "^stable at 8.00 req/s");

  // What is wrong is told, and the last answer stays.
  await rate.fill("-3");
  await rate.press("Enter");
  await shows("problems", "--request-rate must be above 0");
  await shows("headline", "^stable at 8.00 req/s");
  await rate.fill("16");
  await rate.press("Enter");
  await shows("headline", "^stable at 16.0 req/s");
  await page.waitForFunction(() => !document.getElementById("film-body").hidden);

  if (picture) {
    await page.evaluate(() => {
      const scrub = document.getElementById("film-scrub");
      scrub.value = String(Number(scrub.max) * 0.35);
      scrub.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.waitForTimeout(1500);
    await page.screenshot({ path: picture });
  }

  // Changes are tried when asked for; a click on one sets it, and then the table is of before.
  await page.getByRole("button", { name: "Try changes" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#what-ifs-table tbody tr").length > 3, null, { timeout: 60_000 });
  await shows("what-ifs-command", "^plimsoll explain quickstart --request-rate 16$");
  assert.ok((await page.locator("#what-ifs-table .beyond-chance").count()) > 0);
  await page.getByRole("button", { name: "replicas 1 → 2" }).click();
  await shows("command", "--replicas 2");
  assert.match(page.url(), /#.*replicas=2/);
  assert.match(await page.locator("#what-ifs").getAttribute("class"), /is-pale/);
  const folder = mkdtempSync(join(tmpdir(), "plimsoll-"));
  try {
    await opensReport(browser, folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
  assert.deepEqual(complaints, []);
} finally {
  await browser.close();
  server.kill("SIGINT");
}
const code = server.exitCode ?? (await new Promise((ended) => server.on("exit", ended)));
assert.equal(code, 0);
console.log("the page works in a browser");
