"""A server that takes as long to start as Python does. Answers `initialize`, `tools/list` and `ping`."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "python", "version": "1.0.0"},
        },
        "tools/list": {"tools": []},
    }
    result = results.get(request["method"], {})
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    print(json.dumps(answer, separators=(",", ":")), flush=True)
