// The TypeScript SDK's client, both major versions, in an ordinary session with `servers/tools.py`.
//
// usage: node typescript_session.mjs sdk|client COMMAND ARG…      prints one JSON object

import { open } from './typescript_client.mjs';

const [generation, command, ...args] = process.argv.slice(2);
const { client, sdk, connect, call } = await open(generation, command, args, { roots: {} });
client.fallbackRequestHandler = async () => ({ roots: [{ uri: 'file:///one', name: 'Eins' }] });
// Its being there is what makes the client ask for progress.
const onprogress = () => {};

await connect();
const ends = [];
for (const step of [
    () => client.listTools(),
    () => client.listPrompts(),
    () => client.listResources(),
    () => client.listResourceTemplates(),
    () => call({ name: 'ping', arguments: {} }),
    () => call({ name: 'echo', arguments: { value: [1.5, 1e100, 'é \u2028 \u{1f980}', { id: 7, method: 'x' }] } }),
    () => call({ name: 'echo', arguments: { value: 'x'.repeat(300_000) } }),
    () => call({ name: 'count', arguments: { to: 5 } }, { onprogress }),
    () => call({ name: 'fail', arguments: {} }),
    () => call({ name: 'no such tool', arguments: {} }),
    () => call({ name: 'roots', arguments: {} }),
    () => call({ name: 'announce', arguments: {} }),
    () => client.readResource({ uri: 'memo://greeting' }),
    () => client.readResource({ uri: 'memo://missing' }),
    () => client.getPrompt({ name: 'review', arguments: { code: 'fn main() {}' } }),
    () => client.setLoggingLevel('debug'),
    () => client.ping()
]) {
    ends.push(await step().catch(error => `${error}`));
}
const protocol = client.getNegotiatedProtocolVersion?.() ?? null;
await client.close();
console.log(JSON.stringify({ sdk, protocol, ends }));
