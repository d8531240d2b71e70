"""The Python SDK's client lists the tools of all servers: `python_list.py URL`; prints one JSON object."""

import asyncio
import json
import sys
from typing import Any

from python_http_client import connect


async def main(url: str) -> dict[str, Any]:
    async with connect("auto", url) as (session, _):
        return {"tools": [tool.name for tool in (await session.list_tools()).tools]}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
