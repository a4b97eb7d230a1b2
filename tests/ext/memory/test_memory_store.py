"""A memory system behind the suite: whose histories it is given, when, and how it is asked.

A budget of tokens holds for every memory, and what was shown is measured.
"""

import asyncio
import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from alps import evaluate
from alps.errors import UsageError
from alps.ext.memory.built_in import Turns
from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.part import admitted, check_estimable
from alps.ext.memory.protocol import Hit, stamp
from alps.ext.memory.reader import Direct, open_embedded
from alps.ext.memory.store import cut
from alps.schema import Turn
from alps.systems.embedded import Unheard
from alps.tasks.by_memory import History
from tests.endtoend import rows, summary
from tests.ext.memory.stores import MADE_UP, Watched, faults_of, pairs_of, store_of, together


@pytest.fixture(scope="module")
def personas():
    return pairs_of(**MADE_UP)


def recalled(system, folder, pairs, limit=None):
    store = store_of(system, folder, pairs)
    return together(store, [store.recall(*pair) for pair in pairs[:limit]])


def answers(store, pairs):
    direct = Direct(Unheard("rules"), store)
    return together(store, [direct.answer(*pair) for pair in pairs], at_once=False)


def answered(system, folder, **words):
    pairs = pairs_of(memory="bm25", **words)
    return answers(store_of(system, folder, pairs), pairs)


def test_a_history_that_questions_share_is_ingested_once_and_asked_at_each_end(personas, tmp_path):
    system, longest, ends = Watched(), {}, {}
    recalled(system, tmp_path, personas)
    for _, sample in personas:
        turns = tuple(turn.text for turn in sample.history())
        name = sample.question.history
        longest[name] = max(longest.get(name, ()), turns, key=len)
        ends.setdefault(sample.question.message, set()).add(sample.question.end)
    told = []
    for sessions in system.told.values():
        told.append(tuple(turn.text for session in sessions for turn in session.turns))
        assert len({session.id for session in sessions}) == len(sessions)
        begun = [session.started_at for session in sessions]
        assert begun == sorted(begun)
    assert sorted(told) == sorted(longest.values())
    # What comes after a question is not ingested before it was asked.
    known = {}
    for call in system.calls:
        if call[0] == "ingest":
            known[call[1]] = known.get(call[1], 0) + call[3]
        elif call[0] == "search":
            assert known[call[1]] in ends[call[2]]


@pytest.mark.release
def test_a_run_that_goes_on_asks_nothing_again(personas, tmp_path):
    first = recalled(Watched(), tmp_path, personas)
    system = Watched()
    assert recalled(system, tmp_path, personas) == first
    assert system.calls == []


def test_a_run_that_goes_on_tells_and_asks_nothing_again_where_the_memory_answers(tmp_path):
    words = {"task": "extraction,update,retrieval", "limit": 3}
    first = answered(Watched(), tmp_path, **words)
    system = Watched()
    assert answered(system, tmp_path, **words) == first
    assert system.told == {}


def test_users_are_told_by_nothing_that_the_data_say(personas, tmp_path):
    system, other = Watched(), Watched()
    recalled(system, tmp_path, personas)
    said = json.dumps([call for call in system.calls if call[0] != "search"])
    for _, sample in personas:
        question = sample.question
        for secret in (question.id, question.history, question.type, *question.options):
            assert secret not in said
    (tmp_path / "other").mkdir()
    recalled(other, tmp_path / "other", personas)
    assert not set(system.told) & set(other.told)


def told_by(system):
    """Return what a system was told of each user as JSON."""
    return [json.dumps([user, *map(asdict, told)]) for user, told in system.told.items()]


def test_a_system_is_told_dialogues_and_nothing_of_the_data(tmp_path):
    system = Watched()
    pairs = pairs_of(task="extraction,update", memory="bm25", limit=4)
    answers(store_of(system, tmp_path, pairs), pairs)
    told = "\n".join(told_by(system))
    for task, sample in pairs:
        said = [turn.text for turn in task.by_memory.answers.history(sample).turns]
        assert all(json.dumps(text)[1:-1] in told for text in said)
        assert sample.benchmark_id not in told
        assert sample.session_id not in told
        for memory in sample.gold:
            assert memory.value in "".join(said) or memory.value not in told


def test_a_system_is_told_candidates_without_their_ids(tmp_path):
    system = Watched()
    pairs = pairs_of(task="retrieval", memory="bm25", limit=2)
    answers(store_of(system, tmp_path, pairs), pairs)
    for told, (_, sample) in zip(told_by(system), pairs, strict=True):
        assert sample.benchmark_id not in told
        for candidate in sample.candidates:
            assert json.dumps(candidate.value)[1:-1] in told
            assert f'"{candidate.id}"' not in told


