"""The Python SDK's client with all servers of a file: it lists their tools and calls one of each.

usage: python_servers.py PLAN URL            over HTTP
       python_servers.py PLAN COMMAND ARG…   on pipes; prints one JSON object
"""

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

import calls
import python_client
import python_http_client


async def main(plan: str, *server: str) -> dict[str, Any]:
    if server[0].startswith("http"):
        connected = python_http_client.connect("auto", *server)
    else:
        connected = python_client.connect(*server)
    async with connected as (session, protocol):

        async def call(name: str, arguments: dict[str, Any]) -> str:
            return (await session.call_tool(name, arguments)).content[0].text

        listed = [tool.name for tool in (await session.list_tools()).tools]
        ends = await calls.make(plan, call)
        return {"sdk": f"mcp {version('mcp')}", "protocol": protocol, "tools": listed, "ends": ends}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
