"""The history of calls at a fleet of replicas, and the rules that it has to keep to.

Of each call its client has written down what came of it, the servers how often it was executed, and a relay before the
load balancer how often it was answered on the wire.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

# A call has its name in its arguments, and its result repeats it.
TAG = re.compile(rb"call-[0-9a-z]+-[0-9]+-end")

# May be executed again by us: its tool says so.
REPEATABLE = "sleep_read"


@dataclass
class Call:
    tag: str
    tool: str
    # `result`, `answered` (an error of ours or of the server), or what the SDK calls it.
    end: str
    words: str
    # Seconds that it took, and when it had ended.
    took: float
    ended: float = 0.0


@dataclass
class Story:
    """What one client has seen."""

    client: str
    calls: list[Call] = field(default_factory=list)
    # Why the harness had to connect anew, each time.
    anew: list[str] = field(default_factory=list)

    def ends(self) -> Counter[str]:
        return Counter(call.end for call in self.calls)


def tags(text: bytes) -> Counter[str]:
    return Counter(tag.decode() for tag in TAG.findall(text))


def broken_rules(stories: Iterable[Story], executed: Counter[str], answered: Counter[str]) -> list[str]:
    """What the history has that it must not have."""
    broken = []
    for story in stories:
        for call in story.calls:
            times, answers = executed[call.tag], answered[call.tag]
            what = f"{story.client}: {call}"
            if answers > 1:
                broken.append(f"answered {answers} times: {what}")
            if times > 1 and call.tool != REPEATABLE:
                broken.append(f"executed {times} times: {what}")
            if call.end == "result" and times == 0:
                broken.append(f"answered, and executed by nobody: {what}")
            if call.end == "result" and call.words != call.tag:
                broken.append(f"the answer of another call: {what}")
    return broken
