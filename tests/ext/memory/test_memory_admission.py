"""Admission of memory systems: broken adapters are caught with their cause, correct ones pass."""

import asyncio
import json
import re
import sqlite3
import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from alps.ext.memory.admission import admit
from alps.ext.memory.connection import ClassConnection
from alps.ext.memory.protocol import Hit, Opening
from alps.ext.memory.turns import Turns


class Sound(Turns):
    """A correct system; each broken one differs from it in one thing."""

    def __init__(self, retriever="bm25"):
        super().__init__(retriever)


class SwallowedK(Sound):
    def search(self, user, query, k, at):
        return super().search(user, query, 10, at)


class AlwaysThree(Sound):
    def search(self, user, query, k, at):
        return super().search(user, query, 1, at)


class DroppedRole(Sound):
    def ingest(self, user, session):
        kept = tuple(turn for turn in session.turns if turn.role == "user")
        super().ingest(user, type(session)(session.id, session.started_at, kept))


class EarlySettle(Sound):
    """Indexes in the background, and says at once that it is ready."""

    def __init__(self):
        super().__init__()
        self._later = defaultdict(list)

    def ingest(self, user, session):
        self._later[user].append((time.monotonic() + 0.2, session))

    def search(self, user, query, k, at):
        for due, session in self._later[user]:
            if time.monotonic() > due:
                super().ingest(user, session)
        return super().search(user, query, k, at)


class SilentFailure(Sound):
    def ingest(self, user, session):
        try:
            raise ConnectionError
        except ConnectionError:
            pass


class SharedUser(Sound):
    def ingest(self, user, session):
        super().ingest("everybody", session)

    def search(self, user, query, k, at):
        return super().search("everybody", query, k, at)


class TruncatedTurns(Sound):
    def ingest(self, user, session):
        cut = tuple(type(turn)(turn.role, turn.text[:500], turn.at) for turn in session.turns)
        super().ingest(user, type(session)(session.id, session.started_at, cut))


class TimesOfNow(Sound):
    def search(self, user, query, k, at):
        now = datetime.now(UTC).isoformat()
        hits = super().search(user, query, k, at)
        return [Hit(hit.id, hit.text, None, now) for hit in hits]


class LearnsFromQuestions(Sound):
    def search(self, user, query, k, at):
        hits = super().search(user, query, k, at)
        self._kept[user].append(Hit(f"q{len(self._kept[user])}", query))
        return hits


class CachedAcrossUsers(Sound):
    def __init__(self):
        super().__init__()
        self._answers = {}

    def search(self, user, query, k, at):
        if (query, k) not in self._answers:
            hits = super().search(user, query, k, at)
            if not hits:
                return hits
            self._answers[query, k] = hits
        return self._answers[query, k]


class LeavingReset(Sound):
    def reset(self, user):
        self._kept[user] = self._kept[user][-1:]


class KeptBetweenRuns(Sound):
    def open(self, opening):
        pass


class DuplicateIds(Sound):
    def search(self, user, query, k, at):
        hits = super().search(user, query, k, at)
        return [Hit("m1", hit.text, None, hit.created_at) for hit in hits]


class NeverIngested(Sound):
    def search(self, user, query, k, at):
        hits = super().search(user, query, max(k - 1, 1), at)
        extra = Hit("x", "Enjoys jazz, sailing; dislikes mushrooms")
        return [*hits, extra][:k] if hits else hits


class EmptyText(Sound):
    def search(self, user, query, k, at):
        return [{"id": hit.id, "text": ""} for hit in super().search(user, query, k, at)]


class Hangs(Sound):
    def search(self, user, query, k, at):
        time.sleep(1)
        return []


class LearnsLate(Sound):
    """Learns from the questions of a user who asked a few before."""

    def __init__(self):
        super().__init__()
        self._asked = defaultdict(int)

    def search(self, user, query, k, at):
        self._asked[user] += 1
        hits = super().search(user, query, k, at)
        if self._asked[user] > 5:
            self._kept[user].append(Hit(f"q{self._asked[user]}", f"The user asked: {query}"))
        return hits


class InventsParaphrases(Sound):
    def search(self, user, query, k, at):
        hits = super().search(user, query, k, at)
        for hit in hits[:1]:
            some = " ".join(hit.text.split()[-4:-1])
            text = f"It seems that the user likes to keep their {some} tidy and safe"
            hits = [hit, Hit("more", text), *hits[1:]]
        return hits[:k]


