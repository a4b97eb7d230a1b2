"""Count the words of the house where a reader looks for those of the field.

    python bench/plain_words.py [write=yes] [show=WORD]

Looks through identifiers, comments and docstrings of the package, and exits 1 where a word of
`INSTEAD` is found more often than `plain_words.json` allows, or where a message, a page or the
documentation has a phrase of `plain_phrases.json`; `make lint` runs it. `write=yes` lowers the
allowance to what there is, and never raises it. `show=WORD` prints every place of a word.
"""

import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import chain
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
_READ = ("docs/*.md", "README.md", "CONTRIBUTING.md", "alps/**/*.html", "leaderboard/**/*.html")
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


def phrases(modules: list[Path]) -> Iterator[str]:
    """Yield each phrase of `plain_phrases.json` in a message, a page or the documentation."""
    read: list[tuple[Path, int, str]] = []
    for path in modules:
        text = path.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_text = tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE")
            if is_text and not token.string.lstrip("r").startswith('"""'):
                read.append((path, token.start[0], token.string))
    for path in chain.from_iterable(map(ROOT.glob, _READ)):
        lines = path.read_text(encoding="utf-8").splitlines()
        read += [(path, number, line) for number, line in enumerate(lines, 1)]
    for phrase, instead in json.loads((ROOT / "bench" / "plain_phrases.json").read_text()).items():
        for path, line, text in read:
            if (hit := re.search(phrase, text)) is not None:
                yield f"{path.relative_to(ROOT)}:{line}: «{hit[0]}»: {instead}"


def main() -> None:
    """Compare what there is with what is allowed."""
    words = read_words(sys.argv[1:], {"show": ""})
    found: Counter[str] = Counter()
    modules: list[Path] = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.resolve() == path.absolute() and "__pycache__" not in path.parts:
                modules.append(path)
    for path in modules:
        for line, word in places(path):
            found[word] += 1
            if word == words["show"]:
                print(f"{path.relative_to(ROOT)}:{line}")
    allowed = json.loads(ALLOWED.read_text()) if ALLOWED.exists() else {}
    if words["write"]:
        lowered = {word: min(found[word], allowed.get(word, found[word])) for word in INSTEAD}
        ALLOWED.write_text(json.dumps(lowered, indent=2) + "\n")
        allowed = lowered
    faults = list(phrases(modules))
    for word, count in found.items():
        if count > allowed.get(word, 0):
            faults.append(
                f"«{word}» {count} times, {allowed.get(word, 0)} allowed: {INSTEAD[word]}"
            )
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
