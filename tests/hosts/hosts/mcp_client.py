"""The client of the Python SDK, mcp 1.x and 2.x.

usage: mcp_client.py COMMAND ARG…
"""

import asyncio
import sys
from datetime import timedelta

from lines import TIMEOUT, drive, text
from mcp.client.stdio import StdioServerParameters, stdio_client

try:
    from mcp.client import Client
except ImportError:
    Client = None
    from mcp.client.session import ClientSession


async def main(command: str, *args: str) -> None:
    async def call(name, arguments):
        return text(await client.call_tool(name, arguments, **options))

    async def tools():
        return [tool.name for tool in (await client.list_tools()).tools]

    streams = stdio_client(StdioServerParameters(command=command, args=list(args)))
    options = {}
    if Client is not None:
        if TIMEOUT is not None:
            options["read_timeout_seconds"] = TIMEOUT
        async with Client(streams) as client:
            await drive(call, tools)
    else:
        if TIMEOUT is not None:
            options["read_timeout_seconds"] = timedelta(seconds=TIMEOUT)
        async with streams as ends, ClientSession(*ends) as client:
            await client.initialize()
            await drive(call, tools)


asyncio.run(main(*sys.argv[1:]))