def test_abilities_about_one_dialogue_share_one_user(tmp_path):
    system, pairs = Watched(), pairs_of(task="utilization")
    recalled(system, tmp_path, pairs)
    dialogues = {tuple(turn.text for turn in sample.dialogue) for _, sample in pairs}
    assert len(system.told) == len(dialogues)


class Returns(Turns):
    """Returns from a method what a function returns, or raises what it raises."""

    def __init__(self, method, function):
        super().__init__("bm25")
        setattr(self, method, function)


def fails(error):
    def method(*arguments):
        raise error

    return method


def gives(value):
    return lambda *arguments: value


PENDING = "settle: returned 'pending' instead of 'ready' (timeout: 10 s)"
TEXTLESS, NO_TEXT = [{"id": "1", "text": ""}], "search: hits[0].text: expected a non-empty string"


class Breaks(list):
    def __iter__(self):
        raise type("Gone\n2 lines", (Exception,), {})()


FAILING = {
    "its hits break": (
        gives(Breaks([1])),
        "search: the returned value can't be read: Gone 2 lines",
    ),
    "it breaks": (fails(RuntimeError("no index")), "search: raised RuntimeError: no index"),
    "it is pending": (gives("pending"), PENDING),
    "it finds nothing with an id": (gives(TEXTLESS), NO_TEXT),
}


@pytest.mark.parametrize(("function", "said"), FAILING.values(), ids=FAILING)
def test_a_failure_is_of_its_stage_and_never_an_empty_result(personas, tmp_path, function, said):
    with pytest.raises(MemoryFailed) as caught:
        recalled(Returns(said.partition(":")[0], function), tmp_path, personas, limit=1)
    assert str(caught.value) == f"memory, {said}"


class Hiccups(Turns):
    """Fails the searches of these numbers."""

    def __init__(self, numbers):
        super().__init__("bm25")
        self._numbers, self._searches = numbers, 0

    def search(self, *arguments):
        self._searches += 1
        if self._searches in self._numbers:
            raise OSError("busy")
        return super().search(*arguments)


def searched(system, folder, pairs):
    """Ask about each pair; return whether something was found, or its search failed."""
    store = store_of(system, folder, pairs)

    async def ask(pair):
        try:
            await store.recall(*pair)
        except MemoryFailed as failed:
            return str(failed)
        return "found"

    return together(store, [ask(pair) for pair in pairs])


def test_a_failed_search_costs_its_own_question_alone(personas, tmp_path):
    history = personas[0][1].question.history
    pairs = [pair for pair in personas if pair[1].question.history == history]
    assert len(pairs) > 6
    asked = searched(Hiccups({2, 3, 5}), tmp_path, pairs)
    assert sorted(asked) == sorted(["found"] * (len(pairs) - 3) + [BUSY] * 3)


class Kept(Hiccups):
    """Keeps what it was told, in another process too: here, in the dictionary of the test."""

    persistent = True

    def __init__(self, numbers, told):
        super().__init__(numbers)
        self._told, self.asked = told, []

    def ingest(self, user, session):
        self._told.setdefault(user, []).append(session)

    def search(self, user, query, k, at):
        self._searches += 1
        self.asked.append((query, len(self._told.get(user, ()))))
        if self._searches in self._numbers:
            raise OSError("busy")
        return [Hit("1", "something", 1.0)]


def test_a_search_that_failed_is_not_repeated_when_later_sessions_are_stored(personas, tmp_path):
    history = personas[0][1].question.history
    pairs = [pair for pair in personas if pair[1].question.history == history]
    told = {}
    first = Kept({2}, told)
    assert searched(first, tmp_path, pairs).count("found") == len(pairs) - 1
    again = Kept((), told)
    found = searched(again, tmp_path, pairs)
    assert again.asked == []
    assert [one for one in found if one != "found"] == [TOO_LATE]


def test_after_three_failed_searches_in_a_row_a_user_is_not_asked_about_again(personas, tmp_path):
    history = personas[0][1].question.history
    pairs = [pair for pair in personas if pair[1].question.history == history]
    system = Hiccups(range(2, 5))
    assert searched(system, tmp_path, pairs).count("found") == 1
    assert system._searches == 4


def test_hits_may_be_objects_of_the_protocol(personas, tmp_path):
    system = Returns("search", lambda user, query, k, at: [Hit("1", f"asked at {at}", 0.5)])
    (shown,) = recalled(system, tmp_path, personas, limit=1)
    assert shown.memories[0] > f"asked at {stamp(1, 0)}"


