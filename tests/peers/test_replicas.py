"""FM-53: clients of every SDK at three replicas behind HAProxy without affinity, and what happens to fleets."""

import time
import unittest
from collections import Counter

import replicas
from history import Call, Story, broken_rules, tags


class Replicas(unittest.TestCase):
    def test_fm_53_clients_of_every_sdk_keep_their_sessions(self) -> None:
        def happens(it: replicas.Fleet) -> None:
            one, another, third = it.replicas
            for accident, replica in (
                (replicas.kill, one),
                (replicas.pause, another),
                (replicas.cut_from_store, third),
                (replicas.cut_from_peers, one),
                (replicas.restart_redis, one),
                (replicas.roll, another),
            ):
                accident(it, replica)
                time.sleep(1.5)

        with replicas.fleet() as it:
            clients = replicas.under_load(it, happens)
            stories = [client.story for client in clients]
            told = replicas.told(it, stories)
        self.assertEqual(told["broken rules"], [])
        self.assertEqual([story.client for story in stories], list(replicas.CLIENTS))
        for story in stories:
            self.assertEqual(story.anew, [], f"{story.client} had to begin anew: {told}")
            ends = story.ends()
            # Most calls meet nothing at all, and nothing hangs.
            self.assertGreater(ends["result"] * 2, len(story.calls), told)
            self.assertEqual(ends["hung"] + ends["gone"], 0, told)
            for call in story.calls:
                if call.end != "result":
                    self.assertNotRegex(call.words, r"\b404\b|[Ss]ession (not found|terminated)", f"{story.client}: {call}")


class Rules(unittest.TestCase):
    """Each rule can be broken."""

    def broken(self, executed: int, answered: int, tool: str = "sleep", end: str = "result", words: str = "t") -> list[str]:
        story = Story("client", [Call("t", tool, end, words, 0.1)])
        rules = broken_rules([story], Counter({"t": executed}), Counter({"t": answered}))
        return [rule.partition(":")[0] for rule in rules]

    def test_rules(self) -> None:
        self.assertEqual(self.broken(1, 1), [])
        self.assertEqual(self.broken(2, 1), ["executed 2 times"])
        self.assertEqual(self.broken(2, 1, tool="sleep_read"), [])
        self.assertEqual(self.broken(1, 2), ["answered 2 times"])
        self.assertEqual(self.broken(0, 1), ["answered, and executed by nobody"])
        self.assertEqual(self.broken(1, 1, words="u"), ["the answer of another call"])
        self.assertEqual(self.broken(0, 0, end="answered"), [])
        self.assertEqual(self.broken(2, 0, end="other"), ["executed 2 times"])

    def test_tags(self) -> None:
        self.assertEqual(tags(b'"text":"call-4-17-end"}, "call-4-17-end", call-5-x'), Counter({"call-4-17-end": 2}))
