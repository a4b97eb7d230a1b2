"""Forgetting: who gets what score, and what a memory system is told, deleted and asked."""

import asyncio
import json
import random
import re
from collections import Counter

import pytest

from alps.parsing import parse_settings
from alps.run.source import open_data
from alps.settings import RunSettings
from alps.systems.memory.connection import ClassConnection
from alps.systems.memory.diary import Diary
from alps.systems.memory.direct import Direct
from alps.systems.memory.protocol import Opening
from alps.systems.memory.store import Store
from alps.systems.resolve import floor_systems, resolve_system
from alps.tasks.forgetting import REFUSAL
from alps.tasks.forgetting_samples import KINDS, SURNAMES, gives
from alps.text import fold
from tests.endtoend import one_line, rows, summary

TOLD = re.compile(
    r"By the way, my (?P<role>[\w ]+) is called \w+ (?P<name>\w+)\.(?: Use that when we talk about "
    r"(?P<use>[\w ]+), never about)?"
)
CHANGED = re.compile(r"I have changed my (?P<role>[\w ]+): now it is \w+ (?P<name>\w+)\.")
FORGET = re.compile(r"Please forget what my (?P<role>[\w ]+) is called")


@pytest.fixture(scope="module")
def track():
    settings = {"task": "forgetting", "model": "rules", "memory": "bm25"}
    return open_data(parse_settings(settings, RunSettings)).tracks[0]


class Keeps:
    """Returns everything a user told; others break or mend one thing of it."""

    def __init__(self):
        self.told, self.calls, self.inside = {}, [], 0

    def open(self, opening):
        self.calls.append(("open",))

    def ingest(self, user, session):
        self.calls.append(("ingest", user, session.id))
        self.told.setdefault(user, {})[session.id] = session.turns

    def settle(self, user, timeout):
        return "ready"

    def search(self, user, query, k, at):
        self.calls.append(("search", user, query))
        return [{"id": str(n), "text": text} for n, text in enumerate(self.texts(user, query))]

    def texts(self, user, query):
        return [turn.text for turns in self.told.get(user, {}).values() for turn in turns]

    def reset(self, user):
        self.told.pop(user, None)


class Empty(Keeps):
    def texts(self, user, query):
        return []


class Refuses(Keeps):
    def texts(self, user, query):
        return [REFUSAL]


class OneLongText(Keeps):
    def texts(self, user, query):
        return [" ".join(super().texts(user, query))]


class SharesUsers(Keeps):
    def texts(self, user, query):
        return [text for other in self.told for text in super(SharesUsers, self).texts(other, "")]


class HalfOfIt(Keeps):
    """Returns each text or not, by the toss of a coin."""

    def __init__(self, seed):
        super().__init__()
        self.random = random.Random(seed)

    def texts(self, user, query):
        return [text for text in super().texts(user, query) if self.random.random() < 0.5]


class Correct(Keeps):
    """Understands the sentences in which facts are told, changed, deleted, and kept for a context.

    What it deleted stays deleted until it is told again in another session.
    """

    persistent = True

    def __init__(self):
        super().__init__()
        self.facts, self.known = {}, set()

    def ingest(self, user, session):
        super().ingest(user, session)
        if (user, session.id) in self.known:
            return
        self.known.add((user, session.id))
        facts = self.facts.setdefault(user, {})
        for turn in session.turns:
            for match in (*TOLD.finditer(turn.text), *CHANGED.finditer(turn.text)):
                facts[match["role"]] = match["name"], match.groupdict().get("use")
            for match in FORGET.finditer(turn.text):
                facts.pop(match["role"], None)

    def texts(self, user, query):
        for role, (name, use) in self.facts.get(user, {}).items():
            if role in query and (use is None or f"about {use}" in query):
                yield f"The user's {role} is called {name}."


class Deletes(Correct):
    def forget(self, user, what):
        self.calls.append(("forget", user, what))
        facts = self.facts[user]
        self.facts[user] = {role: fact for role, fact in facts.items() if fact[0] != what}


class BringsBack(Deletes):
    """Has again what it deleted once it is opened again."""

    def __init__(self):
        super().__init__()
        self.file = {}

    def forget(self, user, what):
        self.file[user] = dict(self.facts[user])
        super().forget(user, what)

    def open(self, opening):
        super().open(opening)
        self.facts.update(self.file)


