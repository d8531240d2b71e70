"""The tools of `tools.py` on the low-level server of the Python SDK, mcp 1.x or 2.x: handlers for requests, nothing else."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NAMES = ("ping", "pid", "echo", "fail", "count", "linger")
V1 = hasattr(Server, "list_tools")
Progress = Callable[[int], Awaitable[None]]


async def use(tool: str, arguments: dict[str, Any], progress: Progress) -> str:
    match tool:
        case "ping":
            return "pong"
        case "pid":
            return str(os.getpid())
        case "echo":
            return repr(arguments["value"])
        case "count":
            for step in range(1, arguments["to"] + 1):
                await progress(step)
            return f"counted to {arguments['to']}"
        case "linger":
            started = arguments["started"]
            Path(started).touch()
            try:
                await anyio.sleep(arguments["seconds"])
            except anyio.get_cancelled_exc_class():
                Path(f"{started}.cancelled").touch()
                raise
            return "slept"
        case _:
            raise ValueError("this tool always fails")


def definition(name: str) -> types.Tool:
    return types.Tool.model_validate({"name": name, "inputSchema": {"type": "object"}})


def server_1() -> Server:
    server = Server("lowlevel")

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [definition(name) for name in NAMES]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        context = server.request_context

        async def progress(step: int) -> None:
            await context.session.send_progress_notification(context.meta.progressToken, step)

        return [types.TextContent(type="text", text=await use(name, arguments, progress))]

    return server


def server_2() -> Server:
    async def list_tools(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[definition(name) for name in NAMES])

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        try:
            text = await use(params.name, params.arguments or {}, context.session.report_progress)
        except ValueError as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(text=text)])

    return Server("lowlevel", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    server = server_1() if V1 else server_2()
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


anyio.run(main)
