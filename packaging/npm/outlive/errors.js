// What outlive says about a call that failed, read out of whatever an SDK has made of the response.

'use strict';

class OutliveError extends Error {
    constructor(code, message, data, options) {
        super(message, options);
        this.name = this.constructor.name;
        this.kind = data.kind;
        this.code = code;
        this.outcome = data.outcome ?? 'unknown';
        this.generation = data.generation ?? 0;
        this.retryable = data.retryable ?? false;
        this.lossCause = data.cause;
        this.data = data;
    }
}

class ConnectionLost extends OutliveError {}
class Unavailable extends OutliveError {}
class Timeout extends OutliveError {}
class CancelledByPeer extends OutliveError {}
class ShuttingDown extends OutliveError {}
class SessionExpired extends OutliveError {}
class Rejected extends OutliveError {}
class TooLarge extends OutliveError {}
class TokenWithdrawn extends OutliveError {}
class Withheld extends OutliveError {}
class Removed extends OutliveError {}
class Cyclic extends OutliveError {}
class Unsupported extends OutliveError {}
class Protocol extends OutliveError {}

const KINDS = {
    connection_lost: ConnectionLost,
    unavailable: Unavailable,
    timeout: Timeout,
    cancelled_by_peer: CancelledByPeer,
    shutting_down: ShuttingDown,
    session_expired: SessionExpired,
    rejected: Rejected,
    too_large: TooLarge,
    token_withdrawn: TokenWithdrawn,
    withheld: Withheld,
    removed: Removed,
    cyclic: Cyclic,
    unsupported: Unsupported,
    protocol: Protocol
};

function errorOf(error) {
    return search(error, new Set());
}

/** Looks into an error, then into those it holds or was caused by, each once. */
function search(error, seen) {
    if (error === null || typeof error !== 'object' || seen.has(error)) return undefined;
    seen.add(error);
    if (error instanceof OutliveError) return error;
    const about = error.data?.outlive;
    if (typeof about?.kind === 'string') {
        const Kind = Object.hasOwn(KINDS, about.kind) ? KINDS[about.kind] : OutliveError;
        // Version 1 of the TypeScript SDK puts the code in front.
        const words = String(error.message ?? '').replace(/^MCP error -?\d+: /, '');
        return new Kind(error.code ?? 0, words, about, { cause: error });
    }
    const behind = [error.error, ...(Array.isArray(error.errors) ? error.errors : []), error.cause];
    for (const other of behind) {
        const found = search(other, seen);
        if (found) return found;
    }
    return undefined;
}

module.exports = {
    errorOf,
    KINDS,
    OutliveError,
    ConnectionLost,
    Unavailable,
    Timeout,
    CancelledByPeer,
    ShuttingDown,
    SessionExpired,
    Rejected,
    TooLarge,
    TokenWithdrawn,
    Withheld,
    Removed,
    Cyclic,
    Unsupported,
    Protocol
};
