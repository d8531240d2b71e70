"""FastMCP's proxy before all servers of the file named on the command line, as its documentation shows it."""

import json
import sys

from fastmcp.server import create_proxy

with open(sys.argv[1]) as file:
    create_proxy(json.load(file)).run(show_banner=False)