class InventsNumbers(Sound):
    def search(self, user, query, k, at):
        found = []
        for hit in super().search(user, query, k, at):
            other = re.sub(r"\d+|eleven", "42", hit.text)
            found += [hit, Hit(f"{hit.id}x", f"{other} as of last week")]
        return found[:k]


class RanksMoreOtherwise(Sound):
    def search(self, user, query, k, at):
        hits = super().search(user, query, k, at)
        return hits if k <= 6 else hits[::-1]


class CachedUntilMoreAreAsked(Sound):
    """Caches answers across users, and asks again where fewer than `k` are kept."""

    def __init__(self):
        super().__init__()
        self._cached = {}

    def search(self, user, query, k, at):
        if len(self._cached.get(query, ())) < k:
            self._cached[query] = list(super().search(user, query, k, at))
        return self._cached[query][:k]


class HidingReset(Sound):
    """Hides what it holds of a user after a reset, until the user says something again."""

    def __init__(self):
        super().__init__()
        self._hidden = set()

    def reset(self, user):
        self._hidden.add(user)

    def ingest(self, user, session):
        self._hidden.discard(user)
        super().ingest(user, session)

    def search(self, user, query, k, at):
        return [] if user in self._hidden else super().search(user, query, k, at)


class FirstAndLastTurn(Sound):
    def ingest(self, user, session):
        ends = tuple(dict.fromkeys((session.turns[0], session.turns[-1])))
        super().ingest(user, replace(session, turns=ends))


class CutInTheMiddle(Sound):
    def ingest(self, user, session):
        turns = []
        for turn in session.turns:
            text = turn.text
            cut = text if len(text) < 800 else f"{text[:400]} … {text[-400:]}"
            turns.append(replace(turn, text=cut))
        super().ingest(user, replace(session, turns=tuple(turns)))


class ShortIds(Sound):
    def ingest(self, user, session):
        super().ingest(user[:8], session)

    def search(self, user, query, k, at):
        return super().search(user[:8], query, k, at)

    def reset(self, user):
        super().reset(user[:8])


BROKEN = [
    (SwallowedK, "k=1 returns"),
    (AlwaysThree, "k=6 returns no more than k=1"),
    (DroppedRole, "the assistant's turn is not found"),
    (EarlySettle, "settle returned before"),
    (SilentFailure, "the user's turn is not found"),
    (SharedUser, "an unknown user has|another user's turns"),
    (TruncatedTurns, "the end of a turn of 600 words is not found"),
    (TimesOfNow, "a hit has a wrong time"),
    (LearnsFromQuestions, "a search finds text of an earlier query"),
    (CachedAcrossUsers, "another user's turns"),
    (LeavingReset, "memories are found after a reset"),
    (KeptBetweenRuns, "memories of one run are found in another"),
    (DuplicateIds, "two hits of one search have the same id"),
    (NeverIngested, "a hit has text that was not ingested"),
    (EmptyText, "expected a non-empty text"),
    (Hangs, "no answer within 0.5 s"),
    (LearnsLate, "a search finds text of an earlier query"),
    (InventsParaphrases, "a hit has text that was not ingested"),
    (InventsNumbers, "a hit has text that was not ingested"),
    (RanksMoreOtherwise, "a larger k changes the first hits"),
    (CachedUntilMoreAreAsked, "another user's turns"),
    (HidingReset, "come back with the next session"),
    (FirstAndLastTurn, "a turn within a session is not found"),
    (CutInTheMiddle, "the middle of a turn of 600 words is not found"),
    (ShortIds, "another user's turns"),
]


class Asynchronous(Sound):
    async def search(self, user, query, k, at):
        await asyncio.sleep(0)
        return super().search(user, query, k, at)


class Slow(EarlySettle):
    """Indexes in the background, and waits for it."""

    def open(self, opening):
        super().open(opening)
        self._later.clear()

    def reset(self, user):
        super().reset(user)
        self._later.pop(user, None)

    def settle(self, user, timeout):
        time.sleep(0.25)
        return "ready"


class Rows(Sound):
    def search(self, user, query, k, at):
        return [{"id": hit.id, "content": hit.text} for hit in super().search(user, query, k, at)]


class Facts(Sound):
    """Keeps sentences rather than turns, in words of its own."""

    def ingest(self, user, session):
        if any(session.id in hit.sources for hit in self._kept[user]):
            return
        for turn in session.turns:
            for sentence in turn.text.split(". "):
                number = f"m{len(self._kept[user]) + 1}"
                text = f"The {turn.role} said: {sentence}"
                self._kept[user].append(Hit(number, text, None, turn.at, (session.id,)))