BUSY = "memory, search: raised OSError: busy"
TOO_LATE = "memory, search: failed before the run was interrupted; later sessions are stored by now"
GONE = "memory, memories: raised OSError: the index is gone"
FOUND = {
    "no memories": ("memories", gives([]), "extraction", "ok", None),
    "no hits": ("search", gives([]), "retrieval", "empty", "memory, search: no hits"),
    "it breaks": ("memories", fails(OSError("the index is gone")), "update", "invalid", GONE),
}


@pytest.mark.parametrize("name", FOUND)
def test_nothing_found_and_a_failure_are_two_things(tmp_path, name):
    method, function, task, outcome, error = FOUND[name]
    (made,) = answered(Returns(method, function), tmp_path, task=task, limit=1)
    assert (made.outcome, made.error) == (outcome, error)


def test_a_system_that_lists_nothing_is_refused_where_the_list_is_the_answer(tmp_path):
    pairs = pairs_of(task="extraction,retrieval", memory="bm25", limit=1)
    store = store_of(Returns("memories", None), tmp_path, pairs)
    assert faults_of(asyncio.run(admitted(store, "before"))) == []
    with pytest.raises(UsageError) as refused:
        check_estimable(store, [task for task, _ in pairs])
    said = "memory=own has no method `memories`, so extraction can't be estimated"
    assert str(refused.value) == f"{said}; set task=retrieval"
    extracted, found = answers(store, pairs)
    # Not estimable is not 0: such a record is unscored.
    assert extracted.outcome == "transport"
    assert found.outcome == "ok"


BUDGET = 256
PERSONAMEM = {**MADE_UP, "limit": 6, "k": 50}
UTILIZATION = {"task": "utilization", "ability": "pa", "limit": 6}


class LongBest(Turns):
    """Returns everything that a user said as its best memory."""

    def __init__(self):
        super().__init__("bm25")

    def search(self, user, query, k, at):
        whole = "\n".join(hit.text for hit in self.memories(user))
        hits = super().search(user, query, k, at)
        return [replace(hit, text=f"{hit.text}\n{whole}") for hit in hits[:1]] + hits[1:]


@pytest.mark.few(2)
@pytest.mark.parametrize("memory", ["LongBest", "bm25", "full", "last:3", "oracle", "placebo"])
def test_no_memory_shows_more_than_the_budget(memory, tmp_path):
    words = {"max_context_tokens": BUDGET, "out": str(tmp_path / "run"), "model": "rules"}
    words |= UTILIZATION if memory in ("oracle", "placebo") else PERSONAMEM
    named = f"python:{__name__}:LongBest" if memory == "LongBest" else memory
    evaluate(**words, memory=named)
    noted = sorted(row["shown"]["tokens"] for row in rows(tmp_path / "run" / "predictions.jsonl"))
    assert BUDGET // 2 < noted[-1] <= BUDGET
    (track,) = summary(tmp_path / "run")["tracks"].values()
    assert track["tokens_shown"] == {"median": noted[2], "p95": noted[-1], "most": noted[-1]}


@pytest.mark.parametrize(
    ("name", "shown"), [("full", "sabcd"), ("none", ""), ("last:2", "cd"), ("last:9", "abcd")]
)
def test_what_is_no_system_shows_a_part_of_the_history(name, shown):
    said = tuple(Turn(role="user", text=text) for text in "abcd")
    history = History(((Turn(role="system", text="s"), *said),))
    recall = SimpleNamespace(history=lambda sample: history)
    task = SimpleNamespace(by_memory=SimpleNamespace(recall=recall))
    found = asyncio.run(open_embedded(name).recall(task, None))
    assert "".join(turn.text for turn in found.turns) == shown


@pytest.mark.parametrize(
    ("texts", "budget", "shown", "left_out"),
    [
        # A text takes its bytes and four more: what separates it from the next.
        (["a" * 12, "b" * 12], 8, ["a" * 12, "b" * 12], 0),
        (["a" * 12, "b" * 12], 7, ["a" * 12, "b" * 8], 1),
        (["a" * 400, "b"], 7, ["a" * 24], 2),
        (["", "b"], 7, ["", "b"], 0),
        (["说说"], 2, ["说"], 1),
        (["说说"], 1, [], 1),
        (["a"] * 50, 10, ["a"] * 8, 42),
    ],
)
def test_hits_are_cut_to_the_budget(texts, budget, shown, left_out):
    part = cut([Hit(str(n), text) for n, text in enumerate(texts)], budget)
    assert list(part.memories) == shown
    assert part.left_out == left_out
    assert part.tokens <= budget
