// The settings of `outlive run`, spelled as JavaScript does: `requestTimeout` is `--request-timeout`.

'use strict';

const DURATIONS = [
    'hold', 'requestTimeout', 'requestCeiling', 'elicitationCeiling', 'startSoft', 'startTimeout', 'handshakeTimeout',
    'discoverTimeout', 'backoffBase', 'backoffCap', 'breakerWindow', 'breakerRetry', 'healthyAfter', 'probeInterval',
    'probePatience', 'stallTimeout', 'loginTimeout', 'drain', 'stopGrace', 'termGrace'
];
const OTHERS = [
    'maxHeld', 'maxHeldBytes', 'retry', 'cancel', 'breakerFailures', 'exitOnFailed', 'messageLimit', 'maxInFlight',
    'maxInFlightBytes', 'header', 'headerFile', 'caFile', 'transport', 'era', 'login', 'tokenStore', 'clientId',
    'clientSecret', 'clientKey', 'scope', 'callbackPort', 'allowPrivateLogin', 'stderr', 'logFormat', 'logFile',
    'logLevel', 'name', 'noKeepLogs', 'config'
];
const NAMES = new Set([...DURATIONS, ...OTHERS]);

/** The policy as flags. A name that is none is a `TypeError`; what a value may be, the program says. */
function flags(policy) {
    const words = [];
    for (const [name, value] of Object.entries(policy)) {
        if (!NAMES.has(name)) throw new TypeError(`outlive has no setting ${name}; \`outlive run --help\` lists them`);
        const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
        if (value === true) words.push(flag);
        else if (Array.isArray(value)) words.push(...value.map((each) => `${flag}=${each}`));
        else if (value !== false && value != null) words.push(`${flag}=${spelled(name, value)}`);
    }
    return words;
}

function spelled(name, value) {
    return typeof value === 'number' && DURATIONS.includes(name) ? `${Math.round(value)}ms` : String(value);
}

exports.flags = flags;
exports.NAMES = NAMES;
