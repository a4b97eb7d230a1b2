"""Ways in which small memory systems are served, and what one was told again after kills.

The data are a short record or two for each task that a memory system is scored on.
"""

import csv
import json
import sqlite3
import sys
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import islice
from pathlib import Path
from threading import Lock

from alps.data.pools import PoolSource
from alps.data.release import GOLD, INPUT, open_split
from alps.tasks.personamem.personas import write_set
from tests import memory_odd, memory_served
from tests.endtoend import complete_rows
from tests.loopback import QuietServer, running

CANDIDATES = 12
ENDS = (45, 20, 80)
"""How many turns of one history come before each question; it is a session of a few turns each."""
TRACKS = ("task1", "task2", *(f"task4_ability{number}" for number in range(1, 6)))
NOT_FOUND = 404, "{}"
WAYS = ["class", "program", "server", "tools"]
_PREFIXES = {"program": "program", "tools": "mcp", "with_library": "mcp"}


class Server(QuietServer):
    """Answers POST requests by `answered(path, row)`, with a status and JSON, one at a time."""

    def __init__(self):
        super().__init__(_Handler)
        self.lock = Lock()

    @property
    def url(self):
        """The address, as memory= takes it."""
        return f"http://127.0.0.1:{self.server_port}"

    def note(self, path, headers, body):
        """Note a request; nobody does here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.note(self.path, dict(self.headers), body.decode())
            status, text = self.server.answered(self.path, json.loads(body))
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        """Keep quiet."""


class KeptServer(Server):
    """Serves the small system; `keeps` are the roles that it keeps of a session."""

    def __init__(self, folder):
        super().__init__()
        self.kept, self.log = memory_served.Kept(), folder / "log"
        self.keeps = ("user", "assistant", "system")
        self.kept.begin(folder)

    def server_close(self):
        super().server_close()
        self.kept.close()

    def note(self, path, headers, body):
        with Path(self.log).open("a") as file:
            file.write(f"{path} {json.dumps(headers)} {body}\n")

    def answered(self, path, row):
        """Answer as Kept does."""
        user, answer = row.get("user_id"), {}
        if path == "/add":
            turns = [one for one in row["messages"] if one["role"] in self.keeps]
            self.kept.ingest(user, memory_served.session_of(row["session_id"], turns))
        elif path == "/search":
            answer = _data(self.kept.search(user, row["query"], row["top_k"], ""))
        elif path == "/memories":
            answer = _data(self.kept.memories(user))
        elif path == "/reset":
            self.kept.reset(user)
        else:
            return NOT_FOUND
        return 200, json.dumps(answer)


def _data(hits):
    named = {"text": "content"}
    return {"data": [{named.get(key, key): hit[key] for key in hit} for hit in hits]}


class OddServer(Server):
    """Serves the odd system."""

    def __init__(self):
        super().__init__()
        self.odd = memory_odd.Odd()

    def answered(self, path, row):
        """Answer a search with whatever is next."""
        user = row["user_id"]
        if path == "/add":
            self.odd.keep(user, [(one["timestamp"], one["content"]) for one in row["messages"]])
        elif path == "/search":
            return 200, f'{{"data": {self.odd.found(user, row["query"], row["top_k"])}}}'
        elif path == "/reset":
            self.odd.reset(user)
        else:
            return NOT_FOUND
        return 200, "{}"


@contextmanager
def served(way, folder):
    """Yield the words that name the system, served in a way; its log is `log` in the folder."""
    log = folder / "log"
    if way == "class":
        yield ("memory=python:tests.memory_served:Kept", f"memory.log={log}")
    elif way == "server":
        with running(KeptServer(folder)) as server:
            yield (f"memory={server.url}",)
    else:
        command = f"{sys.executable} {memory_served.__file__} {way} {log}"
        yield (f"memory={_PREFIXES[way]}:{command}",)


@contextmanager
def served_oddly(way):
    """Yield the word that names the odd system, served in a way."""
    if way == "class":
        yield "memory=python:tests.memory_odd:Odd"
    elif way == "server":
        with running(OddServer()) as server:
            yield f"memory={server.url}"
    else:
        yield f"memory={_PREFIXES[way]}:{sys.executable} {memory_odd.__file__} {way}"


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


def write_data(folder):
    """Write the first record of each track of the samples, and questions about one history."""
    samples = open_split("samples", None)
    for track in TRACKS:
        files = {}
        for name in (INPUT, GOLD):
            with (samples.folder / track / name).open() as lines:
                files[name] = json.loads(next(lines))
        _write_track(folder / "dev" / track, *files.values())
    for row, gold in islice(PoolSource(samples, seed=0).rows(100), 1):
        target = gold["gold"]["selected_memory_id"]
        pool = row["input"]["candidate_memories"]
        pool.sort(key=lambda one: one["memory_id"] != target)
        row["input"]["candidate_memories"] = pool[:CANDIDATES]
        _write_track(folder / "dev" / "task3" / "d100", row, gold)
    _write_questions(folder)


def _write_track(folder, row, gold):
    folder.mkdir(parents=True)
    (folder / INPUT).write_text(json.dumps(row) + "\n")
    (folder / GOLD).write_text(json.dumps(gold) + "\n")


def _write_questions(folder):
    write_set(folder, personas=1, size="32k")
    path = folder / "questions_32k.csv"
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))[: len(ENDS)]
    with path.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, rows[0])
        writer.writeheader()
        for row, end in zip(rows, ENDS, strict=True):
            writer.writerow({**row, "end_index_in_shared_context": end})
