"""FastMCP over HTTP at a port: `proxy COMMAND…` is its proxy before a server, `server` has the echo tool itself.

Sessions and their streams are off (`stateless_http`, `json_response`) if the first word is `stateless`.
"""

import sys

from fastmcp import FastMCP
from fastmcp.server import create_proxy

mode, port, kind, *command = sys.argv[1:]

if kind == "proxy":
    server = {"command": command[0], "args": command[1:]}
    mcp = create_proxy({"mcpServers": {"echo": server}})
else:
    mcp = FastMCP("echo")

    # Without an output schema: with one, every text would be sent twice.
    @mcp.tool(output_schema=None)
    async def echo(text: str) -> str:
        return text


mcp.run(
    transport="http",
    host="127.0.0.1",
    port=int(port),
    stateless_http=mode == "stateless",
    json_response=mode == "stateless",
    show_banner=False,
    uvicorn_config={"access_log": False, "log_level": "warning"},
)
