// The TypeScript SDK's client as a program opens it: `sdk` is @modelcontextprotocol/sdk (1.x), `client` is
// @modelcontextprotocol/client (2.x, which speaks whichever era the server does).

import { readFileSync } from 'node:fs';

// Returns a client not yet connected, how to connect it, and how it calls a tool.
export async function open(generation, command, args, capabilities = {}) {
    const v1 = generation === 'sdk';
    const { Client } = await import(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
    const { StdioClientTransport } = await import(
        v1 ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio'
    );
    const manifest = new URL(`../node_modules/@modelcontextprotocol/${generation}/package.json`, import.meta.url);
    const { name, version } = JSON.parse(readFileSync(manifest, 'utf8'));
    const client = new Client(
        { name: 'typescript-host', version: '0' },
        { capabilities, versionNegotiation: { mode: 'auto' } }
    );
    return {
        client,
        sdk: `${name} ${version}`,
        connect: () => client.connect(new StdioClientTransport({ command, args })),
        // In 1.x the options come third, after a result schema.
        call: (params, options) =>
            v1 ? client.callTool(params, undefined, options) : client.callTool(params, options)
    };
}
