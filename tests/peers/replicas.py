"""Three replicas of `outlive serve` on one Redis behind HAProxy, clients of every SDK, and what happens to fleets.

usage: replicas.py SECONDS      accidents at random for that long, then a table of what became of the calls, as JSON
"""

import contextlib
import json
import os
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from history import Call, Story, broken_rules, tags
from peers import DRIVE_RMCP, FAKE, HERE, OUTLIVE, python
from relay import Relays

ROOT = HERE.parent.parent
DRIVERS = ROOT / "check/drivers"
CLIENTS = {
    "Python SDK 1.30.0": [python("mcp-1.30.0"), str(DRIVERS / "python_sdk.py")],
    "Python SDK 2.3.0": [python("mcp-2.3.0"), str(DRIVERS / "python_sdk.py")],
    "TypeScript SDK 1.32.2": ["node", str(DRIVERS / "typescript_sdk.mjs"), "sdk", str(HERE)],
    "TypeScript SDK 2.4.0": ["node", str(DRIVERS / "typescript_sdk.mjs"), "client", str(HERE)],
    "rmcp 3.8.0": [DRIVE_RMCP],
    "LiveKit Agents 1.8.9": [python("livekit-1.8.9"), str(DRIVERS / "livekit_agents.py")],
}

# Short, so that tests need not wait long, and long enough for a busy machine.
LEASE = 3.0

# After this long a call counts as hung. Longer than a lease and all its waiting.
HUNG = 25.0

# Only a hang takes longer.
PATIENCE = 120.0


def free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


def until(what: str, is_so: Callable[[], bool]) -> None:
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() - begun > PATIENCE:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.05)


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def program(words: list[str], **settings: Any) -> subprocess.Popen[bytes]:
    """A program that the kernel ends with this one, even if it is killed."""
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], **{**quiet, **settings})