def asked(system, track, path, limit=None, seconds=None):
    """Return the score of each sample, asked all at once; it is killed after so many seconds."""
    opening = Opening(path / "memory", None, None, 0, {})
    diary = Diary(path / "memory.jsonl")
    samples = list(track.samples())[:limit]

    def planned():
        return ((track.task, sample) for sample in samples)

    connection = ClassConnection(system)
    memory = Store("own", connection, opening, diary, planned, k=5, timeout=10.0)
    direct = Direct(resolve_system("rules", track.task), memory)

    async def all_of_them():
        try:
            answers = asyncio.gather(*(direct.answer(track.task, one) for one in samples))
            return await asyncio.wait_for(answers, seconds)
        finally:
            await memory.aclose()

    predictions = asyncio.run(all_of_them())
    pairs = zip(samples, predictions, strict=True)
    return [track.task.score(sample, prediction, None, None) for sample, prediction in pairs]


def mean(scored, name="joint", kind=None):
    chosen = [one.scores[name] for one in scored if kind in (None, one.groups["kind"])]
    return sum(chosen) / len(chosen)


@pytest.mark.parametrize("system", [Empty, Refuses, SharesUsers, OneLongText, Keeps])
def test_what_forgets_nothing_or_returns_nothing_gets_nothing(track, tmp_path, system):
    scored = asked(system(), track, tmp_path, limit=24)
    # The suite keeps users apart by their ids, so a system that has them apart gets that kind.
    kinds = [kind for kind in KINDS if kind != "other_user" or system in (Empty, Refuses)]
    kinds += ["other_user"] if system is SharesUsers else []
    for kind in kinds:
        assert abs(mean(scored, kind=kind)) <= 0.05
        assert mean(scored, "both", kind) == 0


@pytest.mark.parametrize("floor", ["floor/nothing", "floor/refusal", "floor/everything"])
def test_trivial_baselines_get_nothing(track, floor):
    system = floor_systems(track.task)[floor]
    scores = []
    for sample in track.samples():
        prediction = asyncio.run(system.answer(track.task, sample))
        scores.append(track.task.score(sample, prediction, None, None).scores["joint"])
    assert scores == [0.0] * len(scores)


def test_what_returns_any_half_of_all_texts_gets_no_more_than_chance(track, tmp_path):
    scored = []
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        scored += asked(HalfOfIt(seed), track, tmp_path / str(seed), limit=60)
    for kind in ("deleted", "context"):
        assert abs(mean(scored, kind=kind)) <= 0.15
        assert mean(scored, "both", kind) > 0.15
    # Two names have to be found, so a coin finds both less often than the one to go.
    assert mean(scored, kind="superseded") < 0


