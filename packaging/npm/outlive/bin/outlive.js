#!/usr/bin/env node
// Starts the program of this platform's package with our streams, and ends as it ends.
//
// The program is told our process id: should somebody end only this process, its input stays open, and it would never
// learn that nobody is left. (See --parent-pid.)

'use strict';

const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const { executable } = require('../index.js');

function fail(words) {
    console.error(`outlive: ${words}`);
    process.exit(2);
}

let program;
try {
    program = executable();
} catch (error) {
    fail(error.message);
}

const env = { ...process.env, OUTLIVE_PARENT_PID: String(process.pid) };
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit', env, windowsHide: true });

// A terminal sends Ctrl-C to every process in front of it, the program included; a second one would stop it at once.
const handled = {
    SIGINT: () => process.stdin.isTTY || child.kill('SIGINT'),
    SIGTERM: () => child.kill('SIGTERM'),
    SIGHUP: () => child.kill('SIGHUP')
};
for (const [signal, handle] of Object.entries(handled)) process.on(signal, handle);

child.on('error', (error) => fail(`${program} cannot be started: ${error.message}`));
child.on('exit', (code, signal) => {
    if (!signal) process.exit(code);
    for (const [name, handle] of Object.entries(handled)) process.off(name, handle);
    process.kill(process.pid, signal);
    // Where signals cannot be sent, a shell's way to tell.
    setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1000);
});
