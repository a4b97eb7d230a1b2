"""Admission of a memory system: checks that it was really fed, settled, searched and kept apart.

Adapters have moved published scores by 6 to 14 points through mistakes that no score shows. So each
system is first told made-up sessions of users of its own, with codes in them that occur nowhere
else, and asked for those. A check that fails names its cause, and there is no score.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from alps.errors import closest
from alps.ext.memory.connection import TIMED_OUT, MemoryConnection, MemoryFailed
from alps.ext.memory.protocol import Hit, Opening, Session, SpokenTurn, stamp
from alps.rows import Check
from alps.schema import UNHEARD
from alps.show.formatting import counted

# The default of `k=` in a run: systems are checked as most of them are asked.
K = 5
SHORTEST_WAIT, LONGEST_WAIT = 0.5, 10.0
"""Seconds that are waited for what was not found: 10 times as long as settling took, within."""
LONG_TURN = 600
"""Words before the code of a long turn: about 800 tokens, as real answers have."""
QUESTIONS = 6
LONG_WORD, MANY_WORDS = 4, 8
"""Letters of a word that counts, and so many of them that a quarter must have been told."""
_TOPICS = ("locker", "bicycle", "library card", "greenhouse", "piano", "garage", "tent", "kayak")
# No vowels: no code is a word that a system or its model knows already.
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"


class _Failed(Exception):
    """A check that failed, with its cause."""


@dataclass
class _CheckedSystem:
    """What checks share: the system, how it is opened, and a source of codes and users."""

    connection: MemoryConnection
    opening: Opening
    timeout: float
    draw: Random
    session_number: int = 0
    settling: float = 0.0

    def user(self) -> str:
        return f"u{self.draw.getrandbits(80):020x}"

    def user_like(self, other: str) -> str:
        """Return a user whose id begins as another's does."""
        # A planted system knows its users by the first letters of their ids alone.
        middle = len(other) // 2
        return other[:middle] + self.user()[middle:]

    def code(self) -> str:
        letters = "".join(self.draw.choices(_LETTERS, k=3))
        return f"{letters}{self.draw.randint(1000, 9999)}"

    async def call(self, method: str, *arguments: Any) -> Any:
        answered = await self.connection.call(method, *arguments, timeout=self.timeout)
        if method == "settle":
            self.settling = max(self.settling, answered.seconds)
        return answered.value

    def session(self, *said: tuple[str, str]) -> Session:
        day, self.session_number = self.session_number, self.session_number + 1
        turns = [
            SpokenTurn(role, text, stamp(day, place)) for place, (role, text) in enumerate(said)
        ]
        return Session(f"s{self.session_number}", stamp(day, 0), tuple(turns))

    async def tell(self, user: str, session: Session) -> None:
        await self.call("ingest", user, session)
        settled = await self.call("settle", user, self.timeout)
        if settled != "ready":
            raise MemoryFailed("settle", f"returned {settled!r:.100} instead of 'ready'")

    async def search(self, user: str, query: str, k: int = K) -> list[Hit]:
        # After all sessions, else a system that hides what is later than `at` would find nothing.
        at = stamp(self.session_number, 0)
        hits: list[Hit] = await self.call("search", user, query, k, at)
        return hits


def _told(topic: str, code: str) -> str:
    return f"Please remember that the code of my {topic} is {code}."


def _asked(topic: str) -> str:
    return f"What is the code of my {topic}?"


def _holds(hits: Sequence[Hit], code: str) -> bool:
    # A system may keep texts in small letters.
    return any(code.casefold() in hit.text.casefold() for hit in hits)


async def _nothing_before(desk: _CheckedSystem) -> None:
    # A system that ignores user ids finds another user's turns here, or those of an earlier run.
    hits = await desk.search(desk.user(), _asked("locker"))
    if hits:
        raise _Failed(f"an unknown user has {counted(len(hits), 'hit')}")


async def _found_once_settled(desk: _CheckedSystem) -> None:
    user = desk.user()
    # Each session is looked for at once: a later call may finish an index that is not ready.
    for topic in _TOPICS[:3]:
        code = desk.code()
        await desk.tell(user, desk.session(("user", _told(topic, code)), ("assistant", "Noted.")))
        if _holds(await desk.search(user, _asked(topic)), code):
            continue
        await asyncio.sleep(min(max(10 * desk.settling, SHORTEST_WAIT), LONGEST_WAIT))
        if _holds(await desk.search(user, _asked(topic)), code):
            raise _Failed("settle returned before the session could be found")
        raise _Failed("the user's turn is not found")


