"""The library gets along with the SDKs, both ways: its client with their servers, its server with their clients."""

import tempfile
import unittest
from typing import Any

from peers import HERE, OUTLIVE_CLIENT, OUTLIVE_SERVER, RMCP_CLIENT, RMCP_SERVER, python, run, tools

LEGACY, MODERN = "2025-11-25", "2026-07-28"
GREETING = "hello, wörld \u2028 \U0001f980"
STEPS = [1, 2, 3, 4, 5]


def lowlevel(mcp: str) -> list[str]:
    return [python(f"mcp-{mcp}"), str(HERE / "servers/lowlevel.py")]


def typescript(generation: str) -> list[str]:
    return ["node", str(HERE / "servers/tools.mjs"), generation]


class OurClient(unittest.TestCase):
    def assert_all_goes_well(self, server: list[str], protocol: str, offers_memos: bool = True) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as scratch:
            seen = run([OUTLIVE_CLIENT, scratch, *server])
        self.assertEqual(seen["protocol"], protocol)
        self.assertEqual(seen["ping"], "pong")
        self.assertIn("hé", seen["echo"])
        self.assertTrue(seen["fail"]["is error"])
        # Some servers refuse the request, some let the tool that is not there fail.
        self.assertTrue(seen["unknown"].get("is error") or "code" in seen["unknown"], seen["unknown"])
        self.assertEqual((seen["progress"], seen["count"]), (STEPS, "counted to 5"))
        if offers_memos:
            self.assertEqual(seen["resources"], ["memo://greeting"])
            self.assertEqual(seen["read"], GREETING)
            self.assertEqual(seen["prompt"], "Please review:\n1")

        self.assertEqual(seen["cancelled"]["kind"], "cancelled_by_caller")
        self.assertEqual(seen["after the cancel"], "pong")
        self.assertTrue(seen["same process"], "a cancellation that the server obeys must not cost a restart")

        self.assertEqual(seen["killed"]["kind"], "connection_lost")
        self.assertEqual(seen["killed"]["outcome"], "unknown")
        self.assertEqual(seen["killed"]["cause"]["signal"], 9)
        self.assertEqual(seen["after the kill"], "pong")
        self.assertTrue(seen["another process"])
        self.assertTrue(seen["closed"])
        return seen

    def test_fastmcp_1_30_0_serves_our_client(self) -> None:
        seen = self.assert_all_goes_well(tools("1.30.0"), LEGACY)
        self.assertEqual(seen["roots"], {"is error": False, "text": "file:///one"})

    def test_mcpserver_2_3_0_serves_our_client(self) -> None:
        self.assert_all_goes_well(tools("2.3.0"), MODERN)

    def test_lowlevel_1_30_0_serves_our_client(self) -> None:
        self.assert_all_goes_well(lowlevel("1.30.0"), LEGACY, offers_memos=False)

    def test_lowlevel_2_3_0_serves_our_client(self) -> None:
        self.assert_all_goes_well(lowlevel("2.3.0"), MODERN, offers_memos=False)

    def test_typescript_sdk_1_32_2_serves_our_client(self) -> None:
        self.assert_all_goes_well(typescript("sdk"), LEGACY)

    def test_typescript_server_2_4_0_serves_our_client(self) -> None:
        self.assert_all_goes_well(typescript("server"), MODERN)

    def test_rmcp_3_8_0_serves_our_client(self) -> None:
        self.assert_all_goes_well([RMCP_SERVER], MODERN, offers_memos=False)

    def test_our_server_serves_our_client(self) -> None:
        seen = self.assert_all_goes_well([OUTLIVE_SERVER], MODERN)
        self.assertEqual(seen["roots"], {"is error": False, "text": "file:///one"})
        self.assertEqual(seen["completion"], ["fn main() {}", "fn test() {}"])


