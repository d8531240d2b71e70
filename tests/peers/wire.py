"""A host at the level of bytes: what it sends is written as it stands, what it receives is kept as it came."""

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds after which an answer counts as never coming. Only a hang reaches it."""


class Wire:
    """One running MCP server, or outlive in front of one, spoken to line by line."""

    def __init__(self, command: list[str], stderr: Any = subprocess.DEVNULL, env: dict[str, str] | None = None) -> None:
        self.sent: list[bytes] = []
        self.received: list[bytes] = []
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        """By method: how this host answers the server's own requests."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env={**os.environ, **(env or {})}
        )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: dict[str, Any] | bytes) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()
        self.sent.append(line + b"\n")
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, id: int | str, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self.begin(id, method, **params)
        return self.answer(id)

    def begin(self, id: int | str, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answer(self, id: int | str) -> dict[str, Any]:
        """Wait for the answer to request `id`; everything that comes before it is received as well."""
        return self.wait_for(lambda message: "method" not in message and message.get("id") == id, f"answer to {id!r}")

    def notification(self, method: str) -> dict[str, Any]:
        return self.wait_for(lambda message: message.get("method") == method, method)

    def all_of(self, *wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until each of these has come, in any order."""
        missing = list(wanted)
        while missing:
            message = self.wait_for(lambda message: any(want(message) for want in missing), "awaited message")
            missing = [want for want in missing if not want(message)]

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {what} within {PATIENCE} s; received {self.received[-3:]}") from None
            if line is None:
                raise AssertionError(f"stdout ended before the {what}; received {self.received[-3:]}")
            self.received.append(line)
            message = json.loads(line)
            if "method" in message and "id" in message and message["method"] in self.answers:
                result = self.answers[message["method"]](message)
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
            if wanted(message):
                return message

    def initialize(self, version: str = "2025-06-18", capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
        """The legacy handshake."""
        answer = self.request(
            0,
            "initialize",
            protocolVersion=version,
            capabilities=capabilities or {},
            clientInfo={"name": "wire", "version": "0"},
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def call(self, id: int | str, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.request(id, "tools/call", name=tool, arguments=arguments)

    def leave(self) -> int:
        """Close stdin as a host does, read what still comes, and return the exit status."""
        self._process.stdin.close()
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.received.append(line)
        return self._process.wait(PATIENCE)
