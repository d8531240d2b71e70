"""One file with many servers, as a host's own file has them, and one harmless call for each that works."""

import json
import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from peers import HERE, OUTLIVE_SERVER, RMCP_SERVER, TIME, python, tools

PACKAGES = "servers-mcp-1.30.0"

# A variable by which the processes of a server are found.
MARK = "PEER"

WORKING = (
    "everything",
    "fastmcp",
    "fetch",
    "filesystem",
    "git",
    "memory",
    "outlive",
    "remote",
    "rmcp",
    "sqlite",
    "thinking",
    "time",
    "tools",
)
BROKEN = ("fails", "hangs", "babbles")


@dataclass
class Fleet:
    """A file of servers."""

    file: Path
    plan: list[dict[str, Any]]
    folder: Path

    def flags(self, *more: str) -> list[str]:
        """What follows `run` or `serve`. Every run with this fleet has the same catalogue."""
        catalogue = str(self.folder / "catalogue")
        return ["--servers", str(self.file), "--catalogue", catalogue, "--expose", "list", "--stderr", "capture", *more]

    def write_plan(self) -> str:
        path = self.folder / "plan.json"
        path.write_text(json.dumps(self.plan))
        return str(path)


def npm(name: str, *args: str) -> dict[str, Any]:
    module = HERE / "node_modules/@modelcontextprotocol" / f"server-{name}" / "dist/index.js"
    return {"command": "node", "args": [str(module), *args]}


def pypi(name: str, *args: str) -> dict[str, Any]:
    return {"command": python(PACKAGES), "args": ["-m", name, *args]}


def entry(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def entries(folder: Path, remote: str) -> dict[str, dict[str, Any]]:
    """The file's servers: those that work, in no order, and between them those that do not."""
    banner = 'echo "Starting the server …"; exec "$0" "$@"'
    return {
        "filesystem": npm("filesystem", str(folder / "files")),
        "fails": entry(["/bin/false"]),
        "memory": {**npm("memory"), "env": {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}},
        "everything": npm("everything"),
        "thinking": npm("sequential-thinking"),
        "hangs": entry(["sleep", "9999"]),
        "time": entry(TIME),
        "fetch": pypi("mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"),
        "git": pypi("mcp_server_git", "--repository", str(folder / "repository")),
        "sqlite": entry([str(HERE / ".venvs" / PACKAGES / "bin/mcp-server-sqlite"), "--db-path", str(folder / "db")]),
        "babbles": entry(["sh", "-c", "while echo 'no JSON, no protocol'; do sleep 0.1; done"]),
        "fastmcp": entry([python(PACKAGES), str(HERE / "servers/fastmcp2.py")]),
        # What it prints before it speaks is no message.
        "tools": entry(["sh", "-c", banner, *tools("1.30.0")]),
        "rmcp": entry([RMCP_SERVER]),
        "outlive": entry([OUTLIVE_SERVER]),
        "remote": {"type": "http", "url": remote},
    }


def plan(folder: Path, page: str) -> list[dict[str, Any]]:
    """A call for each server that works, and a word that its answer has."""
    zone = {"timezone": "UTC"}
    thought = {"thought": "It holds.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    calls = {
        "everything__echo": ({"message": "here"}, "here"),
        "fastmcp__ping": ({}, "pong"),
        "fetch__fetch": ({"url": page}, "Outlived"),
        "filesystem__list_directory": ({"path": str(folder / "files")}, "note.txt"),
        "git__git_log": ({"repo_path": str(folder / "repository"), "max_count": 1}, "The first one"),
        "memory__read_graph": ({}, "entities"),
        "outlive__ping": ({}, "pong"),
        "remote__ping": ({}, "pong"),
        "rmcp__ping": ({}, "pong"),
        "sqlite__list_tables": ({}, "notes"),
        "thinking__sequentialthinking": (thought, "thoughtNumber"),
        "time__get_current_time": (zone, "UTC"),
        "tools__ping": ({}, "pong"),
    }
    return [{"name": name, "arguments": arguments, "word": word} for name, (arguments, word) in calls.items()]


class Page(BaseHTTPRequestHandler):
    """A page for the server that fetches pages: no test needs the network."""

    def do_GET(self) -> None:
        body = b"<html><body><article><h1>Outlived</h1><p>Outlived by its reader.</p></article></body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def page() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def remote() -> Iterator[str]:
    """A server over HTTP which somebody starts again when it dies, as is done with such servers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [python("mcp-1.30.0"), str(HERE / "servers/over_http.py"), str(port), "streamable"]
    environment = {**os.environ, MARK: "remote"}
    over = threading.Event()
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    def keep() -> None:
        nonlocal process
        while not over.wait(0.05):
            if process.poll() is not None:
                process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        over.set()
        keeper.join()
        process.kill()
        process.wait()


def furnish(folder: Path) -> None:
    """What the servers are asked about."""
    (folder / "files").mkdir()
    (folder / "files/note.txt").write_text("note")
    repository = folder / "repository"
    identity = ["-c", "user.name=peer", "-c", "user.email=peer@example.com"]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    commit = ["commit", "-q", "--allow-empty", "-m", "The first one"]
    subprocess.run(["git", *identity, *commit], cwd=repository, check=True)
    with sqlite3.connect(folder / "db") as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()


@contextmanager
def fleet(folder: Path) -> Iterator[Fleet]:
    furnish(folder)
    with page() as address, remote() as url:
        servers = entries(folder, url)
        for name, server in servers.items():
            if "command" in server:
                server["env"] = {**server.get("env", {}), MARK: name}
        file = folder / "mcp.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        yield Fleet(file, plan(folder, address), folder)


def processes(server: str) -> set[int]:
    """The processes of a server that run now. A process that has ended has no environment."""
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{MARK}={server}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except OSError:
            continue
    return found
