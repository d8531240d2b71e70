"""Seed 1: LiveKit's tool handles go dead with their server. Behind outlive they do not."""

import unittest

from peers import HERE, play, python, tools


class LiveKit(unittest.TestCase):
    def assert_survives_seed_1(self, version: str) -> None:
        host = [python(f"livekit-{version}"), str(HERE / "hosts/livekit_host.py")]
        seen = play(host, tools("1.30.0"))
        self.assertEqual(seen["livekit-agents"], version)
        for step in ("before", "at once", "a second later", "after the second crash"):
            self.assertIn("pong", seen[step].get("result", ""), f"{step}: {seen[step]}")
        for step in ("crash", "second crash"):
            # The one call that cannot be saved says what happened to it, in words a model can use.
            self.assertRegex(seen[step]["message"], r"exited with (status|code) 1\b")
            self.assertIn("crash", seen[step]["message"])
        self.assertNotEqual(seen["pid before"], seen["pid after"])
        self.assertIn("result", seen["pid after"])
        self.assertTrue(seen["initialized"])
        self.assertFalse(seen["connection task done"])
        self.assertEqual(seen["tools listed again"], seen["tools"])

    def test_livekit_1_6_4_survives_seed_1(self) -> None:
        self.assert_survives_seed_1("1.6.4")

    def test_livekit_1_8_9_survives_seed_1(self) -> None:
        self.assert_survives_seed_1("1.8.9")
