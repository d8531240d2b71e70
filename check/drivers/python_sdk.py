"""Drives the client of the Python SDK, mcp 1.20 to 2.x, for `outlive check client`.

usage: outlive check client -- python check/drivers/python_sdk.py
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from mcp.client.stdio import StdioServerParameters, stdio_client

try:
    from mcp.client import Client  # mcp 2.x: speaks whichever era the server does
except ImportError:
    Client = None
    from mcp.client.session import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

LOST = (BrokenResourceError, ClosedResourceError, EndOfStream, ConnectionError)
calls: dict[int, asyncio.Task[Any]] = {}
opened: asyncio.Future[Any]
leave: asyncio.Event
connection: asyncio.Task[None] | None = None


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


@asynccontextmanager
async def connect(command: list[str] | None = None, url: str | None = None) -> AsyncIterator[Any]:
    server = StdioServerParameters(command=command[0], args=command[1:]) if command else None
    if Client is not None:
        async with Client(stdio_client(server) if server else url) as client:
            yield client
    else:
        async with (
            stdio_client(server) if server else streamablehttp_client(url) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
            yield session


async def live(where: dict[str, Any]) -> None:
    """The connection belongs to the task that opened it."""
    async with connect(**where) as session:
        opened.set_result(session)
        await leave.wait()


async def progress(*_: object) -> None:
    """Its being there is what makes the client ask for progress."""


async def do(n: int, what: str, **details: Any) -> Any:
    global opened, leave, connection
    if what == "connect":
        opened, leave = asyncio.get_running_loop().create_future(), asyncio.Event()
        connection = asyncio.create_task(live(details))
        await asyncio.wait({connection, opened}, return_when=asyncio.FIRST_COMPLETED)
        if connection.done():
            connection.result()
        return True
    if what == "list":
        return [tool.name for tool in (await opened.result().list_tools()).tools]
    if what == "call":
        call = opened.result().call_tool(details["tool"], details["arguments"], progress_callback=progress)
        calls[n] = asyncio.ensure_future(call)
        return (await calls[n]).content[0].text
    if what == "cancel":
        calls[details["call"]].cancel()
        return True
    if what == "close" and connection is not None:
        leave.set()
        await asyncio.wait({connection})
        return True
    raise NotImplementedError(f"the SDK has no {what}")


def innermost(error: BaseException) -> BaseException:
    """What a group of exceptions is about: a traceback ends with it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def kind(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, NotImplementedError):
        return "unsupported"
    answer = getattr(error, "error", None)
    if answer is not None:
        # Errors of the SDK's own look like errors of the server's; only the words tell.
        if answer.message == "Connection closed":
            return "lost"
        return "timeout" if "imed out" in answer.message else "answered"
    return "lost" if isinstance(error, LOST) else "other"


async def report(errand: dict[str, Any]) -> None:
    n = errand.pop("n")
    try:
        say(n=n, ok=await do(n, errand.pop("do"), **errand))
    except BaseException as outer:
        error = innermost(outer)
        say(n=n, error={"kind": kind(error), "message": f"{type(error).__name__}: {error}"})


async def main() -> None:
    say(client=f"mcp {version('mcp')}", over=["stdio", "http"])
    errands = asyncio.StreamReader(limit=64 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errands), sys.stdin)
    running = set()
    while line := await errands.readline():
        running.add(asyncio.create_task(report(json.loads(line))))


asyncio.run(main())
