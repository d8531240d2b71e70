// Compiled, not run: the types say what the module does.

import { errorOf, executable, stdio, ConnectionLost, OutliveError, type Policy, type StdioServer } from 'outlive';

const policy: Policy = { requestTimeout: 60_000, retry: 'never', exitOnFailed: true };
const server: StdioServer = stdio('uvx', ['mcp-server-time'], { ...policy, env: { TZ: 'UTC' } });
const words: string[] = [server.command, ...server.args, executable()];
const ours: OutliveError | undefined = errorOf(new Error(words.join(' ')));
if (ours instanceof ConnectionLost && ours.outcome === 'unknown') console.log(ours.lossCause?.signal, ours.retryable);
// @ts-expect-error: there is no such setting
stdio('uvx', [], { requestTimeot: '60s' });
// @ts-expect-error: there is no such value
stdio('uvx', [], { retry: 'sometimes' });
