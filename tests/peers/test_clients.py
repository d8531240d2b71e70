"""Seed 3: a client must tell the death of its server from its own cancellation, and live through both."""

import tempfile
import unittest
from typing import Any

from peers import HERE, RMCP_HOST, play, python, tools

PYTHON = str(HERE / "hosts/python_host.py")
TYPESCRIPT = ["node", str(HERE / "hosts/typescript_host.mjs")]
LEGACY, BOTH_ERAS = "1.30.0", "2.3.0"


class Clients(unittest.TestCase):
    def play(self, host: list[str], server: str) -> dict[str, Any]:
        """Play the host's scenario; assert what every client must see."""
        with tempfile.TemporaryDirectory() as scratch:
            seen = play([*host, scratch], tools(server))

        killed = seen["killed"]
        self.assertIn("data", killed, killed)
        lost = killed["data"]["outlive"]
        self.assertEqual(killed["code"], -31001)
        self.assertEqual(lost["kind"], "connection_lost")
        self.assertEqual(lost["outcome"], "unknown")
        self.assertEqual(lost["cause"]["signal"], 9)
        self.assertIn("SIGKILL", killed["message"])
        self.assertEqual(seen["after the kill"], "pong")
        self.assertTrue(seen["another process"])

        self.assertNotIn("result", seen["cancelled"])
        self.assertEqual(seen["after the cancel"], "pong")
        self.assertTrue(seen["same process"], "a cancellation that the server obeys must not cost a restart")
        return seen

    def assert_python_tells_them_apart(self, version: str, server: str) -> dict[str, Any]:
        seen = self.play([python(f"mcp-{version}"), PYTHON], server)
        self.assertEqual(seen["sdk"], f"mcp {version}")
        self.assertIn(seen["killed"]["type"], ("McpError", "MCPError"))
        self.assertEqual(seen["killed"]["cancelling"], 0)
        self.assertEqual(seen["cancelled"]["type"], "CancelledError")
        self.assertEqual(seen["cancelled"]["cancelling"], 1)
        return seen

    def assert_typescript_tells_them_apart(self, package: str, sdk: str, server: str) -> dict[str, Any]:
        seen = self.play([*TYPESCRIPT, package], server)
        self.assertEqual(seen["sdk"], sdk)
        # Both SDKs wrap the signal's reason; neither the wrapper nor the reason is ours.
        self.assertIn("AbortError", seen["cancelled"]["message"])
        self.assertIsNone(seen["cancelled"].get("data"))
        return seen

    def assert_rmcp_tells_them_apart(self, server: str) -> dict[str, Any]:
        seen = self.play([RMCP_HOST], server)
        self.assertEqual(seen["cancelled"], {"type": "dropped"})
        return seen

    def test_python_sdk_1_20_0_tells_death_from_cancellation(self) -> None:
        self.assert_python_tells_them_apart("1.20.0", LEGACY)

    def test_python_sdk_1_30_0_tells_death_from_cancellation(self) -> None:
        self.assert_python_tells_them_apart("1.30.0", LEGACY)

    def test_python_sdk_2_3_0_tells_death_from_cancellation_with_a_legacy_server(self) -> None:
        seen = self.assert_python_tells_them_apart("2.3.0", LEGACY)
        self.assertEqual(seen["protocol"], "2025-11-25")

    def test_python_sdk_2_3_0_tells_death_from_cancellation_with_a_modern_server(self) -> None:
        seen = self.assert_python_tells_them_apart("2.3.0", BOTH_ERAS)
        self.assertEqual(seen["protocol"], "2026-07-28")

    def test_typescript_sdk_1_32_2_tells_death_from_cancellation(self) -> None:
        self.assert_typescript_tells_them_apart("sdk", "@modelcontextprotocol/sdk 1.32.2", LEGACY)

    def test_typescript_client_2_4_0_tells_death_from_cancellation_with_a_legacy_server(self) -> None:
        seen = self.assert_typescript_tells_them_apart("client", "@modelcontextprotocol/client 2.4.0", LEGACY)
        self.assertEqual(seen["protocol"], "2025-11-25")

    def test_typescript_client_2_4_0_tells_death_from_cancellation_with_a_modern_server(self) -> None:
        seen = self.assert_typescript_tells_them_apart("client", "@modelcontextprotocol/client 2.4.0", BOTH_ERAS)
        self.assertEqual(seen["protocol"], "2026-07-28")

    def test_rmcp_3_8_0_tells_death_from_cancellation_with_a_legacy_server(self) -> None:
        seen = self.assert_rmcp_tells_them_apart(LEGACY)
        self.assertEqual(seen["protocol"], "2025-11-25")

    def test_rmcp_3_8_0_tells_death_from_cancellation_with_a_modern_server(self) -> None:
        seen = self.assert_rmcp_tells_them_apart(BOTH_ERAS)
        self.assertEqual(seen["protocol"], "2026-07-28")
