"""Hosts as the cases see them: started with the command of a server, they call tools and say what came of it."""

import json
import os
import queue
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from model_api import GenerateContentApi, MessagesApi, ModelApi, ResponsesApi


@dataclass
class Seen:
    """What the caller of a tool, or the model, sees of a call."""

    kind: str  # "text", "error", "hangs" or "gone": the host itself has ended
    words: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.kind == "text"


class Pending:
    """A call that was made and may not have ended."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.began = time.monotonic()

    def end(self, limit: float = 65) -> Seen:
        kind, words = self.host.outcome(self.began + limit - time.monotonic())
        return Seen(kind, words, round(time.monotonic() - self.began, 3))


class Host:
    """What all hosts have in common: a process in a group of its own."""

    process: subprocess.Popen[Any]

    def launch(self, command: list[str], folder: Path, env: dict[str, str], **pipes: Any) -> None:
        home = folder / "home"
        home.mkdir(exist_ok=True)
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        with open(folder / "host.log", "wb") as log:
            self.process = subprocess.Popen(
                command, cwd=home, env={**kept, "HOME": str(home), **env}, stderr=log, start_new_session=True, **pipes
            )

    def call(self, tool: str, arguments: dict[str, Any] | None = None, limit: float = 65) -> Seen:
        return self.begin(tool, arguments).end(limit)

    def begin(self, tool: str, arguments: dict[str, Any] | None = None) -> Pending:
        pending = Pending(self)
        self.send(tool, arguments or {})
        return pending

    def idle(self, seconds: float) -> None:
        """Lets time pass without a call to the server."""
        time.sleep(seconds)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def send(self, tool: str, arguments: dict[str, Any]) -> None:
        raise NotImplementedError

    def outcome(self, limit: float) -> tuple[str, str]:
        raise NotImplementedError

    def tools(self) -> list[str]:
        raise NotImplementedError

    def leave(self) -> bool:
        """Ends the host as its user would, and says whether it has ended within ten seconds."""
        self.finish()
        try:
            self.process.wait(10)
            return True
        except subprocess.TimeoutExpired:
            return False

    def finish(self) -> None:
        raise NotImplementedError


class Program(Host):
    """A program of `hosts/` that has a client library in it and is driven by lines."""

    def __init__(self, command: list[str], server: list[str], folder: Path, timeout: float | None) -> None:
        env = {} if timeout is None else {"CALL_TIMEOUT": str(timeout)}
        self.launch(command + server, folder, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines: queue.Queue[dict[str, Any]] = queue.Queue()
        Thread(target=self._read, daemon=True).start()
        ready = self.lines.get(timeout=60)
        assert "ready" in ready, (ready, (folder / "host.log").read_text()[-2000:])

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put({"gone": "the host ended"})

    def _write(self, request: dict[str, Any]) -> None:
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended, which the reader says

    def send(self, tool: str, arguments: dict[str, Any]) -> None:
        self._write({"call": tool, "arguments": arguments})

    def outcome(self, limit: float) -> tuple[str, str]:
        try:
            ((kind, words),) = self.lines.get(timeout=max(limit, 0.01)).items()
            return kind, words
        except queue.Empty:
            return "hangs", ""

    def tools(self) -> list[str]:
        self._write({"tools": True})
        kind, listed = self.outcome(65)
        return listed if kind == "tools" else [f"{kind}: {listed}"]

    def finish(self) -> None:
        self.process.stdin.close()


class Agent(Host):
    """An agent for the terminal, run without one, with a model of ours. A subclass knows its options and files."""

    api: ModelApi

    def __init__(self, command: list[str], server: list[str], folder: Path, timeout: float | None) -> None:
        self.count = 0
        (folder / "home").mkdir()
        options, env = self.settings(folder, server[0], server[1:], timeout)
        nothing = subprocess.DEVNULL
        self.launch([*command, *options], folder, env, stdin=nothing, stdout=nothing)
        self.last = self.api.turns.get(timeout=60)
        while not self.tools():  # some do not wait for their servers before the first turn
            assert self.count < 60, "the server's tools do not come"
            time.sleep(0.5)
            self.call("none", {"try": self.count})

    def settings(
        self, folder: Path, command: str, args: list[str], timeout: float | None
    ) -> tuple[list[str], dict[str, str]]:
        """Writes the host's files and returns its options and variables."""
        raise NotImplementedError

    def send(self, tool: str, arguments: dict[str, Any]) -> None:
        self.count += 1
        self.api.calls.put({"id": f"call_{self.count}", "tool": tool, "arguments": arguments})

    def outcome(self, limit: float) -> tuple[str, str]:
        deadline = time.monotonic() + limit
        while True:
            try:
                self.last = self.api.turns.get(timeout=0.2)
                break
            except queue.Empty:
                if self.process.poll() is not None:
                    return "gone", "the host ended"
                if time.monotonic() > deadline:
                    return "hangs", ""
        return self.api.result(self.last, f"call_{self.count}")

    def idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 20))
            self.call("none", {"try": self.count})  # a model that is silent for long is asked again

    def tools(self) -> list[str]:
        return self.api.tools(self.last)

    def finish(self) -> None:
        self.api.calls.put(None)


class ClaudeCode(Agent):
    def settings(
        self, folder: Path, command: str, args: list[str], timeout: float | None
    ) -> tuple[list[str], dict[str, str]]:
        self.api = MessagesApi()
        config = folder / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"s": {"command": command, "args": args}}}))
        env = {
            "ANTHROPIC_BASE_URL": self.api.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",  # so that each request lists the tools the model has
        }
        if timeout is not None:
            env["MCP_TOOL_TIMEOUT"] = str(int(timeout * 1000))
        return ["-p", "go", "--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", "mcp__s"], env


class Codex(Agent):
    def settings(
        self, folder: Path, command: str, args: list[str], timeout: float | None
    ) -> tuple[list[str], dict[str, str]]:
        self.api = ResponsesApi()
        config = folder / "home/.codex/config.toml"
        config.parent.mkdir()
        bound = "" if timeout is None else f"tool_timeout_sec = {timeout}"
        # A JSON string is a TOML string, and a list of them a TOML array.
        config.write_text(f"""
            model = "none"
            model_provider = "ours"
            check_for_update_on_startup = false
            [analytics]
            enabled = false
            [model_providers.ours]
            name = "ours"
            base_url = "{self.api.url}/v1"
            wire_api = "responses"
            env_key = "OURS"
            [mcp_servers.s]
            command = {json.dumps(command)}
            args = {json.dumps(args)}
            {bound}
        """)
        return ["exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "go"], {"OURS": "none"}


class GeminiCli(Agent):
    def settings(
        self, folder: Path, command: str, args: list[str], timeout: float | None
    ) -> tuple[list[str], dict[str, str]]:
        self.api = GenerateContentApi()
        server: dict[str, Any] = {"command": command, "args": args, "trust": True}
        if timeout is not None:
            server["timeout"] = int(timeout * 1000)
        config = folder / "home/.gemini/settings.json"
        config.parent.mkdir()
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
            "mcpServers": {"s": server},
        }
        config.write_text(json.dumps(settings))
        env = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.api.url, "GEMINI_CLI_NO_RELAUNCH": "true"}
        return ["-m", "gemini-2.5-flash", "-p", "go", "--approval-mode", "yolo", "--skip-trust"], env