async def _both_roles(desk: _CheckedSystem) -> None:
    user, code = desk.user(), desk.code()
    answer = f"I have booked it. Your reservation of the kayak has the code {code}."
    turns = (("user", "Can you book the kayak for Sunday?"), ("assistant", answer))
    await desk.tell(user, desk.session(*turns))
    hits = await desk.search(user, "Which code does the reservation of the kayak have?")
    if not _holds(hits, code):
        raise _Failed("the assistant's turn is not found")


async def _whole_turns(desk: _CheckedSystem) -> None:
    user = desk.user()
    early, middle, end = desk.code(), desk.code(), desk.code()
    half = " ".join(f"Step {n} went well and took a while." for n in range(LONG_TURN // 16))
    long = f"{half} {_told('tent', middle)} {half} {_told('greenhouse', end)}"
    # Neither first nor last: a planted system keeps the ends of each session alone.
    turns = ("Good morning.", _told("kayak", early), "There is more.", long, "That is all.")
    await desk.tell(user, desk.session(*(("user", turn) for turn in turns)))
    # An embedder cuts a turn at its end, a summary leaves out the middle: each has its cause.
    for topic, code, what in (
        ("kayak", early, "a turn within a session"),
        ("greenhouse", end, f"the end of a turn of {LONG_TURN} words"),
        ("tent", middle, f"the middle of a turn of {LONG_TURN} words"),
    ):
        if not _holds(await desk.search(user, _asked(topic)), code):
            raise _Failed(f"{what} is not found")


async def _users_apart(desk: _CheckedSystem) -> None:
    first = desk.user()
    # Ids that are cut short are one id; and a cache of full answers is not asked anew.
    second = desk.user_like(first)
    codes = {user: desk.code() for user in (first, second)}
    for user, code in codes.items():
        # A cache that asks again below `k` hits leaks only where each user has `k` of them.
        others = [("user", _told(topic, desk.code())) for topic in _TOPICS[:K]]
        await desk.tell(user, desk.session(("user", _told("garage", code)), *others))
    for user, foreign in ((first, codes[second]), (second, codes[first])):
        if _holds(await desk.search(user, _asked("garage")), foreign):
            raise _Failed("a search finds another user's turns")


async def _k_is_kept(desk: _CheckedSystem) -> None:
    user = desk.user()
    for topic in _TOPICS:
        await desk.tell(user, desk.session(("user", _told(topic, desk.code()))))
    before: list[str] = []
    found: list[int] = []
    # Above the default and above the number of facts, too: some rank otherwise only there.
    for k in (1, 3, 6, 20):
        hits = await desk.search(user, "What is the code of each of my things?", k)
        if len(hits) > k:
            raise _Failed(f"k={k} returns {len(hits)} hits")
        ids = [hit.id for hit in hits]
        # One memory under one id twice would fill two of the reader's k places.
        if len(set(ids)) < len(hits):
            raise _Failed("two hits of one search have the same id")
        if ids[: len(before)] != before:
            raise _Failed("a larger k changes the first hits")
        before = ids
        found.append(len(hits))
    # Fewer hits than k are no fault: Hindsight bounds tokens, and gave 2 for k=5. As few for k=6 as
    # for k=1 mean that k is not read.
    if found[0] == found[2] < K:
        stored = f"with {len(_TOPICS)} facts stored"
        raise _Failed(f"{stored}, k=1 and k=6 both return {counted(found[2], 'hit')}")


async def _told_twice(desk: _CheckedSystem) -> None:
    user, code = desk.user(), desk.code()
    session = desk.session(("user", _told("tent", code)))
    await desk.tell(user, session)
    # Counts are compared, as a system may well make two memories of one turn.
    before = sum(code in hit.text for hit in await desk.search(user, _asked("tent")))
    await desk.tell(user, session)
    after = sum(code in hit.text for hit in await desk.search(user, _asked("tent")))
    if after > before:
        raise _Failed("a session that is ingested twice is found twice")


async def _questions_leave_no_trace(desk: _CheckedSystem) -> None:
    user, code = desk.user(), desk.code()
    await desk.tell(user, desk.session(("user", _told("piano", code))))
    before = await desk.search(user, _asked("piano"))
    # Many, as a system may learn only from a user who asks a lot.
    asked = [desk.code() for _ in range(QUESTIONS)]
    for other in asked:
        await desk.search(user, f"Is {other} the code of my piano?")
    # A system may index queries as it indexes turns, in the background.
    await desk.call("settle", user, desk.timeout)
    for other in (asked[0], asked[-1]):
        if _holds(await desk.search(user, f"Is {other} the code of my piano?"), other):
            raise _Failed("a search finds text of an earlier query")
    again = await desk.search(user, _asked("piano"))
    # Texts alone: ids and scores may be made for each search.
    if [hit.text for hit in again] != [hit.text for hit in before]:
        raise _Failed("a search changes the hits of a later search")


async def _only_what_was_told(desk: _CheckedSystem) -> None:
    user = desk.user()
    told = "The orchard behind our cottage has eleven plum trees."
    session = desk.session(("user", told))
    await desk.tell(user, session)
    for hit in await desk.search(user, "How many plum trees are there?"):
        # A fact may be written with a digit, and with the time of its session.
        if _says_more(hit.text, f"{told} 11 {session.started_at}"):
            raise _Failed(f"a hit has text that was not ingested: {hit.text[:60]!r}")


def _says_more(text: str, told: str) -> bool:
    """Tell whether a text has a number that was not told, or hardly a word that was."""
    known, words = _words(told), _words(text)
    numbers = {word.lstrip("0") for word in known if word.isdigit()}
    if any(word.isdigit() and word.lstrip("0") not in numbers for word in words):
        return True
    # A rewritten fact has some words of its own; one that is made up has little else.
    long = {word for word in words if len(word) >= LONG_WORD}
    return not known & words or (len(long) >= MANY_WORDS and 4 * len(known & long) < len(long))


def _words(text: str) -> set[str]:
    # Letters and digits apart: a hit may begin with the day alone of `2026-01-22T09:00:00`.
    return set(re.findall(r"[^\W\d_]+|\d+", text.casefold()))


async def _times(desk: _CheckedSystem) -> None:
    user, code = desk.user(), desk.code()
    session = desk.session(("user", _told("bicycle", code)))
    await desk.tell(user, session)
    for hit in await desk.search(user, _asked("bicycle")):
        # By the day: Hindsight moves times by milliseconds. None at all passes, as for Mem0.
        if hit.created_at is not None and hit.created_at[:10] != session.started_at[:10]:
            dated = f"a hit is dated {hit.created_at[:10]}"
            raise _Failed(f"{dated}, but its session took place on {session.started_at[:10]}")


async def _reset(desk: _CheckedSystem) -> None:
    user, other = desk.user(), desk.user()
    code, kept = desk.code(), desk.code()
    await desk.tell(user, desk.session(("user", _told("kayak", code))))
    await desk.tell(other, desk.session(("user", _told("kayak", kept))))
    await desk.call("reset", user)
    if _holds(await desk.search(user, _asked("kayak")), code):
        raise _Failed("memories are found after a reset")
    # A reset that drops the whole store would pass the search above.
    if not _holds(await desk.search(other, _asked("kayak")), kept):
        raise _Failed("a reset of one user deletes another's memories")
    # A planted system hides a user after a reset, and shows everything with the next session.
    await desk.tell(user, desk.session(("user", _told("tent", desk.code()))))
    if _holds(await desk.search(user, _asked("kayak")), code):
        raise _Failed("memories from before a reset come back with the next session")


async def _fresh_folder(desk: _CheckedSystem) -> None:
    user, code = desk.user(), desk.code()
    await desk.tell(user, desk.session(("user", _told("library card", code))))
    await desk.call("open", replace(desk.opening, folder=desk.opening.folder.with_name("second")))
    if _holds(await desk.search(user, _asked("library card")), code):
        raise _Failed("memories of one run are found in another")


@dataclass(frozen=True)
class _Check:
    """A check by its name; `meant` says what a system does that is right to fail it.

    Where that is empty, no system is: what it scores would be worth nothing.
    """

    name: str
    make: Callable[[_CheckedSystem], Awaitable[None]]
    meant: str = ""


_CHECKS = (
    _Check("an unknown user has no memories", _nothing_before),
    _Check("found once settled", _found_once_settled),
    _Check("both roles are ingested", _both_roles, "stores only what users say"),
    _Check(
        "long turns are ingested whole",
        _whole_turns,
        "stores only facts or only the beginning of long turns",
    ),
    _Check("users are kept apart", _users_apart),
    _Check("k is kept", _k_is_kept),
    _Check(
        "a repeated session is stored once",
        _told_twice,
        "stores a session each time that it is ingested",
    ),
    _Check("questions leave no trace", _questions_leave_no_trace, "learns from queries"),
    _Check("hits contain only ingested text", _only_what_was_told),
    _Check(
        "times are those of the sessions", _times, "uses the time of writing as a memory's date"
    ),
    _Check("a reset is complete", _reset, "cannot forget a user"),
    # Last, as it opens the system anew.
    _Check("runs are kept apart", _fresh_folder, "separates runs by user ids only"),
)

CHECKS = tuple(check.name for check in _CHECKS)
DECLARATIONS = {check.name: check.meant for check in _CHECKS if check.meant}
"""The checks that a system may declare as not applicable, and what it does instead."""
# Manifests, submissions and systems of users have these names; they stay valid.
_FORMER = {
    "nothing is found before it is told": "an unknown user has no memories",
    "told twice, found once": "a repeated session is stored once",
    "only what was told is found": "hits contain only ingested text",
}
DECLARED = " (declared otherwise)"
OPENS = "opens"


def current_name(name: str) -> str:
    """Return the name of a check in this version, for one that an earlier version wrote."""
    former = name.removesuffix(DECLARED)
    return f"{_FORMER.get(former, former)}{DECLARED if former != name else ''}"


def declared_in(names: Iterable[str]) -> list[str]:
    """Return the declared checks among the names of performed ones."""
    there = set(map(current_name, names))
    return [name for name in CHECKS if f"{name}{DECLARED}" in there]


async def admit(
    connection: MemoryConnection, opening: Opening, *, scratch: Path, timeout: float
) -> list[Check]:
    """Check a memory system, which is opened in folders below `scratch`.

    A system may declare that it does without one of `DECLARATIONS`, as `{"declares": ["both roles
    are ingested"]}` where it means to keep what users say alone: the check is then passed as
    declared, and its name says so.

    Args:
        connection: The system.
        opening: How a run opens it.
        scratch: A folder of which nothing is kept.
        timeout: Seconds that one call may take.

    Raises:
        MemoryFailed: If a model that the system asks was not heard: that is no fault of it.
    """
    # `Random` has no seed: a server outlives a run, and has to meet users that no check used.
    desk = _CheckedSystem(connection, replace(opening, folder=scratch / "first"), timeout, Random())
    for folder in (scratch / "first", scratch / "second"):
        folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    try:
        await desk.call("open", desk.opening)
    except MemoryFailed as failed:
        return [Check(name=OPENS, fault=_fault_of(failed), seconds=_since(started))]
    # Programs and servers say it when they are opened, so it is not read before.
    declared = connection.settings.get("declares", ())
    if fault := _wrongly_declared(declared):
        return [Check(name=OPENS, fault=fault)]
    declared = set(map(current_name, declared))
    checks: list[Check] = []
    for check in _CHECKS:
        if check.name in declared:
            checks.append(Check(name=f"{check.name}{DECLARED}"))
            continue
        started = time.perf_counter()
        try:
            await check.make(desk)
            fault = ""
        except _Failed as failed:
            fault = f"{failed}{_way_out(check, connection)}"
        except MemoryFailed as failed:
            fault = _fault_of(failed)
        checks.append(Check(name=check.name, fault=fault, seconds=_since(started)))
        # A call that hung would hang in every other check, too.
        if TIMED_OUT in fault:
            break
    return checks


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _wrongly_declared(declared: Any) -> str:
    """Say which of the declarations of a system is none, if there is one."""
    if not isinstance(declared, list | tuple) or not all(isinstance(one, str) for one in declared):
        return "declares: expected a list of check names"
    for name in map(current_name, declared):
        # Else a system could declare its way past isolation, k or invented text.
        if name in CHECKS and name not in DECLARATIONS:
            return f"declares {name!r}: this check is mandatory; remove it from declares"
        if name not in CHECKS:
            known = ", ".join(DECLARATIONS)
            hint = closest(name[:80], DECLARATIONS)
            return f"declares {name!r:.80}: no such check{hint} (known: {known})"
    return ""


def _way_out(check: _Check, connection: MemoryConnection) -> str:
    """Return what a system declares that fails a check because it is meant to."""
    if not check.meant:
        return ""
    how = connection.declaring.format(json.dumps([check.name]))
    return f"; if, by design, the system {check.meant}, declare this: {how}"


def _fault_of(failed: MemoryFailed) -> str:
    # A model without an answer says nothing about the system: no check is failed by it.
    if failed.outcome in UNHEARD:
        raise failed
    return str(failed)
