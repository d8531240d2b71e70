"""Without a fault, no host can tell from its traffic that outlive is there.

Each host peer plays an ordinary session with a pinned server, directly and with outlive in between, and every leg is recorded.
A cancellation is no part of it: what outlive makes of one (pings of its own, a late answer kept back) other tests show.
"""

import json
import os
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import HERE, RMCP_HOST, TEE, outlive, python, tools

LEGACY, BOTH_ERAS = "1.30.0", "2.3.0"
PATIENCE = 120
"""Seconds after which a session counts as hung."""


@dataclass
class Leg:
    """What went to and fro between two processes, line by line."""

    to_server: list[bytes]
    to_host: list[bytes]

    @classmethod
    def recorded(cls, record: Path, server_pid: bytes) -> "Leg":
        # The one thing that no two runs have in common: a process id, which a tool of the server tells.
        to_host = Path(f"{record}.stdout").read_bytes().replace(b'"%b"' % server_pid, b'"PID"')
        return cls(record.read_bytes().splitlines(keepends=True), to_host.splitlines(keepends=True))


@dataclass
class Session:
    """Both ends of a session; without outlive they are ends of the same leg."""

    seen: dict[str, Any]
    """What the host's program printed."""
    host: Leg
    server: Leg


def play(host: list[str], server: list[str], through_outlive: bool) -> Session:
    with tempfile.TemporaryDirectory() as scratch:
        at_host = at_server = Path(scratch, "server")
        command = [*TEE, str(at_server), *server]
        if through_outlive:
            at_host = Path(scratch, "host")
            command = [*TEE, str(at_host), *outlive(command)]
        # Standard error is held by every process of the chain, or by one that waits for it: its end is the end of all.
        played = subprocess.run([*host, *command], capture_output=True, timeout=PATIENCE)
        if played.returncode != 0:
            raise AssertionError(f"{host[:2]} failed:\n{played.stderr.decode(errors='replace')[-4000:]}")
        pid = Path(f"{at_server}.pid").read_bytes()
        return Session(json.loads(played.stdout), Leg.recorded(at_host, pid), Leg.recorded(at_server, pid))


def greets(line: bytes) -> bool:
    """Whether this is the answer to `initialize`."""
    return "protocolVersion" in json.loads(line).get("result", {})


class HostTranscripts(unittest.TestCase):
    def assert_transparent(self, host: list[str], server: str, sdk: str, greetings: int, least: int) -> None:
        """Play both sessions, at the same time; the host must send at least so many lines."""
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(play, host, tools(server), through_outlive) for through_outlive in (False, True)]
            direct, through = (run.result() for run in runs)
        self.assertEqual(direct.seen["sdk"], sdk)
        self.assertGreaterEqual(len(direct.host.to_server), least, "the session is shorter than it should be")
        self.assertEqual(sum(map(greets, direct.host.to_host)), greetings)

        self.assert_same("the host sent", through.host.to_server, direct.host.to_server)
        self.assert_same("the server received", through.server.to_server, direct.server.to_server)
        self.assert_same("the server sent", through.server.to_host, direct.server.to_host)
        # The one change: the host is told that lists may change, because a restart may change them.
        expected = [
            line.replace(b'"listChanged":false', b'"listChanged":true') if greets(line) else line
            for line in direct.host.to_host
        ]
        self.assert_same("the host received", through.host.to_host, expected)
        self.assertEqual(through.seen, direct.seen)

    def assert_same(self, what: str, through: list[bytes], direct: list[bytes]) -> None:
        for number, (now, was) in enumerate(zip(through, direct), 1):
            if now != was:
                at = max(0, len(os.path.commonprefix([now, was])) - 60)
                self.fail(f"{what}, line {number}, byte {at}: {now[at : at + 200]}\ninstead of {was[at : at + 200]}")
        self.assertEqual(len(through), len(direct), f"{what} other lines: {(through + direct)[-1][:200]}")

    def assert_python_is_transparent(self, version: str, server: str, greetings: int = 1) -> None:
        host = [python(f"mcp-{version}"), str(HERE / "hosts/python_session.py")]
        self.assert_transparent(host, server, f"mcp {version}", greetings, 18)

    def assert_livekit_is_transparent(self, version: str) -> None:
        host = [python(f"livekit-{version}"), str(HERE / "hosts/livekit_session.py")]
        self.assert_transparent(host, LEGACY, f"livekit-agents {version}", 1, 12)

    def assert_typescript_is_transparent(self, package: str, version: str, server: str, greetings: int = 1) -> None:
        host = ["node", str(HERE / "hosts/typescript_session.mjs"), package]
        self.assert_transparent(host, server, f"@modelcontextprotocol/{package} {version}", greetings, 16)

    def assert_rmcp_is_transparent(self, server: str, greetings: int = 1) -> None:
        # No file can be made in this folder, so the calls that are to be killed and cancelled fail before they are.
        self.assert_transparent([RMCP_HOST, os.devnull], server, "rmcp 3.8.0", greetings, 8)

    def test_livekit_1_6_4_sees_the_direct_transcript(self) -> None:
        self.assert_livekit_is_transparent("1.6.4")

    def test_livekit_1_8_9_sees_the_direct_transcript(self) -> None:
        self.assert_livekit_is_transparent("1.8.9")

    def test_python_sdk_1_20_0_sees_the_direct_transcript(self) -> None:
        self.assert_python_is_transparent("1.20.0", LEGACY)

    def test_python_sdk_1_30_0_sees_the_direct_transcript(self) -> None:
        self.assert_python_is_transparent("1.30.0", LEGACY)

    def test_python_sdk_2_3_0_sees_the_direct_transcript_with_a_legacy_server(self) -> None:
        self.assert_python_is_transparent("2.3.0", LEGACY)

    def test_python_sdk_2_3_0_sees_the_direct_transcript_with_a_modern_server(self) -> None:
        self.assert_python_is_transparent("2.3.0", BOTH_ERAS, greetings=0)

    def test_typescript_sdk_1_32_2_sees_the_direct_transcript(self) -> None:
        self.assert_typescript_is_transparent("sdk", "1.32.2", LEGACY)

    def test_typescript_client_2_4_0_sees_the_direct_transcript_with_a_legacy_server(self) -> None:
        self.assert_typescript_is_transparent("client", "2.4.0", LEGACY)

    def test_typescript_client_2_4_0_sees_the_direct_transcript_with_a_modern_server(self) -> None:
        self.assert_typescript_is_transparent("client", "2.4.0", BOTH_ERAS, greetings=0)

    def test_rmcp_3_8_0_sees_the_direct_transcript_with_a_legacy_server(self) -> None:
        self.assert_rmcp_is_transparent(LEGACY)

    def test_rmcp_3_8_0_sees_the_direct_transcript_with_a_modern_server(self) -> None:
        self.assert_rmcp_is_transparent(BOTH_ERAS, greetings=0)
