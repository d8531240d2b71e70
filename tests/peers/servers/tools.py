"""The server the host programs talk to: high-level Python SDK, any version from 1.20 to 2.x.

usage: tools.py [SECONDS]      with SECONDS it takes that long to exit, as a server that tidies up does

`FastMCP` of mcp 1.x is `MCPServer` of mcp 2.x; the rest of what is used here did not change.
"""

import atexit
import os
import sys
import time
from pathlib import Path
from typing import Any

import anyio

try:
    from mcp.server.fastmcp import Context, FastMCP
except ModuleNotFoundError:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as FastMCP

server = FastMCP("tools")


@server.tool()
def ping() -> str:
    """Answer."""
    return "pong"


@server.tool()
def pid() -> str:
    """Say which process answers."""
    return str(os.getpid())


@server.tool()
def crash() -> str:
    """Die as a crash, a redeployment or the OOM killer would have it."""
    os._exit(1)


@server.tool()
async def linger(seconds: float, started: str) -> str:
    """Create the file `started`, then sleep where a cancellation reaches it; it creates a second file."""
    Path(started).touch()
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        Path(f"{started}.cancelled").touch()
        raise
    return "slept"


@server.tool()
async def threaded(seconds: float, started: str) -> str:
    """Create the file `started`, then sleep in a worker thread, where no cancellation reaches it."""
    Path(started).touch()
    await anyio.to_thread.run_sync(time.sleep, seconds)
    return "slept in a thread"


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Report progress for each step and log a line."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"step {step}")
    await ctx.info("counted")
    return f"counted to {to}"


@server.tool()
def fail() -> str:
    """Raise."""
    raise ValueError("this tool always fails")


@server.tool()
def echo(value: Any) -> str:
    """Return the representation of the argument."""
    return repr(value)


@server.tool()
async def roots(ctx: Context) -> str:
    """Ask the client for its roots."""
    answer = await ctx.session.list_roots()
    return ", ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def announce(ctx: Context) -> str:
    """Say that the list of tools has changed, the way this version does it."""
    if hasattr(ctx, "notify_tools_changed"):
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "announced"


@server.resource("memo://greeting")
def greeting() -> str:
    """A text resource."""
    return "hello, wörld \u2028 \U0001f980"


@server.resource("memo://of/{name}")
def memo(name: str) -> str:
    """A templated resource."""
    return f"memo of {name}"


@server.prompt()
def review(code: str) -> str:
    """A prompt with one argument."""
    return f"Please review:\n{code}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        atexit.register(time.sleep, float(sys.argv[1]))
    server.run()
