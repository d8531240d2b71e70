"""The Python SDK's client, mcp 1.20 to 2.x: a server killed in the middle of a call, a call cancelled from outside.

usage: python_host.py SCRATCH_FOLDER COMMAND ARG…      prints one JSON object
"""

import asyncio
import json
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from python_client import connect


async def text(session: Any, tool: str) -> str:
    return (await session.call_tool(tool, {})).content[0].text


async def begun(session: Any, started: Path) -> asyncio.Task[Any]:
    """A call that is known to have reached its tool."""
    call = asyncio.create_task(session.call_tool("linger", {"seconds": 60, "started": str(started)}))
    while not started.exists():
        await asyncio.sleep(0.01)
    return call


async def end_of(call: asyncio.Task[Any]) -> dict[str, Any]:
    try:
        return {"result": (await call).content[0].text}
    except BaseException as error:
        detail = getattr(error, "error", None)
        return {
            "type": type(error).__name__,
            "cancelling": call.cancelling(),
            "code": getattr(detail, "code", None),
            "message": getattr(detail, "message", None),
            "data": getattr(detail, "data", None),
        }


async def main(scratch: str, command: str, *args: str) -> dict[str, Any]:
    async with connect(command, *args) as (session, protocol):
        seen: dict[str, Any] = {"sdk": f"mcp {version('mcp')}", "protocol": protocol}
        pid = await text(session, "pid")
        call = await begun(session, Path(scratch, "killed"))
        os.kill(int(pid), signal.SIGKILL)
        seen["killed"] = await end_of(call)
        seen["after the kill"] = await text(session, "ping")
        seen["another process"] = (await text(session, "pid")) != pid

        pid = await text(session, "pid")
        call = await begun(session, Path(scratch, "cancelled"))
        call.cancel()
        seen["cancelled"] = await end_of(call)
        seen["after the cancel"] = await text(session, "ping")
        seen["same process"] = (await text(session, "pid")) == pid
    return seen


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
