"""The Python SDK's client as a program opens it, mcp 1.20 to 2.x."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.client.stdio import StdioServerParameters, stdio_client

try:
    from mcp.client import Client  # mcp 2.x: speaks whichever era the server does
except ImportError:
    Client = None
    from mcp.client.session import ClientSession


@asynccontextmanager
async def connect(command: str, *args: str, **callbacks: Any) -> AsyncIterator[tuple[Any, str]]:
    """Yield the session and the protocol version it agreed on."""
    server = StdioServerParameters(command=command, args=list(args))
    if Client is not None:
        async with Client(stdio_client(server), **callbacks) as client:
            yield client, client.protocol_version
    else:
        async with stdio_client(server) as streams, ClientSession(*streams, **callbacks) as session:
            yield session, (await session.initialize()).protocolVersion
