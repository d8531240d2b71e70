"""Where the peers and the programs under test are, and how to start them."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target")) / "debug"
OUTLIVE = os.environ.get("OUTLIVE_BIN", str(TARGET / "outlive"))
RMCP_HOST = os.environ.get("RMCP_HOST_BIN", str(TARGET / "rmcp-host"))
OUTLIVE_CLIENT, OUTLIVE_SERVER = str(TARGET / "outlive-client"), str(TARGET / "outlive-server")
HTTP_SERVER = str(TARGET / "examples/conformance")
DRIVE_RMCP, FAKE = str(TARGET / "drive-rmcp"), str(TARGET / "fake")
RMCP_CLIENT, RMCP_SERVER = str(TARGET / "rmcp-client"), str(TARGET / "rmcp-server")

EVERYTHING = ["node", str(HERE / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")]
TIME = [str(HERE / ".venvs/mcp-2.3.0/bin/mcp-server-time"), "--local-timezone", "UTC"]
TEE = ["python3", str(HERE / "servers/tee.py")]


def python(venv: str) -> str:
    return str(HERE / ".venvs" / venv / "bin/python")


def tools(mcp: str, *args: str) -> list[str]:
    """The command of `servers/tools.py` on this version of the Python SDK."""
    return [python(f"mcp-{mcp}"), str(HERE / "servers/tools.py"), *args]


def outlive(server: list[str], *flags: str) -> list[str]:
    return [OUTLIVE, "run", *flags, "--", *server]


def play(host: list[str], server: list[str]) -> dict[str, Any]:
    """Run a host program with outlive in front of its server and return the JSON object it prints."""
    return run(host + outlive(server))


def run(command: list[str]) -> dict[str, Any]:
    """Run a program and return the JSON object it prints."""
    with tempfile.TemporaryFile() as stderr:
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, timeout=120)
        stderr.seek(0)
        if ended.returncode != 0:
            raise AssertionError(f"{command[:2]} failed:\n{stderr.read().decode(errors='replace')[-4000:]}")
    return json.loads(ended.stdout)
