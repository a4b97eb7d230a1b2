"""One small memory system and the ways in which it is served: a class, a program, a server, tools.

`python memory_served.py WAY LOG` serves it. Whatever it is sent is written to the log as it came.
Nothing of alps is imported: a program is started often, and has to start fast.
"""

import json
import sqlite3
import sys
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from types import SimpleNamespace

TABLES = """
CREATE TABLE IF NOT EXISTS turns (user, session, place, text, at, UNIQUE (user, session, place));
CREATE TABLE IF NOT EXISTS told (user, session);
"""


class Kept:
    """Turns in SQLite, ranked by the words that they share with a query.

    `told` has a row for each session that ever came, in the order in which they came.
    """

    persistent = True

    def __init__(self):
        self.lock = Lock()
        self.log = self.file = None

    def open(self, opening):
        self.log = opening.options.get("log")
        self.note("open", **{**asdict(opening), "folder": str(opening.folder)})
        self.begin(opening.folder)

    def close(self):
        if self.file is not None:
            self.file.close()

    def begin(self, folder):
        self.close()
        self.file = sqlite3.connect(folder / "kept.db", check_same_thread=False)
        self.file.executescript(TABLES)

    def ingest(self, user, session):
        if self.log is not None:
            self.note("ingest", user=user, session=asdict(session))
        rows = [(user, session.id, n, said.text, said.at) for n, said in enumerate(session.turns)]
        with self.lock, self.file:
            self.file.execute("INSERT INTO told VALUES (?, ?)", (user, session.id))
            self.file.executemany("INSERT OR IGNORE INTO turns VALUES (?, ?, ?, ?, ?)", rows)

    def settle(self, user, timeout):
        self.note("settle", user=user, timeout=timeout)
        return "ready"

    def search(self, user, query, k, at):
        self.note("search", user=user, query=query, k=k, at=at)
        words = set(query.lower().split())
        asked = "SELECT session, place, text, at FROM turns WHERE user = ?"
        with self.lock:
            rows = self.file.execute(asked, (user,)).fetchall()
        rows.sort(key=lambda row: (-len(words & set(row[2].lower().split())), row[3], row[1]))
        found = []
        for session, place, text, when in rows[:k]:
            found.append({"id": f"{session}/{place}", "text": text, "created_at": when})
        return found

    def memories(self, user):
        return self.search(user, "", 10_000, "")

    def reset(self, user):
        self.note("reset", user=user)
        with self.lock, self.file:
            self.file.execute("DELETE FROM turns WHERE user = ?", (user,))

    def note(self, method, **arguments):
        if self.log is not None:
            with Path(self.log).open("a") as file:
                file.write(json.dumps([method, arguments]) + "\n")


def session_of(name, turns):
    """Return a session of turns as they are sent, each with `text` or `content`."""
    said = []
    for turn in turns:
        text, at = turn.get("text", turn.get("content")), turn.get("at", turn.get("timestamp"))
        said.append(SimpleNamespace(role=turn["role"], text=text, at=at))
    return SimpleNamespace(id=name, turns=said)


def called(kept, method, row):
    """Call a method with arguments as they are sent by name."""
    if method == "open":
        kept.begin(Path(row["folder"]))
        return {"persistent": True, "can": ["memories"]}
    if method == "ingest":
        session = row["session"]
        kept.ingest(row["user"], session_of(session["id"], session["turns"]))
        return None
    return getattr(kept, method)(**row)


def lines(log):
    """Yield the lines of stdin as JSON, each written to `log` as it came."""
    for line in sys.stdin:
        with Path(log).open("a") as file:
            file.write(line)
        yield json.loads(line)


def program(log):
    """Answer lines of JSON."""
    kept = Kept()
    for row in lines(log):
        name, method = row.pop("id"), row.pop("method")
        print("a line of a library's own, which is no answer")
        print(json.dumps({"id": name, "result": called(kept, method, row)}), flush=True)


def tools(log):
    """Answer as an MCP server does, without its library."""
    kept = Kept()
    for row in lines(log):
        if "id" not in row:
            continue
        result = {}
        if row["method"] == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "kept", "version": "1"}
        elif row["method"] == "tools/list":
            # In two pages, as a server may do it.
            first, second = ("open", "ingest", "memories"), ("settle", "search", "reset")
            names = second if row["params"] else first
            result = {"tools": [{"name": name} for name in names]}
            result |= {} if row["params"] else {"nextCursor": "2"}
        elif row["method"] == "tools/call":
            value = called(kept, row["params"]["name"], row["params"]["arguments"])
            result = {"content": [{"type": "text", "text": json.dumps(value)}], "isError": False}
        print(json.dumps({"jsonrpc": "2.0", "id": row["id"], "result": result}), flush=True)


def with_library(log):
    """Serve the tools with the official library."""
    from mcp.server import MCPServer

    kept, server = Kept(), MCPServer("kept")

    @server.tool()
    def open(folder: str, options: dict, llm: str | None, embedder: str | None, seed: int) -> dict:
        kept.begin(Path(folder))
        return {"persistent": True}

    @server.tool()
    def ingest(user: str, session: dict) -> None:
        called(kept, "ingest", {"user": user, "session": session})

    @server.tool()
    def search(user: str, query: str, k: int, at: str) -> list[dict]:
        return called(kept, "search", {"user": user, "query": query, "k": k, "at": at})

    @server.tool()
    def memories(user: str) -> list[dict]:
        return called(kept, "memories", {"user": user})

    @server.tool()
    def reset(user: str) -> None:
        kept.reset(user)

    server.run()


if __name__ == "__main__":
    {"program": program, "tools": tools, "with_library": with_library}[sys.argv[1]](sys.argv[2])
