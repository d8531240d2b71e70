"""Drives LiveKit Agents' MCP servers for `outlive check client`.

usage: outlive check client -- python check/drivers/livekit_agents.py
"""

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from livekit.agents.llm import ToolError
from livekit.agents.llm.mcp import MCPServerHTTP, MCPServerStdio

LOST = (BrokenResourceError, ClosedResourceError, EndOfStream, ConnectionError)
server: Any = None
tools: dict[str, Any] = {}
calls: dict[int, asyncio.Task[Any]] = {}


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def do(n: int, what: str, **details: Any) -> Any:
    global server
    if what == "connect":
        if "url" in details:
            server = MCPServerHTTP(details["url"])
        else:
            command, *args = details["command"]
            server = MCPServerStdio(command=command, args=args)
        await server.initialize()
        await listed()
        return True
    if what == "list":
        return await listed()
    if what == "call":
        # An agent holds the handles it was given at first.
        calls[n] = asyncio.ensure_future(tools[details["tool"]](raw_arguments=details["arguments"]))
        return json.loads(await calls[n])["text"]
    if what == "cancel":
        calls[details["call"]].cancel()
        return True
    if what == "state":
        return "connected" if server.initialized else "disconnected"
    if what == "close":
        await server.aclose()
        return True
    raise NotImplementedError(f"there is no {what}")


async def listed() -> list[str]:
    for tool in await server.list_tools():
        tools.setdefault(tool.info.name, tool)
    return [tool.info.name for tool in await server.list_tools()]


def kind(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, NotImplementedError):
        return "unsupported"
    if isinstance(error, ToolError):
        # What a model is told; LiveKit's own words for a server that is not there.
        return "lost" if "service is unavailable" in str(error) else "answered"
    message = getattr(getattr(error, "error", None), "message", None)
    if message is not None:
        if message == "Connection closed":
            return "lost"
        return "timeout" if "imed out" in message else "answered"
    return "lost" if isinstance(error, LOST) else "other"


async def report(errand: dict[str, Any]) -> None:
    n = errand.pop("n")
    try:
        say(n=n, ok=await do(n, errand.pop("do"), **errand))
    except BaseException as error:
        # What went wrong is inside; the group around it only says that something did.
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        say(n=n, error={"kind": kind(error), "message": f"{type(error).__name__}: {error}"})


async def main() -> None:
    say(client=f"livekit-agents {version('livekit-agents')} (mcp {version('mcp')})", over=["stdio", "http"])
    errands = asyncio.StreamReader(limit=64 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errands), sys.stdin)
    running = set()
    while line := await errands.readline():
        running.add(asyncio.create_task(report(json.loads(line))))


asyncio.run(main())
