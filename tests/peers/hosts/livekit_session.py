"""A LiveKit agent in an ordinary session with `servers/tools.py`.

usage: livekit_session.py COMMAND ARG…      prints one JSON object
"""

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from livekit.agents.llm.mcp import MCPServerStdio


async def main(command: str, *args: str) -> dict[str, Any]:
    server = MCPServerStdio(command=command, args=list(args))
    await server.initialize()
    tools = {tool.info.name: tool for tool in await server.list_tools()}
    ends: list[str] = []
    for name, arguments in (
        ("ping", {}),
        ("echo", {"value": [1.0, 1e100, "é \u2028 \U0001f980", {"id": 7, "method": "x"}]}),
        ("echo", {"value": "x" * 300_000}),
        ("count", {"to": 5}),
        ("fail", {}),
        ("linger", {"wrong": "arguments"}),
        ("roots", {}),
        ("announce", {}),
    ):
        try:
            ends.append(str(await tools[name](raw_arguments=arguments)))
        except Exception as error:
            ends.append(repr(error))
    server.invalidate_cache()
    again = [tool.info.name for tool in await server.list_tools()]
    await server.aclose()
    return {"sdk": f"livekit-agents {version('livekit-agents')}", "tools": list(tools), "ends": ends, "again": again}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
