"""The Python SDK's clients, old and new, with a server of the library over HTTP."""

import json
import signal
import subprocess
import unittest
from typing import Any

from peers import HERE, HTTP_SERVER, OUTLIVE, python, run

HOST = str(HERE / "hosts/python_http.py")
TEXT = "This is a simple text response for testing."


class ServeHttp(unittest.TestCase):
    def setUp(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.server = self.enterContext(subprocess.Popen([HTTP_SERVER, "127.0.0.1:0"], text=True, **pipes))
        self.url = self.server.stdout.readline().strip()

    def tearDown(self) -> None:
        self.server.stdin.close()
        self.assertEqual(self.server.wait(60), 0, "the server ends when it is told to")

    def play(self, mcp: str, mode: str) -> dict[str, Any]:
        url = self.url.removesuffix("/mcp") + "/sse" if mode == "sse" else self.url
        told = run([python(f"mcp-{mcp}"), HOST, mode, url])
        self.assertGreater(told["tools"], 20)
        self.assertEqual(told["text"], TEXT)
        self.assertEqual(told["asked"], "Hello, Ada!")
        self.assertEqual(told["resource"], 1)
        self.assertEqual(told["many"], [TEXT] * 20)
        self.assertEqual(told["after"], TEXT)
        self.assertEqual(told["steps"][:3], [0, 50, 100])
        return told

    def test_legacy_clients_are_served(self) -> None:
        for mcp in ("1.20.0", "1.27.0", "1.30.0", "2.3.0"):
            with self.subTest(mcp=mcp):
                told = self.play(mcp, "legacy")
                self.assertLess(told["version"], "2026")
                self.assertEqual(told["log"], ["started", "processing", "completed"])

    def test_clients_of_http_and_sse_are_served(self) -> None:
        for mcp in ("1.20.0", "1.27.0", "1.30.0", "2.3.0"):
            with self.subTest(mcp=mcp):
                told = self.play(mcp, "sse")
                self.assertLess(told["version"], "2026")
                self.assertEqual(told["log"], ["started", "processing", "completed"])

    def test_modern_clients_are_served(self) -> None:
        told = self.play("2.3.0", "auto")
        self.assertEqual(told["version"], "2026-07-28")
        self.assertEqual(told["log"], [], "a modern client hears what it asked for, and this one did not")


class ThroughOutliveServe(ServeHttp):
    """The same clients with the same server, but `outlive serve` stands in between."""

    def setUp(self) -> None:
        super().setUp()
        command = [OUTLIVE, "serve", "--listen", ":0", "--log-format", "json", self.url]
        self.between = self.enterContext(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        events = map(json.loads, iter(self.between.stderr.readline, ""))
        self.url = next(event["url"] for event in events if event["event"] == "listening")

    def tearDown(self) -> None:
        self.between.send_signal(signal.SIGTERM)
        self.between.stderr.read()
        self.assertEqual(self.between.wait(60), 0, "outlive ends when it is told to")
        super().tearDown()
