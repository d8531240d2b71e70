"""The Python SDK's client over HTTP, of 1.x or 2.x."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.client import sse, streamable_http
from mcp.client.session import ClientSession
from python_client import Client


@asynccontextmanager
async def connect(mode: str, url: str, **callbacks: Any) -> AsyncIterator[tuple[Any, str]]:
    """MODE as in mcp 2.x, `auto` or `legacy`, or `sse`."""
    if Client is not None:
        server = sse.sse_client(url) if mode == "sse" else url
        async with Client(server, mode="legacy" if mode == "sse" else mode, **callbacks) as client:
            yield client, client.protocol_version
    else:
        client = sse.sse_client if mode == "sse" else streamable_http.streamablehttp_client
        async with client(url) as (reader, writer, *_), ClientSession(reader, writer, **callbacks) as session:
            yield session, (await session.initialize()).protocolVersion


async def text(session: Any, tool: str, progress: Any = None, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments, progress_callback=progress)
    return result.model_dump(by_alias=True, mode="json")["content"][0]["text"]
