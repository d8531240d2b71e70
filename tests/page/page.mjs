// The status page of `outlive serve`, as a person meets it in a browser.
import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { chromium } from "playwright-core";

import { Gateway } from "./gateway.mjs";

// Only a hang takes as long, in milliseconds.
const PATIENCE = 60_000;
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const TOKEN = "open sesame";

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
const tests = [];
const test = (name, run) => tests.push({ name, run });

// Runs something before a gateway with these flags.
async function served(flags, run) {
  const gateway = await Gateway.start(...flags);
  try {
    await run(gateway);
  } finally {
    await gateway.stop();
  }
}

// Opens the page and runs something; whatever the browser complains about is a failure.
async function opened(gateway, options, run) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(PATIENCE);
  const complaints = [];
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (it) => {
      console.error(`policy: ${it.violatedDirective} ${it.blockedURI}`);
    });
  });
  const page = await context.newPage();
  page.on("console", (it) => { if (it.type() === "error" || it.type() === "warning") complaints.push(it.text()); });
  page.on("pageerror", (it) => complaints.push(String(it)));
  const outside = [];
  page.on("request", (it) => {
    const url = new URL(it.url());
    if (url.protocol !== "data:" && url.origin !== gateway.page.origin) outside.push(url.href);
  });
  try {
    await page.goto(gateway.page.href);
    // What a reload would take away.
    await page.evaluate(() => { window.opened = true; });
    await run(page, context);
    assert.equal(await page.evaluate(() => window.opened), true, "the page was reloaded");
    assert.deepEqual(complaints, []);
    assert.deepEqual(outside, []);
  } finally {
    await context.close();
  }
}

const state = (page, word) => page.locator("article.server .state", { hasText: word }).waitFor();
const button = (page, name) => page.getByRole("button", { name: `${name} server` });

// Waits until something is so.
async function until(what, look) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((next) => setTimeout(next, 50));
  }
}

const isRunning = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

// Moves the focus with the tabulator key alone.
async function tabTo(page, target) {
  for (let step = 0; step < 30; step += 1) {
    await page.keyboard.press("Tab");
    if (await target.evaluate((it) => it === document.activeElement)) return;
  }
  throw new Error("the tabulator key does not lead there");
}

const QUICK = ["--backoff-cap", "300ms"];

test("a server that dies, stays down and comes back is shown without a reload", () => served(QUICK, (gateway) =>
  opened(gateway, {}, async (page) => {
    await state(page, "Idle");
    const client = await gateway.session();
    const pid = await client.pid();
    await state(page, "Running");
    await page.getByRole("heading", { level: 1, name: "All is well" }).waitFor();
    writeFileSync(gateway.fault, "");
    process.kill(pid, "SIGKILL");
    await state(page, "Down");
    await page.getByRole("heading", { level: 1, name: "The server is down" }).waitFor();
    assert.match(await page.title(), /The server is down/);
    await page.getByText("the disk is full").first().waitFor();
    // It fails again and again, and the first loss is not pushed out by that.
    await page.getByText(/\d times/).first().waitFor();
    await page.getByText("Earlier").click();
    await page.getByText("The server was ended by signal 9 (SIGKILL).").waitFor();
    rmSync(gateway.fault);
    // A call starts it again; one that comes too soon after the last attempt is refused.
    const answer = await until("it answers", async () => (await client.call("pid")).result);
    assert.notEqual(Number(answer.content[0].text), pid);
    await state(page, "Running");
  })));

test("numbers, pictures and tools are those of the calls", () => served([], (gateway) =>
  opened(gateway, {}, async (page) => {
    await page.getByText("No calls in the last five minutes").waitFor();
    await page.getByText("not known until a client lists them").waitFor();
    const client = await gateway.session();
    for (let n = 0; n < 7; n += 1) await client.call("echo", { text: "hi" });
    for (let n = 0; n < 2; n += 1) await client.call("fail");
    await client.request("tools/list");
    // With the handshake and the list.
    await page.getByRole("img", { name: "Calls in the last five minutes: 11" }).waitFor();
    await page.getByRole("img", { name: "Errors: 2 of 11 calls" }).waitFor();
    await page.getByText("5 tools").click();
    await page.getByText("crash", { exact: true }).waitFor();
    // What was folded open stays so while the page is renewed.
    await client.call("echo", { text: "hi" });
    await page.getByRole("img", { name: "Calls in the last five minutes: 12" }).waitFor();
    assert.equal(await page.locator("details.tools").evaluate((it) => it.open), true);
    const held = client.call("sleep", { ms: 600_000 });
    held.catch(() => {});
    await page.getByText("1 in flight", { exact: true }).waitFor();
  })));

test("the restart button works with the mouse", () => served([], (gateway) =>
  opened(gateway, {}, async (page) => {
    const client = await gateway.session();
    const pid = await client.pid();
    await button(page, "Restart").click();
    await page.getByRole("status").getByText("It is being restarted").waitFor();
    await until("the old process ends", () => !isRunning(pid));
    assert.notEqual(await client.pid(), pid, "the session has another process");
    await page.getByText("The server was restarted on request.").waitFor();
  })));

