"""Pydantic AI: the toolset of an agent, entered for as long as the agent runs.

usage: pydantic_ai_toolset.py COMMAND ARG…
"""

import asyncio
import sys

from fastmcp.client.transports import StdioTransport
from lines import bound, drive
from pydantic_ai.mcp import MCPToolset


async def main(command: str, *args: str) -> None:
    transport = StdioTransport(command=command, args=list(args))
    async with MCPToolset(transport, **bound("read_timeout")) as toolset:

        async def call(name, arguments):
            return str(await toolset.direct_call_tool(name, arguments))

        async def tools():
            return [tool.name for tool in await toolset.list_tools()]

        await drive(call, tools)


asyncio.run(main(*sys.argv[1:]))
