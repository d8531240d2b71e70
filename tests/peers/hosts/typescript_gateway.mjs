// The TypeScript SDK's client over Streamable HTTP with `servers/tools.py` behind `outlive serve`; the server is killed in a
// call.
//
// usage: node typescript_gateway.mjs sdk|client URL SCRATCH      prints one JSON object

import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

const [generation, url, scratch] = process.argv.slice(2);
const v1 = generation === 'sdk';
const { Client } = await import(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StreamableHTTPClientTransport } = await import(
    v1 ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client'
);
const client = new Client(
    { name: 'typescript-host', version: '0' },
    { capabilities: {}, versionNegotiation: { mode: 'auto' } }
);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const text = async (name, args = {}) => (await client.callTool({ name, arguments: args })).content[0].text;

const started = `${scratch}/started`;
const first = await text('pid');
const call = text('linger', { seconds: 60, started }).then(
    words => ({ words }),
    error => ({ code: error.code, data: error.data, words: error.message })
);
while (!existsSync(started)) {
    await setTimeout(20);
}
process.kill(Number(first), 'SIGKILL');
const killed = await call;
const after = await text('ping');
const another = (await text('pid')) !== first;
await client.close();
console.log(JSON.stringify({ killed, after, another }));
