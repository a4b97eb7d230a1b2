"""Ways in which one small memory system is served, and what it was told again after kills."""

import sqlite3
import sys
from contextlib import closing, contextmanager

from tests import memory_served
from tests.endtoend import complete_rows
from tests.loopback import running

WAYS = ["class", "program", "server", "tools"]
_PREFIXES = {"program": "program", "tools": "mcp", "with_library": "mcp"}


@contextmanager
def served(way, folder):
    """Yield the words that name the system, served in a way; its log is `log` in the folder."""
    log = folder / "log"
    if way == "class":
        yield ("memory=python:tests.memory_served:Kept", f"memory.log={log}")
    elif way == "server":
        with running(memory_served.Server(folder, log)) as server:
            yield (f"memory={server.url}",)
    else:
        command = f"{sys.executable} {memory_served.__file__} {way} {log}"
        yield (f"memory={_PREFIXES[way]}:{command}",)


class Told:
    """What a run of a system tells it, from one kill to the next.

    A session that the diary says was settled at a kill must not be told after it.
    """

    def __init__(self, way, folder):
        self._diary = folder / "out" / "memory.jsonl"
        self._kept = (folder if way == "server" else folder / "out" / "memory") / "kept.db"
        self._kills = []

    def diary(self):
        """Return the complete rows of the diary."""
        return complete_rows(self._diary) if self._diary.exists() else []

    def note_kill(self):
        """Note what was told and what was settled when the run was killed."""
        self._kills.append((len(self._since(0)), self.settled()))

    def settled(self):
        """Return the sessions, with their users, that the diary says were settled."""
        told, settled = {}, set()
        for row in self.diary():
            if row["phase"] == "ingest":
                told.setdefault(row["user"], []).append((row["user"], row["session"]))
            elif row["phase"] == "settle":
                settled.update(told.pop(row["user"], ()))
        return settled

    def again(self):
        """Return what was told after a kill at which it was settled."""
        # The task of forgetting itself tells a session of its users again.
        named = [row for row in self.diary() if row.get("sample", "").startswith("forgetting")]
        scripts = {row["user"] for row in named}
        again = []
        for number, settled in self._kills:
            again += [one for one in self._since(number) if one in settled]
        return [one for one in again if one[0] not in scripts]

    def _since(self, number):
        """Return the sessions that the system was told after so many."""
        if not self._kept.exists():
            return []
        with closing(sqlite3.connect(self._kept)) as file:
            asked = "SELECT user, session FROM told ORDER BY rowid LIMIT -1 OFFSET ?"
            return file.execute(asked, (number,)).fetchall()
