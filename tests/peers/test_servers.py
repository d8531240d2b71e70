"""FM-35, FM-36: thirteen servers and three that are none, behind one address, with real clients before them."""

import json
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleet import BROKEN, WORKING, Fleet, fleet
from peers import HERE, OUTLIVE, RMCP_HOST, python, run

HOSTS = HERE / "hosts"

# The fewest tools that a server has. (What it has beyond that is its authors' business.)
FEWEST = {"everything": 8, "filesystem": 10, "git": 10, "memory": 9, "sqlite": 6, "time": 2, "tools": 10, "remote": 10}

# Only a hang takes longer.
PATIENCE = 120


@contextmanager
def serve(servers: Fleet) -> Iterator[str]:
    """`outlive serve --servers`; where it is."""
    words = [OUTLIVE, "serve", "--listen", "127.0.0.1:0", "--log-format", "json", *servers.flags()]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    events = map(json.loads, iter(process.stderr.readline, ""))
    try:
        url = next(event["url"] for event in events if event["event"] == "listening")
        # What it says further is not needed, but must be taken.
        reading = threading.Thread(target=process.stderr.read)
        reading.start()
        yield url.removesuffix("/mcp")
    finally:
        process.terminate()
        status = process.wait(PATIENCE)
    reading.join()
    process.stderr.close()
    if status != 0:
        raise AssertionError(f"the gateway ended with {status}")


class Servers(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.fleet = cls.enterClassContext(fleet(folder))
        cls.plan = cls.fleet.write_plan()
        cls.base = cls.enterClassContext(serve(cls.fleet))
        cls.url = f"{cls.base}/mcp"
        cls.tools = cls.learned()

    @classmethod
    def learned(cls) -> list[str]:
        """The names of all tools, once every server that works has told its own: lists never wait for long."""
        started = time.monotonic()
        while True:
            seen = run([python("mcp-1.30.0"), str(HOSTS / "python_list.py"), cls.url])
            if {name.partition("__")[0] for name in seen["tools"]} >= set(WORKING):
                return sorted(seen["tools"])
            if time.monotonic() - started > PATIENCE:
                raise AssertionError(f"not every server was heard of: {seen}")

    def assert_all_work(self, seen: dict[str, Any]) -> None:
        self.assertEqual(sorted(seen["tools"]), self.tools)
        for step in self.fleet.plan:
            end = seen["ends"][step["name"]]
            self.assertIn(step["word"], end.get("text", ""), f"{seen['sdk']}: {step['name']}: {end}")

    def test_every_tool_is_listed_under_the_name_of_its_server(self) -> None:
        counts = {server: sum(name.startswith(f"{server}__") for name in self.tools) for server in WORKING}
        self.assertEqual(sum(counts.values()), len(self.tools), self.tools)
        for server, count in counts.items():
            self.assertGreaterEqual(count, FEWEST.get(server, 1), server)
        for name in self.tools:
            self.assertRegex(name, r"^[A-Za-z0-9_-]{1,50}$")

    def test_fm_36_what_is_broken_is_said_and_the_rest_is_ready(self) -> None:
        with serve(self.fleet) as base:
            # A client has every server tried of which nothing is known, and uses the others.
            host = [python("mcp-1.30.0"), str(HOSTS / "python_servers.py")]
            self.assert_all_work(run([*host, self.plan, f"{base}/mcp"]))
            with urllib.request.urlopen(f"{base}/ready") as answer:
                ready = json.load(answer)
        targets = {target["name"]: target["ready"] for target in ready["targets"]}
        self.assertEqual(set(targets), {*WORKING, *BROKEN})
        for server in WORKING:
            self.assertTrue(targets[server], ready)
        self.assertFalse(targets["fails"], ready)

    def test_livekit_calls_them_all_on_pipes(self) -> None:
        host = [python("livekit-1.8.9"), str(HOSTS / "livekit_servers.py"), self.plan]
        self.assert_all_work(run([*host, OUTLIVE, "run", *self.fleet.flags()]))

    def test_rmcp_calls_them_all_on_pipes(self) -> None:
        self.assert_all_work(run([RMCP_HOST, "--plan", self.plan, OUTLIVE, "run", *self.fleet.flags()]))

    def test_the_python_sdk_1_calls_them_all_on_pipes(self) -> None:
        host = [python("mcp-1.30.0"), str(HOSTS / "python_servers.py"), self.plan]
        self.assert_all_work(run([*host, OUTLIVE, "run", *self.fleet.flags()]))

    def test_the_python_sdk_2_calls_them_all_over_http(self) -> None:
        seen = run([python("mcp-2.3.0"), str(HOSTS / "python_servers.py"), self.plan, self.url])
        self.assert_all_work(seen)
        self.assertEqual(seen["protocol"], "2026-07-28")

    def test_the_typescript_sdk_1_calls_them_all_over_http(self) -> None:
        self.assert_all_work(run(["node", str(HOSTS / "typescript_servers.mjs"), "sdk", self.plan, self.url]))

    def test_the_typescript_sdk_2_calls_them_all_over_http(self) -> None:
        self.assert_all_work(run(["node", str(HOSTS / "typescript_servers.mjs"), "client", self.plan, self.url]))

    def assert_kills_cost_only_their_own(self, mcp: str) -> None:
        seen = run([python(f"mcp-{mcp}"), str(HOSTS / "python_kills.py"), self.plan, self.url])
        self.assertEqual(seen["calm"], {})
        self.assertEqual(set(seen["kills"]), set(WORKING))
        for victim, kill in seen["kills"].items():
            self.assertGreater(kill["killed"], 0, victim)
            self.assertTrue(kill["another"], f"{victim}: {kill}")
            self.assertLessEqual(set(kill["failed"]), {victim}, f"only calls to {victim} may fail: {kill}")
            for failure in kill["failed"].get(victim, []):
                # Said of the right server, and by us: what the caller can do about it is in there.
                self.assertIn("outlive", failure["data"] or {}, f"{victim}: {failure}")
                self.assertIn(victim, failure["message"])

    def test_fm_35_each_server_killed_under_load_costs_its_own_calls_of_a_legacy_client(self) -> None:
        self.assert_kills_cost_only_their_own("1.30.0")

    def test_fm_35_each_server_killed_under_load_costs_its_own_calls_of_a_modern_client(self) -> None:
        self.assert_kills_cost_only_their_own("2.3.0")