class Redis:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.start()

    def start(self) -> None:
        words = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        self.process = program([*words, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"])
        until("redis-server", self.is_up)

    def is_up(self) -> bool:
        said = subprocess.run(["redis-cli", "-p", str(self.port), "PING"], capture_output=True)
        return b"PONG" in said.stdout

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


class Replica:
    """One process after the other, always at the same port. What others send it, and what it sends to the store, passes
    relays, so that it can be cut off from either."""

    def __init__(self, name: str, folder: Path, redis: Redis, relays: Relays, outlive: str) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.outlive = outlive
        self.port = free_port()
        self.store = relays.to(redis.port)
        self.peers = relays.to(self.port)
        self.executed = self.folder / "executed.jsonl"
        (self.folder / "secret").write_text("0123456789abcdef0123456789abcdef\n")
        self.start()

    def start(self) -> None:
        words = [self.outlive, "serve", "--listen", f"127.0.0.1:{self.port}", "--lease", f"{LEASE:.0f}s"]
        words += ["--store", f"redis://127.0.0.1:{self.store.port}", "--advertise", f"http://127.0.0.1:{self.peers.port}"]
        words += ["--replica-secret-file", str(self.folder / "secret"), "--drain", "30s", "--log-level", "debug"]
        words += ["--log-file", str(self.folder / "log"), "--", FAKE, "--legacy", "--state", str(self.executed)]
        settings = {name: value for name, value in os.environ.items() if not name.startswith("OUTLIVE_")}
        settings["OUTLIVE_STATE_DIR"] = str(self.folder / "state")
        self.process = program(words, env=settings)
        until(f"replica {self.name}", lambda: ready(self.port))

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(PATIENCE)

    def executions(self) -> Counter[str]:
        if not self.executed.exists():
            return Counter()
        lines = self.executed.read_bytes().splitlines()
        return tags(b"\n".join(line for line in lines if b"tools/call" in line and b'"recv"' in line))


class Fleet:
    def __init__(self, folder: Path, outlive: str = OUTLIVE) -> None:
        for name in ("redis-server", "haproxy", "setpriv"):
            if shutil.which(name) is None:
                raise AssertionError(f"{name} is missing: tests/redis/setup installs it")
        self.folder = folder
        self.relays = Relays()
        self.redis = Redis(folder)
        self.replicas = [Replica(name, folder, self.redis, self.relays, outlive) for name in ("a", "b", "c")]
        self.balancer = self.balance()

    def balance(self) -> subprocess.Popen[bytes]:
        """HAProxy, as we tell people to set it up; and before it a relay that takes a record."""
        port = free_port()
        text = (ROOT / "packaging/fleet/haproxy.cfg").read_text()
        text = text.replace("bind :8080", f"bind 127.0.0.1:{port}")
        for example, replica in zip(("10.0.0.5", "10.0.0.6", "10.0.0.7"), self.replicas, strict=True):
            text = text.replace(f"{example}:8620", f"127.0.0.1:{replica.port}")
        if "10.0.0." in text:
            raise AssertionError(f"an address of the example is left: {text}")
        (self.folder / "haproxy.cfg").write_text(text)
        balancer = program(["haproxy", "-db", "-f", str(self.folder / "haproxy.cfg")])
        until("haproxy", lambda: ready(port))
        self.front = self.relays.to(port, record=True)
        self.url = f"http://127.0.0.1:{self.front.port}/mcp"
        return balancer

    def executions(self) -> Counter[str]:
        return sum((replica.executions() for replica in self.replicas), Counter())

    def answers(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for record in self.front.records or []:
            counts.update(tags(bytes(record)))
        return counts

    def close(self) -> None:
        for process in [self.balancer, *(replica.process for replica in self.replicas), self.redis.process]:
            process.kill()
            process.wait(PATIENCE)
        self.relays.close()


@contextlib.contextmanager
def fleet(**settings: Any) -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory() as folder:
        it = Fleet(Path(folder), **settings)
        try:
            yield it
        finally:
            it.close()
            # To look into what was said.
            if "KEEP" in os.environ:
                shutil.copytree(folder, os.environ["KEEP"], dirs_exist_ok=True, ignore=shutil.ignore_patterns("state"))


class Client:
    """An SDK's client, which does what it is told: see docs/check.md for how."""

    def __init__(self, name: str, number: int, it: Fleet) -> None:
        self.name, self.number, self.url = name, number, it.url
        # What the SDK says beside.
        self.log = it.folder / f"client-{number}.log"
        self.story = Story(name)
        self.numbers = 0
        self.said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.begin()

    def begin(self) -> None:
        with self.log.open("ab") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self.process = program(CLIENTS[self.name], cwd=ROOT, **pipes)
        self.said = queue.Queue()
        self.reading = threading.Thread(target=self.listen, args=(self.process, self.said), daemon=True)
        self.reading.start()
        hello = self.said.get(timeout=PATIENCE)
        if not hello or "client" not in hello:
            raise AssertionError(f"{self.name} does not start: {hello}")

    def listen(self, process: subprocess.Popen[bytes], said: queue.Queue[dict[str, Any] | None]) -> None:
        for line in process.stdout or []:
            said.put(json.loads(line))
        said.put(None)

    def errand(self, do: str, patience: float, **details: Any) -> dict[str, Any]:
        """What comes of an errand; what comes of earlier ones is dropped."""
        self.numbers += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"n": self.numbers, "do": do, **details}).encode() + b"\n")
        self.process.stdin.flush()
        ends = time.monotonic() + patience
        while True:
            try:
                said = self.said.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                return {"error": {"kind": "hung", "message": f"no end within {patience:.0f} s"}}
            if said is None:
                return {"error": {"kind": "gone", "message": "the client has ended"}}
            if said.get("n") == self.numbers:
                return said

    def connect(self) -> None:
        until(f"{self.name} to connect", lambda: "ok" in self.errand("connect", HUNG, url=self.url))

    def call(self, tool: str, **arguments: Any) -> Call:
        tag = f"call-{self.number:x}-{len(self.story.calls)}-end"
        begun = time.monotonic()
        said = self.errand("call", HUNG, tool=tool, arguments={"text": tag, **arguments})
        took = time.monotonic() - begun
        if "ok" in said:
            call = Call(tag, tool, "result", said["ok"], took, time.time())
        else:
            call = Call(tag, tool, said["error"]["kind"], said["error"]["message"], took, time.time())
            if call.end == "hung":
                self.errand("cancel", HUNG, call=self.numbers)
        self.story.calls.append(call)
        return call

    def work(self, over: threading.Event, pause: float) -> None:
        """Calls without end. If nothing works any more, it begins anew, which is written down."""
        self.connect()
        failed = 0
        while not over.is_set():
            for tool, arguments in (("echo", {}), ("sleep", {"ms": 400}), ("sleep_read", {"ms": 400})):
                call = self.call(tool, **arguments)
                failed = 0 if call.end in ("result", "answered") else failed + 1
                time.sleep(pause)
            if failed >= 6 and not over.is_set():
                self.begin_anew(call)
                failed = 0

    def begin_anew(self, call: Call) -> None:
        self.story.anew.append(f"{call.end}: {call.words}")
        self.close()
        self.begin()
        self.connect()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self.reading.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            # What was written and not read is of no use any more.
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


def kill(it: Fleet, one: Replica) -> None:
    """A replica is killed, and started again when its lease is over. Nobody listens meanwhile."""
    one.end(signal.SIGKILL)
    one.peers.refuse()
    time.sleep(LEASE + 1)
    one.peers.mend()
    one.start()


def kill_behind_relay(it: Fleet, one: Replica) -> None:
    """The same, where somebody takes connections in its place, as meshes do."""
    one.end(signal.SIGKILL)
    time.sleep(LEASE + 1)
    one.start()