class OurServer(unittest.TestCase):
    def assert_all_goes_well(self, client: list[str], sdk: str, protocol: str | None, *mode: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as scratch:
            seen = run([*client, scratch, *mode, OUTLIVE_SERVER])
        self.assertEqual((seen["sdk"], seen["protocol"]), (sdk, protocol))
        self.assertEqual(
            seen["tools"], ["ping", "pid", "echo", "fail", "count", "linger", "roots", "sample", "ask"]
        )
        self.assertEqual(seen["prompts"], ["review"])
        self.assertEqual(seen["resources"], ["memo://greeting"])
        self.assertEqual(seen["templates"], ["memo://of/{name}"])
        self.assertEqual(seen["read"], GREETING)
        # The newest version has no code of its own for it any more.
        self.assertEqual(seen["missing"]["code"], -32602 if protocol == MODERN else -32002)
        self.assertEqual(seen["prompt"], "Please review:\n1")
        self.assertEqual(seen["completion"], ["fn main() {}", "fn test() {}"])

        def text(text: str) -> dict[str, Any]:
            return {"is error": False, "text": text}

        self.assertEqual(seen["echo"], text('"hé \u2028"'))
        self.assertEqual(seen["fail"], {"is error": True, "text": "this tool always fails"})
        self.assertEqual(seen["unknown"]["code"], -32602)
        self.assertEqual(seen["count"], text("counted to 5"))
        self.assertEqual(seen["roots"], text("file:///one"))
        self.assertEqual(seen["sample"], text("it"))
        self.assertEqual(seen["ask"], text('accept: "Ada"'))
        # That the handler was told of it is what the client waited for.
        self.assertNotIn("finished", seen["cancelled"]["kind"])
        self.assertEqual(seen["ping"], text("pong"))
        return seen

    def assert_python_is_served(self, version: str, protocol: str, mode: str) -> None:
        client = [python(f"mcp-{version}"), str(HERE / "hosts/python_interop.py")]
        seen = self.assert_all_goes_well(client, f"mcp {version}", protocol, mode)
        self.assertEqual((seen["progress"], seen["log"]), (STEPS, ["counted"]))
        self.assertEqual(seen["cancelled"], {"kind": "CancelledError"})

    def test_python_sdk_1_30_0_is_served(self) -> None:
        self.assert_python_is_served("1.30.0", LEGACY, "legacy")

    def test_python_sdk_2_3_0_is_served_in_the_legacy_era(self) -> None:
        self.assert_python_is_served("2.3.0", LEGACY, "legacy")

    def test_python_sdk_2_3_0_is_served_in_the_modern_era(self) -> None:
        self.assert_python_is_served("2.3.0", MODERN, "auto")

    def assert_typescript_is_served(self, package: str, version: str, protocol: str | None) -> dict[str, Any]:
        client = ["node", str(HERE / "hosts/typescript_interop.mjs"), package]
        seen = self.assert_all_goes_well(client, f"@modelcontextprotocol/{package} {version}", protocol)
        # It loses what it reads at once with the answer, which only a busy machine makes it do.
        self.assertTrue(seen["progress"])
        self.assertEqual(seen["progress"], STEPS[: len(seen["progress"])])
        return seen

    def test_typescript_sdk_1_32_2_is_served(self) -> None:
        # It does not say which version it speaks; it knows none newer than LEGACY.
        seen = self.assert_typescript_is_served("sdk", "1.32.2", None)
        self.assertEqual(seen["log"], ["counted"])

    def test_typescript_client_2_4_0_is_served(self) -> None:
        self.assert_typescript_is_served("client", "2.4.0", MODERN)

    def assert_rmcp_is_served(self, protocol: str, mode: str) -> dict[str, Any]:
        seen = self.assert_all_goes_well([RMCP_CLIENT], "rmcp 3.8.0", protocol, mode)
        # It handles notifications side by side, so their order is lost in it.
        self.assertEqual(sorted(seen["progress"]), STEPS)
        return seen

    def test_rmcp_3_8_0_is_served_in_the_legacy_era(self) -> None:
        self.assertEqual(self.assert_rmcp_is_served(LEGACY, "legacy")["log"], ["counted"])

    def test_rmcp_3_8_0_is_served_in_the_modern_era(self) -> None:
        self.assert_rmcp_is_served(MODERN, "auto")
