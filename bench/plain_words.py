"""Count the words of the house where a reader looks for those of the field.

    python bench/plain_words.py [write=yes] [show=WORD]

Looks through identifiers, comments and docstrings of the package, and exits 1 where a word of
`INSTEAD` is found more often than `plain_words.json` allows; `make lint` runs it. `write=yes`
lowers the allowance to what there is, and never raises it. `show=WORD` prints every place of a
word.
"""

import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from words import read_words

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("alps", "tasks", "judges", "data", "leaderboard")
ALLOWED = ROOT / "bench" / "plain_words.json"
INSTEAD = {
    "anew": "again",
    "beside": "next to, besides, or the thing's own name",
    "begun": "started",
    "heard": "answered",
    "unheard": "no response",
    "heed": "apply",
    "mend": "fix, or repair",
    "mended": "fixed, or repaired",
    "stands": "is",
    "told": "reported, given, or ingested",
    "whoever": "a user, or who exactly",
}
_PARTS = re.compile(r"[A-Z]?[a-z]+")


def places(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and word of every word of the house in a module."""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.string.lstrip("r").startswith('"""')
        if is_docstring or token.type in (tokenize.NAME, tokenize.COMMENT):
            for number, line in enumerate(token.string.splitlines()):
                for part in _PARTS.findall(line):
                    if part.lower() in INSTEAD:
                        yield token.start[0] + number, part.lower()


def main() -> None:
    """Compare what there is with what is allowed."""
    words = read_words(sys.argv[1:], {"show": ""})
    found: Counter[str] = Counter()
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.resolve() != path.absolute() or "__pycache__" in path.parts:
                continue
            for line, word in places(path):
                found[word] += 1
                if word == words["show"]:
                    print(f"{path.relative_to(ROOT)}:{line}")
    allowed = json.loads(ALLOWED.read_text()) if ALLOWED.exists() else {}
    if words["write"]:
        lowered = {word: min(found[word], allowed.get(word, found[word])) for word in INSTEAD}
        ALLOWED.write_text(json.dumps(lowered, indent=2) + "\n")
        allowed = lowered
    faults = []
    for word, count in found.items():
        if count > allowed.get(word, 0):
            faults.append(
                f"«{word}» {count} times, {allowed.get(word, 0)} allowed: {INSTEAD[word]}"
            )
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
