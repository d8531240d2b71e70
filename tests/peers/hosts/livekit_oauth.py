"""LiveKit as a client of a server that wants tokens. It is given headers, so somebody else logs in for it, and it is
given the next token while its session goes on.

usage: livekit_oauth.py URL TOKEN NEXT      prints one JSON object
"""

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from livekit.agents.llm.mcp import MCPServerHTTP


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def play(url: str, token: str, following: str) -> dict[str, Any]:
    server = MCPServerHTTP(url, transport_type="streamable_http", headers=bearer(token))
    await server.initialize()
    try:
        tools = {tool.info.raw_schema["name"]: tool for tool in await server.list_tools()}

        async def call() -> str:
            return str(await tools["ping"](raw_arguments={}))

        told: dict[str, Any] = {"livekit-agents": version("livekit-agents"), "first": await call()}
        server.headers = bearer(following)
        told["with the next token"] = await call()
        return told
    finally:
        await server.aclose()


async def refused(url: str) -> str:
    server = MCPServerHTTP(url, transport_type="streamable_http", headers=bearer("no token"))
    try:
        await server.initialize()
    except BaseException as error:  # noqa: BLE001  (it is an exception group in some versions)
        return type(error).__name__
    finally:
        await server.aclose()
    return ""


async def main(url: str, token: str, following: str) -> None:
    told = await play(url, token, following)
    told["without one"] = await refused(url)
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
