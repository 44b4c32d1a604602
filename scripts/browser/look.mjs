// Opens an attention page in a real browser, uses it, and compares what it shows with the report
// that it was made from.
//
//   node scripts/browser/look.mjs PAGE.html REPORT.json [--screenshots FOLDER]
//
// REPORT.json holds the page's report, or an array of them. Exit code 0: all agreed; 1: something
// did not, and each fault is printed; 2: wrong usage.
//
// Sample input: cargo run -p regard-viewer --example sample_page -- FOLDER
//
// Needs Node 18 or later, a Chromium (default /usr/bin/chromium, else CHROMIUM=PATH) and
// playwright-core, installed in any folder that PLAYWRIGHT_DIR names:
//
//   apt-get install chromium
//   npm install --prefix "$PLAYWRIGHT_DIR" playwright-core

import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [pageFile, reportFile, option, folder] = process.argv.slice(2);
if (!pageFile || !reportFile || (option && (option !== "--screenshots" || !folder))) {
  console.error("usage: look.mjs PAGE.html REPORT.json [--screenshots FOLDER]");
  process.exit(2);
}
const require = createRequire(join(resolve(process.env.PLAYWRIGHT_DIR ?? "."), "x.js"));
const { chromium } = require("playwright-core");

const read = JSON.parse(readFileSync(reportFile, "utf8"));
const reports = Array.isArray(read) ? read : [read];
const faults = [];
let compared = 0;

function check(what, holds) {
  compared += 1;
  if (!holds) faults.push(what);
}
const equal = (what, actual, expected) => check(`${what}: the page has ${actual}, the report ${expected}`, actual === expected);
const close = (what, actual, expected, within) =>
  check(`${what}: the page has ${actual}, expected ${expected}`, Math.abs(actual - expected) <= within);

// The report's numbers as 32-bit floats.
const exact = (value) => (value === null ? -Infinity : Math.fround(value));
const at = (matrix, i, j) => exact(matrix.data[i * matrix.cols + j]);

