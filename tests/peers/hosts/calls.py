"""Calls of a plan, made all at once, and their ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any


async def make(plan: str, call: Callable[[str, dict[str, Any]], Awaitable[str]]) -> dict[str, dict[str, str]]:
    async def end_of(step: dict[str, Any]) -> dict[str, str]:
        try:
            return {"text": await call(step["name"], step["arguments"])}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    steps = json.loads(Path(plan).read_text())
    ends = await asyncio.gather(*map(end_of, steps))
    return {step["name"]: end for step, end in zip(steps, ends)}
