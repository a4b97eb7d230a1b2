"""A memory system on the suite's side: users, order, clock and budget are the suite's own.

A history that several questions share is ingested once. Where they reach to different ends of it,
the system is taken from one end to the next, and asked at each what is asked there.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from alps.errors import UsageError
from alps.ext.memory.admission import admit
from alps.ext.memory.connection import MemoryConnection, MemoryFailed, MemoryReply, require_ready
from alps.ext.memory.journal import Diary
from alps.ext.memory.protocol import Hit, Opening, Session, session_of, stamp
from alps.ext.memory.scripts import BegunAnewError, Scripts, hits_of
from alps.llm.secrets import redact
from alps.rows import Check
from alps.schema import UNHEARD, Turn
from alps.tasks import Task
from alps.tasks.by_memory import (
    BYTES_A_TOKEN,
    Context,
    History,
    MemoryProbes,
    Recall,
    Script,
    size_of,
)

MISSED_IN_A_ROW = 3
"""Failed searches after which nothing more is asked about a user: each may take its timeout."""
_TOO_LATE = "failed before the run was interrupted; later sessions are stored by now"
BRIEF_AT_ONCE = 4
"""Users of a system in this process that are taken in at once: it answers one call at a time."""
Samples = Callable[[], Iterable[tuple[Task, Any]]]


@dataclass(frozen=True)
class _Asked:
    """What is asked at some end of a history, and its key in the diary.

    `query` is None where all memories are asked for, and `at` empty where nobody knows when.
    """

    key: str
    query: str | None
    history: Callable[[], History]
    at: str = ""

    def texts(self) -> str:
        return " ".join([self.query or "", *(turn.text for turn in self.history().turns)])


@dataclass
class _User:
    """A user as the suite keeps it.

    Attributes:
        ends: What is asked after how many turns of the history.
        reached: How many turns were ingested and settled.
        sessions: How many sessions those are of.
        begun: Of which beginning of the system that is so; None where it was told nothing yet.
        missed: The failures of searches, by the keys of what was asked.
        in_a_row: How many searches failed since one succeeded.
        failed: Why the system can't be asked about it any more.
    """

    id: str
    ends: dict[int, list[_Asked]] = field(default_factory=lambda: defaultdict(list))
    reached: int = 0
    sessions: int = 0
    begun: int | None = None
    missed: dict[str, MemoryFailed] = field(default_factory=dict)
    in_a_row: int = 0
    failed: MemoryFailed | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def add(self, asked: Iterable[tuple[int, _Asked]]) -> None:
        for turns, one in asked:
            self.ends[turns].append(one)

    def found(self, diary: Diary, key: str) -> list[Hit]:
        """Return what was found for `key`; raise why nothing was, where the search failed."""
        hits = diary.hits(key)
        if hits is None:
            raise self.missed[key]
        return hits


class NotEstimable(Exception):
    """The system does not support what a task needs; this is not a failure."""


class Store:
    """A memory that is a system under test, behind a connection.

    In a dry run nobody is asked: no more can be shown than what fits of the whole history.
    Its admission goes through `checked` where that is another one. With `brief` a few users are
    taken in at once, and each is reset when everything was asked of it: what keeps its users in the
    memory of this process would hold all histories of a set together.
    """

    def __init__(
        self,
        name: str,
        connection: MemoryConnection,
        opening: Opening,
        diary: Diary,
        samples: Samples,
        *,
        k: int,
        timeout: float,
        dry: bool = False,
        checked: MemoryConnection | None = None,
        brief: bool = False,
    ) -> None:
        self.name = redact(name)
        self.settings: Mapping[str, Any] = {
            **connection.settings,
            "name": self.name,
            "k": k,
            "options": dict(opening.options),
        }
        self._connection, self._opening, self._diary = connection, opening, diary
        self._checked = checked or connection
        self._samples, self._k, self._timeout = samples, k, timeout
        self._users: dict[str, _User] | None = None
        self._alone: dict[str, _User] = {}
        self._met = False
        self._opened: asyncio.Task[None] | None = None
        self._dry, self._brief = dry, brief
        self._at_once: AbstractAsyncContextManager[object] = (
            asyncio.Semaphore(BRIEF_AT_ONCE) if brief else nullcontext()
        )
        self._scripts = Scripts(connection, diary, k=k, timeout=timeout)
        self._resources = ExitStack()

    @property
    def behind(self) -> tuple[MemoryConnection, Opening]:
        """The system, and what it is opened with."""
        return self._connection, self._opening

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return the hits for `sample` that fit; earlier hits are cut again.

        Raises:
            MemoryFailed: If the system failed at any stage before.
        """
        recall = recall_of(task)
        if self._dry:
            return newest(recall.history(sample).turns, max_tokens)
        key = sample_key(task, sample)
        hits = self._diary.hits(key)
        if hits is None:
            await self._open()
            place = recall.place(sample)
            user = self._user(place.key)
            async with user.lock:
                await self._advance(user, place.turns, key)
                hits = user.found(self._diary, key)
        # Admission asks for made-up users alone; for real ones more than k may come.
        return cut(hits[: self._k], max_tokens, dated=recall.dated)

    @property
    def cannot_list(self) -> bool:
        """Whether the system was opened, and has no way to list what it holds."""
        return self._met and "memories" not in self._checked.can

    async def admit(self, when: Literal["before", "after"]) -> list[Check]:
        """Check the system before a run, or after it; a resumed run was checked before.

        The system is opened elsewhere for it: what it holds of the run may be gone then.
        """
        kept = self._diary.checks(when)
        if kept is not None:
            return kept
        self._met = True
        # A folder of its own: made-up users must be in no store that is then scored.
        with TemporaryDirectory() as scratch:
            checks = await admit(
                self._checked, self._opening, scratch=Path(scratch), timeout=self._timeout
            )
        self._diary.note_checks(when, checks)
        return checks

    async def probed(self, task: Task, sample: Any) -> list[list[Hit]]:
        """Return the hits of each probe of `sample`, for a separate user with its history.

        Raises:
            MemoryFailed: If the system failed at any stage before.
            NotEstimable: If it has no way to list what it holds, and a probe asks for that.
        """
        if isinstance(task.by_memory.answers, Script):
            return await self._played(task, sample, task.by_memory.answers)
        answers, key = task.by_memory.answers, sample_key(task, sample)
        assert answers is not None
        asked = _asked_by(answers, key, sample)
        if any(self._diary.hits(one.key) is None for _, one in asked):
            await self._open()
            # Only an open program has said what it can.
            if answers.lists and "memories" not in self._connection.can:
                raise NotEstimable
            user = self._user_of(answers, key, sample)
            async with user.lock:
                await self._advance(user, asked[-1][0], *(one.key for _, one in asked))
            # Its history would be held until the run ends; nobody asks about this user again.
            self._alone.pop(key, None)
            return [user.found(self._diary, one.key) for _, one in asked]
        return [self._diary.hits(one.key) or [] for _, one in asked]

    def _user_of(self, answers: MemoryProbes, key: str, sample: Any) -> _User:
        """Return the user that `sample` is about: one that samples share, or one of its own."""
        if answers.shared is not None:
            return self._user(answers.shared(sample))
        if key not in self._alone:
            self._alone[key] = _User(self._diary.user(key))
            self._alone[key].add(_asked_by(answers, key, sample))
        return self._alone[key]

    async def _played(self, task: Task, sample: Any, script: Script) -> list[list[Hit]]:
        key, steps = sample_key(task, sample), script.steps(sample)
        found = self._scripts.found(key, steps)
        if found is None:
            await self._open()
            found = await self._scripts.play(key, steps)
        return found

    async def _open(self) -> None:
        """Open the system once; whoever comes second waits for it."""
        if self._opened is None:
            self._opened = asyncio.ensure_future(self._open_once())
        # A record that is cancelled must not cancel the opening that others wait for.
        await asyncio.shield(self._opened)

    async def _open_once(self) -> None:
        folder = self._resources.enter_context(_unnamed(self._opening.folder))
        opening = self._scripts.opening = replace(self._opening, folder=folder)
        try:
            answered = await self._connection.call("open", opening, timeout=self._timeout)
        except MemoryFailed as failed:
            # No record is to blame, and none must be scored.
            raise UsageError(f"memory={self.name}: {failed.stage}: {failed.why}") from failed
        self._diary.note("open", "", answered.seconds)

    def _user(self, key: str) -> _User:
        if self._users is None:
            self._users = {}
            for task, sample in self._samples():
                self._plan(task, sample)
        return self._users[key]

    def _plan(self, task: Task, sample: Any) -> None:
        assert self._users is not None
        answers = task.by_memory.answers
        if isinstance(answers, MemoryProbes) and answers.shared is not None:
            name = answers.shared(sample)
            user = self._users.setdefault(name, _User(self._diary.user(name)))
            user.add(_asked_by(answers, sample_key(task, sample), sample))
        if (recall := task.by_memory.recall) is None:
            return
        place, history = recall.place(sample), partial(recall.history, sample)
        asked = _Asked(sample_key(task, sample), place.query, history, place.at)
        user = self._users.setdefault(place.key, _User(self._diary.user(place.key)))
        user.ends[place.turns].append(asked)

    def _is_over(self, user: _User, keys: Sequence[str]) -> bool:
        """Tell whether a user need not be asked for `keys`; raise why it can't be any more."""
        left = [key for key in keys if self._diary.hits(key) is None]
        # What it failed to take in is missing from its history, so nothing later is asked of it.
        if left and user.failed is not None:
            raise user.failed
        return user.failed is not None or (bool(left) and user.missed.keys() >= set(left))

    async def _advance(self, user: _User, until: int, *keys: str) -> None:
        """Take a user from end to end up to `until`, and ask at each what is asked there.

        `keys` are of what is wanted, which another record may have come by already.
        """
        if self._is_over(user, keys):
            return
        try:
            async with self._at_once, self._scripts.gate.beside():
                # A program that was started again may have lost the user, who is then fed again.
                while not await self._reach(user, until):
                    pass
                if self._brief and until == max(user.ends):
                    await self._call(user, "reset")
        except MemoryFailed as failed:
            user.failed = failed
            raise

    async def _reach(self, user: _User, until: int) -> bool:
        """Take a user to `until`; tell whether that was done by one beginning of the system."""
        try:
            if user.begun != self._connection.begun:
                await self._begin(user)
            # Every earlier end, too: after a later session nobody can search as of then.
            for end in sorted(end for end in user.ends if end <= until):
                asked = [one for one in user.ends[end] if self._diary.hits(one.key) is None]
                if end > user.reached:
                    await self._ingest(user, user.ends[end][0], end)
                await self._ask_all(user, asked, end)
        except BegunAnewError:
            return False
        return True

    async def _begin(self, user: _User) -> None:
        """Go on where the system still knows what was settled, else begin with nothing."""
        again, user.begun = user.begun is not None, self._connection.begun
        user.reached, user.sessions = 0, 0
        if self._connection.persistent:
            user.reached, user.sessions = self._diary.settled(user.id)
        # A part may have been told before a kill, and would be told twice.
        told = again or self._diary.goes_on
        if told and user.reached == 0 and "reset" in self._connection.can:
            await self._call(user, "reset")

    async def _ingest(self, user: _User, asked: _Asked, end: int) -> None:
        # What a sample tells later must not be known yet.
        history = until(asked.history(), end)
        for session in sessions_after(history, user.reached):
            answered = await self._call(user, "ingest", session)
            self._diary.note("ingest", user.id, answered.seconds, session=session.id)
        settled = await self._call(user, "settle", self._timeout)
        require_ready(settled.value, self._timeout)
        size = await self._size(user)
        user.reached, user.sessions = end, len(history.sessions)
        noted = settled.seconds, user.reached, user.sessions
        # Written last: what has no such row is sent again when the run goes on.
        self._diary.note_settled(user.id, *noted, size)

    async def _size(self, user: _User) -> float | None:
        """Return the bytes that a system declares for a user; None where it tells none."""
        if "size" not in self._connection.can:
            return None
        try:
            answered = await self._connection.call("size", user.id, timeout=self._timeout)
        except MemoryFailed:
            return None  # no answer hangs on it
        size: float = answered.value
        return size

    async def _ask_all(self, user: _User, asked: Sequence[_Asked], end: int) -> None:
        """Ask at an end; a search that fails leaves what is held, so others can still be asked."""
        for one in asked:
            if end < user.reached:
                # It failed in a run that was killed then: now it could find what is told later.
                user.missed.setdefault(one.key, MemoryFailed("search", _TOO_LATE))
            if one.key in user.missed:
                continue
            try:
                await self._ask(user, one)
            except MemoryFailed as failed:
                user.missed[one.key], user.in_a_row = failed, user.in_a_row + 1
                # What a model of its was not heard to say is asked again when the run goes on.
                if failed.outcome in UNHEARD or user.in_a_row == MISSED_IN_A_ROW:
                    raise
            else:
                user.in_a_row = 0

    async def _ask(self, user: _User, asked: _Asked) -> None:
        if asked.query is None:
            phase = "memories"
            answered = await self._call(user, phase)
        else:
            phase, at = "search", asked.at or stamp(user.sessions, 0)
            answered = await self._call(user, phase, asked.query, self._k, at)
        hits = hits_of(answered.value, asked.texts)
        self._diary.note_hits(asked.key, user.id, answered.seconds, hits, phase)

    async def _call(self, user: _User, method: str, *arguments: Any) -> MemoryReply:
        call = self._connection.call(method, user.id, *arguments, timeout=self._timeout)
        try:
            answered = await call
        except MemoryFailed as failed:
            # What a system that was begun anew does not know is no failure at this user.
            if failed.stage == method and user.begun != self._connection.begun:
                raise BegunAnewError from failed
            raise
        if user.begun != self._connection.begun:
            raise BegunAnewError
        return answered

    async def aclose(self) -> None:
        """Close the system and the diary."""
        if not self._dry:
            await self._connection.aclose()
        self._resources.close()
        self._diary.close()


