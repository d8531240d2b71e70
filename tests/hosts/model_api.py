"""Stand-ins for the APIs of three models: a model that says only what the rig wants it to say.

Each request of a host waits here until the rig has a next tool call for the model to make. The result of that call
travels in the host's next request, so what is read there is exactly what the model sees.
"""

import json
import queue
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Body = dict[str, Any]
Call = dict[str, Any]  # `id`, `tool`, `arguments`


class ModelApi:
    """Serves one conversation on a port of its own. A subclass knows how one model's API spells it."""

    def __init__(self) -> None:
        self.calls: queue.Queue[Call | None] = queue.Queue()
        self.turns: queue.Queue[Body] = queue.Queue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Exchange(self, *args))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def events(self, body: Body, call: Call | None) -> list[Body]:
        """The stream in which the model makes this call, or ends its turn."""
        raise NotImplementedError

    def result(self, body: Body, call: str) -> tuple[str, str]:
        """Whether the call with this id succeeded, and the words the model reads."""
        raise NotImplementedError

    def tools(self, body: Body) -> list[str]:
        """The tools of the server `s` that the model may call."""
        raise NotImplementedError


class Exchange(BaseHTTPRequestHandler):
    """One request and its stream of events."""

    def __init__(self, api: ModelApi, *args: Any) -> None:
        self.api = api
        super().__init__(*args)

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.end_headers()

    do_GET = do_HEAD

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
        call = None
        if body.get("tools"):  # a request without tools is housekeeping, such as a title for the conversation
            self.api.turns.put(body)
            call = self.api.calls.get()
        try:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in self.api.events(body, call):
                kind = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
        except OSError:
            pass  # the host was killed meanwhile


class MessagesApi(ModelApi):
    """Anthropic's, for Claude Code."""

    def events(self, body: Body, call: Call | None) -> list[Body]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg", "type": "message", "role": "assistant", "model": body.get("model"), "content": []}
        if call is None:
            reason, block, delta = "end_turn", {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
        else:
            reason = "tool_use"
            block = {"type": "tool_use", "id": call["id"], "name": f"mcp__s__{call['tool']}", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call["arguments"])}
        return [
            {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]

    def result(self, body: Body, call: str) -> tuple[str, str]:
        for message in reversed(body["messages"]):
            for part in message["content"] if isinstance(message["content"], list) else []:
                if part.get("type") == "tool_result" and part["tool_use_id"] == call:
                    return ("error" if part.get("is_error") else "text"), words(part.get("content", ""))
        return "error", "the host sent no result"

    def tools(self, body: Body) -> list[str]:
        return [tool["name"].removeprefix("mcp__s__") for tool in body["tools"] if "mcp__s__" in tool.get("name", "")]


class ResponsesApi(ModelApi):
    """OpenAI's, for Codex."""

    def events(self, body: Body, call: Call | None) -> list[Body]:
        if call is None:
            item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
        else:
            item = {"type": "function_call", "call_id": call["id"], "namespace": "mcp__s", "name": call["tool"]}
            item["arguments"] = json.dumps(call["arguments"])
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return [
            {"type": "response.created", "response": {"id": "response"}},
            {"type": "response.output_item.done", "output_index": 0, "item": {"id": "item", **item}},
            {"type": "response.completed", "response": {"id": "response", "usage": usage}},
        ]

    def result(self, body: Body, call: str) -> tuple[str, str]:
        for item in reversed(body["input"]):
            if item.get("type") == "function_call_output" and item["call_id"] == call:
                said = words(item["output"])
                # No flag says that a call failed. What Codex has executed begins with the time it took.
                heading, _, output = said.partition("Output:")
                if not heading.startswith("Wall time"):
                    return "error", said
                return ("error" if output.strip().startswith("tool call error:") else "text"), output.strip()
        return "error", "the host sent no result"

    def tools(self, body: Body) -> list[str]:
        spaces = [tool for tool in body["tools"] if tool.get("name") == "mcp__s"]
        return [tool["name"] for space in spaces for tool in space["tools"]]


class GenerateContentApi(ModelApi):
    """Google's, for Gemini CLI."""

    def events(self, body: Body, call: Call | None) -> list[Body]:
        part: Body = {"text": "done"}
        if call is not None:
            part = {"functionCall": {"id": call["id"], "name": f"mcp_s_{call['tool']}", "args": call["arguments"]}}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return [{"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}]

    def result(self, body: Body, call: str) -> tuple[str, str]:
        for part in reversed(body["contents"][-1]["parts"]):
            answer = part.get("functionResponse", {})
            if answer.get("id") == call:
                response = answer["response"]
                return ("error", response["error"]) if "error" in response else ("text", str(response.get("output")))
        return "error", "the host sent no result"

    def tools(self, body: Body) -> list[str]:
        names = [tool["name"] for group in body["tools"] for tool in group.get("functionDeclarations", [])]
        return [name.removeprefix("mcp_s_") for name in names if name.startswith("mcp_s_")]


def words(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
