"""A program that uses the package: one framework, a server that dies, what the errors module says.

usage: host.py FRAMEWORK SERVER-COMMAND…      prints one JSON object
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import outlive

Call = Callable[[str], Awaitable[str]]


@asynccontextmanager
async def mcp(server: outlive.StdioServer) -> AsyncIterator[Call]:
    from mcp.client.stdio import stdio_client

    async def call(name: str) -> str:
        return (await session.call_tool(name, {})).content[0].text

    try:
        from mcp.client import Client  # 2.x
    except ImportError:
        from mcp import ClientSession

        async with stdio_client(server.parameters()) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield call
    else:
        async with Client(stdio_client(server.parameters())) as session:
            yield call


@asynccontextmanager
async def livekit(server: outlive.StdioServer) -> AsyncIterator[Call]:
    connected = server.livekit(client_session_timeout_seconds=30)
    await connected.initialize()
    handles = {tool.info.name: tool for tool in await connected.list_tools()}

    async def call(name: str) -> str:
        return json.loads(await handles[name](raw_arguments={}))["text"]

    yield call
    await connected.aclose()


@asynccontextmanager
async def openai_agents(server: outlive.StdioServer) -> AsyncIterator[Call]:
    async with server.openai_agents(client_session_timeout_seconds=30) as connected:

        async def call(name: str) -> str:
            return (await connected.call_tool(name, {})).content[0].text

        yield call


@asynccontextmanager
async def pydantic_ai(server: outlive.StdioServer) -> AsyncIterator[Call]:
    async with server.pydantic_ai() as toolset:

        async def call(name: str) -> str:
            return str(await toolset.direct_call_tool(name, {}))

        yield call


@asynccontextmanager
async def langchain(server: outlive.StdioServer) -> AsyncIterator[Call]:
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    async with MultiServerMCPClient({"server": server.langchain()}).session("server") as session:
        handles = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(name: str) -> str:
            output = await handles[name].ainvoke({})
            return output if isinstance(output, str) else output[0]["text"]

        yield call


FRAMEWORKS = {function.__name__: function for function in (mcp, livekit, openai_agents, pydantic_ai, langchain)}


async def failure(call: Call, name: str) -> dict[str, Any]:
    """What becomes of a call that fails."""
    try:
        return {"result": await call(name)}
    except Exception as error:
        ours = outlive.errors.of(error)
        said: dict[str, Any] = {"raised": type(error).__name__, "ours": type(ours).__name__}
        if ours is not None:
            said |= {"outcome": ours.outcome, "generation": ours.generation, "retryable": ours.retryable}
            said |= {"signal": ours.cause and ours.cause.signal, "code": ours.code, "message": ours.message}
        return said


async def main(framework: str, *command: str) -> dict[str, Any]:
    server = outlive.stdio(*command, log_level="quiet", request_timeout=30)
    async with FRAMEWORKS[framework](server) as call:
        before = await call("pid")
        seen = {"refuse": await failure(call, "refuse"), "die": await failure(call, "die")}
        return {**seen, "another server": await call("pid") != before}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
