"""A scripted reader and judge for sets: the reader repeats the gold, the judge compares words."""

import json

from alps.ext.histories.book import open_book
from alps.ext.histories.files import SetChoice
from alps.extension import load
from tests.loopback import Answer

SETS = ("beam", "halumem", "histories", "locomo", "longmemeval", "personamem_v3")


def cited(name):
    """Return a set by the name of its task."""
    return load(f"alps.ext.histories.data.{name}:SET")


def book(name, data="samples", **choice):
    """Open a set."""
    return open_book(cited(name), str(data), SetChoice(**choice))


class Script:
    """Answers every question with its gold, and judges by whether the gold is in the response."""

    def __init__(self, name):
        self.golds = {}
        for entry in book(name).entries:
            question = entry.question
            self.golds[question.text] = "; ".join((question.answer, *question.points))
        self.judged, self.asked = [], []

    def __call__(self, body):
        payload = json.loads(body["messages"][-1]["content"].rpartition("\n\n")[2])
        if payload.get("kind") != "rubric":
            self.asked.append(payload)
            return Answer(self.golds[payload["question"]])
        self.judged.append(payload)
        gold = payload["memory"].partition("\n")[0]
        right = gold in payload["response"]
        said = {
            "point": {"mark": 2 * right},
            "outcome": {"outcome": "correct" if right else "omission"},
        }.get(payload["rubric"], {"verdict": "met" if right else "not_met"})
        return Answer(json.dumps({"reason": "scripted", **said}))