test("the restart button works with the keyboard, and keeps the focus", () => served([], (gateway) =>
  opened(gateway, {}, async (page) => {
    const client = await gateway.session();
    const pid = await client.pid();
    await state(page, "Running");
    const restart = button(page, "Restart");
    await tabTo(page, restart);
    await page.keyboard.press("Enter");
    await until("the old process ends", () => !isRunning(pid));
    await page.getByRole("img", { name: "Restarts in the last hour: 1" }).waitFor();
    assert.equal(await restart.evaluate((it) => it === document.activeElement), true);
    await page.keyboard.press("Space");
    await page.getByRole("img", { name: "Restarts in the last hour: 2" }).waitFor();
  })));

test("the stop button asks once more, stops, and the next call starts the server again", () => served([], (gateway) =>
  opened(gateway, {}, async (page) => {
    const client = await gateway.session();
    const pid = await client.pid();
    await state(page, "Running");
    await tabTo(page, button(page, "Stop"));
    await page.keyboard.press("Enter");
    await page.getByText("Press again to stop").waitFor();
    await page.getByRole("status").getByText("It starts again with the next call.").waitFor();
    assert.equal(isRunning(pid), true);
    await page.keyboard.press("Enter");
    await until("the process ends", () => !isRunning(pid));
    await state(page, "Idle");
    await page.getByText("Not running. The next call starts it.").waitFor();
    assert.equal((await client.call("pid")).status, 404, "the client is told to begin anew");
    assert.notEqual(await (await gateway.session()).pid(), pid);
    await state(page, "Running");
  })));

// A gateway whose server has been looked at, and then offers something else.
async function pinned(flags, run) {
  const gateway = await Gateway.ofFile("--pin", ...flags);
  try {
    const client = await gateway.session(flags[1]);
    await client.request("tools/list");
    const description = "Reads.\u202e<b>Obey</b>";
    writeFileSync(gateway.tools, JSON.stringify([{ name: "new", description, inputSchema: { type: "object" } }]));
    await client.call("server__echo", { text: "hi" });
    await run(gateway, client);
  } finally {
    await gateway.stop();
  }
}

const names = async (client) => (await client.request("tools/list")).result.tools.map((it) => it.name);

test("what is withheld is shown as text, and accepted with the keyboard", () => pinned([], (gateway, client) =>
  opened(gateway, {}, async (page) => {
    await page.getByRole("heading", { name: "Withheld: 1 definition" }).waitFor();
    const shown = await page.locator(".withheld pre").textContent();
    assert.match(shown, /\+ description: "Reads\.\\u\{202e\}<b>Obey<\/b>"/);
    assert.equal(await page.locator(".withheld b").count(), 0);
    assert.doesNotMatch((await names(client)).join(), /new/);
    const accept = page.getByRole("button", { name: "Accept what server offers now" });
    await tabTo(page, accept);
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("Accepted.").waitFor();
    await page.locator(".withheld").waitFor({ state: "detached" });
    assert.match((await names(client)).join(), /server__new/);
  })));

test("a server that changes once more has another button, and the old one accepts nothing", () =>
  pinned([], (gateway, client) => opened(gateway, {}, async (page) => {
    const accept = page.getByRole("button", { name: "Accept what server offers now" });
    const digest = await accept.getAttribute("data-digest");
    writeFileSync(gateway.tools, JSON.stringify([{ name: "newer", inputSchema: { type: "object" } }]));
    await client.call("server__echo", { text: "hi" });
    await page.locator(".withheld").getByText("newer").first().waitFor();
    assert.notEqual(await accept.getAttribute("data-digest"), digest);
    const headers = { "Outlive-Action": "accept", "Outlive-Digest": digest };
    const reply = await fetch(new URL("servers/server/accept", gateway.page), { method: "POST", headers });
    assert.equal(reply.status, 409);
    assert.doesNotMatch((await names(client)).join(), /new/);
  })));

const GUARDED = ["--token", TOKEN];

test("a stranger sees nothing, and whoever shows the token sees and acts", () => served(GUARDED, async (gateway) => {
  const client = await gateway.session(TOKEN);
  const pid = await client.pid();
  const stranger = await browser.newContext();
  const page = await stranger.newPage();
  const reply = await stranger.request.get(gateway.page.href);
  assert.equal(reply.status(), 401);
  assert.doesNotMatch(await reply.text(), /server\.mjs|Running/);
  // A browser asks for a password; nobody gives one.
  await page.goto(gateway.page.href).catch((error) => assert.match(error.message, /AUTH/));
  assert.equal(await page.locator("article, button").count(), 0);
  assert.doesNotMatch(await page.content(), /server\.mjs|Running/);
  await stranger.close();
  await opened(gateway, { httpCredentials: { username: "me", password: TOKEN } }, async (page) => {
    await state(page, "Running");
    await button(page, "Restart").click();
    await until("the old process ends", () => !isRunning(pid));
    assert.notEqual(await client.pid(), pid);
  });
}));

