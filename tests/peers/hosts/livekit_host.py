"""Seed 1: a LiveKit agent's tool handles before, during and after the death of their server.

usage: livekit_host.py COMMAND ARG…      prints one JSON object
"""

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from livekit.agents.llm.mcp import MCPServerStdio


async def use(tool: Any) -> dict[str, str]:
    try:
        return {"result": str(await tool(raw_arguments={}))}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


async def main(command: str, *args: str) -> dict[str, Any]:
    server = MCPServerStdio(command=command, args=list(args))
    await server.initialize()
    tools = {tool.info.name: tool for tool in await server.list_tools()}
    seen: dict[str, Any] = {
        "livekit-agents": version("livekit-agents"),
        "mcp": version("mcp"),
        "tools": sorted(tools),
        "before": await use(tools["ping"]),
        "pid before": await use(tools["pid"]),
        "crash": await use(tools["crash"]),
        "at once": await use(tools["ping"]),
    }
    await asyncio.sleep(1.0)
    seen["initialized"] = server.initialized
    seen["connection task done"] = server._client_task.done()
    seen["a second later"] = await use(tools["ping"])
    seen["pid after"] = await use(tools["pid"])
    seen["second crash"] = await use(tools["crash"])
    seen["after the second crash"] = await use(tools["ping"])
    server.invalidate_cache()
    try:
        seen["tools listed again"] = sorted(tool.info.name for tool in await server.list_tools())
    except Exception as error:
        seen["tools listed again"] = repr(error)
    await server.aclose()
    return seen


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
