"""Visitors who say where they live, and scripts of a model and a judge asked about them."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from alps.data.release import write_track
from tests.endtoend import JOURNALS
from tests.loopback import Answer

TOWNS = ("Lyon", "Porto", "Graz", "Turku", "Cork")
PETS = ("beagle", "tabby cat", "parrot", "gecko")


def visitor_id(number: int) -> str:
    """Return the benchmark id of a visitor."""
    return f"visitor_{number:02}"


def write_visitors(
    folder: Path, count: int, *, withheld: Sequence[int] = (), split: str = "dev"
) -> Path:
    """Write `count` short dialogues with two gold memories, or none for those `withheld`."""

    def pair(number: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
        name, town, pet = visitor_id(number), _town(number), _pet(number)
        ids = {"benchmark_id": name, "session_id": f"session_{number:02}", "task": "task1"}
        said = f"I am visitor {number}. I live in {town} and I have a {pet}."
        dialogue = [{"role": "user", "text": said}]
        dialogue += [{"role": "assistant", "text": "Nice to meet you!"}]
        values = (f"Visitor {number} lives in {town}", f"Visitor {number} keeps a {pet}")
        gold = {**ids, "gold": {"memory_items": memory_items(*values)}}
        return {**ids, "input": {"dialogue": dialogue}}, None if number in withheld else gold

    write_track(folder / split / "task1", (pair(number) for number in range(count)))
    return folder


def memory_items(*values: str) -> list[dict[str, Any]]:
    """Return memories as a model writes them."""
    items = []
    for n, value in enumerate(values, start=1):
        said = {"memory_id": f"m{n}", "type": "direct", "label": "UNMAPPED", "value": value}
        items.append({**said, "confidence": 0.95})
    return items


def values_of(number: int) -> tuple[str, str]:
    """Return what the scripted model writes down about a visitor: the gold in other words."""
    home = f"The home of visitor {number} is {_town(number)}"
    return home, f"A {_pet(number)} belongs to visitor {number}"


def is_judging(body: dict[str, Any]) -> bool:
    """Tell whether a request is to the judge."""
    return any('"kind": "match"' in message["content"] for message in body["messages"])


def visitor(body: dict[str, Any]) -> int:
    """Return whom a request is about."""
    said = " ".join(message["content"] for message in body["messages"])
    found = re.search(r"[Vv]isitor (\d+)", said)
    assert found is not None
    return int(found.group(1))


def purpose(body: dict[str, Any]) -> tuple[str, str]:
    """Return the journal that the answer to a request ends in, and the record it is about."""
    return JOURNALS[is_judging(body)], visitor_id(visitor(body))


def good_text(body: dict[str, Any]) -> str:
    """Answer as a good model, or as a judge who finds the first memory in all and the second in two
    of three.
    """
    number = visitor(body)
    if not is_judging(body):
        return json.dumps({"memory_items": memory_items(*values_of(number))})
    same = {"reason": "the same", "relation": "same"}
    found = (1,) if number % 3 == 0 else (1, 2)
    return json.dumps({"pairs": [{**same, "gold": f"g{n}", "predicted": f"p{n}"} for n in found]})


def good(body: dict[str, Any]) -> Answer:
    """Answer every request well."""
    return Answer(good_text(body))


class Faulty:
    """Fails every question once, by its record, and counts how often each was answered well."""

    def __init__(self, faults: Sequence[Callable[[str], Answer]]) -> None:
        self.faults = faults
        self.asked, self.well = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self.lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Answer:
        with self.lock:
            self.asked[purpose(body)] += 1
            if self.asked[purpose(body)] == 1:
                return self.faults[visitor(body) % len(self.faults)](good_text(body))
            self.well[purpose(body)] += 1
        return good(body)


class Leaky:
    """Repeats the keys in its errors, as some gateways do."""

    def __init__(self, said: str, *statuses: int) -> None:
        self.said, self.statuses = said, list(statuses)
        self.lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Answer:
        with self.lock:
            status = self.statuses.pop(0) if self.statuses else 200
        return good(body) if status == 200 else Answer(status=status, error=self.said)


class Slow:
    """Answers well after a while, or as soon as it may let go."""

    def __init__(self, delay: float) -> None:
        self.delay, self.let_go = delay, threading.Event()

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.let_go.wait(self.delay)
        return good(body)


def _town(number: int) -> str:
    return TOWNS[number % len(TOWNS)]


def _pet(number: int) -> str:
    return PETS[number % len(PETS)]
