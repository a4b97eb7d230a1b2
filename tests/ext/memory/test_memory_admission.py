"""Admission of memory systems: broken adapters are caught with their cause, correct ones pass."""

import asyncio
import re
import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from alps.ext.memory.admission import admit
from alps.ext.memory.built_in import Turns
from alps.ext.memory.connection import ClassConnection
from alps.ext.memory.protocol import Hit
from tests.endtoend import one_line
from tests.ext.memory.stores import opened_in


class Sound(Turns):
    """A correct system; each broken one differs from it in one thing."""

    def __init__(self, retriever="bm25"):
        super().__init__(retriever)
        self.prepare()

    def prepare(self):
        """Make what a system keeps besides its turns."""


def searching(change):
    """Return a system that answers a search with `change(find, k)`; `find(k)` is a correct one."""

    class Searching(Sound):
        def search(self, user, query, k, at):
            correct = super().search
            return change(lambda k: correct(user, query, k, at), k)

    return Searching


def ingesting(change):
    """Return a system that keeps what a function makes of the turns of a session."""

    class Ingesting(Sound):
        def ingest(self, user, session):
            super().ingest(user, replace(session, turns=tuple(change(session.turns))))

    return Ingesting


def calling(name):
    """Return a system that knows its users by what a function makes of their ids."""

    class Calling(Sound):
        def ingest(self, user, session):
            super().ingest(name(user), session)

        def search(self, user, query, k, at):
            return super().search(name(user), query, k, at)

        def reset(self, user):
            super().reset(name(user))

    return Calling


def of_users(turns):
    return [turn for turn in turns if turn.role == "user"]


def cut(turns):
    return [replace(turn, text=turn.text[:500]) for turn in turns]


def cut_in_the_middle(turns):
    for turn in turns:
        text = turn.text
        yield turn if len(text) < 800 else replace(turn, text=f"{text[:400]} … {text[-400:]}")


def times_of_now(find, k):
    now = datetime.now(UTC).isoformat()
    return [Hit(hit.id, hit.text, None, now) for hit in find(k)]


def never_ingested(find, k):
    hits = find(max(k - 1, 1))
    extra = Hit("x", "Enjoys jazz, sailing; dislikes mushrooms")
    return [*hits, extra][:k] if hits else hits


def paraphrased(find, k):
    hits = find(k)
    for hit in hits[:1]:
        some = " ".join(hit.text.split()[-4:-1])
        text = f"It seems that the user likes to keep their {some} tidy and safe"
        hits = [hit, Hit("more", text), *hits[1:]]
    return hits[:k]


def other_numbers(find, k):
    found = []
    for hit in find(k):
        other = re.sub(r"\d+|eleven", "42", hit.text)
        found += [hit, Hit(f"{hit.id}x", f"{other} as of last week")]
    return found[:k]


def hang(find, k):
    time.sleep(1)
    return []


class EarlySettle(Sound):
    """Indexes in the background, and says at once that it is ready."""

    delay = 0.2

    def prepare(self):
        self._later = defaultdict(list)

    def ingest(self, user, session):
        self._later[user].append((time.monotonic() + self.delay, session))

    def search(self, user, query, k, at):
        for due, session in self._later[user]:
            if time.monotonic() > due:
                super().ingest(user, session)
        return super().search(user, query, k, at)


class LearnsFromQuestions(Sound):
    """Learns from the questions of a user who asked more than so many."""

    ignored = 0

    def prepare(self):
        self._asked = defaultdict(int)

    def search(self, user, query, k, at):
        self._asked[user] += 1
        hits = super().search(user, query, k, at)
        if self._asked[user] > self.ignored:
            self._kept[user].append(Hit(f"q{self._asked[user]}", f"The user asked: {query}"))
        return hits


class LearnsLate(LearnsFromQuestions):
    ignored = 5


class CachedAcrossUsers(Sound):
    def prepare(self):
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


class CachedUntilMoreAreAsked(Sound):
    """Caches answers across users, and asks again where fewer than `k` are kept."""

    def prepare(self):
        self._cached = {}

    def search(self, user, query, k, at):
        if len(self._cached.get(query, ())) < k:
            self._cached[query] = list(super().search(user, query, k, at))
        return self._cached[query][:k]


class HidingReset(Sound):
    """Hides what it holds of a user after a reset, until the user says something again."""

    def prepare(self):
        self._hidden = set()

    def reset(self, user):
        self._hidden.add(user)

    def ingest(self, user, session):
        self._hidden.discard(user)
        super().ingest(user, session)

    def search(self, user, query, k, at):
        return [] if user in self._hidden else super().search(user, query, k, at)


def same_ids(find, k):
    return [replace(hit, id="m1") for hit in find(k)]


def without_texts(find, k):
    return [{"id": hit.id, "text": ""} for hit in find(k)]


