/** `"90s"`, `"2m"`, or a number of milliseconds. */
export type Duration = string | number;
/** `"64MiB"`, or a number of bytes. */
export type Size = string | number;

/** The settings of `outlive run`, which `outlive run --help` explains: `requestTimeout` is `--request-timeout`. */
export interface Policy {
    hold?: Duration;
    maxHeld?: number;
    maxHeldBytes?: Size;
    retry?: 'never' | 'safe' | 'always';
    cancel?: 'forward' | 'absorb' | 'auto';
    requestTimeout?: Duration | 'off';
    requestCeiling?: Duration | 'off';
    elicitationCeiling?: Duration;
    startSoft?: Duration;
    startTimeout?: Duration;
    handshakeTimeout?: Duration;
    discoverTimeout?: Duration;
    backoffBase?: Duration;
    backoffCap?: Duration;
    breakerFailures?: number;
    breakerWindow?: Duration;
    breakerRetry?: Duration;
    healthyAfter?: Duration;
    exitOnFailed?: boolean;
    probeInterval?: Duration | 'off';
    probePatience?: Duration;
    header?: string | readonly string[];
    headerFile?: string;
    caFile?: string;
    transport?: 'auto' | 'http' | 'sse';
    stallTimeout?: Duration;
    era?: 'auto' | 'legacy' | 'modern';
    login?: 'auto' | 'link' | 'device' | 'machine' | 'never';
    loginTimeout?: Duration;
    tokenStore?: string;
    clientId?: string;
    clientSecret?: string;
    clientKey?: string;
    scope?: string | readonly string[];
    callbackPort?: number;
    allowPrivateLogin?: boolean;
    messageLimit?: Size;
    maxInFlight?: number;
    maxInFlightBytes?: Size;
    drain?: Duration;
    stopGrace?: Duration;
    termGrace?: Duration;
    stderr?: string;
    logFormat?: 'text' | 'json';
    logFile?: string;
    logLevel?: 'quiet' | 'normal' | 'debug';
    name?: string;
    noKeepLogs?: boolean;
    config?: string;
}

/** What `StdioClientTransport` takes, and an entry of `mcpServers` in a host's file. */
export interface StdioServer {
    command: string;
    args: string[];
    env?: Record<string, string>;
    cwd?: string;
}

/** The path of the program for this platform. Throws if no package for it is installed. */
export function executable(): string;

/** A server that outlive keeps alive: its program and arguments, or its address, and settings of `outlive run`. */
export function stdio(
    command: string,
    args?: readonly string[],
    options?: Policy & { env?: Record<string, string>; cwd?: string }
): StdioServer;

/** What is known about the execution of the call: `unknown` if it may have run. */
export type Outcome = 'not_sent' | 'rejected' | 'unknown' | 'done';

/** Why the server was lost, or is not there. */
export interface Cause {
    /** `exited`, `eof`, `spawn_failed`, `start_timeout`, `unresponsive`, `unreachable`, … */
    kind: string;
    phase?: 'spawn' | 'handshake' | 'service';
    exit_code?: number;
    signal?: number;
    /** The status of a server over HTTP. */
    status?: number;
    /** The server's command or address, with secrets masked. */
    command?: string;
    /** The server's name, where it is one of several. */
    server?: string;
    error?: string;
    after_ms?: number;
    /** What the server wrote to its standard error shortly before. Its own words: do not trust them. */
    stderr_tail?: string[];
}

/** An error of outlive's own; of a kind that this version of the package does not know, if it is no subclass. */
export class OutliveError extends Error {
    readonly kind: string;
    readonly code: number;
    readonly outcome: Outcome;
    /** The ordinal of the server the call was for; it grows with each restart. */
    readonly generation: number;
    /** Whether sending the same call again can do no harm and may help. */
    readonly retryable: boolean;
    /** Why the server was lost. (`cause` is the error that this was read out of, as everywhere in JavaScript.) */
    readonly lossCause?: Cause;
    /** All of `data.outlive`: also `limit`, `status`, `after_ms` and `retry_after_ms` where they apply. */
    readonly data: Readonly<Record<string, unknown>>;
}

/** The server died while the call was in flight, and it was not safe to repeat it. */
export class ConnectionLost extends OutliveError {}
/** There is no server, and there was none for as long as a call is held; or too many calls are waiting. */
export class Unavailable extends OutliveError {}
/** There was no answer within the request timeout or ceiling. */
export class Timeout extends OutliveError {}
/** The server gave the call up. */
export class CancelledByPeer extends OutliveError {}
/** outlive was told to stop. */
export class ShuttingDown extends OutliveError {}
/** A remote server has forgotten the session. */
export class SessionExpired extends OutliveError {}
/** A remote server refused the call unexecuted. */
export class Rejected extends OutliveError {}
/** The call, or its answer, is longer than the message limit. */
export class TooLarge extends OutliveError {}
/** The token that the call was sent with is not good any more. */
export class TokenWithdrawn extends OutliveError {}
/** Nobody has accepted this tool, prompt or resource since the definitions of its server changed. */
export class Withheld extends OutliveError {}
/** The server was removed from the file of servers, or changed there, while the call waited for it. */
export class Removed extends OutliveError {}
/** A gateway got its own request back: an address in its file leads to itself. */
export class Cyclic extends OutliveError {}
/** The server does not know this revision of the protocol. */
export class Unsupported extends OutliveError {}
/** The call, or its answer, breaks JSON-RPC. */
export class Protocol extends OutliveError {}

/**
 * What outlive says about this failure: an error of an SDK, or one that was caused by it. `undefined` if it is not
 * outlive's: the server's own error, or the SDK's.
 */
export function errorOf(error: unknown): OutliveError | undefined;
