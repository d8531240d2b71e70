"""FastMCP's proxy before the server named on the command line, as its documentation shows it."""

import sys

from fastmcp.server import create_proxy

server = {"command": sys.argv[1], "args": sys.argv[2:]}
create_proxy({"mcpServers": {"echo": server}}).run(show_banner=False)
