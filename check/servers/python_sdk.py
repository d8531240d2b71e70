"""A server on the Python SDK, mcp 1.20 to 2.x, for `outlive check server`.

usage: python_sdk.py high|low [PORT]      over stdio, or over Streamable HTTP on that port (high only)

`high` is FastMCP (MCPServer in mcp 2.x), `low` the low-level server. Tools: quick, slow, ask.
"""

import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

import anyio
from mcp import types

NAME = f"mcp {version('mcp')} {sys.argv[1]}-level"
SLOW = {"type": "object", "properties": {"seconds": {"type": "number", "default": 2}}}


async def rest(seconds: float) -> None:
    """Work that blocks, in a thread, where no cancellation reaches it: what most tools do."""
    await anyio.to_thread.run_sync(time.sleep, seconds)


def high(port: int | None) -> None:
    try:
        from mcp.server.fastmcp import Context, FastMCP
    except ModuleNotFoundError:
        from mcp.server.mcpserver import Context
        from mcp.server.mcpserver import MCPServer as FastMCP
    server = FastMCP(NAME)

    @server.tool()
    def quick() -> str:
        """Answer."""
        return "done"

    @server.tool()
    async def slow(ctx: Context, seconds: float = 2) -> str:
        """Take its time, and say how far it is."""
        await ctx.report_progress(0, 1)
        await rest(seconds)
        return "done"

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask the host for its roots."""
        return str(len((await ctx.session.list_roots()).roots))

    if port is None:
        server.run()
    else:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")


async def use(tool: str, arguments: dict[str, Any], progress: Callable[[int], Awaitable[None]], session: Any) -> str:
    match tool:
        case "quick":
            return "done"
        case "slow":
            await progress(0)
            await rest(arguments.get("seconds", 2))
            return "done"
        case "ask":
            return str(len((await session.list_roots()).roots))
        case _:
            raise ValueError(f"no tool {tool}")


def tools() -> list[types.Tool]:
    schemas = {"quick": {"type": "object"}, "slow": SLOW, "ask": {"type": "object"}}
    return [types.Tool.model_validate({"name": name, "inputSchema": schema}) for name, schema in schemas.items()]


def low_1() -> Any:
    from mcp.server.lowlevel import Server

    server = Server(NAME)

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return tools()

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        context = server.request_context

        async def progress(step: int) -> None:
            if context.meta is not None and context.meta.progressToken is not None:
                await context.session.send_progress_notification(context.meta.progressToken, step, 1)

        return [types.TextContent(type="text", text=await use(name, arguments, progress, context.session))]

    return server


def low_2() -> Any:
    from mcp.server.lowlevel import Server

    async def list_tools(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools())

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        session = context.session
        try:
            text = await use(params.name, params.arguments or {}, session.report_progress, session)
        except ValueError as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(text=text)])

    return Server(NAME, on_list_tools=list_tools, on_call_tool=call_tool)


async def low() -> None:
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    server = low_1() if hasattr(Server, "list_tools") else low_2()
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


if sys.argv[1] == "high":
    high(int(sys.argv[2]) if len(sys.argv) > 2 else None)
else:
    anyio.run(low)
