#!/usr/bin/env python3
"""Logins at a second real authorization server (Canaille), with `outlive run` before `outlive serve`: a client and a
resource server that know each other only by what the specification says.

OUTLIVE_BIN names the program; without it the one in target/debug is taken.
"""

import html
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OUTLIVE = os.environ.get("OUTLIVE_BIN", str(HERE.parent.parent / "target/debug/outlive"))
PYTHON = str(HERE / ".venv/bin/python")
PATIENCE = 60  # seconds that only a hang takes
CLIENT, SECRET = "outlive-desk", "a secret of the desk"
BEHIND = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        info = {"name": "behind", "version": "1"}
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info},
            "tools/list": {"tools": [{"name": "any", "inputSchema": {"type": "object"}}]},
        }
        result = results.get(message["method"], {"content": [{"type": "text", "text": "done"}]})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Person:
    """Somebody who follows a link, fills in forms and agrees; without a browser."""

    def __init__(self) -> None:
        cookies = CookieJar(DefaultCookiePolicy(rfc2965=False))
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))

    def follow(self, link: str) -> str:
        """The words of the page that it ends at."""
        answers = {"login": "somebody", "password": "a password", "answer": "accept"}
        page = self.browser.open(link, timeout=PATIENCE)
        for _ in range(6):
            text = page.read().decode()
            form = re.search(r"<form.*?</form>", text, re.S)
            if not form:
                return text
            fields = {}
            for tag in re.findall(r"<(?:input|button)[^>]*>", form.group()):
                name = re.search(r'\bname="([^"]*)"', tag)
                value = re.search(r'\bvalue="([^"]*)"', tag)
                if name:
                    fields.setdefault(name.group(1), html.unescape(value.group(1)) if value else "")
            fields.update({name: value for name, value in answers.items() if name in fields})
            action = re.search(r'<form[^>]*\baction="([^"]*)"', form.group())
            address = urllib.parse.urljoin(page.url, html.unescape(action.group(1)) if action else page.url)
            page = self.browser.open(address, urllib.parse.urlencode(fields).encode(), timeout=PATIENCE)
        raise AssertionError(f"one form after the other at {page.url}")


