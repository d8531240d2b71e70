"""How `run` drives a host program: one JSON object per line on its standard input, one on its standard output for each.

`{"call": NAME, "arguments": {…}}` is answered with `{"text": …}` or `{"error": …}`, as the caller sees it;
`{"tools": true}` with `{"tools": [NAME, …]}`.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

# The host's own bound on a call in seconds, by its own setting; without it the host's default holds.
TIMEOUT = float(os.environ["CALL_TIMEOUT"]) if "CALL_TIMEOUT" in os.environ else None


class Told(Exception):
    """An error in the words that the host has for the model."""


def bound(setting: str) -> dict[str, float]:
    """The keyword argument that sets the bound, if there is one."""
    return {} if TIMEOUT is None else {setting: TIMEOUT}


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


async def drive(
    call: Callable[[str, dict[str, Any]], Awaitable[str]], tools: Callable[[], Awaitable[list[str]]]
) -> None:
    await tools()  # as a program does that offers them to a model
    say({"ready": True})
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        try:
            if "tools" in request:
                say({"tools": await tools()})
            else:
                say({"text": await call(request["call"], request["arguments"])})
        except Told as error:
            say({"error": str(error)})
        except (Exception, asyncio.CancelledError) as error:
            say({"error": f"{type(error).__name__}: {error}"})


def text(result: Any) -> str:
    """The text of an MCP result; a tool's error is raised, as hosts do."""
    words = " ".join(getattr(part, "text", "") for part in result.content)
    if getattr(result, "isError", False) or getattr(result, "is_error", False):
        raise Told(words)
    return words
