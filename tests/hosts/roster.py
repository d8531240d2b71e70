"""The hosts, their versions, and how each is started."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from host import Agent, ClaudeCode, Codex, GeminiCli, Host, Program
from install import HERE, PEERS

Start = Callable[[list[str], Path, float | None], Host]


@dataclass
class Entry:
    title: str
    start: Start


def python(venv: Path, program: str) -> Start:
    command = [str(venv / "bin/python"), str(HERE / "hosts" / program)]
    return lambda server, folder, timeout: Program(command, server, folder, timeout)


def typescript(generation: str) -> Start:
    command = ["node", str(HERE / "hosts/typescript_sdk.mjs"), generation]
    return lambda server, folder, timeout: Program(command, server, folder, timeout)


def agent(kind: type[Agent], *command: str) -> Start:
    return lambda server, folder, timeout: kind(list(command), server, folder, timeout)


NPM = HERE / "node_modules"
CLAUDE = str(NPM / "@anthropic-ai/claude-code-linux-x64/claude")
CODEX = str(NPM / "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
GEMINI = str(NPM / "@google/gemini-cli/bundle/gemini.js")

HOSTS = {
    "claude-code": Entry("Claude Code 2.1.325", agent(ClaudeCode, CLAUDE)),
    "codex": Entry("Codex 0.166.0", agent(Codex, CODEX)),
    "gemini": Entry("Gemini CLI 0.61.0", agent(GeminiCli, "node", GEMINI)),
    "mcp-2": Entry("Python SDK 2.3.0", python(PEERS / ".venvs/mcp-2.3.0", "mcp_client.py")),
    "mcp-1": Entry("Python SDK 1.30.0", python(PEERS / ".venvs/mcp-1.30.0", "mcp_client.py")),
    "typescript-2": Entry("TypeScript SDK 2.4.0", typescript("client")),
    "typescript-1": Entry("TypeScript SDK 1.32.2", typescript("sdk")),
    "fastmcp": Entry("FastMCP 4.1.4", python(HERE / ".venvs/fastmcp", "fastmcp_client.py")),
    "livekit": Entry("LiveKit Agents 1.8.9", python(PEERS / ".venvs/livekit-1.8.9", "livekit_agents.py")),
    "openai": Entry("OpenAI Agents 0.24.0", python(HERE / ".venvs/openai-agents", "openai_agents.py")),
    "langchain": Entry("LangChain adapters 0.3.2", python(HERE / ".venvs/langchain", "langchain_adapters.py")),
    "pydantic-ai": Entry("Pydantic AI 2.62.0", python(HERE / ".venvs/pydantic-ai", "pydantic_ai_toolset.py")),
}
