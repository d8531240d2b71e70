// The tools of `tools.py` on the TypeScript SDK: `sdk` is @modelcontextprotocol/sdk (1.x), `server` is
// @modelcontextprotocol/server (2.x, which speaks both eras).
//
// usage: node tools.mjs sdk|server

import { writeFileSync } from 'node:fs';
import { z } from 'zod';

const [generation] = process.argv.slice(2);
const v1 = generation === 'sdk';
const { McpServer } = await import(v1 ? '@modelcontextprotocol/sdk/server/mcp.js' : '@modelcontextprotocol/server');

const text = text => ({ content: [{ type: 'text', text }] });

function tools() {
    const server = new McpServer({ name: 'tools', version: '0' });
    const tool = (name, shape, use) =>
        server.registerTool(name, { inputSchema: v1 ? shape : z.object(shape) }, async (args, context) =>
            text(await use(args, context))
        );
    tool('ping', {}, () => 'pong');
    tool('pid', {}, () => String(process.pid));
    tool('echo', { value: z.any() }, ({ value }) => JSON.stringify(value));
    tool('fail', {}, () => {
        throw new Error('this tool always fails');
    });
    tool('count', { to: z.number() }, async ({ to }, context) => {
        const meta = v1 ? context._meta : context.mcpReq._meta;
        const notify = v1 ? context.sendNotification : context.mcpReq.notify;
        for (let progress = 1; progress <= to; progress++) {
            const params = { progressToken: meta.progressToken, progress };
            await notify({ method: 'notifications/progress', params });
        }
        return `counted to ${to}`;
    });
    tool('linger', { started: z.string() }, async ({ started }, context) => {
        const signal = v1 ? context.signal : context.mcpReq.signal;
        writeFileSync(started, '');
        await new Promise(resolve => signal.addEventListener('abort', resolve));
        writeFileSync(`${started}.cancelled`, '');
        return 'cancelled';
    });
    server.registerResource('greeting', 'memo://greeting', {}, async uri => ({
        contents: [{ uri: uri.href, text: 'hello, wörld \u2028 \u{1f980}' }]
    }));
    const argsSchema = v1 ? { code: z.string() } : z.object({ code: z.string() });
    server.registerPrompt('review', { argsSchema }, ({ code }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Please review:\n${code}` } }]
    }));
    return server;
}

if (v1) {
    const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
    await tools().connect(new StdioServerTransport());
} else {
    const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
    serveStdio(tools);
}
