"""A memory system that passes its checks, and then answers every search in another odd way.

`python memory_odd.py WAY` serves it as a program or as MCP tools. It imports nothing of alps.
"""

import json
import re
import sys

MARK = '"@odd@"'
HIT = {"id": "h", "text": "I like tea.", "score": 0.5, "created_at": "2026-01-05", "sources": []}
DEEP = "[" * 20_000 + "]" * 20_000
OBJECT = '{"message": "No.", "code": 7}'
NUMBERS = {"huge": "1e999", "nan": "NaN", "digits": "9" * 400, "more-digits": "9" * 4_400}
OTHERS = {"object": OBJECT, "deep": DEEP, "list": '["x"]', "lists": "[[[]]]", "true": "true"}


def _cases():
    """Yield each case by its name: the JSON of what a search returns."""
    for name, value in {**OTHERS, **NUMBERS, "null": "null", "text": '"x"'}.items():
        yield name, value
        yield f"rows-{name}", f"[{value}]"
    for field in HIT:
        values = dict(OTHERS)
        values |= {} if field == "sources" else NUMBERS
        values |= {"text": '"0.9"'} if field in ("score", "sources") else {}
        values |= {"empty": '" "', "null": "null"} if field == "text" else {}
        for name, odd in values.items():
            value = f"[{odd}]" if field == "sources" and name in ("list", "lists") else odd
            yield f"{field}-{name}", json.dumps([{**HIT, field: "@odd@"}]).replace(MARK, value)


CASES = dict(_cases())
EVEN = {
    "surrogates": json.dumps([{**HIT, "text": "half \ud83d of it"}]),
    "id-number": json.dumps([{**HIT, "id": 7}]),
    "no-score": json.dumps([{**HIT, "score": None}]),
    "nothing": "[]",
}
"""What is odd, and can be read."""
CHECKS = ("code of", "which code", "plum trees", "code does")


class Odd:
    """The system as a class of a run."""

    def __init__(self):
        self.turns = {}
        self.left = iter([*CASES.values(), *EVEN.values()])

    def open(self, opening):
        self.turns = {}

    def reset(self, user):
        self.turns.pop(user, None)

    def settle(self, user, timeout):
        return "ready"

    def ingest(self, user, session):
        self.keep(user, [(turn.at, turn.text) for turn in session.turns])

    def keep(self, user, turns):
        self.turns.setdefault(user, {}).update(turns)

    def found(self, user, query, k):
        """Return the JSON of the best hits for what an admission asks, else that of a case."""
        if not any(check in query.lower() for check in CHECKS):
            return next(self.left, "[]")
        words = {*re.findall(r"\w+", query)}
        turns = sorted(
            self.turns.get(user, {}).items(),
            key=lambda turn: -len(words & {*re.findall(r"\w+", turn[1])}),
        )
        return json.dumps([{"id": at, "text": text, "created_at": at} for at, text in turns[:k]])

    def search(self, user, query, k, at):
        sys.set_int_max_str_digits(0)
        try:
            return json.loads(self.found(user, query, k))
        except RecursionError:
            return [[[]]]
        finally:
            sys.set_int_max_str_digits(4_300)

    def called(self, method, row):
        """Return the JSON of what a call returns, its arguments as they are sent."""
        if method in ("open", "reset"):
            getattr(self, method)(row.get("user"))
        elif method == "ingest":
            self.keep(row["user"], [(turn["at"], turn["text"]) for turn in row["session"]["turns"]])
        elif method == "search":
            return self.found(row["user"], row["query"], row["k"])
        return '"ready"' if method == "settle" else "null"


def program():
    """Answer lines of JSON."""
    odd = Odd()
    for line in sys.stdin:
        row = json.loads(line)
        answer = odd.called(row["method"], row)
        print(f'{{"id": {row["id"]}, "result": {answer}}}', flush=True)


def tools():
    """Answer as an MCP server does."""
    odd = Odd()
    for line in sys.stdin:
        row = json.loads(line)
        result = "{}"
        if row["method"] == "tools/list":
            names = [{"name": name} for name in ("open", "ingest", "search", "reset")]
            result = json.dumps({"tools": names})
        elif row["method"] == "tools/call":
            value = odd.called(row["params"]["name"], row["params"]["arguments"])
            result = f'{{"structuredContent": {{"result": {value}}}}}'
        if "id" in row:
            print(f'{{"jsonrpc": "2.0", "id": {row["id"]}, "result": {result}}}', flush=True)


if __name__ == "__main__":
    {"program": program, "tools": tools}[sys.argv[1]]()
