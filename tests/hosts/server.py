"""The server under the hosts: a few tools, and every way to fail that the cases need. Standard library only.

usage: server.py FOLDER

FOLDER is how the cases steer it and see it. It appends its process id to `starts`, and to `ran` a line for each call of
a slow tool that began. If they exist, `slow` makes each start but the first take two seconds, `broken` makes each start
but the first fail, `grow` gives each process but the first one more tool, and `helper` makes it start a child and stay
when its input ends, as a server does whose event loop has more to do.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
TOOLS: dict[str, dict[str, Any]] = {
    "ping": {},
    "remember": {"value": {"type": "string"}},
    "recall": {},
    "write": {},
    "read": {},
    "hang": {},
    "chatter": {},
    "garble": {},
}
notes: list[str] = []


def append(name: str, line: object) -> None:
    with open(FOLDER / name, "a") as file:
        file.write(f"{line}\n")


def has(name: str) -> bool:
    return (FOLDER / name).exists()


def tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": name,
        "description": f"The tool {name}",
        "inputSchema": {"type": "object", "properties": properties},
    }
    if name == "read":
        described["annotations"] = {"readOnlyHint": True}
    return described


def call(name: str, arguments: dict[str, Any]) -> str:
    match name:
        case "remember":
            notes.append(arguments["value"])
        case "recall":
            return ", ".join(notes) or "nothing"
        case "write" | "read":
            append("ran", name)
            time.sleep(2)
        case "hang":
            time.sleep(3600)
        case "chatter":
            os.write(1, b"Listening on port 3000\n")
        case "garble":
            os.write(1, b"caf\xe9\n")
    return f"{name} done"


def answer(request: dict[str, Any], again: bool) -> dict[str, Any]:
    params = request.get("params", {})
    match request["method"]:
        case "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "server", "version": "1"},
            }
        case "tools/list":
            named = {**TOOLS, "extra": {}} if again and has("grow") else TOOLS
            result = {"tools": [tool(*item) for item in named.items()]}
        case "tools/call":
            text = call(params["name"], params.get("arguments") or {})
            result = {"content": [{"type": "text", "text": text}]}
        case "ping":
            result = {}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}
    return {"result": result}


def main() -> None:
    again = has("starts")
    append("starts", os.getpid())
    if again and has("broken"):
        sys.exit("server: cannot reach the database")
    if again and has("slow"):
        time.sleep(2)
    if has("helper"):
        append("helpers", subprocess.Popen(["sleep", "600"]).pid)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request, again)}), flush=True)
    if has("helper"):
        time.sleep(600)


main()
