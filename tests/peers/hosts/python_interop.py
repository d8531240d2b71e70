"""The Python SDK's client with the server of `outlive` (`tests/interop`): everything the server offers, and a cancellation.

usage: python_interop.py SCRATCH_FOLDER MODE COMMAND ARG…      MODE as in mcp 2.x, `auto` or `legacy`; prints one JSON object
"""

import asyncio
import json
import sys
from collections.abc import Awaitable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp import types
from pydantic import BaseModel
from python_client import Client, connect

log: list[Any] = []
steps: list[float] = []


async def roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///one"}]})


async def sampling(*_: Any) -> types.CreateMessageResult:
    said = {"role": "assistant", "model": "none", "content": {"type": "text", "text": "it"}}
    return types.CreateMessageResult.model_validate(said)


async def elicitation(*_: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def logging(message: Any) -> None:
    log.append(message.data)


async def progress(step: float, *_: Any) -> None:
    steps.append(step)


def plain(result: BaseModel) -> dict[str, Any]:
    """As on the wire: the attributes are spelt differently in 1.x and 2.x."""
    return result.model_dump(by_alias=True, mode="json")


async def end_of(call: Awaitable[Any]) -> dict[str, Any]:
    try:
        result = plain(await call)
    except Exception as error:
        if not hasattr(error, "error"):
            raise
        return {"code": error.error.code, "message": error.error.message}
    return {"is error": bool(result.get("isError")), "text": result["content"][0]["text"] if "content" in result else None}


async def cancelled(session: Any, started: Path) -> dict[str, Any]:
    call = asyncio.create_task(session.call_tool("linger", {"started": str(started)}))
    await appearance(started)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        # 1.x leaves it at that: the notification is its user's to send.
        if Client is None:
            await tell_of_cancellation(session)
        await appearance(Path(f"{started}.cancelled"))
        return {"kind": "CancelledError"}
    return {"kind": "finished"}


async def tell_of_cancellation(session: Any) -> None:
    # The request just made is the last id given out.
    params = types.CancelledNotificationParams(requestId=session._request_id - 1, reason="the user changed their mind")
    notification = types.CancelledNotification(params=params)
    await session.send_notification(types.ClientNotification(notification))


async def appearance(file: Path) -> None:
    """The tests end a run in which it does not come."""
    while not file.exists():
        await asyncio.sleep(0.005)


async def main(scratch: str, mode: str, *server: str) -> dict[str, Any]:
    callbacks: dict[str, Any] = {
        "list_roots_callback": roots,
        "sampling_callback": sampling,
        "elicitation_callback": elicitation,
        "logging_callback": logging,
    }
    if Client is not None:
        callbacks |= {"mode": mode, "log_level": "info"}
    async with connect(*server, **callbacks) as (session, protocol):
        reference = types.PromptReference(type="ref/prompt", name="review")
        return {
            "sdk": f"mcp {version('mcp')}",
            "protocol": protocol,
            "tools": [tool["name"] for tool in plain(await session.list_tools())["tools"]],
            "prompts": [prompt["name"] for prompt in plain(await session.list_prompts())["prompts"]],
            "resources": [resource["uri"] for resource in plain(await session.list_resources())["resources"]],
            "templates": [
                template["uriTemplate"]
                for template in plain(await session.list_resource_templates())["resourceTemplates"]
            ],
            "read": plain(await session.read_resource("memo://greeting"))["contents"][0]["text"],
            "missing": await end_of(session.read_resource("memo://missing")),
            "prompt": plain(await session.get_prompt("review", {"code": "1"}))["messages"][0]["content"]["text"],
            "completion": plain(await session.complete(reference, {"name": "code", "value": "fn"}))["completion"]["values"],
            "echo": await end_of(session.call_tool("echo", {"value": "h\u00e9 \u2028"})),
            "fail": await end_of(session.call_tool("fail", {})),
            "unknown": await end_of(session.call_tool("no such tool", {})),
            "count": await end_of(session.call_tool("count", {"to": 5}, progress_callback=progress)),
            "progress": steps,
            "log": log,
            "roots": await end_of(session.call_tool("roots", {})),
            "sample": await end_of(session.call_tool("sample", {})),
            "ask": await end_of(session.call_tool("ask", {})),
            "cancelled": await cancelled(session, Path(scratch, "started")),
            "ping": await end_of(session.call_tool("ping", {})),
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
