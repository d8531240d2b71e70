// Logins at a real authorization server (oidc-provider) in a real browser: what a person and a host meet.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { PATIENCE, Person } from "./person.mjs";
import { World } from "./provider.mjs";

const OUTLIVE = process.env.OUTLIVE_BIN ?? new URL("../../target/debug/outlive", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "outlive-login-"));
const store = join(folder, "logins");
const person = await Person.start();
const world = await World.start();
const children = [];
let said = "";

// A running outlive; what it says is kept to be searched for secrets.
function outlive(...args) {
  const env = { ...process.env, OUTLIVE_TOKEN_STORE: store, OUTLIVE_LOGIN: "link", XDG_STATE_HOME: folder };
  const child = spawn(OUTLIVE, args, { env, stdio: ["pipe", "pipe", "pipe"] });
  children.push(child);
  const waiting = [];
  const links = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      said += `${line}\n`;
      const link = /wants a login: .*?(http\S+)/.exec(line);
      if (!link) return;
      if (waiting.length) waiting.shift()(link[1]); else links.push(link[1]);
    });
  }
  const ended = new Promise((done) => child.once("close", done));
  const link = () => links.length ? links.shift() : new Promise((done) => waiting.push(done));
  return { child, ended, link };
}

async function within(what, promise) {
  const late = sleep(PATIENCE, undefined, { ref: false });
  const failed = late.then(() => { throw new Error(`${what} took too long\n${said}`); });
  return await Promise.race([promise, failed]);
}

class Host {
  constructor() {
    Object.assign(this, outlive("run", world.url));
    this.answers = new Map();
    this.next = 0;
    createInterface({ input: this.child.stdout }).on("line", (line) => {
      const message = JSON.parse(line);
      this.answers.get(message.id)?.(message);
    });
  }
  ask(method, params) {
    const id = ++this.next;
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return within(method, new Promise((done) => this.answers.set(id, done)));
  }
  async greet() {
    const clientInfo = { name: "host", version: "1" };
    const welcome = await this.ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    assert.ok(welcome.result, JSON.stringify(welcome));
    this.child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  }
  call() { return this.ask("tools/call", { name: "any", arguments: {} }); }
  async works() {
    const answer = await this.call();
    assert.ok(answer.result, JSON.stringify(answer));
  }
  async stop() {
    this.child.stdin.end();
    await within("the end", this.ended);
  }
}

const count = (kind) => world.books.grants.filter((it) => it === kind).length;

try {
  console.log("a person logs in with a browser");
  const login = outlive("login", world.url);
  const words = await person.logIn(await within("the link", login.link()));
  assert.match(words, /You can close this page/);
  assert.equal(await within("the login", login.ended), 0, said);

  console.log("calls work, and tokens that expire are refreshed and rotated");
  const host = new Host();
  await host.greet();
  const end = Date.now() + 12_000;
  while (Date.now() < end) {
    await host.works();
    await sleep(200);
  }
  assert.ok(count("refresh_token") >= 2, JSON.stringify(world.books.grants));
  assert.equal(count("authorization_code"), 1);

  console.log("the provider restarts with another key, and is down for a moment");
  world.down = true;
  await sleep(5000);
  const held = host.call();
  await sleep(1000);
  await world.restart();
  world.down = false;
  assert.ok((await held).result, said);
  await host.works();
  assert.equal(count("authorization_code"), 1, "nobody logs in again");

  console.log("what was withdrawn costs one login, which the waiting call gets");
  world.withdraw();
  const waiting = host.call();
  await person.logIn(await within("the link", host.link()));
  assert.ok((await waiting).result, said);
  await host.works();
  assert.equal(count("authorization_code"), 2);
  await host.stop();

  console.log("a logout revokes the refresh token");
  const logout = outlive("logout", world.url);
  assert.equal(await within("the logout", logout.ended), 0, said);
  const left = [...world.database.rows].filter(([key, row]) => key.startsWith("RefreshToken ") && !row.consumed);
  assert.deepEqual(left, []);

  const odd = world.books.grants.filter((it) => !["authorization_code", "refresh_token"].includes(it));
  assert.deepEqual(odd, ["refresh_token: invalid_grant"], "only what was withdrawn was refused");
  assert.ok(world.books.secrets.size >= 8);
  for (const secret of world.books.secrets) assert.ok(!said.includes(secret), "a secret is shown");
  console.log(`login: all is well (${world.books.grants.length} grants, ${world.books.calls} calls)`);
} finally {
  for (const child of children) child.kill("SIGKILL");
  await person.leave();
  world.stop();
  rmSync(folder, { recursive: true, force: true });
}
