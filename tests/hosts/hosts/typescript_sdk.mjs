// The clients of the TypeScript SDK: `sdk` is @modelcontextprotocol/sdk (1.x), `client` is @modelcontextprotocol/client.
//
// usage: node typescript_sdk.mjs sdk|client COMMAND ARG…      driven as lines.py says

import { createInterface } from 'node:readline';

import { open } from '../../peers/hosts/typescript_client.mjs';

const [generation, command, ...args] = process.argv.slice(2);
const bound = process.env.CALL_TIMEOUT ? { timeout: 1000 * Number(process.env.CALL_TIMEOUT) } : undefined;
const say = message => console.log(JSON.stringify(message));
const { client, connect, call } = await open(generation, command, args);
await connect();
await client.listTools(); // as a program does that offers them to a model
say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    try {
        if (request.tools) {
            say({ tools: (await client.listTools()).tools.map(tool => tool.name) });
            continue;
        }
        const result = await call({ name: request.call, arguments: request.arguments }, bound);
        const text = result.content.map(part => part.text).join(' ');
        say(result.isError ? { error: text } : { text });
    } catch (error) {
        say({ error: `${error.constructor.name}: ${error.message}` });
    }
}
await client.close();
