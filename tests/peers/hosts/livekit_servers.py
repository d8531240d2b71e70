"""A LiveKit agent with all servers of a file: it lists their tools and calls one of each.

usage: livekit_servers.py PLAN COMMAND ARG…      prints one JSON object
"""

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

import calls
from livekit.agents.llm.mcp import MCPServerStdio


async def main(plan: str, command: str, *args: str) -> dict[str, Any]:
    # Its own bound for a call, 5 s, is shorter than many servers take to start.
    server = MCPServerStdio(command=command, args=list(args), client_session_timeout_seconds=60)
    await server.initialize()
    tools = {tool.info.name: tool for tool in await server.list_tools()}

    async def call(name: str, arguments: dict[str, Any]) -> str:
        return str(await tools[name](raw_arguments=arguments))

    ends = await calls.make(plan, call)
    await server.aclose()
    sdk = f"livekit-agents {version('livekit-agents')}"
    return {"sdk": sdk, "tools": list(tools), "ends": ends}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
