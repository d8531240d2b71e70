"""Checked by mypy, not run: the types say what the module does."""

from datetime import timedelta

import outlive
from outlive.errors import Cause, ConnectionLost, OutliveError

server: outlive.StdioServer = outlive.stdio("uvx", "mcp-server-time", request_timeout=timedelta(minutes=1), retry="safe")
words: list[str] = [server.command, *server.args, outlive.executable()]
ours: OutliveError | None = outlive.errors.of(ValueError(" ".join(words)))
match ours:
    case ConnectionLost(outcome="unknown") as lost:
        cause: Cause | None = lost.cause
        print(cause, lost.retryable)
outlive.stdio("uvx", requst_timeout="60s")  # type: ignore[call-arg]
outlive.stdio("uvx", retry="sometimes")  # type: ignore[arg-type]
