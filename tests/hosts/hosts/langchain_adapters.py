"""LangChain's MCP adapters: the tools of a session that is kept, as `load_tools` makes them.

usage: langchain_adapters.py COMMAND ARG…
"""

import asyncio
import sys
from datetime import timedelta

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from lines import TIMEOUT, drive


async def main(command: str, *args: str) -> None:
    settings = {"transport": "stdio", "command": command, "args": list(args)}
    if TIMEOUT is not None:
        settings["session_kwargs"] = {"read_timeout_seconds": timedelta(seconds=TIMEOUT)}
    async with MultiServerMCPClient({"server": settings}).session("server") as session:
        handles = {}

        async def call(name, arguments):
            output = await handles[name].ainvoke(arguments)
            return output if isinstance(output, str) else " ".join(part.get("text", "") for part in output)

        async def tools():
            handles.update({tool.name: tool for tool in await load_mcp_tools(session)})
            return list(handles)

        await drive(call, tools)


asyncio.run(main(*sys.argv[1:]))
