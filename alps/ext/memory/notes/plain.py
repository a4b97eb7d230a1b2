"""Memory of notes without a model: each turn is appended to a file, and `search` greps.

It is the twin of `memory=files` that calls no tool and asks nobody.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from shutil import rmtree
from typing import Any

from alps.ext.memory.notes.folder import Folder, Parts
from alps.ext.memory.protocol import Hit, Opening, Session, Settled
from alps.ext.memory.turns import whole_turns
from alps.systems.retrievers import STOP_WORDS, TOKENS_VERSION, cut

_NOTE = re.compile(r"- \[(?P<at>[^\]]+)\] (?P<text>.+)")


class Notes:
    """A file for each session of a user, with a line for each turn and its time."""

    persistent = True

    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {"search": "grep", "terms": TOKENS_VERSION}

    def open(self, opening: Opening) -> None:
        """Go on with the notes in the folder."""
        self._place = opening.folder

    def ingest(self, user: str, session: Session) -> None:
        """Write down what was said; a session that is known is left out."""
        folder, file = self._folder(user), (f"{session.id}.md",)
        if file in folder.files():
            return
        lines = [f"# {session.id}"]
        for said in whole_turns(session):
            lines.append(f"- [{said.at}] {' '.join(said.text.splitlines())}")
        folder.write(file, "\n".join(lines) + "\n")

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: what was written can be found."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return the lines with most of the words of the query, of those the latest first."""
        wanted = _words(query)
        found = []
        for hit in reversed(self.memories(user)):
            if shared := len(wanted & _words(hit.text)):
                found.append((shared, hit))
        found.sort(key=lambda pair: -pair[0])
        return [hit for _, hit in found[:k]]

    def memories(self, user: str) -> Sequence[Hit]:
        """Return every line, the earliest first."""
        folder = self._folder(user)
        hits = (hit for parts in folder.files() for hit in _hits(folder, parts))
        return sorted(hits, key=lambda hit: str(hit.created_at))

    def forget(self, user: str, what: str) -> None:
        """Delete the lines that say `what`."""
        folder, wanted = self._folder(user), what.casefold()
        for parts in folder.files():
            lines = folder.read(parts).splitlines()
            left = [line for line in lines if wanted not in line.casefold()]
            if left != lines:
                folder.write(parts, "\n".join(left) + "\n")

    def reset(self, user: str) -> None:
        """Delete all files of a user."""
        rmtree(self._place / user, ignore_errors=True)

    def _folder(self, user: str) -> Folder:
        return Folder(self._place / user, bounded=False)


def _hits(folder: Folder, parts: Parts) -> Iterator[Hit]:
    session = parts[-1].removesuffix(".md")
    for number, line in enumerate(folder.read(parts).splitlines(), start=1):
        if note := _NOTE.fullmatch(line):
            yield Hit(f"{session}:{number}", note["text"], None, note["at"], (session,))


def _words(text: str) -> set[str]:
    return set(cut(text)) - STOP_WORDS
