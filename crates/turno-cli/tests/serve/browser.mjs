// Opens every page of a running `turno serve` in a headless Chromium, wide and narrow, light and dark, and lets axe-core
// look at it. Then it uses some with the keyboard alone. A violation, an error on the console (such as one of the content policy),
// a page that is wider than its window, or something that Tab does not reach or that does not show its focus ends it with exit status 1.
//
//   node browser.mjs URL CHROMIUM JOB [FOLDER]    JOB: an id to show; FOLDER: where screenshots go
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [url, chromium, job, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pages = {
  overview: "/", queue: "/queues/mail", jobs: "/jobs?state=ready", running: "/jobs?state=running", dead: "/dead",
  job: `/jobs/${job}`, payload: `/jobs/${job}?payload=true`, retry: `/jobs/${job}/retry`, pause: "/queues/mail/pause",
  refused: "/refused", schedules: "/schedules", search: "/search?q=welcome", nothing: "/nothing/here",
};
const windows = { wide: { width: 1300, height: 800 }, narrow: { width: 390, height: 800 } };

const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
const faults = [];
let looked = 0;
for (const [size, viewport] of Object.entries(windows)) {
  for (const scheme of ["light", "dark"]) {
    const page = await browser.newPage();
    await page.setViewport(viewport);
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    let where = "";
    page.on("console", (message) => {
      const expected = where.startsWith("nothing") && message.text().includes("404");
      if (message.type() === "error" && !expected) faults.push(`${where}: ${message.text()}`);
    });
    page.on("pageerror", (error) => faults.push(`${where}: ${error}`));
    for (const [name, path] of Object.entries(pages)) {
      where = `${name}, ${size}, ${scheme}`;
      await page.goto(url + path, { waitUntil: "load" });
      if (folder) await page.screenshot({ path: `${folder}/${name}-${size}-${scheme}.png` });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      for (const { id, help, nodes } of violations) faults.push(`${where}: ${id}: ${help}: ${nodes[0].html}`);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (over > 0) faults.push(`${where}: ${over} pixels wider than the window`);
      looked += 1;
    }
    await page.close();
  }
}

// With the keyboard alone: Tab reaches everything that can be used, in the order of the page, and shows where it is.
const keys = await browser.newPage();
await keys.setViewport(windows.wide);
// So that no page changes meanwhile.
await keys.setJavaScriptEnabled(false);
for (const name of ["overview", "queue", "dead", "job", "pause", "schedules", "search"]) {
  await keys.goto(url + pages[name], { waitUntil: "load" });
  const usable = await keys.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")];
    globalThis.usable = all.filter((one) => one.checkVisibility() && !one.disabled);
    return globalThis.usable.map((one) => one.outerHTML.slice(0, 80));
  });
  const reached = [];
  for (let n = 0; n < usable.length; n++) {
    await keys.keyboard.press("Tab");
    reached.push(await keys.evaluate(() => {
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(document.activeElement);
      const shown = (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none";
      return { place: globalThis.usable.indexOf(document.activeElement), shown };
    }));
  }
  usable.forEach((html, place) => {
    if (reached[place].place !== place) faults.push(`${name}: Tab ${place + 1} is not at ${html}`);
    if (!reached[place].shown) faults.push(`${name}: no focus is seen at ${html}`);
  });
}
// From the queue to its pause and back, by Tab and Enter.
const tabTo = async (selector) => {
  await keys.waitForSelector(selector);
  for (let n = 0; n < 200; n++) {
    await keys.keyboard.press("Tab");
    if (await keys.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
  }
  faults.push(`Tab does not come to ${selector}`);
};
await keys.goto(`${url}/queues/mail`, { waitUntil: "load" });
for (const what of ["pause", "resume"]) {
  await tabTo(`a[href="/queues/mail/${what}"]`);
  await Promise.all([keys.waitForNavigation(), keys.keyboard.press("Enter")]);
  await tabTo(`form[action="/queues/mail/${what}"] button`);
  await Promise.all([keys.waitForNavigation(), keys.keyboard.press("Enter")]);
  const paused = (await keys.content()).includes("/queues/mail/resume");
  if (paused !== (what === "pause")) faults.push(`the keyboard alone did not ${what} the queue`);
}
await keys.close();

// The script refreshes the page by itself: what happens behind its back appears.
const page = await browser.newPage();
await page.goto(`${url}/queues/mail`, { waitUntil: "load" });
const refreshed = page.waitForResponse((answer) => answer.request().resourceType() === "fetch", { timeout: 20_000 });
if (!(await refreshed).ok()) faults.push("the page did not refresh itself");
// And without a script everything is there.
await page.setJavaScriptEnabled(false);
await page.goto(`${url}/`, { waitUntil: "load" });
if (!(await page.content()).includes("/queues/mail")) faults.push("without a script the overview is empty");
await browser.close();
if (faults.length > 0) {
  console.error(`${faults.length} faults:\n  ${faults.join("\n  ")}`);
  process.exit(1);
}
console.log(`${looked} pages: no violation`);