def pause(it: Fleet, one: Replica) -> None:
    """A replica stands still beyond its lease."""
    one.process.send_signal(signal.SIGSTOP)
    time.sleep(2 * LEASE)
    one.process.send_signal(signal.SIGCONT)


def cut_from_store(it: Fleet, one: Replica) -> None:
    """A replica hears nothing of Redis beyond its lease."""
    one.store.silence()
    time.sleep(2 * LEASE)
    one.store.mend()


def cut_from_peers(it: Fleet, one: Replica) -> None:
    """The others do not reach a replica that lives, has a lease and is found by the load balancer."""
    one.peers.refuse()
    time.sleep(LEASE)
    one.peers.mend()


def silence_peers(it: Fleet, one: Replica) -> None:
    """The same, and nobody is told."""
    one.peers.silence()
    time.sleep(LEASE)
    one.peers.mend()


def cut_from_all(it: Fleet, one: Replica) -> None:
    """A replica is alone: the load balancer finds it, and nobody else."""
    one.peers.refuse()
    one.store.refuse()
    time.sleep(2 * LEASE)
    one.store.mend()
    one.peers.mend()


def restart_redis(it: Fleet, one: Replica) -> None:
    it.redis.kill()
    it.redis.start()


def stop_redis(it: Fleet, one: Replica) -> None:
    """Redis is away for longer than a load balancer needs to see that nobody is ready, and shorter than leases last."""
    it.redis.kill()
    time.sleep(LEASE / 3)
    it.redis.start()


def roll(it: Fleet, one: Replica) -> None:
    """A replica is restarted in order."""
    one.end(signal.SIGTERM)
    one.start()


ACCIDENTS = [kill, kill_behind_relay, pause, cut_from_store, cut_from_peers, silence_peers, cut_from_all, restart_redis, stop_redis, roll]


def under_load(it: Fleet, happens: Callable[[Fleet], None], pause: float = 0.0) -> list[Client]:
    """Lets a client of each SDK call while something happens, then three times more. The clients, with their stories."""
    with contextlib.ExitStack() as stack:
        clients = []
        for number, name in enumerate(CLIENTS):
            clients.append(Client(name, number, it))
            stack.callback(clients[-1].close)
        over = threading.Event()
        working = [threading.Thread(target=client.work, args=(over, pause)) for client in clients]
        for thread in working:
            thread.start()
        try:
            until("the first calls", lambda: all(len(client.story.calls) > 2 for client in clients))
            happens(it)
        finally:
            over.set()
            for thread in working:
                thread.join(PATIENCE)
        for client in clients:
            for _ in range(3):
                call = client.call("echo")
                if call.end != "result":
                    raise AssertionError(f"{client.name} cannot go on: {client.story.calls[-30:]}")
        return clients


def words_of(call: Call) -> str:
    """What an SDK says of a call that has failed, without what is different each time."""
    words = re.sub(r"127\.0\.0\.1:\d+|call-[\w-]+|'[^']*/[^']*'", "…", call.words)
    return f"{call.end}: {words[:160]}"


def told(it: Fleet, stories: list[Story]) -> dict[str, Any]:
    """What became of the calls."""
    executed = it.executions()
    all_calls = [call for story in stories for call in story.calls]
    return {
        "clients": {
            story.client: {
                "calls": len(story.calls),
                **story.ends(),
                "anew": story.anew,
                "longest": round(max(call.took for call in story.calls), 1),
                "words": Counter(words_of(call) for call in story.calls if call.end != "result"),
            }
            for story in stories
        },
        "calls": len(all_calls),
        "repeated by us": sum(executed[call.tag] > 1 for call in all_calls),
        "broken rules": broken_rules(stories, executed, it.answers()),
    }


def at_random(seconds: float, pause: float) -> dict[str, Any]:
    dice = random.Random(os.environ.get("SEED", "1"))
    counts: Counter[str] = Counter()
    plot: list[tuple[float, str, str]] = []

    def happens(it: Fleet) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            accident, replica = dice.choice(ACCIDENTS), dice.choice(it.replicas)
            counts[accident.__name__] += 1
            plot.append((round(time.time(), 1), accident.__name__, replica.name))
            accident(it, replica)
            time.sleep(dice.uniform(1, 2 * LEASE))

    with fleet() as it:
        clients = under_load(it, happens, pause)
        stories = [client.story for client in clients]
        odd = [call for story in stories for call in story.calls if call.end not in ("result", "answered", "timeout")]
        said = {"seconds": seconds, "accidents": counts, **told(it, stories)}
        return {**said, "odd": [str(call) for call in odd], "plot": plot if odd else []}


if __name__ == "__main__":
    print(json.dumps(at_random(float(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0), indent=1))
