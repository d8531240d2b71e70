"""A stdio server behind `outlive run`, for each SDK and framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from ._executable import executable
from ._policy import Policy, flags

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class StdioServer:
    """How to start a server behind `outlive run`. Each method imports the framework that it is named after."""

    command: str
    args: list[str] = field(default_factory=list)
    env: dict[str, str] | None = None
    cwd: str | None = None

    def entry(self) -> dict[str, Any]:
        """The server as an entry of `mcpServers` in a host's file; only what is set."""
        entry: dict[str, Any] = {"command": self.command, "args": list(self.args)}
        if self.env is not None:
            entry["env"] = dict(self.env)
        if self.cwd is not None:
            entry["cwd"] = self.cwd
        return entry

    def parameters(self, **options: Any) -> Any:
        """`mcp.StdioServerParameters` of the official SDK, 1.x and 2.x; for `stdio_client`."""
        from mcp import StdioServerParameters

        return StdioServerParameters(**self.entry(), **options)

    def livekit(self, **options: Any) -> Any:
        """`livekit.agents.mcp.MCPServerStdio`; options such as `client_session_timeout_seconds` are passed on."""
        from livekit.agents import mcp

        return mcp.MCPServerStdio(**self.entry(), **options)

    def openai_agents(self, **options: Any) -> Any:
        """`agents.mcp.MCPServerStdio` of openai-agents; options such as `cache_tools_list` are passed on."""
        from agents.mcp import MCPServerStdio

        return MCPServerStdio(params=self.entry(), **options)

    def pydantic_ai(self, **options: Any) -> Any:
        """A toolset of pydantic-ai: `MCPToolset`, or `MCPServerStdio` before there was one."""
        try:
            from pydantic_ai.mcp import MCPToolset
        except ImportError:
            from pydantic_ai.mcp import MCPServerStdio

            return MCPServerStdio(**self.entry(), **options)
        return MCPToolset(self.fastmcp(), **options)

    def fastmcp(self, **options: Any) -> Any:
        """`fastmcp.client.transports.StdioTransport`, for its `Client`."""
        from fastmcp.client.transports import StdioTransport

        return StdioTransport(**self.entry(), **options)

    def langchain(self, **options: Any) -> dict[str, Any]:
        """A connection for `langchain_mcp_adapters.client.MultiServerMCPClient`."""
        return {"transport": "stdio", **self.entry(), **options}


def stdio(
    command: str | PathLike[str],
    *args: str | PathLike[str],
    env: Mapping[str, str] | None = None,
    cwd: str | PathLike[str] | None = None,
    **policy: Unpack[Policy],
) -> StdioServer:
    """A server that outlive keeps alive: its program and arguments, or its address, and settings of `outlive run`.

    >>> stdio("uvx", "mcp-server-time", request_timeout="60s").args
    ['run', '--request-timeout=60s', '--', 'uvx', 'mcp-server-time']
    """
    server = [fspath(word) for word in (command, *args)]
    return StdioServer(
        command=executable(),
        args=["run", *flags(policy), "--", *server],
        env=None if env is None else dict(env),
        cwd=None if cwd is None else fspath(cwd),
    )
