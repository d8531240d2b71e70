"""Seeds 1 and 3 over HTTP: a server that is killed in a call and started again on its port."""

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from typing import Any

from peers import HERE, play, python

PYTHON_HOST = str(HERE / "hosts/python_host.py")
LIVEKIT_HOST = str(HERE / "hosts/livekit_host.py")


class Keeper:
    """A server on a port of its own that is started again whenever it dies, as an orchestrator would."""

    def __init__(self, mcp: str, transport: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.command = [python(f"mcp-{mcp}"), str(HERE / "servers/over_http.py"), str(self.port), transport]
        path = "sse" if transport == "sse" else "mcp"
        self.url = f"http://127.0.0.1:{self.port}/{path}"
        self.stopped = False
        self.server: subprocess.Popen[bytes] | None = None
        self.keeping = threading.Thread(target=self.keep)

    def keep(self) -> None:
        while not self.stopped:
            self.server = subprocess.Popen(self.command)
            self.server.wait()

    def __enter__(self) -> "Keeper":
        self.keeping.start()
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                if time.monotonic() > deadline:
                    self.__exit__()
                    raise
                time.sleep(0.05)

    def __exit__(self, *_: Any) -> None:
        self.stopped = True
        while self.keeping.is_alive():
            if self.server is not None and self.server.poll() is None:
                os.kill(self.server.pid, signal.SIGKILL)
            self.keeping.join(0.2)


class Http(unittest.TestCase):
    def assert_python_tells_them_apart(self, client: str, server: str, transport: str) -> dict[str, Any]:
        with Keeper(server, transport) as keeper, tempfile.TemporaryDirectory() as scratch:
            seen = play([python(f"mcp-{client}"), PYTHON_HOST, scratch], [keeper.url])
        killed = seen["killed"]
        self.assertIn("data", killed, killed)
        self.assertEqual(killed["code"], -31001)
        self.assertEqual(killed["data"]["outlive"]["kind"], "connection_lost")
        self.assertEqual(killed["data"]["outlive"]["outcome"], "unknown")
        self.assertEqual(killed["cancelling"], 0)
        self.assertEqual(seen["after the kill"], "pong")
        self.assertTrue(seen["another process"])
        self.assertEqual(seen["cancelled"]["type"], "CancelledError")
        self.assertEqual(seen["cancelled"]["cancelling"], 1)
        self.assertEqual(seen["after the cancel"], "pong")
        self.assertTrue(seen["same process"])
        return seen

    def test_python_sdk_1_30_0_survives_seed_3_over_streamable_http(self) -> None:
        self.assert_python_tells_them_apart("1.30.0", "1.30.0", "streamable")

    def test_python_sdk_1_30_0_survives_seed_3_over_http_sse(self) -> None:
        self.assert_python_tells_them_apart("1.30.0", "1.30.0", "sse")

    def test_python_sdk_2_3_0_survives_seed_3_over_modern_streamable_http(self) -> None:
        seen = self.assert_python_tells_them_apart("2.3.0", "2.3.0", "streamable")
        self.assertEqual(seen["protocol"], "2026-07-28")

    def test_python_sdk_2_3_0_survives_seed_3_over_legacy_streamable_http(self) -> None:
        seen = self.assert_python_tells_them_apart("2.3.0", "1.30.0", "streamable")
        self.assertEqual(seen["protocol"], "2025-11-25")

    def test_python_sdk_2_3_0_survives_seed_3_over_http_sse(self) -> None:
        self.assert_python_tells_them_apart("2.3.0", "1.30.0", "sse")

    def assert_livekit_survives_seed_1(self, version: str, transport: str) -> None:
        with Keeper("1.30.0", transport) as keeper:
            seen = play([python(f"livekit-{version}"), LIVEKIT_HOST], [keeper.url])
        self.assertEqual(seen["livekit-agents"], version)
        for step in ("before", "at once", "a second later", "after the second crash"):
            self.assertIn("pong", seen[step].get("result", ""), f"{step}: {seen[step]}")
        for step in ("crash", "second crash"):
            # Over HTTP+SSE what is lost is the stream, otherwise the answer.
            self.assertRegex(seen[step]["message"], "without an answer|connection|disconnected")
            self.assertIn("may have taken effect", seen[step]["message"])
        self.assertNotEqual(seen["pid before"], seen["pid after"])
        self.assertTrue(seen["initialized"])
        self.assertFalse(seen["connection task done"])
        self.assertEqual(seen["tools listed again"], seen["tools"])

    def test_livekit_1_6_4_survives_seed_1_over_streamable_http(self) -> None:
        self.assert_livekit_survives_seed_1("1.6.4", "streamable")

    def test_livekit_1_8_9_survives_seed_1_over_streamable_http(self) -> None:
        self.assert_livekit_survives_seed_1("1.8.9", "streamable")

    def test_livekit_1_8_9_survives_seed_1_over_http_sse(self) -> None:
        self.assert_livekit_survives_seed_1("1.8.9", "sse")
