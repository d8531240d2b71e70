"""The Python SDK's 2.x client, whose call times out: it then sends a cancellation by itself, which kills FastMCP on mcp 1.x.

usage: timeout_host.py SCRATCH_FOLDER COMMAND ARG…      prints one JSON object
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


async def main(scratch: str, command: str, *args: str) -> dict[str, Any]:
    seen: dict[str, Any] = {"timed out": [], "then": []}
    async with Client(stdio_client(StdioServerParameters(command=command, args=list(args)))) as client:
        await client.call_tool("ping", {})
        for attempt in range(3):
            arguments = {"seconds": 1.0, "started": str(Path(scratch, f"started-{attempt}"))}
            try:
                await client.call_tool("threaded", arguments, read_timeout_seconds=0.3)
            except Exception as error:
                seen["timed out"].append(str(error))
            # Past the end of the tool's thread, which is when the server dies.
            await asyncio.sleep(1.2)
            try:
                seen["then"].append((await client.call_tool("ping", {})).content[0].text)
            except Exception as error:
                seen["then"].append(repr(error))
    return seen


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
