"""An MCP server of the standard library's means: `pid` answers, `refuse` fails in its own words, `die` ends it."""

import json
import os
import signal
import sys

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pid", "refuse", "die")]


def answer(method: str, params: dict) -> dict:
    match method, params.get("name"):
        case "initialize", _:
            about = {"name": "packages", "version": "0"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}}
        case "ping", _:
            return {"result": {}}
        case "tools/list", _:
            return {"result": {"tools": TOOLS}}
        case "tools/call", "pid":
            return {"result": {"content": [{"type": "text", "text": str(os.getpid())}]}}
        case "tools/call", "refuse":
            return {"error": {"code": -31999, "message": "not today", "data": {"reason": "mine"}}}
        case "tools/call", "die":
            os.kill(os.getpid(), signal.SIGKILL)
    return {"error": {"code": -32601, "message": f"no {method}"}}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        response = answer(request["method"], request.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **response}), flush=True)
