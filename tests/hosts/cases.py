"""The accidents: each case breaks the server under a host and writes down what the host makes of it."""

import os
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from host import Host, Seen

LIMIT = 65  # seconds: just over the default bound of the TypeScript SDK


class Rig:
    """A host that runs, the folder its server is steered by, and the processes that server was."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.folder = folder

    def pids(self, name: str = "starts") -> list[int]:
        path = self.folder / name
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def signal(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pids()[-1], number)

    def lines(self, name: str) -> int:
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def wait_for(self, name: str) -> None:
        deadline = time.monotonic() + 30
        while self.lines(name) == 0:
            assert time.monotonic() < deadline, f"{name} did not appear"
            time.sleep(0.01)

    def alive(self, name: str) -> int:
        return sum(is_alive(pid) for pid in self.pids(name))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def then(rig: Rig, first: Seen, **more: Any) -> dict[str, Any]:
    """What was seen, and whether a call three seconds later works; a call that hangs blocks that one."""
    if first.kind == "hangs":
        return {"first": first, "later": None, **more}
    time.sleep(3)
    return {"first": first, "later": rig.host.call("ping", limit=LIMIT), **more}


def killed_idle(rig: Rig) -> dict[str, Any]:
    rig.host.call("ping")
    rig.signal()
    time.sleep(1)
    return then(rig, rig.host.call("ping", limit=LIMIT))


def killed_in_call(rig: Rig, tool: str = "write") -> dict[str, Any]:
    pending = rig.host.begin(tool)
    rig.wait_for("ran")
    time.sleep(0.5)
    rig.signal()
    killed = time.monotonic()
    first = pending.end(LIMIT)
    first.seconds = round(time.monotonic() - killed, 3)
    return then(rig, first, executions=rig.lines("ran"))


def killed_in_read_only_call(rig: Rig) -> dict[str, Any]:
    return killed_in_call(rig, "read")


def called_while_restarting(rig: Rig) -> dict[str, Any]:
    (rig.folder / "slow").touch()
    rig.host.call("ping")
    rig.signal()
    return then(rig, rig.host.call("ping", limit=LIMIT))


def stopped(rig: Rig) -> dict[str, Any]:
    rig.host.call("ping")
    rig.signal(signal.SIGSTOP)
    time.sleep(1)
    return then(rig, rig.host.call("ping", limit=LIMIT))


def hangs_in_call(rig: Rig) -> dict[str, Any]:
    result = then(rig, rig.host.call("hang", limit=LIMIT))
    if result["later"] is None or result["later"].ok:
        return result
    rig.host.idle(LIMIT)
    return {**result, "minute_later": rig.host.call("ping", limit=LIMIT)}


def prints_text(rig: Rig) -> dict[str, Any]:
    return then(rig, rig.host.call("chatter", limit=LIMIT))


def prints_bytes(rig: Rig) -> dict[str, Any]:
    return then(rig, rig.host.call("garble", limit=LIMIT))


def cannot_start(rig: Rig) -> dict[str, Any]:
    """Five calls a second apart while no start succeeds; then the fault is mended, and calls go on."""
    rig.host.call("ping")
    (rig.folder / "broken").touch()
    before = rig.lines("starts")
    rig.signal()
    time.sleep(1)
    first = rig.host.call("ping", {"try": 1}, limit=LIMIT)  # arguments that differ, or Gemini CLI sees a loop and ends
    for number in range(2, 6 if first.kind != "hangs" else 2):
        time.sleep(1)
        rig.host.call("ping", {"try": number}, limit=LIMIT)
    starts = rig.lines("starts") - before
    (rig.folder / "broken").unlink()
    mended = time.monotonic()
    for number in count(6):
        later = rig.host.call("ping", {"try": number}, limit=LIMIT)
        after = round(time.monotonic() - mended, 1)
        if later.ok or later.kind in ("hangs", "gone") or after > 35:
            return {"first": first, "later": later, "starts": starts, "works_after": after if later.ok else None}
        time.sleep(1)


def other_tools_after_restart(rig: Rig) -> dict[str, Any]:
    (rig.folder / "grow").touch()
    rig.host.call("remember", {"value": "a note"})
    rig.signal()
    time.sleep(1)
    result = then(rig, rig.host.call("ping", limit=LIMIT))
    extra = rig.host.call("extra", limit=LIMIT) if "extra" in rig.host.tools() else None
    return {**result, "extra": extra, "memory": rig.host.call("recall", limit=LIMIT).words}


def dies_of_cancellation(rig: Rig) -> dict[str, Any]:
    """The server is on mcp 1.x, its tool works in a thread for eight seconds, and the host gives up after five."""
    started = rig.folder / "threaded"
    cancelled = rig.host.call("threaded", {"seconds": 8, "started": str(started)}, limit=LIMIT)
    time.sleep(4)
    return then(rig, rig.host.call("ping", limit=LIMIT), cancelled=cancelled)


def host_leaves(rig: Rig) -> dict[str, Any]:
    rig.host.call("ping")
    ended = rig.host.leave()
    return {"ended": ended, **left_behind(rig)}


def host_is_killed(rig: Rig) -> dict[str, Any]:
    rig.host.call("ping")
    rig.host.kill()
    return left_behind(rig)


def left_behind(rig: Rig) -> dict[str, Any]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and rig.alive("starts") + rig.alive("helpers"):
        time.sleep(0.1)
    return {"servers": rig.alive("starts"), "helpers": rig.alive("helpers")}


Case = Callable[[Rig], dict[str, Any]]
CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        killed_idle,
        killed_in_call,
        killed_in_read_only_call,
        called_while_restarting,
        stopped,
        hangs_in_call,
        prints_text,
        prints_bytes,
        dies_of_cancellation,
        cannot_start,
        other_tools_after_restart,
        host_leaves,
        host_is_killed,
    )
}
