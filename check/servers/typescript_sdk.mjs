// A server on the TypeScript SDK, for `outlive check server`: `sdk` is @modelcontextprotocol/sdk (1.x), `server` is
// @modelcontextprotocol/server (2.x, which speaks both eras). Tools: quick, slow, ask.
//
// usage: node typescript_sdk.mjs sdk|server [FOLDER]
//        FOLDER holds node_modules with the SDK; else the working directory does

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const [generation = 'sdk', folder = '.'] = process.argv.slice(2);
const v1 = generation === 'sdk';
const { resolve: find } = createRequire(pathToFileURL(join(resolve(folder), 'x.mjs')));
const load = async name => import(pathToFileURL(find(name)));
const { z } = await load('zod');
const { McpServer } = await load(v1 ? '@modelcontextprotocol/sdk/server/mcp.js' : '@modelcontextprotocol/server');
const manifest = join(resolve(folder), 'node_modules/@modelcontextprotocol', generation, 'package.json');
const { name, version } = JSON.parse(readFileSync(manifest, 'utf8'));

const text = text => ({ content: [{ type: 'text', text }] });

function tools() {
    const server = new McpServer({ name, version });
    const tool = (name, shape, use) =>
        server.registerTool(name, { inputSchema: v1 ? shape : z.object(shape) }, async (args, context) =>
            text(await use(args, context))
        );
    tool('quick', {}, () => 'done');
    tool('slow', { seconds: z.number().default(2) }, async ({ seconds }, context) => {
        const { progressToken } = (v1 ? context._meta : context.mcpReq._meta) ?? {};
        const notify = v1 ? context.sendNotification : context.mcpReq.notify;
        for (let progress = 0; progress < 10; progress++) {
            if (progressToken !== undefined) {
                await notify({ method: 'notifications/progress', params: { progressToken, progress, total: 10 } });
            }
            await sleep(seconds * 100);
        }
        return 'done';
    });
    tool('ask', {}, async () => String((await server.server.listRoots()).roots.length));
    return server;
}

if (v1) {
    const { StdioServerTransport } = await load('@modelcontextprotocol/sdk/server/stdio.js');
    await tools().connect(new StdioServerTransport());
} else {
    const { serveStdio } = await load('@modelcontextprotocol/server/stdio');
    serveStdio(tools);
}
