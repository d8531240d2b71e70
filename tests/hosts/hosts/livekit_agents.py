"""LiveKit Agents: the tool handles that an agent gets when its session starts.

usage: livekit_agents.py COMMAND ARG…
"""

import asyncio
import sys

from lines import bound, drive
from livekit.agents.llm.mcp import MCPServerStdio


async def main(command: str, *args: str) -> None:
    server = MCPServerStdio(command=command, args=list(args), **bound("client_session_timeout_seconds"))
    await server.initialize()
    handles = {}

    async def call(name, arguments):
        return str(await handles[name](raw_arguments=arguments))

    async def tools():
        server.invalidate_cache()
        handles.update({tool.info.name: tool for tool in await server.list_tools()})
        return list(handles)

    await drive(call, tools)
    await server.aclose()


asyncio.run(main(*sys.argv[1:]))
