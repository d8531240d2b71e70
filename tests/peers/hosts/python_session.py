"""The Python SDK's client in an ordinary session with `servers/tools.py`: nothing goes wrong but what the server says is wrong.

usage: python_session.py COMMAND ARG…      prints one JSON object
"""

import asyncio
import json
import sys
from collections.abc import Awaitable
from importlib.metadata import version
from typing import Any

from mcp import types
from python_client import connect

ROOTS = types.ListRootsResult(roots=[types.Root(uri="file:///one", name="Eins")])


async def roots(_: Any) -> types.ListRootsResult:
    return ROOTS


async def progress(*_: object) -> None:
    """Its being there is what makes the client ask for progress."""


async def end_of(step: Awaitable[Any]) -> str:
    try:
        return repr(await step)
    except Exception as error:
        return repr(error)


async def main(*server: str) -> dict[str, Any]:
    async with connect(*server, list_roots_callback=roots) as (session, protocol):
        ends = [
            await end_of(step)
            for step in (
                session.list_tools(),
                session.list_prompts(),
                session.list_resources(),
                session.list_resource_templates(),
                session.call_tool("ping", {}),
                session.call_tool("echo", {"value": [1.0, 1e100, "é \u2028 \U0001f980", {"id": 7, "method": "x"}]}),
                session.call_tool("echo", {"value": "x" * 300_000}),
                session.call_tool("count", {"to": 5}, progress_callback=progress),
                session.call_tool("fail", {}),
                session.call_tool("no such tool", {}),
                session.call_tool("roots", {}),
                session.call_tool("announce", {}),
                session.read_resource("memo://greeting"),
                session.read_resource("memo://missing"),
                session.get_prompt("review", {"code": "fn main() {}"}),
                session.set_logging_level("debug"),
                session.send_ping(),
            )
        ]
    return {"sdk": f"mcp {version('mcp')}", "protocol": protocol, "ends": ends}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
