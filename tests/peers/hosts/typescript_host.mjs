// The TypeScript SDK's client, both major versions: a server killed in the middle of a call, a call aborted from outside.
//
// usage: node typescript_host.mjs sdk|client SCRATCH_FOLDER COMMAND ARG…      prints one JSON object

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { open } from './typescript_client.mjs';

const [generation, scratch, command, ...args] = process.argv.slice(2);
const { client, sdk, connect, call } = await open(generation, command, args);
const text = async tool => (await call({ name: tool, arguments: {} })).content[0].text;

// A call that is known to have reached its tool. Its end is a value, so that no rejection goes unhandled meanwhile.
async function begun(started, options) {
    const end = call({ name: 'linger', arguments: { seconds: 60, started } }, options).then(
        result => ({ result: result.content[0].text }),
        error => ({
            type: error.constructor.name,
            name: error.name,
            code: error.code,
            message: error.message,
            data: error.data
        })
    );
    while (!existsSync(started)) await sleep(10);
    return { end };
}

await connect();
const pid = await text('pid');
const killed = await begun(join(scratch, 'killed'));
process.kill(Number(pid), 'SIGKILL');
const seen = {
    sdk,
    protocol: client.getNegotiatedProtocolVersion?.() ?? null,
    killed: await killed.end,
    'after the kill': await text('ping'),
    'another process': (await text('pid')) !== pid
};

const nextPid = await text('pid');
const abort = new AbortController();
const cancelled = await begun(join(scratch, 'cancelled'), { signal: abort.signal });
abort.abort();
seen.cancelled = await cancelled.end;
seen['after the cancel'] = await text('ping');
seen['same process'] = (await text('pid')) === nextPid;
await client.close();
console.log(JSON.stringify(seen));
