// Drives the client of the TypeScript SDK for `outlive check client`: `sdk` is @modelcontextprotocol/sdk (1.x), `client`
// is @modelcontextprotocol/client (2.x, which speaks whichever era the server does).
//
// usage: outlive check client -- node check/drivers/typescript_sdk.mjs sdk|client [FOLDER]
//        FOLDER holds node_modules with the SDK; else the working directory does

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [generation = 'sdk', folder = '.'] = process.argv.slice(2);
const v1 = generation === 'sdk';
const { resolve: find } = createRequire(pathToFileURL(join(resolve(folder), 'x.mjs')));
const load = async path => import(pathToFileURL(find(`@modelcontextprotocol/${generation}${path}`)));
const { Client } = await load(v1 ? '/client/index.js' : '');
const { StdioClientTransport } = await load(v1 ? '/client/stdio.js' : '/stdio');
const { StreamableHTTPClientTransport } = await load(v1 ? '/client/streamableHttp.js' : '');
const manifest = join(resolve(folder), 'node_modules/@modelcontextprotocol', generation, 'package.json');
const { name, version } = JSON.parse(readFileSync(manifest, 'utf8'));

const say = what => process.stdout.write(`${JSON.stringify(what)}\n`);
const calls = new Map();
let client;
let connected = false;

async function connect({ command, url }) {
    client = new Client({ name: 'outlive check driver', version: '0' }, { versionNegotiation: { mode: 'auto' } });
    client.onclose = () => (connected = false);
    const [program, ...args] = command ?? [];
    const transport = url
        ? new StreamableHTTPClientTransport(new URL(url))
        : new StdioClientTransport({ command: program, args });
    await client.connect(transport);
    connected = true;
    return true;
}

async function call({ n, tool, arguments: given }) {
    const abort = new AbortController();
    calls.set(n, abort);
    const params = { name: tool, arguments: given };
    // Its being there is what makes the client ask for progress.
    const options = { signal: abort.signal, onprogress: () => {} };
    // In 1.x the options come third, after a result schema.
    const result = await (v1 ? client.callTool(params, undefined, options) : client.callTool(params, options));
    return result.content[0].text;
}

const verbs = {
    connect,
    call,
    list: async () => (await client.listTools()).tools.map(tool => tool.name),
    cancel: async ({ call }) => (calls.get(call)?.abort('the check said so'), true),
    state: async () => (connected ? 'connected' : 'disconnected'),
    close: async () => (await client.close(), true)
};

// A status in place of an answer stands beside the words: as the code in 1.x, by name in 2.x.
const status = error => error?.status ?? (error?.code >= 100 ? error.code : undefined);

// The SDK's own failures are errors with codes like the server's; in 2.x they are strings.
function kind(error, errand) {
    if (calls.get(errand.n)?.signal.aborted) return 'cancelled';
    if (error.code === -32000 || error.code === 'CONNECTION_CLOSED' || /not connected/i.test(error.message)) return 'lost';
    if (error.code === -32001 || error.code === 'REQUEST_TIMEOUT') return 'timeout';
    if (status(error)) return 'other';
    return Number.isInteger(error.code) ? 'answered' : 'other';
}

say({ client: `${name} ${version}`, over: ['stdio', 'http'] });
for await (const line of createInterface({ input: process.stdin })) {
    const errand = JSON.parse(line);
    const verb = verbs[errand.do];
    const words = error => `${error?.name}: ${error?.message ?? error}${status(error) ? ` (HTTP ${status(error)})` : ''}`;
    const failed = error => ({ kind: kind(error, errand), message: words(error) });
    if (!verb) say({ n: errand.n, error: { kind: 'unsupported', message: `there is no ${errand.do}` } });
    else verb(errand).then(ok => say({ n: errand.n, ok }), error => say({ n: errand.n, error: failed(error) }));
}
process.exit(0);
