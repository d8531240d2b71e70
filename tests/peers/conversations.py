"""Fixed conversations with the server peers, each touching what its server offers.

They are sequential and avoid anything that depends on the clock, so that two runs of one conversation are the same bytes.
"""

from typing import Any

from wire import Wire

CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}
ROOTS = {"roots": [{"uri": "file:///one", "name": "Eins"}, {"uri": "file:///zw%C3%B6lf"}]}


def with_tools_server(wire: Wire) -> None:
    """`servers/tools.py`, legacy era, any version."""
    wire.answers["roots/list"] = lambda _: ROOTS
    wire.initialize("2025-06-18", CAPABILITIES)
    lists(wire)
    wire.call("a", "ping")
    # Bytes a parser would be tempted to tidy up: spaces, key order, escapes, number forms, an unknown member.
    wire.send(
        b'{ "params" : {"arguments":{"value":[1.0,1e2,"\\u00e9\\ud83e\\udd80",{"id":7,"method":"x"}]}, "name":"echo"},'
        b'"x-unknown":null ,"id":"\\u0062", "method":"tools/call","jsonrpc":"2.0"}'
    )
    wire.answer("b")
    wire.request("c", "tools/call", name="count", arguments={"to": 5}, _meta={"progressToken": "t-1"})
    wire.call("d", "fail")
    wire.call("e", "no such tool")
    wire.call("f", "linger", wrong="arguments")
    wire.call("g", "roots")
    wire.call("h", "announce")
    wire.call("i", "echo", value="x" * 300_000)
    wire.request("j", "resources/read", uri="memo://greeting")
    wire.request("k", "resources/read", uri="memo://of/k%20k")
    wire.request("l", "resources/read", uri="memo://missing")
    wire.request("m", "prompts/get", name="review", arguments={"code": "fn main() {}"})
    wire.request("n", "prompts/get", name="review", arguments={})
    wire.request("o", "logging/setLevel", level="debug")
    wire.request("p", "no/such/method")
    wire.request("q", "ping")
    wire.notify("notifications/roots/list_changed")
    wire.request(2**53, "ping")
    wire.request(-1, "ping")


def with_tools_server_modern(wire: Wire) -> None:
    """`servers/tools.py` on mcp 2.x, modern era."""
    wire.request(1, "server/discover", _meta=modern())
    for id, method in enumerate(("tools/list", "prompts/list", "resources/list", "resources/templates/list"), 2):
        wire.request(id, method, _meta=modern())
    wire.request("a", "tools/call", name="echo", arguments={"value": {"id": 1}}, _meta=modern())
    meta = modern(progressToken=7, **{"io.modelcontextprotocol/logLevel": "info"})
    wire.request("b", "tools/call", name="count", arguments={"to": 5}, _meta=meta)
    wire.request("c", "tools/call", name="fail", arguments={}, _meta=modern())
    wire.request("d", "tools/call", name="roots", arguments={}, _meta=modern())
    wire.request("e", "resources/read", uri="memo://greeting", _meta=modern())
    wire.request("f", "prompts/get", name="review", arguments={"code": "1"}, _meta=modern())
    wire.request("g", "no/such/method", _meta=modern())
    wire.request("h", "tools/list")
    wire.begin("l", "subscriptions/listen", notifications={"toolsListChanged": True}, _meta=modern())
    wire.notification("notifications/subscriptions/acknowledged")
    wire.begin("m", "tools/call", name="announce", arguments={}, _meta=modern())
    wire.all_of(lambda m: m.get("method") == "notifications/tools/list_changed", lambda m: m.get("id") == "m")
    wire.notify("notifications/cancelled", requestId="l")
    wire.request("n", "tools/call", name="ping", arguments={}, _meta=modern())


def with_everything(wire: Wire) -> None:
    """@modelcontextprotocol/server-everything."""
    wire.answers["roots/list"] = lambda _: ROOTS
    wire.answers["sampling/createMessage"] = lambda _: {
        "role": "assistant",
        "model": "none",
        "content": {"type": "text", "text": "sampled"},
    }
    wire.answers["elicitation/create"] = lambda _: {"action": "decline"}
    wire.initialize("2025-11-25", CAPABILITIES)
    # It asks for the roots by itself soon after the handshake, and says so; nothing may overtake that.
    wire.notification("notifications/message")
    lists(wire)
    wire.call("a", "echo", message="h\u00e9llo \u2028 \U0001f980")
    wire.call("b", "get-sum", a=2, b=0.5)
    wire.call("c", "get-sum", a="two", b=None)
    wire.call("d", "get-structured-content", location="Chicago")
    wire.call("e", "get-tiny-image")
    wire.call("f", "get-annotated-message", messageType="error", includeImage=True)
    wire.call("g", "get-resource-links", count=3)
    wire.request(
        "h",
        "tools/call",
        name="trigger-long-running-operation",
        arguments={"duration": 0.4, "steps": 4},
        _meta={"progressToken": 0},
    )
    wire.call("i", "get-roots-list")
    wire.call("j", "trigger-sampling-request", prompt="say it", maxTokens=5)
    wire.call("k", "trigger-elicitation-request")
    wire.call("l", "no-such-tool")
    wire.request("m", "resources/read", uri="demo://resource/static/document/architecture.md")
    wire.request("n", "resources/subscribe", uri="demo://resource/static/document/features.md")
    wire.request("o", "resources/unsubscribe", uri="demo://resource/static/document/features.md")
    wire.request("p", "prompts/get", name="args-prompt", arguments={"city": "Ulm"})
    wire.request(
        "q",
        "completion/complete",
        ref={"type": "ref/prompt", "name": "completable-prompt"},
        argument={"name": "department", "value": "E"},
    )
    wire.request("r", "logging/setLevel", level="error")
    wire.request("s", "ping")
    wire.request("t", "no/such/method")


def with_time(wire: Wire) -> None:
    """mcp-server-time. The time of day is fixed; only today's date and the zones' offsets are the server's own."""
    wire.initialize("2025-06-18")
    lists(wire)
    wire.call("a", "convert_time", source_timezone="UTC", time="12:30", target_timezone="Asia/Kolkata")
    wire.call("b", "convert_time", source_timezone="UTC", time="25:30", target_timezone="Asia/Kolkata")
    wire.call("c", "get_current_time", timezone="Nowhere/Special")
    wire.call("d", "no_such_tool")
    wire.request("e", "ping")


def lists(wire: Wire) -> None:
    for id, method in enumerate(("tools/list", "prompts/list", "resources/list", "resources/templates/list"), 1):
        wire.request(id, method)


def modern(**more: Any) -> dict[str, Any]:
    """The `_meta` every modern request carries."""
    return {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
        **more,
    }
