// The TypeScript SDK's client with the server of `outlive` (`tests/interop`): everything the server offers, and a
// cancellation.
//
// usage: node typescript_interop.mjs sdk|client SCRATCH_FOLDER COMMAND ARG…      prints one JSON object

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { open } from './typescript_client.mjs';

const [generation, scratch, command, ...args] = process.argv.slice(2);
const { client, sdk, connect, call } = await open(generation, command, args, {
    roots: {},
    sampling: {},
    elicitation: {}
});
const answers = {
    'roots/list': { roots: [{ uri: 'file:///one' }] },
    'sampling/createMessage': { role: 'assistant', model: 'none', content: { type: 'text', text: 'it' } },
    'elicitation/create': { action: 'accept', content: { name: 'Ada' } }
};
for (const [method, answer] of Object.entries(answers)) {
    await handle(method, async () => answer);
}
const log = [];
client.fallbackNotificationHandler = async ({ method, params }) => {
    if (method === 'notifications/message') log.push(params.data);
};

// 1.x names a request by its schema, 2.x by its method.
async function handle(method, handler) {
    if (generation === 'client') return client.setRequestHandler(method, handler);
    const types = await import('@modelcontextprotocol/sdk/types.js');
    const schemas = {
        'roots/list': types.ListRootsRequestSchema,
        'sampling/createMessage': types.CreateMessageRequestSchema,
        'elicitation/create': types.ElicitRequestSchema
    };
    client.setRequestHandler(schemas[method], handler);
}

// Waits for the file by which a tool says how far it is. The tests end a run in which it does not come.
async function appearance(file) {
    while (!existsSync(file)) await sleep(5);
}

async function endOf(step) {
    try {
        const result = await step;
        return { 'is error': result.isError ?? false, text: result.content?.[0].text };
    } catch (error) {
        return { code: error.code, message: error.message };
    }
}

async function cancelled() {
    const started = join(scratch, 'started');
    const controller = new AbortController();
    const ended = call({ name: 'linger', arguments: { started } }, { signal: controller.signal }).then(
        () => 'finished',
        error => `${error}`
    );
    await appearance(started);
    controller.abort('the user changed their mind');
    await appearance(`${started}.cancelled`);
    return { kind: await ended };
}

const progress = [];
const onprogress = step => progress.push(step.progress);
const named = (list, key) => list.map(item => item[key]);

await connect();
const seen = {
    sdk,
    protocol: client.getNegotiatedProtocolVersion?.() ?? null,
    tools: named((await client.listTools()).tools, 'name'),
    prompts: named((await client.listPrompts()).prompts, 'name'),
    resources: named((await client.listResources()).resources, 'uri'),
    templates: named((await client.listResourceTemplates()).resourceTemplates, 'uriTemplate'),
    read: (await client.readResource({ uri: 'memo://greeting' })).contents[0].text,
    missing: await endOf(client.readResource({ uri: 'memo://missing' })),
    prompt: (await client.getPrompt({ name: 'review', arguments: { code: '1' } })).messages[0].content.text,
    completion: (
        await client.complete({
            ref: { type: 'ref/prompt', name: 'review' },
            argument: { name: 'code', value: 'fn' }
        })
    ).completion.values,
    echo: await endOf(call({ name: 'echo', arguments: { value: 'h\u00e9 \u2028' } })),
    fail: await endOf(call({ name: 'fail', arguments: {} })),
    unknown: await endOf(call({ name: 'no such tool', arguments: {} })),
    count: await endOf(call({ name: 'count', arguments: { to: 5 } }, { onprogress })),
    progress,
    log,
    roots: await endOf(call({ name: 'roots', arguments: {} })),
    sample: await endOf(call({ name: 'sample', arguments: {} })),
    ask: await endOf(call({ name: 'ask', arguments: {} })),
    cancelled: await cancelled(),
    ping: await endOf(call({ name: 'ping', arguments: {} }))
};
await client.close();
console.log(JSON.stringify(seen));