const profile = mkdtempSync(join(tmpdir(), "look-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  viewport: { width: 1280, height: 900 },
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(20000);
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`script: ${error.message}`));
  page.on("dialog", async (dialog) => {
    faults.push(`a dialog opened: ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) faults.push(`network: ${request.url()}`);
  });
  await page.goto(pathToFileURL(resolve(pageFile)).href);

  const shown = JSON.parse(await page.locator("#data").textContent());
  check("the embedded reports are not those of the file", JSON.stringify(shown) === JSON.stringify(reports));
  equal("foreign elements", await page.locator("img, iframe, object, link[rel=stylesheet], script[src]").count(), 0);

  for (let s = 0; s < reports.length; s++) {
    if (reports.length > 1) await page.selectOption("#sentence", String(s));
    await checkSentence(page, reports[s], `sentence ${s}`);
  }
  await checkKeyboard(page, reports.at(-1));
  await checkAddress(page, reports[0]);
  await checkWidths(page);
  if (folder) await takeScreenshots(page);
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}

for (const fault of faults.slice(0, 40)) console.error(fault);
if (faults.length > 40) console.error(`and ${faults.length - 40} more`);
console.log(`${compared} comparisons, ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

async function checkSentence(page, report, name) {
  const words = await page.locator("#words [data-word] > bdi").allTextContents();
  equal(`${name}: words`, JSON.stringify(words), JSON.stringify(report.tokens));
  const labels = await page.locator("#words [data-label]").evaluateAll((all) => all.map(({ dataset }) => [dataset.label, dataset.probability]));
  const expected = report.predicted.map(({ label, probability }) => [label, String(probability)]);
  equal(`${name}: labels`, JSON.stringify(labels), JSON.stringify(expected));
  if (report.layers.length === 0) {
    check(`${name}: says that there is no attention`, await page.locator("#no-attention").isVisible());
    return;
  }
  // All heads of a short sentence; of a long one the first and the last.
  const all = report.layers.flatMap((layer, l) => layer.heads.map((_, h) => [l, h]));
  const heads = report.tokens.length > 30 ? [all[0], all.at(-1)] : all;
  for (const [l, h] of heads) {
    await page.click(`#heads button[data-layer="${l}"][data-head="${h}"]`);
    await checkHead(page, report.layers[l].heads[h], report, `${name} layer ${l} head ${h}`);
  }
}

async function checkHead(page, head, report, name) {
  const n = report.tokens.length;
  const cells = await page.locator("#heatmap td[data-query]").evaluateAll((all) =>
    all.map((one) => [one.dataset.query, one.dataset.key, one.dataset.weight, one.classList.contains("forbidden")]));
  equal(`${name}: cells`, cells.length, n * n);
  for (const [query, key, weight, forbidden] of cells) {
    const [i, j] = [Number(query), Number(key)];
    equal(`${name}: weight ${i}, ${j}`, exact(Number(weight)), at(head.weights, i, j));
    equal(`${name}: forbidden ${i}, ${j}`, forbidden, at(head.scores, i, j) === -Infinity);
  }
  equal(`${name}: engine and page agree`, await page.getAttribute("#check", "data-agree"), "true");

  const queries = n > 30 ? [0, n - 1] : Array.from({ length: n }, (_, i) => i);
  for (const i of queries) {
    await page.locator("#heatmap tbody tr").nth(i).locator("th button").click();
    await checkQuery(page, head, i, `${name} query ${i}`);
  }
  // The read-out names the pair that the mouse is over.
  const [i, j] = [n - 1, 0];
  await page.hover(`#heatmap td[data-query="${i}"][data-key="${j}"]`);
  const readout = await page.textContent("#readout");
  const forbidden = at(head.scores, i, j) === -Infinity;
  const number = forbidden ? "not allowed" : at(head.weights, i, j).toFixed(6);
  check(`${name}: read-out "${readout}" has ${number}`, readout.includes(number) && readout.includes(report.tokens[i]));
  // The lines follow the words on the left.
  await page.locator("#lines .from button").nth(i).hover();
  const lit = await page.locator("#lines g.lit path").count();
  equal(`${name}: lines of query ${i}`, lit, Array.from({ length: n }, (_, k) => at(head.weights, i, k)).filter((weight) => weight >= 0.01).length);
}

async function checkQuery(page, head, i, name) {
  // A weight moves as much as its score, which is as exact as the terms that it adds up.
  const size = Math.max(1, Number(await page.getAttribute("#check", "data-size")));
  const rows = await page.locator("#step-weights tbody tr[data-key]").evaluateAll((all) =>
    all.map((line) => Object.fromEntries(Array.from(line.querySelectorAll("[data-name]"), (one) => [one.dataset.name, Number(one.dataset.value)]))));
  equal(`${name}: keys`, rows.length, head.k.rows);
  rows.forEach((cell, j) => {
    equal(`${name}: engine's score of key ${j}`, exact(cell["score-engine"]), at(head.scores, i, j));
    equal(`${name}: engine's weight of key ${j}`, exact(cell["weight-engine"]), at(head.weights, i, j));
    close(`${name}: weight of key ${j} computed by the page`, cell["weight-here"], at(head.weights, i, j), 1e-6 * size);
    if ("score-here" in cell) {
      const score = at(head.scores, i, j);
      close(`${name}: score of key ${j} computed by the page`, cell["score-here"], score, 1e-6 * Math.max(1, Math.abs(score)));
    }
  });
  close(`${name}: sum of the page's weights`, rows.reduce((sum, cell) => sum + cell["weight-here"], 0), rows.some((cell) => cell.exp > 0) ? 1 : 0, 1e-9);
  const context = await page.locator("#step-context tr[data-dimension]").evaluateAll((all) =>
    all.map((line) => Array.from(line.querySelectorAll("[data-name]"), (one) => Number(one.dataset.value))));
  equal(`${name}: dimensions`, context.length, head.v.cols);
  context.forEach(([engine, here], d) => {
    equal(`${name}: engine's context ${d}`, exact(engine), at(head.context, i, d));
    close(`${name}: context ${d} computed by the page`, here, at(head.context, i, d), 1e-6 * Math.max(1, Math.abs(engine)));
  });
}

// From the row names to the cells, across them, and a choice with Enter, without a mouse.
async function checkKeyboard(page, report) {
  const n = report.tokens.length;
  if (report.layers.length === 0 || n < 3) return;
  await page.locator("#heatmap tbody th button").first().focus();
  await page.keyboard.press("Tab");
  for (const key of ["ArrowDown", "ArrowRight", "ArrowRight", "Enter"]) await page.keyboard.press(key);
  equal("keyboard: query", await page.inputValue("#query"), "1");
  equal("keyboard: key", await page.inputValue("#key"), "2");
  await page.keyboard.press("End");
  const focused = await page.evaluate(() => [document.activeElement.dataset.query, document.activeElement.dataset.key]);
  equal("keyboard: End", String(focused), `1,${n - 1}`);
  await page.locator("#step-weights tr[data-key='0'] button").focus();
  await page.keyboard.press("Enter");
  equal("keyboard: key by its button", await page.inputValue("#key"), "0");
  equal("keyboard: focus stays", await page.evaluate(() => document.activeElement.closest("tr").dataset.key), "0");
}

// A view can be opened by its address, and a wrong address is put right.
async function checkAddress(page, report) {
  if (report.layers.length === 0) return;
  const last = { layer: report.model.n_layers - 1, head: report.model.n_heads - 1, query: report.tokens.length - 1 };
  await page.evaluate((to) => { location.hash = `sentence=0&layer=${to.layer}&head=${to.head}&query=${to.query}&key=0`; }, last);
  await page.waitForFunction((to) => document.querySelector("#head-title").textContent === `Layer ${to.layer}, head ${to.head}`, last);
  equal("address: query", await page.inputValue("#query"), String(last.query));
  await page.evaluate(() => { location.hash = "sentence=99&layer=x&head=-3&query=1e9&key=NaN"; });
  await page.waitForFunction(() => document.querySelector("#head-title").textContent.startsWith("Layer 0"));
  await page.evaluate(() => { location.hash = "sentence=0&layer=0&head=0&query=0&key=0"; });
}

// No width makes the page itself scroll sideways.
async function checkWidths(page) {
  for (const width of [320, 768, 1280, 1920]) {
    await page.setViewportSize({ width, height: 900 });
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    check(`at ${width} pixels the page is ${wider} too wide`, wider <= 0);
  }
}

async function takeScreenshots(page) {
  mkdirSync(folder, { recursive: true });
  await page.mouse.move(0, 0);
  await page.evaluate(() => {
    document.activeElement.blur();
    scrollTo(0, 0);
  });
  for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 390]]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 900 });
    await page.screenshot({ path: join(folder, `${scheme}-${width}.png`), fullPage: true });
  }
}