@contextmanager
def _unnamed(folder: Path) -> Iterator[Path]:
    """Yield a path to a folder that tells nothing: a run's own is named after its task."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="memory-") as place:
        path = Path(place) / "kept"
        # A link: what a persistent system writes has to stay in the run folder.
        path.symlink_to(folder.absolute(), target_is_directory=True)
        yield path


def _asked_by(answers: MemoryProbes, key: str, sample: Any) -> list[tuple[int, _Asked]]:
    """Return what the probes of a sample ask, each after how many turns."""
    history = partial(answers.history, sample)
    asked = []
    for place, probe in enumerate(answers.probes(sample), start=1):
        asked.append((probe.turns, _Asked(f"{key} {place}", probe.query, history, probe.at)))
    return asked


def recall_of(task: Task) -> Recall:
    """Return how a task that has histories is asked through a memory."""
    assert task.by_memory.recall is not None
    return task.by_memory.recall


def sample_key(task: Task, sample: Any) -> str:
    """Return the key of a sample in the diary."""
    return f"{task.track} {sample.benchmark_id}"


def until(history: History, turns: int) -> History:
    """Return the first `turns` turns of a history, in their sessions."""
    sessions = []
    for session in history.sessions:
        sessions.append(session[:turns])
        turns -= len(session)
        if turns <= 0:
            break
    return History(tuple(sessions), history.times[: len(sessions)])


def sessions_after(history: History, turns: int) -> list[Session]:
    """Return what of a history comes after its first `turns` turns, as sessions.

    A session that begins before them and ends after them comes with its rest alone, under an id of
    its own.
    """
    sessions: list[Session] = []
    before = 0
    for day, told in enumerate(history.sessions):
        start = max(0, turns - before)
        if start < len(told):
            began = history.times[day] if history.times else ""
            sessions.append(session_of(told, day, start, began))
        before += len(told)
    return sessions


def _dated(hit: Hit) -> str:
    # To the minute: of a time in ISO 8601 that is what comes before the seconds.
    return f"[{str(hit.created_at)[:16].replace('T', ' ')}] {hit.text}"


def cut(hits: Sequence[Hit], max_tokens: int | None, *, dated: bool = False) -> Context:
    """Return the first hits that fit into `max_tokens`, the last of them cut to what is left.

    With `dated`, each with the day and the minute that it was said, where its system tells them.
    """
    texts = [_dated(hit) if dated and hit.created_at else hit.text for hit in hits]
    if max_tokens is None:
        return Context(memories=tuple(texts))
    kept, whole = fitting(texts, max_tokens)
    return Context(memories=tuple(kept), left_out=len(texts) - whole)


def fitting(texts: Iterable[str], max_tokens: int) -> tuple[list[str], int]:
    """Return the first texts that fit into `max_tokens`, and how many of them are whole.

    The last one is cut to what is left, the first one too: a budget that one long text exceeds
    would be none. Each text takes a token more than its own, which separates it from the next.
    """
    kept: list[str] = []
    room = max_tokens * BYTES_A_TOKEN
    for text in texts:
        # A character that does not fit whole is left out.
        part = text.encode()[: max(0, room - BYTES_A_TOKEN)].decode(errors="ignore")
        if part == text and room >= size_of(text):
            kept.append(text)
            room -= size_of(text)
            continue
        return ([*kept, part], len(kept)) if part else (kept, len(kept))
    return kept, len(kept)


def newest(turns: Sequence[Turn], max_tokens: int | None) -> Context:
    """Return the latest turns within `max_tokens`, the earliest of them cut to its end."""
    if max_tokens is None:
        return Context(tuple(turns))
    # By bytes, as no tokenizer is right for every model; backwards, as the end is kept.
    texts, whole = fitting((turn.text[::-1] for turn in reversed(turns)), max_tokens)
    kept: list[Turn] = []
    for turn, text in zip(reversed(turns), texts, strict=False):
        kept.append(turn.model_copy(update={"text": text[::-1]}))
    return Context(tuple(reversed(kept)), left_out=len(turns) - whole)
