"""outlive's own account of a session: its event log."""

import json
import time
from pathlib import Path
from typing import Any

SOON = 10.0
"""Seconds. The ordinary probe of an idle server comes after 30 s; whatever is found out within this was found out otherwise."""


class EventLog:
    def __init__(self, file: Path) -> None:
        self._file = file
        self.flags = ("--log-format", "json", "--log-file", str(file), "--log-level", "debug")

    def all(self, name: str) -> list[dict[str, Any]]:
        # A last line without its end is still being written.
        lines = self._file.read_bytes().split(b"\n")[:-1] if self._file.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait_for(self, name: str, ordinal: int = 1) -> dict[str, Any]:
        """The event of this name, or the second, third … of them."""
        deadline = time.monotonic() + SOON
        while len(found := self.all(name)) < ordinal:
            if time.monotonic() > deadline:
                raise AssertionError(f"no event {name} within {SOON} s")
            time.sleep(0.02)
        return found[ordinal - 1]
