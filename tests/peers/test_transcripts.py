"""Without a fault, nobody can tell from the traffic that outlive is there."""

import tempfile
import time
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import conversations
from peers import EVERYTHING, TEE, TIME, outlive, tools
from wire import Wire


@dataclass
class Transcript:
    """The bytes of one conversation at both ends."""

    host_sent: bytes
    server_received: bytes
    host_received: list[bytes]
    exit_status: int


class Transcripts(unittest.TestCase):
    def record(self, server: list[str], converse: Callable[[Wire], None], through_outlive: bool) -> Transcript:
        with tempfile.TemporaryDirectory() as scratch:
            record = Path(scratch, "stdin")
            command = [*TEE, str(record), *server]
            with Wire(outlive(command) if through_outlive else command) as wire:
                converse(wire)
                status = wire.leave()
            return Transcript(b"".join(wire.sent), record.read_bytes(), wire.received, status)

    def assert_transparent(self, server: list[str], converse: Callable[[Wire], None], least: int) -> None:
        direct = self.record(server, converse, through_outlive=False)
        through = self.record(server, converse, through_outlive=True)
        self.assertGreaterEqual(len(direct.host_received), least, "the conversation is shorter than it should be")
        self.assertEqual(direct.server_received, direct.host_sent)

        self.assertEqual(through.host_sent, direct.host_sent)
        self.assertEqual(through.server_received, direct.server_received)
        # The one change: the host is told that lists may change, because a restart may change them.
        greeting = direct.host_received[0].replace(b'"listChanged":false', b'"listChanged":true')
        self.assertEqual(through.host_received[0], greeting)
        for was, now in zip(direct.host_received[1:], through.host_received[1:]):
            self.assertEqual(now, was)
        self.assertEqual(len(through.host_received), len(direct.host_received))
        self.assertEqual(through.exit_status, 0)

    def test_fastmcp_1_27_0_transcript_is_the_direct_one(self) -> None:
        self.assert_transparent(tools("1.27.0"), conversations.with_tools_server, 30)

    def test_fastmcp_1_30_0_transcript_is_the_direct_one(self) -> None:
        self.assert_transparent(tools("1.30.0"), conversations.with_tools_server, 30)

    def test_mcp_2_3_0_transcript_is_the_direct_one(self) -> None:
        self.assert_transparent(tools("2.3.0"), conversations.with_tools_server, 30)

    def test_mcp_2_3_0_modern_transcript_is_the_direct_one(self) -> None:
        self.assert_transparent(tools("2.3.0"), conversations.with_tools_server_modern, 20)

    def test_server_everything_transcript_is_the_direct_one(self) -> None:
        self.assert_transparent(EVERYTHING, conversations.with_everything, 30)

    def test_mcp_server_time_transcript_is_the_direct_one(self) -> None:
        # Its answers carry today's date, which must not change between the two runs.
        if (left := 86400 - time.time() % 86400) < 60:
            time.sleep(left)
        self.assert_transparent(TIME, conversations.with_time, 10)
