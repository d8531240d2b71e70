// A program that uses the npm package: the TypeScript SDK, a server that dies, what the module says.
//
// usage: host.mjs FOLDER-OF-THE-SDKS sdk|client SERVER-COMMAND…      prints one JSON object

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { stdio, errorOf, OutliveError } from 'outlive';

const [folder, generation, command, ...args] = process.argv.slice(2);
const find = createRequire(`${folder}/`);
const load = (name) => import(pathToFileURL(find.resolve(name)).href);
const v1 = generation === 'sdk';
const { Client } = await load(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StdioClientTransport } = await load(
    v1 ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio'
);

const client = new Client({ name: 'packages', version: '0' }, { capabilities: {} });
await client.connect(
    new StdioClientTransport(stdio(command, args, { logLevel: 'quiet', requestTimeout: 30_000, hold: '20s' }))
);

const call = async (name) => (await client.callTool({ name, arguments: {} })).content[0].text;

async function failure(name) {
    try {
        return { result: await call(name) };
    } catch (error) {
        const ours = errorOf(error);
        if (!ours) return { raised: error.constructor.name, ours: null };
        return {
            raised: error.constructor.name,
            ours: ours.name,
            isError: ours instanceof OutliveError && ours.cause === error,
            outcome: ours.outcome,
            generation: ours.generation,
            retryable: ours.retryable,
            signal: ours.lossCause?.signal,
            code: ours.code,
            message: ours.message
        };
    }
}

const before = await call('pid');
const seen = { refuse: await failure('refuse'), die: await failure('die') };
console.log(JSON.stringify({ ...seen, 'another server': (await call('pid')) !== before }));
await client.close();