ANOTHERS, INVENTED = "another user's turns", "a hit has text that was not ingested"
BROKEN = {
    "it swallows k": (searching(lambda find, k: find(10)), "k=1 returns"),
    "it finds as many always": (searching(lambda find, k: find(1)), "k=1 and k=6 both return"),
    "a larger k ranks otherwise": (
        searching(lambda find, k: find(k) if k <= 6 else find(k)[::-1]),
        "a larger k changes the first hits",
    ),
    "times of now": (searching(times_of_now), "a hit is dated "),
    "the same ids": (searching(same_ids), "two hits of one search have the same id"),
    "no text": (searching(without_texts), "expected a non-empty string"),
    "it hangs": (searching(hang), "no answer within 0.5 s"),
    "never ingested": (searching(never_ingested), INVENTED),
    "paraphrases": (searching(paraphrased), INVENTED),
    "other numbers": (searching(other_numbers), INVENTED),
    "one role": (ingesting(of_users), "the assistant's turn is not found"),
    "nothing is kept": (ingesting(lambda turns: ()), "the user's turn is not found"),
    "turns are cut": (ingesting(cut), "the end of a turn of 600 words is not found"),
    "turns lack their middle": (
        ingesting(cut_in_the_middle),
        "the middle of a turn of 600 words is not found",
    ),
    "first and last turns": (
        ingesting(lambda turns: dict.fromkeys((turns[0], turns[-1]))),
        "a turn within a session is not found",
    ),
    "one user for all": (calling(lambda user: "everybody"), f"an unknown user has|{ANOTHERS}"),
    "users by their first letters": (calling(lambda user: user[:8]), ANOTHERS),
    "it says too early that it is ready": (EarlySettle, "settle returned before"),
    "it learns from questions": (LearnsFromQuestions, "a search finds text of an earlier query"),
    "it learns late": (LearnsLate, "a search finds text of an earlier query"),
    "a cache of all users": (CachedAcrossUsers, ANOTHERS),
    "a cache by k": (CachedUntilMoreAreAsked, ANOTHERS),
    "a reset leaves something": (LeavingReset, "memories are found after a reset"),
    "a reset hides": (HidingReset, "come back with the next session"),
    "kept between runs": (KeptBetweenRuns, "memories of one run are found in another"),
}


class AsynchronousRows(Sound):
    async def search(self, user, query, k, at):
        await asyncio.sleep(0)
        return [{"id": hit.id, "content": hit.text} for hit in super().search(user, query, k, at)]


class Slow(EarlySettle):
    """Indexes in the background, and waits for it."""

    delay = 0.02

    def open(self, opening):
        super().open(opening)
        self._later.clear()

    def reset(self, user):
        super().reset(user)
        self._later.pop(user, None)

    def settle(self, user, timeout):
        time.sleep(2 * self.delay)
        return "ready"


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


class UsersAlone(ingesting(of_users)):
    def prepare(self):
        self.settings = {**self.settings, "declares": ["both roles are ingested"]}


def in_small_letters(turns):
    return [replace(turn, text=turn.text.lower()) for turn in turns]


def dated(form):
    """Write when a turn was said before its text, as memories that answer about time do."""

    def write(turns):
        for turn in turns:
            when = datetime.fromisoformat(turn.at).strftime(form)
            yield replace(turn, text=f"{when}{turn.text}")

    return ingesting(write)


class OnlyWhatShares(Sound):
    """Finds only what has a longer word of the query."""

    def search(self, user, query, k, at):
        asked, found = set(re.findall(r"\w{4,}", query.lower())), []
        for hit in super().search(user, query, k, at):
            if asked & set(re.findall(r"\w{4,}", hit.text.lower())):
                found.append(hit)
        return found


CORRECT = [
    *(Sound, lambda: Sound("tfidf"), AsynchronousRows, Slow, Facts, UsersAlone),
    *(ingesting(in_small_letters), OnlyWhatShares),
    *(dated("[%Y-%m-%d] "), dated("%B %d, %Y: "), dated("%d %b %Y, %H:%M - ")),
]


def checked(system, path, timeout):
    """Return the fault of each check; empty where it passed."""
    return {check.name: check.fault for check in asyncio.run(_admitted(system, path, timeout))}


async def _admitted(system, path, timeout):
    connection = ClassConnection(system)
    try:
        opening = opened_in(path)
        return await admit(connection, opening, scratch=path / "scratch", timeout=timeout)
    finally:
        await connection.aclose()


@pytest.mark.few(8)
@pytest.mark.parametrize(("system", "cause"), BROKEN.values(), ids=BROKEN)
def test_a_broken_adapter_is_caught_with_its_cause(system, cause, tmp_path):
    faults = [fault for fault in checked(system(), tmp_path, 0.5).values() if fault]
    assert any(part in fault for fault in faults for part in cause.split("|")), faults


@pytest.mark.few(3)
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


def test_the_doctor_says_what_is_wrong_with_a_memory_system(alps):
    said = one_line(alps("doctor", "memory=full"))
    assert said == "alps: memory=full: not a memory system; doctor checks only memory systems\n"
