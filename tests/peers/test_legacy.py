"""A legacy session is a state the server holds; a new server must be given it back."""

import json
import os
import signal
import tempfile
import unittest
from pathlib import Path
from typing import Any

from conversations import CAPABILITIES, ROOTS
from events import EventLog
from peers import EVERYTHING, TEE, outlive
from wire import Wire

WATCHED = "demo://resource/static/document/features.md"
UNWATCHED = "demo://resource/static/document/startup.md"


class LegacySession(unittest.TestCase):
    def test_server_everything_gets_back_what_the_host_believes_it_has(self) -> None:
        scratch = Path(self.enterContext(tempfile.TemporaryDirectory()))
        record, log = scratch / "stdin", EventLog(scratch / "log")
        wire = self.enterContext(Wire(outlive([*TEE, str(record), *EVERYTHING], *log.flags)))
        wire.answers["roots/list"] = lambda _: ROOTS
        wire.initialize("2025-11-25", CAPABILITIES)
        self.wait_for_roots(wire, 1)
        wire.request(1, "tools/list")
        wire.request(2, "resources/subscribe", uri=WATCHED)
        wire.request(3, "resources/subscribe", uri=UNWATCHED)
        wire.request(4, "resources/unsubscribe", uri=UNWATCHED)
        wire.request(5, "logging/setLevel", level="notice")
        wire.request(6, "logging/setLevel", level="info")
        before = record.read_bytes()
        os.kill(int(Path(f"{record}.pid").read_text()), signal.SIGKILL)
        log.wait_for("lost")

        # The new server asks for the roots too, under an id that the host has not seen, and is given them.
        answered = wire.call(7, "get-sum", a=1, b=2)
        self.assertEqual(answered["result"]["content"][0]["text"], "The sum of 1 and 2 is 3.")
        asks = self.wait_for_roots(wire, 2)
        self.assertEqual(len(asks), 2)
        self.assertNotEqual(asks[0]["id"], asks[1]["id"])
        self.assertIn("file:///one", json.dumps(wire.call(8, "get-roots-list")))

        # It was opened with the host's own words, and holds the last log level and the one subscription.
        was = [json.loads(line) for line in before.splitlines()]
        now = [json.loads(line) for line in record.read_bytes()[len(before) :].splitlines()]
        self.assertEqual([m["method"] for m in now[:2]], ["initialize", "notifications/initialized"])
        self.assertEqual(now[0]["params"], was[0]["params"])
        restored = [m["params"] for m in now if m.get("method") in ("logging/setLevel", "resources/subscribe")]
        self.assertCountEqual(restored, [{"level": "info"}, {"uri": WATCHED}])
        self.assertNotIn("resources/unsubscribe", [m.get("method") for m in now])

        # What may have been missed meanwhile is said once; what was restored in silence stays silent.
        told = [json.loads(line) for line in wire.received]
        updated = [m["params"]["uri"] for m in told if m.get("method") == "notifications/resources/updated"]
        self.assertEqual(updated, [WATCHED])
        answers = [m["id"] for m in told if "method" not in m]
        self.assertEqual(answers, [0, 1, 2, 3, 4, 5, 6, 7, 8])

    def wait_for_roots(self, wire: Wire, times: int) -> list[dict[str, Any]]:
        """Wait until servers have been given the roots this many times; every request for them so far."""
        while sum(b"Roots updated" in line for line in wire.received) < times:
            wire.notification("notifications/message")
        return [m for m in map(json.loads, wire.received) if m.get("method") == "roots/list"]
