"""What must not be published: keys, folders of somebody's machine, names of private hosts."""

import os
import re
import socket
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from alps.llm.secrets import redact, secret_in

_HOMES = re.compile(r"(?<![\w.])(?:/home/|/Users/|/root/|[A-Za-z]:\\Users\\|~/)[^\s\"',;:)]+")
_ABSOLUTE = re.compile(
    r"(?<![\w:/.@-])/(?:[\w.@+-]+/)+[\w.@+-]*|(?<!\w)[A-Za-z]:[\\/][\w.-]|\\\\[\w.-]+\\"
)
_HOST = re.compile(
    r"https?://[^\s\"'<>]+|\blocalhost\b(?::\d+)?|\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?"
    r"|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:local|internal|lan|intranet|corp)\b",
    re.IGNORECASE,
)
_LIKE_A_KEY = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{20,}")


def leak_in(text: str, *, hosts: bool = True) -> str | None:
    """Say what a card or a message must not hold and `text` does; never repeats a secret.

    Args:
        text: What is to be published.
        hosts: Whether addresses of hosts are a leak there; in what people write for readers they
            are not.
    """
    if redact(text) != text:
        return "a key, or something with the shape of one"
    if name := secret_in(text):
        return f"a key: the value of {name}"
    if found := _HOMES.search(text) or _ABSOLUTE.search(text):
        return f"an absolute path ({found[0][:40]})"
    if hosts and (found := _HOST.search(text)):
        return f"the address of a host ({found[0][:40]})"
    if (name := _own_name()) and name in text:
        return "the name of this machine"
    return None


def leak_in_answer(text: str, *, secret: Collection[str] = ()) -> str | None:
    """Say what an answer must not hold: less than a card, as dialogues may well be about paths and
    hosts.

    Args:
        text: What is to be published.
        secret: Variables of the environment whose values are secret, whatever their names say.
    """
    if redact(text) != text:
        known = (word for word in re.split(r"[\s\"',;:(){}\[\]<>]+", text) if redact(word) != word)
        if any(_LIKE_A_KEY.match(word) for word in known):
            return "something with the shape of a key"
    if name := secret_in(text, also=secret):
        return f"a key: the value of {name}"
    return next(
        (f"a folder of this machine ({own})" for own in _own_folders() if own in text), None
    )


def texts_of(value: Any, *, keys: bool = True) -> Iterator[tuple[str, str]]:
    """Yield every text in plain JSON, those that are keys unless they are not asked for, with the
    path to it.
    """
    waiting = [(value, "")]
    while waiting:
        node, path = waiting.pop()
        if isinstance(node, str):
            yield node, path
        elif isinstance(node, dict):
            yield from ((name, path) for name in node if keys)
            waiting += [(child, f"{path}.{name}" if path else name) for name, child in node.items()]
        elif isinstance(node, list | tuple):
            waiting += [(child, f"{path}.{place}") for place, child in enumerate(node)]


def _own_name() -> str:
    """Return the host's name where it can't be an ordinary word."""
    name = socket.gethostname()
    return name if len(name) >= 8 and re.search(r"[\d.-]", name) else ""


def _own_folders() -> list[str]:
    """Return the home and the present folder where they name somebody.

    A folder at the top of the disk does not.
    """
    own = {
        os.path.expanduser("~"),
        os.environ.get("HOME", ""),
        str(Path.cwd()),
    }  # "~" itself where there is no home
    return sorted(folder for folder in own if folder.count(os.sep) > 1)
