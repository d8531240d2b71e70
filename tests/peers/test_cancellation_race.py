"""Seed 2: FastMCP on mcp 1.x dies when a cancelled tool finishes its work, and then looks alive until the next line.

What happens on the wire, the same in 1.27.0 and 1.30.0: the cancelled request is answered with an error at once, pings are
answered for as long as the tool's thread runs, then the server is dead without a sign; whatever line comes next is swallowed
and only then does the process exit with code 1. So a single ping after the cancellation finds nothing out, and a careless
proxy spends the user's next call on finding it out.
"""

import json
import tempfile
import time
import unittest
from pathlib import Path

from events import EventLog
from peers import HERE, outlive, play, python, tools
from wire import Wire


class Session:
    """A session through outlive, with its event log beside it."""

    def __init__(self, case: unittest.TestCase, server: list[str], *flags: str) -> None:
        self.scratch = Path(case.enterContext(tempfile.TemporaryDirectory()))
        self.log = EventLog(self.scratch / "log")
        self.wire = case.enterContext(Wire(outlive(server, *self.log.flags, *flags)))
        self.wire.initialize()
        self._last_id = 0

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def use(self, tool: str) -> str:
        """Call a tool; the text it returned."""
        answer = self.wire.call(self.next_id(), tool)
        if "error" in answer:
            raise AssertionError(f"the call of {tool} was sacrificed: {answer['error']}")
        return answer["result"]["content"][0]["text"]

    def begin(self, tool: str, seconds: float) -> int:
        """Call a slow tool and wait until it runs."""
        id = self.next_id()
        started = self.scratch / f"started-{id}"
        self.wire.begin(id, "tools/call", name=tool, arguments={"seconds": seconds, "started": str(started)})
        while not started.exists():
            time.sleep(0.005)
        return id

    def cancel(self, id: int) -> None:
        self.wire.notify("notifications/cancelled", requestId=id, reason="the user changed their mind")

    def was_answered(self, id: int) -> bool:
        return any(message.get("id") == id for message in map(json.loads, self.wire.received))


WHILE_ALIVE = (0.0, 0.3)
WHEN_DEAD = (1.2, 1.3, 1.4, 1.5, 2.5)


class CancellationRace(unittest.TestCase):
    def assert_first_death_is_the_last(self, server: str) -> None:
        session = Session(self, tools(server))
        first = session.use("pid")
        cancelled = [session.begin("threaded", 0.3)]
        session.cancel(cancelled[0])
        self.assertEqual(session.use("ping"), "pong")

        # Nobody calls anything now: outlive finds the dead server by itself.
        lost = session.log.wait_for("lost")
        self.assertEqual(lost["cause"].get("exit_code"), 1, lost)
        session.log.wait_for("absorbing_cancels")
        second = session.use("pid")
        self.assertNotEqual(first, second)

        for _ in range(3):
            cancelled.append(session.begin("threaded", 0.3))
            session.cancel(cancelled[-1])
            self.assertEqual(session.use("ping"), "pong")
            time.sleep(0.6)
            self.assertEqual(session.use("pid"), second, "a cancellation still reached the server")
        self.assertEqual(len(session.log.all("lost")), 1)
        self.assertEqual(len(session.log.all("absorbing_cancels")), 1)
        for id in cancelled:
            self.assertFalse(session.was_answered(id), "the host was sent an answer to a call it had cancelled")

    def assert_no_call_is_sacrificed(self, server: list[str], *pauses: float) -> None:
        """The user's next call comes this many seconds after the cancellation of a tool that takes one second."""
        patient = ("--breaker-failures", "1000", "--backoff-base", "10ms", "--backoff-cap", "20ms")
        session = Session(self, server, "--cancel", "forward", *patient)
        for deaths, pause in enumerate(pauses, 1):
            call = session.begin("threaded", 1.0)
            session.cancel(call)
            time.sleep(pause)
            self.assertEqual(session.use("ping"), "pong", f"pause of {pause} s")
            # Watched in the log: another call could meet the server in the very moment of its death.
            session.log.wait_for("lost", deaths)
            self.assertFalse(session.was_answered(call))

    def assert_sibling_is_told(self, server: str) -> None:
        """A call that dies with the server is settled without any further word from the host."""
        session = Session(self, tools(server))
        sibling = session.begin("linger", 300)
        session.cancel(session.begin("threaded", 0.3))
        error = session.wire.answer(sibling)["error"]
        self.assertEqual(error["data"]["outlive"]["kind"], "connection_lost")
        self.assertEqual(error["data"]["outlive"]["cause"]["exit_code"], 1)
        self.assertEqual(session.use("ping"), "pong")

    def test_fastmcp_1_27_0_dies_of_a_cancellation_only_once(self) -> None:
        self.assert_first_death_is_the_last("1.27.0")

    def test_fastmcp_1_30_0_dies_of_a_cancellation_only_once(self) -> None:
        self.assert_first_death_is_the_last("1.30.0")

    def test_fastmcp_1_27_0_dead_but_looking_alive_costs_no_call(self) -> None:
        self.assert_no_call_is_sacrificed(tools("1.27.0"), *WHILE_ALIVE, *WHEN_DEAD)

    def test_fastmcp_1_30_0_dead_but_looking_alive_costs_no_call(self) -> None:
        self.assert_no_call_is_sacrificed(tools("1.30.0"), *WHILE_ALIVE, *WHEN_DEAD)

    def test_fastmcp_1_30_0_dead_and_slow_to_exit_costs_no_call(self) -> None:
        self.assert_no_call_is_sacrificed(tools("1.30.0", "2.5"), 1.2)

    def test_fastmcp_1_27_0_takes_a_sibling_call_with_it_and_the_host_is_told(self) -> None:
        self.assert_sibling_is_told("1.27.0")

    def test_fastmcp_1_30_0_takes_a_sibling_call_with_it_and_the_host_is_told(self) -> None:
        self.assert_sibling_is_told("1.30.0")

    def test_mcp_2_3_0_client_that_times_out_on_fastmcp_1_30_0_keeps_its_session(self) -> None:
        host = [python("mcp-2.3.0"), str(HERE / "hosts/timeout_host.py")]
        with tempfile.TemporaryDirectory() as scratch:
            seen = play([*host, scratch], tools("1.30.0"))
        self.assertEqual(seen["then"], ["pong"] * 3)
        for words in seen["timed out"]:
            self.assertIn("timed out", words)
        self.assertEqual(len(seen["timed out"]), 3)

    def test_mcp_2_3_0_bears_cancellations_and_goes_on_getting_them(self) -> None:
        session = Session(self, tools("2.3.0"))
        pid = session.use("pid")
        for _ in range(3):
            call = session.begin("threaded", 0.2)
            session.cancel(call)
            self.assertEqual(session.use("ping"), "pong")
            time.sleep(0.4)
            self.assertFalse(session.was_answered(call))
        self.assertEqual(session.use("pid"), pid)
        self.assertEqual(session.log.all("lost"), [])
        self.assertEqual(session.log.all("absorbing_cancels"), [])
