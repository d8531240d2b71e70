"""Markdown of what was measured: a matrix without outlive, one with it, and the words that a model or caller reads."""

import json
import re
from pathlib import Path
from typing import Any

COLUMNS = {
    "killed_idle": "killed idle",
    "killed_in_call": "killed in a call",
    "killed_in_read_only_call": "… a read-only one",
    "called_while_restarting": "called at once",
    "stopped": "stopped",
    "hangs_in_call": "hangs in a call",
    "prints_text": "prints text",
    "prints_bytes": "prints bad UTF-8",
    "dies_of_cancellation": "cancelled",
    "cannot_start": "cannot start",
    "other_tools_after_restart": "other tools",
    "host_leaves": "host leaves",
    "host_is_killed": "host killed",
}


def cell(case: str, seen: dict[str, Any]) -> str:
    """One case in a few characters, as the legend in docs/hosts.md says."""
    if "failed" in seen:
        return f"? {seen['failed']}"
    if "servers" in seen:
        left = [name for name, key in (("server", "servers"), ("helper", "helpers")) if seen[key]]
        left += [] if seen.get("ended", True) else ["host"]
        return ", ".join(left) or "–"
    said = f"{mark(seen['first'])} {mark(seen['later'])}"
    if "minute_later" in seen:
        said += f", after a minute {mark(seen['minute_later'])}"
    if case == "cannot_start":
        said += f", {seen['starts']} starts"
    if case == "other_tools_after_restart":
        said += ", new tool ✓" if (seen["extra"] or {}).get("kind") == "text" else ", new tool ✗"
    if case == "killed_in_read_only_call" and seen["executions"] > 1:
        said += ", repeated"
    return said


def mark(call: dict[str, Any] | None) -> str:
    if call is None:
        return "–"
    if call["kind"] == "hangs":
        return "∞"
    sign = {"text": "✓", "error": "✗", "gone": "†"}[call["kind"]]
    return sign if call["seconds"] < 0.95 else f"{sign} {call['seconds']:.0f} s"


def words(seen: dict[str, Any]) -> str:
    """The error of the first call, on one line."""
    first = seen.get("first") or {}
    said = re.sub(r"[\s`]+", " ", first.get("words", ""))
    return f"`{said[:110]}…`" if len(said) > 110 else f"`{said}`"


def tables(results: Path, hosts: dict[str, Any], cases: dict[str, Any]) -> str:
    def load(name: str, case: str, mode: str) -> dict[str, Any] | None:
        path = results / f"{name}.{case}.{mode}.json"
        return json.loads(path.read_text()) if path.exists() else None

    lines = []
    for mode in ("without", "with"):
        lines += [f"### {mode.capitalize()} outlive", "", row("host", *(COLUMNS[case] for case in cases))]
        lines.append(row(*["---"] * (len(cases) + 1)))
        for name, entry in hosts.items():
            seen = [(case, load(name, case, mode)) for case in cases]
            lines.append(row(entry.title, *("" if found is None else cell(case, found) for case, found in seen)))
        lines.append("")
    lines += ["### What the model or caller reads when the server is killed in a call", ""]
    lines += [row("host", "without outlive"), row("---", "---")]
    for name, entry in hosts.items():
        if found := load(name, "killed_in_call", "without"):
            lines.append(row(entry.title, words(found)))
    return "\n".join(lines)


def row(*cells: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"