class World:
    def __init__(self, folder: str) -> None:
        self.folder, self.said = folder, []
        self.provider_port, self.serve_port, self.callback = free_port(), free_port(), free_port()
        self.issuer = f"http://127.0.0.1:{self.provider_port}"
        self.url = f"http://127.0.0.1:{self.serve_port}/mcp"
        self.children: list[subprocess.Popen[str]] = []
        self.provider = self.serve = None

    def spawn(self, command: list[str], **pipes: Any) -> subprocess.Popen[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("OUTLIVE_")}
        env["OUTLIVE_STATE_DIR"] = self.folder
        child = subprocess.Popen(command, text=True, env=env, **pipes)
        self.children.append(child)
        return child

    def start_provider(self) -> None:
        redirect = f"http://127.0.0.1:{self.callback}/callback"
        ports = [str(self.provider_port), self.url, redirect]
        command = [PYTHON, str(HERE / "canaille_provider.py"), self.folder, *ports]
        self.provider = self.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.provider.stdout.readline() == "listening\n", "the provider does not start"

    def start_serve(self) -> None:
        command = [OUTLIVE, "serve", "--listen", f"127.0.0.1:{self.serve_port}", "--log-format", "json"]
        command += ["--oauth-issuer", self.issuer, "--audience", self.url, "--", sys.executable, "-c", BEHIND]
        self.serve = self.spawn(command, stderr=subprocess.PIPE)
        lines = iter(self.serve.stderr.readline, "")
        for line in lines:
            self.said.append(line)
            if json.loads(line)["event"] == "listening":
                break
        threading.Thread(target=lambda: self.said.extend(lines), daemon=True).start()

    def restart(self, *which: str) -> None:
        for name in which:
            child = getattr(self, name)
            child.send_signal(signal.SIGTERM)
            child.wait(PATIENCE)
            getattr(self, f"start_{name}")()

    def withdraw(self) -> None:
        with urllib.request.urlopen(f"{self.issuer}/test/withdraw", timeout=PATIENCE) as answer:
            assert int(answer.read()) > 0

    def flags(self) -> list[str]:
        store = ["--login", "link", "--token-store", f"{self.folder}/logins"]
        scopes = ["--scope", "openid", "--scope", "profile"]
        return [*store, *scopes, "--client-id", CLIENT, "--client-secret", SECRET, "--callback-port", str(self.callback)]

    def outlive(self, *args: str) -> "Outlive":
        return Outlive(self, [OUTLIVE, *args])

    def stop(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()


class Outlive:
    """A running outlive: links it tells, answers it gives."""

    def __init__(self, world: World, command: list[str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.child = world.spawn(command, **pipes)
        self.links: queue.Queue[str] = queue.Queue()
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.words: list[str] = []
        self.next = 0
        threading.Thread(target=self.listen, args=(world,), daemon=True).start()
        threading.Thread(target=self.receive, args=(world,), daemon=True).start()

    def listen(self, world: World) -> None:
        for line in self.child.stderr:
            world.said.append(line)
            self.words.append(line)
            if found := re.search(r"wants a login: .*?(http\S+)", line):
                self.links.put(found.group(1))

    def receive(self, world: World) -> None:
        for line in self.child.stdout:
            world.said.append(line)
            self.answers.put(json.loads(line))

    def ask(self, method: str, params: dict[str, Any]) -> None:
        self.next += 1
        message = {"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}
        self.child.stdin.write(json.dumps(message) + "\n")
        self.child.stdin.flush()

    def answer(self) -> dict[str, Any]:
        while (message := self.answers.get(timeout=PATIENCE)).get("id") != self.next:
            pass
        return message

    def greet(self) -> None:
        info = {"name": "host", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        assert "result" in self.answer()
        self.child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def call(self) -> None:
        self.ask("tools/call", {"name": "any", "arguments": {}})

    def works(self) -> None:
        self.call()
        answer = self.answer()
        assert "result" in answer, answer

    def end(self) -> int:
        return self.child.wait(PATIENCE)

    def stop(self) -> None:
        self.child.stdin.close()
        self.end()


def main(folder: str) -> None:
    world = World(folder)
    try:
        play(world)
    except BaseException:
        print("".join(world.said)[-6000:], file=sys.stderr)
        raise
    finally:
        world.stop()


def tokens(folder: str) -> set[str]:
    found = set()
    for file in Path(folder, "logins").glob("*.login"):
        grant = json.loads(file.read_text())["grant"]
        found |= {grant["access_token"], grant["refresh_token"]}
    return found


def play(world: World) -> None:
    world.start_provider()
    world.start_serve()
    print("a person logs in at Canaille")
    login = world.outlive("login", *world.flags(), world.url)
    words = Person().follow(login.links.get(timeout=PATIENCE))
    assert "You can close this page" in words, words
    assert login.end() == 0

    print("calls work, and tokens are refreshed and rotated")
    secrets = tokens(world.folder)
    host = world.outlive("run", *world.flags(), world.url)
    host.greet()
    end = time.monotonic() + 8
    while time.monotonic() < end:
        host.works()
        secrets |= tokens(world.folder)
        time.sleep(0.2)
    assert len(secrets) >= 6, "three grants in two lives"

    print("the provider restarts with another key, and nobody logs in again")
    # Not in the middle of a refresh: nobody would know what became of that token.
    before, end = tokens(world.folder), time.monotonic() + PATIENCE
    while tokens(world.folder) == before and time.monotonic() < end:
        time.sleep(0.05)
    secrets |= tokens(world.folder)
    world.restart("provider", "serve")
    host.works()
    secrets |= tokens(world.folder)
    assert host.links.empty()

    print("what was withdrawn costs one login, which the waiting call gets")
    world.withdraw()
    world.restart("provider", "serve")
    host.call()
    Person().follow(host.links.get(timeout=PATIENCE))
    assert "result" in host.answer()
    host.works()
    assert host.links.empty()
    secrets |= tokens(world.folder)
    host.stop()

    print("a logout is told to the provider")
    kept = tokens(world.folder)
    assert world.outlive("logout", *world.flags(), world.url).end() == 0
    assert tokens(world.folder) == set()
    refresh = next(it for it in kept if it.count(".") != 2)
    form = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": CLIENT, "client_secret": SECRET}
    try:
        urllib.request.urlopen(f"{world.issuer}/oauth/token", urllib.parse.urlencode(form).encode(), timeout=PATIENCE)
        raise AssertionError("the provider still takes it")
    except urllib.error.HTTPError as error:
        assert error.code in (400, 401), error.code
    said = "".join(world.said)
    assert not [it for it in secrets | kept | {SECRET} if it in said], "a secret is shown"
    print(f"second: all is well ({len(secrets)} tokens)")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
