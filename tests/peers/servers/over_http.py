"""`tools.py` over HTTP: `over_http.py PORT streamable|sse`."""

import sys

import uvicorn
from tools import server

port, transport = int(sys.argv[1]), sys.argv[2]
app = server.sse_app() if transport == "sse" else server.streamable_http_app()
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
