// A host on the official SDK: starts the command that it is given, has its server killed and exit, and goes on.
//
//   node client.mjs COMMAND ARGUMENT…
//
// Prints the processes of the servers, and what a lost call was told.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "node", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
const pid = async () => Number((await client.callTool({ name: "pid" })).content[0].text);

const tools = (await client.listTools()).tools.map((tool) => tool.name);
const pids = [await pid()];
process.kill(pids[0], "SIGKILL");
pids.push(await pid());
const lost = await client.callTool({ name: "exit" }).then(
  () => null,
  (error) => ({ message: error.message, kind: error.data?.outlive?.kind }),
);
pids.push(await pid());
await client.close();
console.log(JSON.stringify({ tools, pids, lost }));
