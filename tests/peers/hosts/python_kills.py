"""The Python SDK's client calls all servers of a file without end, and kills one after the other meanwhile.

usage: python_kills.py PLAN URL      prints one JSON object: for each server the calls that failed while it was killed
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from python_http_client import connect

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fleet import processes  # noqa: E402  (needs the path above)

# Only a hang takes longer.
PATIENCE = 60


class Load:
    """Calls to every server, one after the other at each of them."""

    def __init__(self, session: Any, plan: list[dict[str, Any]]) -> None:
        self.session = session
        self.plan = plan
        self.failed: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.begun: dict[str, int] = defaultdict(int)
        self.last_good: dict[str, int] = defaultdict(int)
        self.over = False

    async def at(self, step: dict[str, Any]) -> None:
        server = step["name"].partition("__")[0]
        while not self.over:
            self.begun[server] += 1
            number = self.begun[server]
            try:
                result = await self.session.call_tool(step["name"], step["arguments"])
                text = result.content[0].text
                if step["word"] not in text:
                    raise ValueError(f"unexpected answer: {text}")
                self.last_good[server] = number
            except Exception as error:
                detail = getattr(error, "error", None)
                data = getattr(detail, "data", None)
                self.failed[server].append({"message": str(error), "data": data})
            await asyncio.sleep(0.02)

    async def good_again(self, server: str) -> None:
        """Waits for the end of a call that begins from now on."""
        begun = self.begun[server]
        async with asyncio.timeout(PATIENCE):
            while self.last_good[server] <= begun:
                await asyncio.sleep(0.01)


async def main(plan: str, url: str) -> dict[str, Any]:
    steps = json.loads(Path(plan).read_text())
    servers = [step["name"].partition("__")[0] for step in steps]
    async with connect("auto", url) as (session, protocol):
        load = Load(session, steps)
        loops = [asyncio.create_task(load.at(step)) for step in steps]
        for server in servers:
            await load.good_again(server)
        calm = dict(load.failed)
        kills = {}
        for victim in servers:
            load.failed.clear()
            before = processes(victim)
            for process in before:
                # One may be gone with the one before: what is left of a dead server is ended.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            await load.good_again(victim)
            kills[victim] = {
                "killed": len(before),
                "another": bool(processes(victim)) and processes(victim).isdisjoint(before),
                "failed": dict(load.failed),
            }
        # Each of the others has answered since the last one was killed.
        for server in servers:
            await load.good_again(server)
        load.over = True
        await asyncio.gather(*loops)
    sdk = f"mcp {version('mcp')}"
    return {"sdk": sdk, "protocol": protocol, "calm": calm, "kills": kills, "calls": dict(load.begun)}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