class UsersAlone(DroppedRole):
    def __init__(self):
        super().__init__()
        self.settings = {**self.settings, "declares": ["both roles are ingested"]}


def in_small_letters(session):
    turns = []
    for turn in session.turns:
        turns.append(replace(turn, text=turn.text.lower()))
    return turns


class SmallLetters(Turns):
    def __init__(self):
        super().__init__("bm25", in_small_letters)


class OnlyWhatShares(Sound):
    """Finds only what has a longer word of the query."""

    def search(self, user, query, k, at):
        asked, found = set(re.findall(r"\w{4,}", query.lower())), []
        for hit in super().search(user, query, k, at):
            if asked & set(re.findall(r"\w{4,}", hit.text.lower())):
                found.append(hit)
        return found


class OnDisk(Turns):
    """Keeps its turns in SQLite, in the folder that it is opened with."""

    persistent = True

    def __init__(self):
        super().__init__("bm25")
        self._database = None

    def close(self):
        if self._database is not None:
            self._database.close()

    def open(self, opening):
        self.close()
        self._database = sqlite3.connect(opening.folder / "turns.db", check_same_thread=False)
        columns = "user, session, role, text, at"
        self._database.execute(f"create table if not exists turns ({columns})")

    def ingest(self, user, session):
        known = "select 1 from turns where user = ? and session = ?"
        if self._database.execute(known, (user, session.id)).fetchone():
            return
        for turn in session.turns:
            row = (user, session.id, turn.role, turn.text, turn.at)
            self._database.execute("insert into turns values (?, ?, ?, ?, ?)", row)
        self._database.commit()

    def search(self, user, query, k, at):
        self._kept.clear()
        found = self._database.execute(
            "select rowid, session, text, at from turns where user = ?", (user,)
        )
        for number, session, text, when in found:
            self._kept[user].append(Hit(str(number), text, None, when, (session,)))
        return super().search(user, query, k, at)

    def reset(self, user):
        self._database.execute("delete from turns where user = ?", (user,))


CORRECT = [
    *(Sound, lambda: Sound("tfidf"), Asynchronous, Slow, Rows, Facts, UsersAlone, OnDisk),
    *(SmallLetters, OnlyWhatShares),
]


def checked(system, path, timeout):
    return {check.name: check.fault for check in asyncio.run(_admitted(system, path, timeout))}


async def _admitted(system, path, timeout):
    connection = ClassConnection(system)
    try:
        opening = Opening(path, None, None, 0, {})
        return await admit(connection, opening, scratch=path / "scratch", timeout=timeout)
    finally:
        await connection.aclose()


@pytest.mark.parametrize(("system", "cause"), BROKEN)
def test_a_broken_adapter_is_caught_with_its_cause(system, cause, tmp_path):
    faults = [fault for fault in checked(system(), tmp_path, 0.5).values() if fault]
    assert any(part in fault for fault in faults for part in cause.split("|")), faults


@pytest.mark.parametrize("system", CORRECT)
def test_a_correct_adapter_is_admitted(system, tmp_path):
    faults = {name: fault for name, fault in checked(system(), tmp_path, 30).items() if fault}
    assert faults == {}


def test_a_check_may_be_declared_by_the_name_of_an_earlier_version(tmp_path):
    system = Sound()
    system.settings = {**system.settings, "declares": ["told twice, found once"]}
    checks = checked(system, tmp_path, 30)
    assert checks["a repeated session is stored once (declared otherwise)"] == ""
    assert {name: fault for name, fault in checks.items() if fault} == {}


def test_the_doctor_says_what_is_wrong_with_a_memory_system(alps, tmp_path):
    done = alps("doctor", "memory=bm25")
    assert done.returncode == 0, done.stderr
    assert "12 checks passed: admitted." in done.stdout
    done = alps("doctor", "memory=full")
    assert done.returncode == 2
    assert done.stderr == "alps: memory=full: not a memory system, so there is nothing to check\n"


def test_a_run_says_that_its_memory_system_was_admitted(alps, tmp_path):
    done = alps("run", "task=utilization", "model=rules", "memory=bm25", "ability=pa", "out=run")
    assert done.returncode == 0, done.stderr
    assert "memory admitted (24 of 24)" in done.stdout
    kept = json.loads((tmp_path / "run" / "summary.json").read_text())["admission"]
    assert len(kept) == 24
    assert all(check.get("fault", "") == "" for check in kept)