@pytest.mark.parametrize("system", [Correct, Deletes])
def test_a_correct_store_gets_all_whether_it_can_delete_or_is_asked_to(track, tmp_path, system):
    scored = asked(system(), track, tmp_path)
    assert [one.scores["joint"] for one in scored] == [1.0] * len(scored)
    assert Counter(one.groups["kind"] for one in scored) == dict.fromkeys(KINDS, track.n // 4)


def test_a_deletion_that_a_restart_undoes_is_a_leak(track, tmp_path):
    scored = asked(BringsBack(), track, tmp_path)
    assert mean(scored, "leaked", "deleted") == 1
    assert mean(scored, kind="deleted") == 0
    assert mean([one for one in scored if one.groups["kind"] != "deleted"]) == 1


def test_a_deletion_comes_before_later_sessions_a_repeated_one_and_the_search(track, tmp_path):
    system = Deletes()
    asked(system, track, tmp_path, limit=1)
    (user,) = {call[1] for call in system.calls if call[0] == "forget"}
    done = [call[0] + call[2] if call[0] == "ingest" else call[0] for call in system.calls]
    assert done == [
        "open",
        "ingests1",
        "ingests2",
        "forget",
        "ingests4",
        "ingests2",
        "open",
        "search",
        "search",
    ]
    assert {call[1] for call in system.calls if call[0] != "open"} == {user}


def test_a_system_that_keeps_nothing_in_its_folder_is_opened_once(track, tmp_path):
    system = Keeps()
    asked(system, track, tmp_path, limit=8)
    assert system.calls.count(("open",)) == 1


class Watches(Correct):
    """Fails where it is opened while a session is being taken in, or not yet settled."""

    def __init__(self):
        super().__init__()
        self.unsettled = set()

    def open(self, opening):
        super().open(opening)
        assert not self.unsettled

    async def ingest(self, user, session):
        self.unsettled.add(user)
        await asyncio.sleep(0)
        super().ingest(user, session)

    async def settle(self, user, timeout):
        await asyncio.sleep(0)
        self.unsettled.discard(user)
        return "ready"


def test_a_system_is_opened_again_while_nobody_else_is_told(track, tmp_path):
    assert mean(asked(Watches(), track, tmp_path)) == 1


class Hangs(Deletes):
    """Does not come back from the call after so many."""

    def __init__(self, calls):
        super().__init__()
        self.left = calls

    async def settle(self, user, timeout):
        self.left -= 1
        if self.left < 0:
            await asyncio.Event().wait()
        return "ready"


def test_a_killed_run_goes_on_and_ingests_no_settled_session_twice(track, tmp_path):
    whole = Deletes()
    (tmp_path / "whole").mkdir()
    expected = asked(whole, track, tmp_path / "whole", limit=4)
    for calls in (1, 3, 6, 9):
        system = Hangs(calls)
        place = tmp_path / str(calls)
        place.mkdir()
        with pytest.raises(TimeoutError):
            asked(system, track, place, limit=4, seconds=0.5)
        system.left = 1000
        assert asked(system, track, place, limit=4) == expected
        done = Counter(call[:1] + call[2:] for call in system.calls if call[0] != "open")
        once = Counter(call[:1] + call[2:] for call in whole.calls if call[0] != "open")
        # Four samples are told at once: what was not settled is told again.
        assert sum((done - once).values()) <= 4
        assert not once - done


class Raises(Keeps):
    def search(self, user, query, k, at):
        raise RuntimeError("no index")


def test_a_system_that_fails_has_found_nothing(track, tmp_path):
    scored = asked(Raises(), track, tmp_path, limit=4)
    assert all(one.scores["joint"] == 0 and one.scores["retained"] == 0 for one in scored)


def test_a_system_is_told_nothing_but_what_users_say(track, tmp_path):
    system = Deletes()
    asked(system, track, tmp_path, limit=40)
    said = json.dumps(system.calls)
    for sample in track.samples():
        assert sample.benchmark_id not in said
        assert sample.session_id not in said
    assert "gone" not in said
    assert "superseded" not in said


def test_facts_stand_nowhere_in_the_session_they_are_planted_into(track):
    for sample in track.samples():
        told = [turn.text for turn in sample.told]
        for expected in sample.gold:
            for fact in (*expected.found, *expected.gone):
                assert sum(gives(text, fact) for text in told) == 1
    assert len({fold(name) for name in SURNAMES}) == len(SURNAMES)
    assert not any(fold(a) in fold(b) for a in SURNAMES for b in SURNAMES if a != b)


def test_the_fact_to_go_is_told_first_as_often_as_last(track):
    first = []
    for sample in track.samples():
        (gone,) = [fact for expected in sample.gold for fact in expected.gone]
        (kept,) = [fact for expected in sample.gold[-1:] for fact in expected.found]
        places = {}
        for place, turn in enumerate(sample.told):
            places |= {fact: place for fact in (gone, kept) if gives(turn.text, fact)}
        first.append(places[gone] < places[kept])
    assert 0.35 < sum(first) / len(first) < 0.65


def test_the_same_data_give_the_same_samples(track):
    assert list(track.samples()) == list(track.samples())


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("The landlord is Venables.", True),
        ("The landlord is VENABLES's son.", True),
        ("房东叫Venables先生", True),
        ("The landlord is Ottaway, formerly Venables.", False),
        ("The landlord is Ottaway. It was Venables once.", True),
        ("The landlord is Ottaway.", False),
    ],
)
def test_a_superseded_fact_is_given_away_unless_its_sentence_tells_of_the_change(text, given):
    assert gives(text, "Venables", ["Ottaway"]) is given


def test_a_run_scores_a_memory_system_and_shows_its_records(alps, tmp_path):
    done = alps("run", "task=forgetting", "model=rules", "memory=bm25", "limit=8", "out=out")
    assert done.returncode == 0, done.stderr
    track = summary(tmp_path / "out")["tracks"]["forgetting"]
    # It deletes turns and keeps users apart, and knows neither changes nor contexts.
    assert track["scores"]["joint"]["value"] == 0.5
    assert {floor["scores"]["joint"]["value"] for floor in track["floors"].values()} == {0}
    assert len(rows(tmp_path / "out" / "predictions.jsonl")) == 8
    shown = alps("show", "out", "alps_ext_001:deleted")
    assert "What is the name of my" in shown.stdout


@pytest.mark.parametrize("memory", ["full", "none", "last:3", "oracle"])
def test_without_a_memory_system_it_is_one_line(alps, memory):
    said = one_line(alps("run", "task=forgetting", "model=rules", f"memory={memory}"))
    assert "task=forgetting: only memory systems can be asked" in said


def test_all_tasks_have_it_where_a_memory_system_is_named(alps, tmp_path):
    done = alps("run", "task=all", "model=rules", "memory=bm25", "limit=1", "out=with")
    assert done.returncode == 0, done.stderr
    assert "forgetting" in summary(tmp_path / "with")["tracks"]
    done = alps("run", "task=all", "model=rules", "limit=1", "out=without")
    assert "Left out: forgetting" in done.stdout
