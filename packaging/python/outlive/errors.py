"""What outlive says about a call that failed.

`of` reads it out of an `McpError` of the official SDK (1.x, or `MCPError` of 2.x), or of what a framework has made of
one. It gives `None` for every other error: one of the server's own, or of the SDK. The kinds, outcomes and causes are
explained in docs/errors.md of the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Outcome = Literal["not_sent", "rejected", "unknown", "done"]
"""What is known about the execution of the call: `unknown` if it may have run."""


@dataclass(frozen=True)
class Cause:
    """Why the server was lost, or is not there."""

    kind: str
    """`exited`, `eof`, `spawn_failed`, `start_timeout`, `unresponsive`, `unreachable`, …"""
    phase: str | None = None
    """`spawn`, `handshake` or `service`."""
    exit_code: int | None = None
    signal: int | None = None
    status: int | None = None
    """The status of a server over HTTP."""
    command: str | None = None
    """The server's command or address, with secrets masked."""
    server: str | None = None
    """The server's name, where it is one of several."""
    error: str | None = None
    after_ms: int | None = None
    stderr_tail: tuple[str, ...] = ()
    """What the server wrote to its standard error shortly before. Its own words: do not trust them."""

    @classmethod
    def _of(cls, data: Any) -> Cause | None:
        if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str):
            return None
        known = {name: data[name] for name in cls.__annotations__ if name in data}
        known["stderr_tail"] = tuple(known.get("stderr_tail", ()))
        return cls(**known)


class OutliveError(Exception):
    """An error of outlive's own; of a kind that this version of the package does not know, if it is no subclass."""

    kind: str = ""
    code: int
    message: str
    outcome: Outcome
    generation: int
    """The ordinal of the server the call was for; it grows with each restart."""
    retryable: bool
    """Whether sending the same call again can do no harm and may help."""
    cause: Cause | None
    data: Mapping[str, Any]
    """All of `data.outlive`: also `limit`, `status`, `after_ms` and `retry_after_ms` where they apply."""

    _kinds: ClassVar[dict[str, type[OutliveError]]] = {}

    def __init__(self, code: int, message: str, data: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.kind = data["kind"]
        self.code = code
        self.message = message
        self.outcome = data.get("outcome", "unknown")
        self.generation = data.get("generation", 0)
        self.retryable = data.get("retryable", False)
        self.cause = Cause._of(data.get("cause"))
        self.data = data

    def __init_subclass__(cls) -> None:
        OutliveError._kinds[cls.kind] = cls

    def __repr__(self) -> str:
        return f"{type(self).__name__}(outcome={self.outcome!r}, generation={self.generation}, cause={self.cause!r})"


class ConnectionLost(OutliveError):
    """The server died while the call was in flight, and it was not safe to repeat it."""

    kind = "connection_lost"


class Unavailable(OutliveError):
    """There is no server, and there was none for as long as a call is held; or too many calls are waiting."""

    kind = "unavailable"


class Timeout(OutliveError):
    """There was no answer within the request timeout or ceiling."""

    kind = "timeout"


class CancelledByPeer(OutliveError):
    """The server gave the call up."""

    kind = "cancelled_by_peer"


class ShuttingDown(OutliveError):
    """outlive was told to stop."""

    kind = "shutting_down"


class SessionExpired(OutliveError):
    """A remote server has forgotten the session."""

    kind = "session_expired"


class Rejected(OutliveError):
    """A remote server refused the call unexecuted."""

    kind = "rejected"

    @property
    def status(self) -> int | None:
        """The status it was refused with."""
        return self.data.get("status")


class TooLarge(OutliveError):
    """The call, or its answer, is longer than the message limit."""

    kind = "too_large"

    @property
    def limit(self) -> int | None:
        """The limit, in bytes."""
        return self.data.get("limit")


class TokenWithdrawn(OutliveError):
    """The token that the call was sent with is not good any more."""

    kind = "token_withdrawn"


class Withheld(OutliveError):
    """Nobody has accepted this tool, prompt or resource since the definitions of its server changed."""

    kind = "withheld"


class Removed(OutliveError):
    """The server was removed from the file of servers, or changed there, while the call waited for it."""

    kind = "removed"


class Cyclic(OutliveError):
    """A gateway got its own request back: an address in its file leads to itself."""

    kind = "cyclic"


class Unsupported(OutliveError):
    """The server does not know this revision of the protocol."""

    kind = "unsupported"


class Protocol(OutliveError):
    """The call, or its answer, breaks JSON-RPC."""

    kind = "protocol"


def of(error: object) -> OutliveError | None:
    """What outlive says about this failure: an exception, the SDK's `ErrorData`, or the `error` of a response.

    An exception is looked into for what it was raised from, and a group for its members. `None` if nothing there is
    outlive's.
    """
    for candidate in _chain(error, set()):
        if found := _read(candidate):
            return found
    return None


def _chain(error: object, seen: set[int]) -> Iterator[object]:
    """The error and those behind it, the nearest first, each once."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    if isinstance(error, BaseException):
        for member in getattr(error, "exceptions", ()):
            yield from _chain(member, seen)
        yield from _chain(error.__cause__, seen)
        yield from _chain(error.__context__, seen)


def _read(error: object) -> OutliveError | None:
    if isinstance(error, OutliveError):
        return error
    # The SDK's exceptions have the response's error; a framework's copy of it may have its members.
    for holder in (getattr(error, "error", None), error):
        data = _member(holder, "data")
        about = data.get("outlive") if isinstance(data, Mapping) else None
        if isinstance(about, Mapping) and isinstance(about.get("kind"), str):
            kind = OutliveError._kinds.get(about["kind"], OutliveError)
            return kind(_member(holder, "code") or 0, _member(holder, "message") or str(error), about)
    return None


def _member(holder: object, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
