// The TypeScript SDK's client with all servers of a file, over Streamable HTTP: it lists their tools and calls one of
// each.
//
// usage: node typescript_servers.mjs sdk|client PLAN URL      prints one JSON object

import { readFileSync } from 'node:fs';

const [generation, plan, url] = process.argv.slice(2);
const v1 = generation === 'sdk';
const { Client } = await import(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StreamableHTTPClientTransport } = await import(
    v1 ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client'
);
const manifest = new URL(`../node_modules/@modelcontextprotocol/${generation}/package.json`, import.meta.url);
const { name, version } = JSON.parse(readFileSync(manifest, 'utf8'));
const client = new Client(
    { name: 'typescript-host', version: '0' },
    { capabilities: {}, versionNegotiation: { mode: 'auto' } }
);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const tools = (await client.listTools()).tools.map(tool => tool.name);
const ends = {};
await Promise.all(
    JSON.parse(readFileSync(plan, 'utf8')).map(async step => {
        try {
            const result = await client.callTool({ name: step.name, arguments: step.arguments });
            ends[step.name] = { text: result.content[0].text };
        } catch (error) {
            ends[step.name] = { error: `${error.name}: ${error.message}` };
        }
    })
);
await client.close();
console.log(JSON.stringify({ sdk: `${name} ${version}`, tools, ends }));
