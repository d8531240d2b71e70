"""The settings of `outlive run` as keyword arguments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypedDict, Union

Duration = Union[str, int, float, timedelta]
"""`"90s"`, `"2m"`, a number of seconds, or a `timedelta`."""

Size = Union[str, int]
"""`"64MiB"`, or a number of bytes."""


class Policy(TypedDict, total=False):
    """What `outlive run --help` explains, each under the name of its flag."""

    hold: Duration
    max_held: int
    max_held_bytes: Size
    retry: Literal["never", "safe", "always"]
    cancel: Literal["forward", "absorb", "auto"]
    request_timeout: Duration | Literal["off"]
    request_ceiling: Duration | Literal["off"]
    elicitation_ceiling: Duration
    start_soft: Duration
    start_timeout: Duration
    handshake_timeout: Duration
    discover_timeout: Duration
    backoff_base: Duration
    backoff_cap: Duration
    breaker_failures: int
    breaker_window: Duration
    breaker_retry: Duration
    healthy_after: Duration
    exit_on_failed: bool
    probe_interval: Duration | Literal["off"]
    probe_patience: Duration
    header: str | Sequence[str]
    header_file: str
    ca_file: str
    transport: Literal["auto", "http", "sse"]
    stall_timeout: Duration
    era: Literal["auto", "legacy", "modern"]
    login: Literal["auto", "link", "device", "machine", "never"]
    login_timeout: Duration
    token_store: str
    client_id: str
    client_secret: str
    client_key: str
    scope: str | Sequence[str]
    callback_port: int
    allow_private_login: bool
    message_limit: Size
    max_in_flight: int
    max_in_flight_bytes: Size
    drain: Duration
    stop_grace: Duration
    term_grace: Duration
    stderr: str
    log_format: Literal["text", "json"]
    log_file: str
    log_level: Literal["quiet", "normal", "debug"]
    name: str
    no_keep_logs: bool
    config: str


_COUNTS = {
    "max_held",
    "max_held_bytes",
    "breaker_failures",
    "message_limit",
    "max_in_flight",
    "max_in_flight_bytes",
    "callback_port",
}


def flags(policy: Policy) -> list[str]:
    """The policy as flags. A name that is none is a `TypeError`; what a value may be, the program says."""
    words = []
    for name, value in policy.items():
        if name not in Policy.__annotations__:
            raise TypeError(f"outlive has no setting {name!r}; `outlive run --help` lists them")
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            words.extend(f"{flag}={each}" for each in value)
        elif value is not False and value is not None:
            words.append(f"{flag}={_spelled(name, value)}")
    return words


def _spelled(name: str, value: object) -> str:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, (int, float)) and name not in _COUNTS:
        # Whole milliseconds: the program's durations have no fractions.
        return f"{round(value * 1000)}ms"
    return str(value)
