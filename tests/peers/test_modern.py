"""A modern (2026-07-28) session has no handshake to replay, but its `subscriptions/listen` streams must outlive the server."""

import json
import os
import signal
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conversations import modern
from events import SOON, EventLog
from peers import TEE, outlive, tools
from wire import Wire

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class ModernSession(unittest.TestCase):
    def setUp(self) -> None:
        self.scratch = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.record = self.scratch / "stdin"
        self.log = EventLog(self.scratch / "log")
        self.wire = self.enterContext(Wire(outlive([*TEE, str(self.record), *tools("2.3.0")], *self.log.flags)))
        self.wire.request(1, "server/discover", _meta=modern())

    def use(self, id: str, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.wire.request(id, "tools/call", name=tool, arguments=arguments, _meta=modern())

    def text(self, id: str, tool: str) -> str:
        return self.use(id, tool)["result"]["content"][0]["text"]

    def listens_received(self) -> list[dict[str, Any]]:
        """The `subscriptions/listen` requests that the servers, old and new, were sent."""
        messages = map(json.loads, self.record.read_bytes().splitlines())
        return [message for message in messages if message.get("method") == "subscriptions/listen"]

    def received(self, method: str) -> list[dict[str, Any]]:
        return [message for message in map(json.loads, self.wire.received) if message.get("method") == method]

    def assert_listen_outlives(self, end: Callable[[int], None]) -> None:
        """A stream is open while `end` ends the server with this process id."""
        listen = {"toolsListChanged": True}
        self.wire.begin("listen-1", "subscriptions/listen", notifications=listen, _meta=modern())
        self.wire.notification(ACKNOWLEDGED)
        first = self.text("a", "pid")
        end(int(first))
        self.log.wait_for("connected", 2)

        self.assertNotEqual(self.text("b", "pid"), first)
        deadline = time.monotonic() + SOON
        while len(asked := self.listens_received()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(len(asked), 2)
        self.assertEqual(asked[0], asked[1])

        # The stream works on the new server, and the host saw one acknowledgement and no end of it.
        already = len(self.received("notifications/tools/list_changed"))
        self.assertEqual(self.text("c", "announce"), "announced")
        while len(self.received("notifications/tools/list_changed")) == already:
            changed = self.wire.notification("notifications/tools/list_changed")
            self.assertEqual(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen-1")
        self.text("d", "ping")
        self.assertEqual(len(self.received(ACKNOWLEDGED)), 1)
        self.assertFalse([m for m in map(json.loads, self.wire.received) if m.get("id") == "listen-1"])

    def test_mcp_2_3_0_listen_is_issued_again_under_its_own_id_after_a_sigkill(self) -> None:
        self.assert_listen_outlives(lambda server: os.kill(server, signal.SIGKILL))

    def test_mcp_2_3_0_listen_is_issued_again_under_its_own_id_after_a_requested_restart(self) -> None:
        # Told to stop, this server answers its open streams with an error, which is not the host's to see.
        self.assert_listen_outlives(lambda _: os.kill(self.wire.pid, signal.SIGHUP))

    def test_mcp_2_3_0_call_killed_in_the_middle_is_connection_lost(self) -> None:
        first = self.text("a", "pid")
        started = self.scratch / "started"
        arguments = {"seconds": 300, "started": str(started)}
        self.wire.begin("b", "tools/call", name="linger", arguments=arguments, _meta=modern())
        while not started.exists():
            time.sleep(0.01)
        os.kill(int(first), signal.SIGKILL)
        error = self.wire.answer("b")["error"]
        self.assertEqual(error["data"]["outlive"]["kind"], "connection_lost")
        self.assertNotEqual(self.text("c", "pid"), first)
        # There is no handshake in this era: the new server was sent nothing but the host's own requests.
        methods = [json.loads(line)["method"] for line in self.record.read_bytes().splitlines()]
        self.assertNotIn("initialize", methods)
