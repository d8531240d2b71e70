"""A server on FastMCP 2, which has a server of its own on the Python SDK's low level."""

from fastmcp import FastMCP

server = FastMCP("fastmcp")


@server.tool
def ping() -> str:
    """Answer."""
    return "pong"


@server.resource("fast://greeting")
def greeting() -> str:
    """A text resource."""
    return "hello"


if __name__ == "__main__":
    server.run(show_banner=False)
