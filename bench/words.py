"""The `key=value` words of a benchmark; one that can't be read ends it with a sentence."""

import os
import sys
from collections.abc import Collection, Mapping, Sequence


def read_words(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the words by their keys, those of `defaults` where they are not given.

    `write` takes yes, or nothing.
    """
    words = {"write": "", **defaults, **dict(word.partition("=")[::2] for word in arguments)}
    if unknown := [word for word in words if word not in defaults and word != "write"]:
        sys.exit(
            f"{unknown[0]}: not a word of this benchmark "
            f"({', '.join(dict.fromkeys((*defaults, 'write')))})."
        )
    if words["write"] not in ("", "yes"):
        sys.exit(f"write={words['write']}: expected yes, or nothing.")
    return words


def whole(words: Mapping[str, str], key: str, *, least: int = 1) -> int:
    """Return the whole number of a word."""
    if not words[key].isdecimal() or int(words[key]) < least:
        sys.exit(f"{key}={words[key]}: expected a whole number of at least {least}.")
    return int(words[key])


def some_of(words: Mapping[str, str], key: str, known: Collection[str]) -> list[str]:
    """Return the names of a word, which are some of `known` with commas between them."""
    named = words[key].split(",")
    if unknown := [name for name in named if name not in known]:
        sys.exit(f"{key}={unknown[0]}: expected some of {','.join(known)}.")
    return named


def program(words: Mapping[str, str], key: str) -> str:
    """Return the interpreter of a word from the root on, or nothing.

    A link stays one: it makes an environment.
    """
    return os.path.abspath(words[key]) if words[key] else ""
