"""The Python SDK's client with a server of `outlive` over HTTP (the example `conformance`).

usage: python_http.py MODE URL      MODE as in mcp 2.x, `auto` or `legacy`, or `sse`; prints one JSON object
"""

import asyncio
import json
import sys
from typing import Any

from mcp import types
from python_http_client import connect
from python_http_client import text as text_of

steps: list[float] = []
log: list[Any] = []


async def elicitation(*_: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada", "username": "ada", "email": "a@b"})


async def progress(step: float, *_: Any) -> None:
    steps.append(step)


async def logging(message: Any) -> None:
    log.append(message.data)


async def text(session: Any, tool: str) -> str:
    return await text_of(session, tool, progress)


async def main(mode: str, url: str) -> dict[str, Any]:
    callbacks = {"elicitation_callback": elicitation, "logging_callback": logging}
    async with connect(mode, url, **callbacks) as (session, version):
        tools = (await session.list_tools()).tools
        told = {
            "version": version,
            "tools": len(tools),
            "text": await text(session, "test_simple_text"),
            "progress": await text(session, "test_tool_with_progress"),
            "asked": await text(session, "test_input_required_result_elicitation"),
            "logged": await text(session, "test_tool_with_logging"),
            "resource": len((await session.read_resource("test://static-text")).contents),
            "many": [await text(session, "test_simple_text") for _ in range(20)],
        }
        # Cancelled in the middle; the session goes on.
        call = asyncio.create_task(text(session, "test_tool_with_progress"))
        await asyncio.sleep(0.05)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        told["after"] = await text(session, "test_simple_text")
        # mcp 1.x does not tell the server, and fails if something arrives while it leaves: the tool ends first.
        await asyncio.sleep(0.5)
    return {**told, "steps": steps, "log": log}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
