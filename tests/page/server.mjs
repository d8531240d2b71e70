// A small MCP server over stdio for the tests of the page: legacy revisions; tools that answer, wait, fail and crash.
// While there is a file of the name it is given, it does not even start. A second file, if it is given, has further
// tools as JSON; when it has changed, the server says so with its next answer.
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

if (process.argv[2] && existsSync(process.argv[2])) {
  console.error("the disk is full");
  process.exit(3);
}

const TOOLS = ["echo", "pid", "sleep", "fail", "crash"];

const more = () => (process.argv[3] && existsSync(process.argv[3]) ? readFileSync(process.argv[3], "utf8") : "[]");
let listed = more();

const tools = {
  echo: ({ text }) => text,
  pid: () => String(process.pid),
  sleep: ({ ms }) => new Promise((done) => setTimeout(done, ms, "slept")),
  fail: () => { throw new Error("it failed"); },
  crash: ({ say, code }) => new Promise(() => process.stderr.write(`${say}\n`, () => process.exit(code))),
};

async function answer({ method, params }) {
  switch (method) {
    case "initialize": {
      const serverInfo = { name: "page-test-server", version: "1.0.0" };
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo };
    }
    case "ping": return {};
    case "tools/list": {
      const plain = TOOLS.map((name) => ({ name, inputSchema: { type: "object" } }));
      return { tools: [...plain, ...JSON.parse(more())] };
    }
    case "tools/call": {
      const text = await tools[params.name](params.arguments ?? {});
      return { content: [{ type: "text", text }] };
    }
    default: throw new Error(`no method ${method}`);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.id === undefined || !request.method) continue;
  const say = (rest) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: request.id, ...rest })}\n`);
  const fail = ({ message }) => say({ error: { code: -32000, message } });
  answer(request).then((result) => say({ result }), fail);
  if (listed !== more()) {
    listed = more();
    process.stdout.write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n');
  }
}
