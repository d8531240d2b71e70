// What `outlive run URL` and `mcp-remote URL` do before the same server and authorization server when something fails.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { Person } from "./person.mjs";
import { World } from "./provider.mjs";

// A call that has no answer after this time, in milliseconds, has none.
const BOUND = 20_000;
const here = (path) => new URL(path, import.meta.url).pathname;
const OUTLIVE = process.env.OUTLIVE_BIN ?? here("../../target/debug/outlive");
const person = await Person.start();

const CONTENDERS = {
  "outlive run": (url, folder) => [OUTLIVE, ["run", url], {
    OUTLIVE_TOKEN_STORE: join(folder, "logins"), OUTLIVE_LOGIN: "link", XDG_STATE_HOME: folder,
  }],
  "mcp-remote": (url, folder) => ["node", [here("node_modules/mcp-remote/dist/proxy.js"), url, "--allow-http"], {
    MCP_REMOTE_CONFIG_DIR: folder, HOME: folder, BROWSER: "true",
  }],
};

// A host in front of one of them. It logs in whenever it is asked to, and counts that.
class Host {
  links = 0;
  said = "";
  answers = new Map();
  next = 0;

  constructor(world, folder, contender, willing = true) {
    const [program, args, env] = CONTENDERS[contender](world.url, folder);
    this.child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "pipe"] });
    this.child.stdin.on("error", () => {});
    this.ended = new Promise((done) => this.child.once("close", done));
    createInterface({ input: this.child.stderr }).on("line", (line) => {
      this.said += `${line}\n`;
      const link = /(http:\/\/127[^\s"]*\/auth\?\S+)/.exec(line);
      if (!link || link[1] === this.link) return;
      this.link = link[1];
      this.links += 1;
      if (willing) person.logIn(link[1]).catch((error) => { this.said += `${error}\n`; });
    });
    createInterface({ input: this.child.stdout }).on("line", (line) => {
      const message = JSON.parse(line);
      this.answers.get(message.id)?.(message);
    });
  }

  // The answer, or why there is none, in a few words.
  async ask(method, params) {
    const id = ++this.next;
    const begun = Date.now();
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    const answered = new Promise((done) => this.answers.set(id, done));
    const ended = this.ended.then(() => ({ ended: true }));
    const answer = await Promise.race([answered, ended, sleep(BOUND, { late: true })]);
    const took = `${((Date.now() - begun) / 1000).toFixed(1)} s`;
    if (answer.result) return { good: true, words: `answered after ${took}` };
    if (answer.late) return { words: `no answer in ${BOUND / 1000} s` };
    if (answer.ended) return { words: `the process ended after ${took}` };
    return { words: `error after ${took}: ${answer.error.message.replace(/\s+/g, " ").slice(0, 160)}` };
  }

  async greet() {
    const clientInfo = { name: "host", version: "1" };
    const answer = await this.ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    this.child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    return answer;
  }

  call() { return this.ask("tools/call", { name: "any", arguments: {} }); }

  async stop() {
    this.child.kill("SIGKILL");
    await this.ended;
  }
}

const told = (host, answer) => `${answer.words}; ${host.links === 0 ? "no login" : `${host.links} login(s)`}`;
const expire = () => sleep(5000);

// Each begins with a login that is kept, and no process.
const CASES = {
  "the token has expired at the start": async (world, start) => {
    await expire();
    const host = start();
    const greeted = await host.greet();
    return told(host, greeted.good ? await host.call() : greeted);
  },
  "it expires in a session": async (world, start) => {
    const host = start();
    await host.greet();
    await host.call();
    await expire();
    return told(host, await host.call());
  },
  "the refresh is answered with 500, once": async (world, start) => {
    const host = start();
    await host.greet();
    await expire();
    world.failing = 1;
    const first = await host.call();
    return first.good ? told(host, first) : `${told(host, first)}; then: ${told(host, await host.call())}`;
  },
  "the refresh is refused": async (world, start) => {
    const host = start();
    await host.greet();
    world.withdraw();
    const first = await host.call();
    return first.good ? told(host, first) : `${told(host, first)}; then: ${told(host, await host.call())}`;
  },
  "the provider is down for 8 s": async (world, start) => {
    const host = start();
    await host.greet();
    await expire();
    world.down = true;
    setTimeout(() => { world.down = false; }, 8000);
    const first = await host.call();
    await sleep(9000);
    return first.good ? told(host, first) : `${told(host, first)}; then: ${told(host, await host.call())}`;
  },
  "two processes, ten expiries": async (world, start) => {
    const hosts = [start(), start()];
    let [good, all] = [0, 0];
    const failures = new Set();
    for (const host of hosts) await host.greet();
    for (let n = 0; n < 10; n += 1) {
      await sleep(4200);
      for (const answer of await Promise.all(hosts.map((host) => host.call()))) {
        all += 1;
        if (answer.good) good += 1; else failures.add(answer.words);
      }
      if (hosts.every((host) => host.child.exitCode !== null)) break;
    }
    const refreshes = world.books.grants.filter((it) => it === "refresh_token").length;
    const refused = world.books.grants.filter((it) => it.startsWith("refresh_token: ")).length;
    const logins = hosts.map((host) => host.links).reduce((a, b) => a + b);
    const why = failures.size ? ` (${[...failures].slice(0, 2).join("; ")})` : "";
    return `${good} of ${all} calls answered${why}; ${refreshes} refreshes, ${refused} refused; ${logins} logins`;
  },
};

console.log(`| what happens | ${Object.keys(CONTENDERS).join(" | ")} |\n|---|${"---|".repeat(Object.keys(CONTENDERS).length)}`);
for (const [name, run] of Object.entries(CASES)) {
  const cells = await Promise.all(Object.keys(CONTENDERS).map(async (contender) => {
    const folder = mkdtempSync(join(tmpdir(), "outlive-compare-"));
    const world = await World.start();
    const hosts = [];
    const start = () => {
      hosts.push(new Host(world, folder, contender));
      return hosts.at(-1);
    };
    try {
      const first = start();
      const greeted = await first.greet();
      if (!greeted.good) return `no first login: ${greeted.words} ${process.env.VERBOSE ? first.said : ""}`;
      await first.stop();
      return await run(world, start);
    } finally {
      for (const host of hosts) {
        await host.stop();
        if (process.env.VERBOSE) console.error(`--- ${contender}: ${name}\n${host.said}`);
      }
      world.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  }));
  console.log(`| ${[name, ...cells].join(" | ")} |`);
}
await person.leave();
