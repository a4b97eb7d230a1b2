"""Replies of models, kept across runs, so that the same question is paid for once."""

import hashlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from alps.errors import UsageError
from alps.folders import OWNER_ALONE, cache_folder, keep_private
from alps.jsonl import parse_json
from alps.llm.structured import choices_sent, sent_schema
from alps.llm.types import Reply, Request

# Another run that holds the cache is waited for at the start; later each reply would wait
_BUSY_SECONDS = 30.0
_STORING_SECONDS = 2.0
_STORE = "INSERT OR REPLACE INTO replies VALUES (?, ?)"
_OF_SQLITE = ("-wal", "-shm")
_COLUMNS = ["key", "reply"]
_REPLY = TypeAdapter(Reply)
_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
)


def cache_key(request: Request[Any]) -> str:
    """Return the sha256 of everything in `request` that can change its answer."""
    # The mark of a prompt cache, put on when it is sent, can't.
    parts: dict[str, Any] = {
        "model": request.model,
        "api_base": request.api_base,
        "messages": [dict(message) for message in request.messages],
        "sampling": request.decoding,
        "schema": sent_schema(request),
        "structured": request.structured,
        "repeat": request.repeat,
    }
    # What came later is left out where it is not given, so that replies of versions without it are
    # still found.
    if choices := choices_sent(request):
        parts["choices"] = {name: list(values) for name, values in choices.items()}
    if request.extra:
        parts["extra"] = request.extra
    if request.form is not None:
        parts |= request.form.key
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def default_path() -> Path | None:
    """Return where the replies lie, in `cache_folder`; None where nothing is kept."""
    folder = cache_folder()
    return None if folder is None else folder / "replies.sqlite"


class Cache:
    """Replies by key in SQLite, in WAL mode so that several runs of one user can share it.

    Replies may hold what people said, so nobody else can read the files, whatever the umask.

    A file that is not a database, or has other columns, is put aside as `….broken` and a new one
    begun; `rebuilt` tells so. Once a reply can't be stored, as on a full disk, no more are kept:
    `unkept` counts those.

    Raises:
        UsageError: If the file can't be opened, made or written, or another process keeps it for
            more than 30 s.
    """

    _db: sqlite3.Connection

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rebuilt = False
        self.unkept = 0
        self._reason = ""
        self._aside = path.with_suffix(".broken")
        self._closed = False
        try:
            path.parent.mkdir(mode=OWNER_ALONE, parents=True, exist_ok=True)
            self._open()
        except sqlite3.OperationalError as error:
            raise _unusable(path, str(error)) from error
        except sqlite3.DatabaseError:
            self._rebuild()
        except OSError as error:
            raise _unusable(path, error.strerror or "can't be opened") from error

    def _open(self) -> None:
        _keep_private(self.path)
        self._db = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_SECONDS)
        try:
            self._begin()
        except sqlite3.DatabaseError:
            self._db.close()
            raise

    def _begin(self) -> None:
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # SQLite does not wait here for another process, which may be switching to WAL itself.
            # Both modes work, and the file keeps the one that it gets first.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(_TABLE)
        self._db.execute(f"PRAGMA busy_timeout={_STORING_SECONDS * 1000:.0f}")
        if [column[1] for column in self._db.execute("PRAGMA table_info(replies)")] != _COLUMNS:
            raise sqlite3.DatabaseError("the cache has the columns of another version")

    @property
    def troubles(self) -> list[str]:
        """What went wrong and did not end the run, a line each."""
        troubles = []
        if self.rebuilt:
            aside = f"alps moved it to {self._aside.name} and started a new one"
            troubles.append(f"cache {self.path}: the file could not be read; {aside}")
        if self.unkept:
            what = "1 reply" if self.unkept == 1 else f"{self.unkept:,} replies"
            what = f"{what} could not be cached ({self._reason}) and may be billed again"
            troubles.append(f"cache {self.path}: {what}")
        return troubles

    def _rebuild(self) -> None:
        """Put a damaged file aside and begin a new one: replies can be asked for again."""
        self.rebuilt = True
        self._db.close()
        number = 1
        while self._aside.exists():  # what was put aside before may be somebody's
            number += 1
            self._aside = self.path.with_suffix(f".{number}.broken")
        self.path.replace(self._aside)
        for suffix in _OF_SQLITE:
            _beside(self.path, suffix).unlink(missing_ok=True)
        self._open()

    def get(self, key: str) -> Reply | None:
        """Return the reply stored under `key`; none once the cache is closed."""
        if self._closed:
            return None
        try:
            row = self._db.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        except sqlite3.OperationalError:  # locked, say: nothing is wrong with what is stored
            return None
        except sqlite3.DatabaseError:
            self._rebuild()
            return None
        try:
            return _REPLY.validate_python(vars(Reply(**parse_json(row[0])))) if row else None
        except (ValueError, TypeError):  # damaged, or written by another version
            return None

    def put(self, key: str, reply: Reply) -> None:
        """Store `reply` under `key`; nothing once the cache is closed."""
        if self._closed:
            return
        if self._reason:  # the whole run would wait for a lock at every reply
            self.unkept += 1
            return
        try:
            self._db.execute(_STORE, (key, json.dumps(vars(reply))))
        except sqlite3.OperationalError as error:  # no room, or locked: the run goes on without
            self.unkept, self._reason = 1, str(error)
        except sqlite3.DatabaseError:
            self._rebuild()

    def close(self) -> None:
        """Close the database."""
        self._closed = True
        self._db.close()


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _keep_private(path: Path) -> None:
    """Make the file where it is not there, and take it and SQLite's own from everybody else.

    Raises:
        OSError: If it can't be made or opened.
    """
    # SQLite gives the files that it makes the mode of this one.
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
    keep_private(path, *(_beside(path, suffix) for suffix in _OF_SQLITE))


def _unusable(path: Path, reason: str) -> UsageError:
    return UsageError(f"cache {path}: {reason}; set ALPS_CACHE to another folder, or to off")