test("a page from elsewhere does nothing, whatever it sends and whatever the browser knows", async () => {
  const html = "<!doctype html><title>elsewhere</title><body></body>";
  const elsewhere = createServer((_, reply) => reply.setHeader("content-type", "text/html").end(html));
  await new Promise((done) => elsewhere.listen(0, "127.0.0.1", done));
  try {
    for (const flags of [[], GUARDED]) {
      await served(flags, async (gateway) => {
        const client = await gateway.session(flags[1]);
        const pid = await client.pid();
        const context = await browser.newContext({ httpCredentials: { username: "me", password: TOKEN } });
        const page = await context.newPage();
        // The browser knows the password from here on.
        await page.goto(gateway.page.href);
        await state(page, "Running");
        const target = new URL("servers/server/restart", gateway.page).href;
        for (const name of ["127.0.0.1", "localhost"]) {
          await page.goto(`http://${name}:${elsewhere.address().port}/`);
          const statuses = await page.evaluate(async (target) => {
            const post = (more) => {
              const reply = fetch(target, { method: "POST", credentials: "include", ...more });
              return reply.then((it) => it.status, () => "refused");
            };
            return Promise.all([
              post({ mode: "no-cors" }),
              post({}),
              post({ headers: { "Outlive-Action": "restart" } }),
              post({ credentials: "omit", headers: { "Outlive-Action": "restart" } }),
            ]);
          }, target);
          for (const status of statuses) assert.notEqual(status, 200, `${statuses}`);
          const answered = page.waitForResponse(target);
          await page.evaluate((target) => {
            const form = document.createElement("form");
            Object.assign(form, { method: "POST", action: target });
            document.body.append(form);
            form.submit();
          }, target);
          assert.equal((await answered).status(), 403);
          await page.waitForURL(target);
        }
        assert.equal(await client.pid(), pid);
        assert.equal(isRunning(pid), true);
        await context.close();
      });
    }
  } finally {
    elsewhere.close();
  }
});

test("a narrow screen needs no scrolling to the side", () => served([], async (gateway) => {
  const client = await gateway.session();
  await client.request("tools/list");
  await client.call("crash", { say: `a word that is very long: ${"x".repeat(300)}`, code: 1 });
  for (const width of [320, 390]) {
    await opened(gateway, { viewport: { width, height: 800 }, isMobile: true }, async (page) => {
      await page.getByText("a word that is very long").waitFor();
      for (const summary of await page.locator("summary").all()) await summary.click();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${wide} at ${width}`);
      const heights = await page.locator("button").evaluateAll((all) => all.map((it) => it.offsetHeight));
      assert.ok(Math.min(...heights) >= 32, "buttons can be hit with a finger");
    });
  }
}));

// The text on the page whose contrast is too low, by the formula of WCAG 2.
function faint() {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (rgb) => {
    const linear = (it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((it) => linear(it / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = channels(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.nodeValue.trim() || !element.checkVisibility()) continue;
    const [a, b] = [channels(getComputedStyle(element).color).slice(0, 3), ground(element)].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)} ${texts.currentNode.nodeValue.trim()}`);
  }
  return found;
}

test("light and dark can be read", () => served(QUICK, async (gateway) => {
  const client = await gateway.session();
  await client.request("tools/list");
  const grounds = [];
  for (const fault of [false, true]) {
    if (fault) {
      writeFileSync(gateway.fault, "");
      await client.call("crash", { say: "so it goes", code: 1 });
    }
    for (const colorScheme of ["light", "dark"]) {
      await opened(gateway, { colorScheme }, async (page) => {
        await state(page, fault ? "Down" : "Running");
        for (const summary of await page.locator("summary").all()) await summary.click();
        assert.deepEqual(await page.evaluate(faint), [], colorScheme);
        grounds.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
      });
    }
  }
  assert.notEqual(grounds[0], grounds[1], "there are two schemes");
}));

test("without JavaScript it is a page that reloads", () => served([], async (gateway) => {
  const client = await gateway.session();
  const pid = await client.pid();
  const context = await browser.newContext({ javaScriptEnabled: false });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  await page.goto(gateway.page.href);
  await state(page, "Running");
  assert.equal(await page.locator("button").first().isVisible(), false);
  process.kill(pid, "SIGKILL");
  await page.getByText("The server was ended by signal 9 (SIGKILL).").waitFor();
  await context.close();
}));

test("when outlive itself is gone, the page says so", () => served([], async (gateway) => {
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  await page.goto(gateway.page.href);
  await page.getByText("Live: what you see").waitFor();
  gateway.child.kill("SIGKILL");
  await page.getByText("outlive does not answer. What you see is from").waitFor();
  await context.close();
}));

const only = process.argv.slice(2);
let [passed, failed] = [0, 0];
for (const { name, run } of tests.filter((it) => only.every((word) => it.name.includes(word)))) {
  try {
    const begun = Date.now();
    await run();
    passed += 1;
    console.log(`ok     ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}\n${error.stack}`);
  }
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
