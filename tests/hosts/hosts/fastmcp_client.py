"""FastMCP's client.

usage: fastmcp_client.py COMMAND ARG…
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from lines import bound, drive, text


async def main(command: str, *args: str) -> None:
    async with Client(StdioTransport(command=command, args=list(args)), **bound("timeout")) as client:

        async def call(name, arguments):
            return text(await client.call_tool(name, arguments))

        async def tools():
            return [tool.name for tool in await client.list_tools()]

        await drive(call, tools)


asyncio.run(main(*sys.argv[1:]))
