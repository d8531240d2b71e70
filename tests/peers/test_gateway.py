"""Clients of the Python and TypeScript SDKs over Streamable HTTP, with servers behind `outlive serve`."""

import json
import subprocess
import tempfile
import threading
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from peers import HERE, HTTP_SERVER, OUTLIVE, python, run, tools

PYTHON_HOST = str(HERE / "hosts/python_gateway.py")
TYPESCRIPT_HOST = str(HERE / "hosts/typescript_gateway.mjs")
ORDINARY_HOST = str(HERE / "hosts/python_http.py")


@contextmanager
def gateway(server: list[str], *flags: str) -> Iterator[str]:
    """`outlive serve` before a server; where it is."""
    words = [OUTLIVE, "serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--stderr", "capture", *flags, "--", *server]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    events = map(json.loads, iter(process.stderr.readline, ""))
    try:
        url = next(event["url"] for event in events if event["event"] == "listening")
        # What it says further is not needed, but must be taken.
        reading = threading.Thread(target=process.stderr.read)
        reading.start()
        yield url
    finally:
        process.terminate()
        status = process.wait(60)
    reading.join()
    process.stderr.close()
    if status != 0:
        raise AssertionError(f"the gateway ended with {status}")


class Gateway(unittest.TestCase):
    def assert_survives(self, host: list[str], server: list[str]) -> dict[str, Any]:
        with gateway(server) as url, tempfile.TemporaryDirectory() as scratch:
            told = run([*host, url, scratch])
        self.assertEqual(told["killed"]["code"], -31001, told)
        self.assertEqual(told["killed"]["data"]["outlive"]["kind"], "connection_lost")
        self.assertEqual(told["killed"]["data"]["outlive"]["cause"]["signal"], 9)
        self.assertEqual(told["after"], "pong")
        self.assertTrue(told["another"])
        return told

    def test_python_clients_survive_the_death_of_a_fastmcp_server(self) -> None:
        for client, server, mode in (("1.30.0", "1.30.0", "legacy"), ("2.3.0", "1.30.0", "auto"), ("2.3.0", "2.3.0", "auto")):
            with self.subTest(client=client, server=server):
                told = self.assert_survives([python(f"mcp-{client}"), PYTHON_HOST, mode], tools(server))
                # A client that knows both eras finds out which one the server behind is of.
                modern = (client, server) == ("2.3.0", "2.3.0")
                self.assertEqual(told["version"] >= "2026", modern, told)

    def test_typescript_clients_survive_the_death_of_a_fastmcp_server(self) -> None:
        for generation, server in (("sdk", "1.30.0"), ("client", "2.3.0")):
            with self.subTest(client=generation, server=server):
                self.assert_survives(["node", TYPESCRIPT_HOST, generation], tools(server))

    def test_an_ordinary_session_is_as_without_a_gateway(self) -> None:
        for mcp, mode in (("1.20.0", "legacy"), ("1.30.0", "legacy"), ("2.3.0", "legacy"), ("2.3.0", "auto"), ("1.30.0", "sse")):
            with self.subTest(mcp=mcp, mode=mode), gateway([HTTP_SERVER, "stdio"]) as url:
                url = url.removesuffix("/mcp") + "/sse" if mode == "sse" else url
                told = run([python(f"mcp-{mcp}"), ORDINARY_HOST, mode, url])
                self.assertEqual(told["asked"], "Hello, Ada!")
                self.assertEqual(told["after"], told["text"])
                self.assertEqual(told["many"], [told["text"]] * 20)
                self.assertEqual(told["steps"][:3], [0, 50, 100])
                self.assertEqual(told["log"], [] if mode == "auto" else ["started", "processing", "completed"])
