// `outlive serve` before the test server, and a client at it.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const HERE = import.meta.dirname ?? new URL(".", import.meta.url).pathname;
const OUTLIVE = process.env.OUTLIVE_BIN ?? join(HERE, "../../target/debug/outlive");

export class Gateway {
  // Before the one server.
  static async start(...flags) {
    const gateway = new Gateway();
    return gateway.serve([...flags, "--", ...gateway.server]);
  }

  // Before a file with the one server.
  static async ofFile(...flags) {
    const gateway = new Gateway();
    const [command, ...args] = gateway.server;
    const file = join(gateway.folder, "mcp.json");
    writeFileSync(file, JSON.stringify({ mcpServers: { server: { command, args } } }));
    return gateway.serve([...flags, "--servers", file]);
  }

  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "outlive-page-"));
    // While this file is there, no server starts.
    this.fault = join(this.folder, "fault");
    // The tools in this file are offered, too.
    this.tools = join(this.folder, "tools");
    this.server = [process.execPath, join(HERE, "server.mjs"), this.fault, this.tools];
  }

  async serve(flags) {
    const gateway = this;
    const ours = ["--listen", "127.0.0.1:0", "--log-format", "json", "--stderr", "capture"];
    const words = ["serve", ...ours, ...flags];
    const env = { ...process.env, OUTLIVE_STATE_DIR: join(gateway.folder, "state") };
    gateway.child = spawn(OUTLIVE, words, { env, stdio: ["ignore", "ignore", "pipe"] });
    gateway.ended = new Promise((done) => gateway.child.once("exit", done));
    const lines = createInterface({ input: gateway.child.stderr });
    const url = await new Promise((found, failed) => {
      lines.on("line", (line) => {
        const event = JSON.parse(line);
        if (event.event === "listening") found(event.url);
      });
      gateway.ended.then((code) => failed(new Error(`outlive ended with ${code}`)));
    });
    gateway.mcp = new URL(url);
    gateway.page = new URL("/", url);
    return gateway;
  }

  async stop() {
    this.child.kill("SIGKILL");
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true });
  }

  async session(token) {
    const client = new Client(this.mcp, token);
    const clientInfo = { name: "page-test", version: "1.0.0" };
    await client.request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    await client.send({ method: "notifications/initialized" });
    return client;
  }
}

export class Client {
  constructor(url, token) {
    this.url = url;
    this.headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    if (token) this.headers.authorization = `Bearer ${token}`;
    this.ids = 0;
  }

  async send(message) {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    const reply = await fetch(this.url, { method: "POST", headers: this.headers, body });
    const session = reply.headers.get("mcp-session-id");
    if (session) this.headers["mcp-session-id"] = session;
    return { status: reply.status, text: await reply.text() };
  }

  // The answer, which may come as an event.
  async request(method, params) {
    const { status, text } = await this.send({ id: ++this.ids, method, params });
    const events = text.split("\n").filter((it) => it.startsWith("data: {"));
    const data = text.startsWith("{") ? text : events.pop()?.slice(6);
    return { status, ...JSON.parse(data ?? "{}") };
  }

  async call(name, args = {}) {
    return this.request("tools/call", { name, arguments: args });
  }

  async pid() {
    const answer = await this.call("pid");
    return Number(answer.result.content[0].text);
  }
}
