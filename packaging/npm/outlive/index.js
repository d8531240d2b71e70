// MCP sessions that outlive their servers: where the program is, how to start a server behind it, and what it says about
// a call that failed.

'use strict';

const { chmodSync, statSync } = require('node:fs');
const errors = require('./errors.js');
const { flags } = require('./policy.js');

/**
 * The packages that may hold the program for this platform, the best one first. On Linux the one for musl is a static
 * program, so it is also the one to take where the other is missing.
 */
function packages() {
    const name = `@outlive/${process.platform}-${process.arch}`;
    if (process.platform !== 'linux') return [name];
    return isMusl() ? [`${name}-musl`, name] : [`${name}-gnu`, `${name}-musl`, name];
}

function isMusl() {
    // Without this the report asks for the name of every network interface.
    if (process.report) process.report.excludeNetwork = true;
    const report = process.report?.getReport();
    return typeof report === 'object' && !report.header.glibcVersionRuntime;
}

function executable() {
    const file = process.platform === 'win32' ? 'outlive.exe' : 'outlive';
    const names = packages();
    for (const name of names) {
        let path;
        try {
            path = require.resolve(`${name}/bin/${file}`);
        } catch {
            continue;
        }
        return runnable(path);
    }
    throw new Error(
        `there is no program for ${process.platform} on ${process.arch}: none of ${names.join(', ')} is installed. ` +
            'They are optional dependencies: install without --omit=optional, on the system that is to run it; ' +
            'on other systems `cargo install outlive-cli` builds it.'
    );
}

/** Some installers drop the mode of files; then it is set again. */
function runnable(path) {
    if (process.platform !== 'win32' && (statSync(path).mode & 0o111) === 0) chmodSync(path, 0o755);
    return path;
}

function stdio(command, args = [], { env, cwd, ...policy } = {}) {
    const server = { command: executable(), args: ['run', ...flags(policy), '--', command, ...args] };
    if (env !== undefined) server.env = env;
    if (cwd !== undefined) server.cwd = cwd;
    return server;
}

// One by one, so that `import { stdio } from 'outlive'` finds them.
exports.executable = executable;
exports.stdio = stdio;
exports.errorOf = errors.errorOf;
exports.OutliveError = errors.OutliveError;
exports.ConnectionLost = errors.ConnectionLost;
exports.Unavailable = errors.Unavailable;
exports.Timeout = errors.Timeout;
exports.CancelledByPeer = errors.CancelledByPeer;
exports.ShuttingDown = errors.ShuttingDown;
exports.SessionExpired = errors.SessionExpired;
exports.Rejected = errors.Rejected;
exports.TooLarge = errors.TooLarge;
exports.TokenWithdrawn = errors.TokenWithdrawn;
exports.Withheld = errors.Withheld;
exports.Removed = errors.Removed;
exports.Cyclic = errors.Cyclic;
exports.Unsupported = errors.Unsupported;
exports.Protocol = errors.Protocol;
