"""The Python SDK's client over Streamable HTTP with `servers/tools.py` behind `outlive serve`; the server is killed in a call.

usage: python_gateway.py MODE URL SCRATCH      MODE as in python_http.py; prints one JSON object
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from python_http_client import connect, text


async def main(mode: str, url: str, scratch: str) -> dict[str, Any]:
    started = Path(scratch) / "started"
    async with connect(mode, url) as (session, version):
        first = await text(session, "pid")
        call = asyncio.create_task(text(session, "linger", seconds=60, started=str(started)))
        while not started.exists():
            await asyncio.sleep(0.02)
        os.kill(int(first), signal.SIGKILL)
        try:
            killed: Any = await call
        except Exception as error:
            found = getattr(error, "error", error)
            killed = {"code": getattr(found, "code", None), "data": getattr(found, "data", None), "words": str(error)}
        return {
            "version": version,
            "killed": killed,
            "after": await text(session, "ping"),
            "another": await text(session, "pid") != first,
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
