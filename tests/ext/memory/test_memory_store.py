"""A memory system behind the suite: whose histories it is given, when, and how it is asked."""

import asyncio
import json

import pytest

from alps.ext.memory.connection import ClassConnection, MemoryFailed
from alps.ext.memory.journal import Diary
from alps.ext.memory.protocol import Hit, Opening, stamp
from alps.ext.memory.store import Store
from alps.parsing import parse_settings
from alps.run.source import open_data
from alps.settings import RunSettings


class Watched:
    """Keeps what it is told, and answers with the texts that it holds of a user."""

    def __init__(self):
        self.told, self.calls = {}, []

    def open(self, opening):
        self.calls.append(("open",))

    def ingest(self, user, session):
        self.calls.append(("ingest", user, session.id, len(session.turns)))
        self.told.setdefault(user, []).append(session)

    def settle(self, user, timeout):
        self.calls.append(("settle", user))
        return "ready"

    def search(self, user, query, k, at):
        self.calls.append(("search", user, query))
        texts = [turn.text for session in self.told[user] for turn in session.turns]
        return [{"id": str(n), "text": text} for n, text in enumerate(texts[-k:])]

    def reset(self, user):
        self.told.pop(user, None)


def tracks_of(task):
    settings = {"task": task, "model": "floor/random", "size": "32k"}
    if task != "personamem":
        settings = {"task": task, "model": "rules"}
    return open_data(parse_settings(settings, RunSettings)).tracks


def store(system, tracks, path, **options):
    opening = Opening(path / "memory", None, None, 0, {})

    def samples():
        for track in tracks:
            for sample in track.samples():
                yield track.task, sample

    fixed = {"k": 5, "timeout": 10.0} | options
    diary = Diary(path / "memory.jsonl")
    return Store("watched", ClassConnection(system), opening, diary, samples, **fixed)


def recalled(memory, tracks, limit=None, **shown):
    async def all_of():
        asked = [(track.task, sample) for track in tracks for sample in track.samples()]
        try:
            return await asyncio.gather(*(memory.recall(*pair, **shown) for pair in asked[:limit]))
        finally:
            await memory.aclose()

    return asyncio.run(all_of())


@pytest.fixture(scope="module")
def personas():
    return tracks_of("personamem")


def test_a_history_that_questions_share_is_ingested_once_and_asked_at_each_end(personas, tmp_path):
    system = Watched()
    recalled(store(system, personas, tmp_path), personas)
    longest = {}
    for sample in personas[0].samples():
        turns = tuple(turn.text for turn in sample.history())
        name = sample.question.history
        longest[name] = max(longest.get(name, ()), turns, key=len)
    told = []
    for sessions in system.told.values():
        told.append(tuple(turn.text for session in sessions for turn in session.turns))
        assert len({session.id for session in sessions}) == len(sessions)
        begun = [session.started_at for session in sessions]
        assert begun == sorted(begun)
    assert sorted(told) == sorted(longest.values())


def test_each_question_is_asked_before_what_comes_after_it_is_ingested(personas, tmp_path):
    system, ends = Watched(), {}
    for sample in personas[0].samples():
        ends.setdefault(sample.question.message, set()).add(sample.question.end)
    recalled(store(system, personas, tmp_path), personas)
    known = {}
    for call in system.calls:
        if call[0] == "ingest":
            known[call[1]] = known.get(call[1], 0) + call[3]
        elif call[0] == "search":
            assert known[call[1]] in ends[call[2]]


@pytest.mark.release
def test_a_run_that_goes_on_asks_nothing_again(personas, tmp_path):
    first = recalled(store(Watched(), personas, tmp_path), personas)
    system = Watched()
    again = recalled(store(system, personas, tmp_path), personas)
    assert again == first
    assert system.calls == []


def test_users_are_told_by_nothing_that_the_data_say(personas, tmp_path):
    system = Watched()
    recalled(store(system, personas, tmp_path), personas)
    said = json.dumps([call for call in system.calls if call[0] != "search"])
    for sample in personas[0].samples():
        question = sample.question
        for secret in (question.id, question.history, question.type, *question.options):
            assert secret not in said
    other = Watched()
    (tmp_path / "other").mkdir()
    recalled(store(other, personas, tmp_path / "other"), personas)
    assert not set(system.told) & set(other.told)


def test_abilities_about_one_dialogue_share_one_user(tmp_path):
    tracks = tracks_of("utilization")
    system = Watched()
    recalled(store(system, tracks, tmp_path), tracks)
    dialogues = {
        tuple(turn.text for turn in sample.dialogue)
        for track in tracks
        for sample in track.samples()
    }
    assert len(system.told) == len(dialogues)


def test_the_budget_is_the_suites_own(personas, tmp_path):
    shown = recalled(store(Watched(), personas, tmp_path), personas, max_tokens=100)
    assert all(one.tokens <= 100 or len(one.memories) == 1 for one in shown)
    assert any(one.left_out for one in shown)


class Breaks(Watched):
    def search(self, user, query, k, at):
        raise RuntimeError("no index")


class Pends(Watched):
    def settle(self, user, timeout):
        return "pending"


class Says(Watched):
    def search(self, user, query, k, at):
        return [{"id": "1", "text": ""}]


@pytest.mark.parametrize(
    ("system", "said"),
    [
        (Breaks(), "memory, search: raised RuntimeError: no index"),
        (Pends(), "memory, settle: returned 'pending' instead of 'ready' (timeout: 10 s)"),
        (Says(), "memory, search: hits[0].text: expected a non-empty string"),
    ],
)
def test_a_failure_is_one_of_its_stage_and_never_an_empty_result(personas, tmp_path, system, said):
    with pytest.raises(MemoryFailed) as caught:
        recalled(store(system, personas, tmp_path), personas, limit=1)
    assert str(caught.value) == said


def test_hits_may_be_objects_of_the_protocol(personas, tmp_path):
    class Typed(Watched):
        def search(self, user, query, k, at):
            return [Hit("1", f"asked at {at}", 0.5)]

    (shown,) = recalled(store(Typed(), personas, tmp_path), personas, limit=1)
    assert shown.memories[0] > f"asked at {stamp(1, 0)}"
