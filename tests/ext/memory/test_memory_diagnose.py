"""Where a wrong answer of a run with a memory system was lost: planted faults, and what is said."""

import asyncio
import json
from collections import Counter

import pytest

from alps import evaluate
from alps.errors import UsageError
from alps.ext.memory import resolve
from alps.ext.memory.attribution import (
    STAGES,
    AnswerFacts,
    Found,
    Located,
    find_by_meaning,
    says,
    shares,
    stage_of,
)
from alps.ext.memory.built_in import Turns
from alps.ext.memory.diagnose import diagnose
from alps.ext.personas.generate import generate
from alps.ext.personas.settings import PersonaSettings
from alps.judges.base import Judgement, Pair
from alps.judges.embedded import LexicalJudge
from alps.settings import parse_settings
from tests.ext.memory.stores import MADE_UP, pairs_of

PERSONAS, K, BUDGET = 7, 5, 100
STAGES_PLANTED = (
    *("not extracted", "lost in update", "not indexed", "ranked too low"),
    *("cut by the budget", "not used by the reader", "gold suspect"),
)
FAULTS, NEEDED, GOLD = {}, {}, {}
"""The stage that loses each text, what each message needs, and the right answer to a question."""


class Planted(Turns):
    """Finds what a message needs before all else, unless a fault is planted there."""

    def __init__(self, lists=True):
        super().__init__("bm25")
        if not lists:
            self.memories = None

    def ingest(self, user, session):
        for hit in [hit for hit in self._kept[user] if fault_of(hit) == "lost in update"]:
            self._kept[user].remove(hit)
        super().ingest(user, session)
        for hit in [hit for hit in self._kept[user] if fault_of(hit) == "not extracted"]:
            self._kept[user].remove(hit)

    def search(self, user, query, k, at):
        order = super().search(user, query, len(self._kept[user]), at)
        order = [hit for hit in order if fault_of(hit) != "not indexed"]
        needed = NEEDED.get(query, ())
        first = [hit for hit in order if text_of(hit) in needed]
        others = [hit for hit in order if text_of(hit) not in needed]
        place = {"ranked too low": K + 2, "cut by the budget": K - 1}
        for hit in first:
            others.insert(place.get(fault_of(hit), 0), hit)
        return others[:k]


class Reader:
    """Is right if it is shown what it needs, unless a fault is planted there."""

    def predict(self, sample):
        gold, needed = GOLD[sample.message, sample.options]
        wrong = next(option for option in sample.options if option != gold)
        shown = " ".join([*sample.memories, *(turn.text for turn in sample.history)])
        fault = FAULTS.get(needed)
        unused = fault == "not used by the reader" and len(sample.memories) > 1
        right = needed in shown and not unused and fault != "gold suspect"
        return {"choice": "abcd"[sample.options.index(gold if right else wrong)], "reason": ""}


def text_of(hit):
    return hit.text.partition(": ")[2]


def fault_of(hit):
    return FAULTS.get(text_of(hit))


def samples_of(data):
    pairs = pairs_of(**MADE_UP, model="floor/random", data=data)
    return pairs[0][0], [sample for _, sample in pairs]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Return a data set, and the stage that each of its questions is to be lost at."""
    folder = tmp_path_factory.mktemp("planted")
    generate(parse_settings({"out": str(folder / "data"), "n": PERSONAS}, PersonaSettings))
    task, samples = samples_of(str(folder / "data"))
    expected = {}
    for sample in samples:
        (needed,) = task.by_memory.recall.needed(sample)
        question = sample.question
        FAULTS.setdefault(needed, STAGES_PLANTED[len(FAULTS) % len(STAGES_PLANTED)])
        NEEDED.setdefault(question.message, set()).add(needed)
        GOLD[question.message, question.options] = question.options[question.gold], needed
        expected[question.id] = FAULTS[needed]
    yield folder, expected
    for known in (FAULTS, NEEDED, GOLD):
        known.clear()


def run_of(folder, monkeypatch, system, **settings):
    monkeypatch.setattr(resolve, "open_boxed", lambda name, options: system)
    words = {**MADE_UP, "model": f"python:{__name__}:Reader", "memory": "bm25"}
    fixed = {"k": K, "max_context_tokens": BUDGET, "max_failures": 1.0}
    where = {"data": str(folder / "data"), "out": str(folder / settings.pop("name"))}
    return evaluate(**words, **fixed, **where, **settings).folder


@pytest.mark.release
def test_faults_planted_at_each_stage_are_attributed_to_it(planted, monkeypatch):
    folder, expected = planted
    found = diagnose(run_of(folder, monkeypatch, Planted(), name="run"), typed={})
    right, of = Counter(), Counter()
    for miss in found.misses:
        of[expected[miss.key.id]] += 1
        right[expected[miss.key.id]] += miss.stage == expected[miss.key.id]
    assert min(of[stage] for stage in STAGES_PLANTED) >= 30
    for stage in STAGES_PLANTED:
        assert right[stage] >= 0.95 * of[stage], (stage, right[stage], of[stage])
    assert sum(share.value for share in found.shares.values()) == pytest.approx(1)


class Closed(Planted):
    """Tells nobody what it holds, and is asked as often as it is counted."""

    memories = None
    calls = 0

    def search(self, user, query, k, at):
        Closed.calls += 1
        return super().search(user, query, k, at)


@pytest.mark.release
def test_what_no_search_finds_is_not_estimable_in_a_system_that_lists_nothing(planted, monkeypatch):
    folder, expected = planted
    ran = run_of(folder, monkeypatch, Closed(), name="closed", limit=70)
    first = diagnose(ran, typed={})
    for miss in first.misses:
        hidden = expected[miss.key.id] in ("not extracted", "lost in update", "not indexed")
        assert miss.stage == ("not estimable" if hidden else expected[miss.key.id])
    asked = Closed.calls
    assert diagnose(ran, typed={}).as_json() == first.as_json()
    assert Closed.calls == asked
    assert json.loads(json.dumps(first.as_json()))["stages"]["not extracted"]["value"] == 0


def test_a_run_goes_on_as_before_once_it_was_diagnosed(planted, monkeypatch):
    folder, _ = planted
    ran = run_of(folder, monkeypatch, Planted(), name="again", limit=5)
    before = (ran / "summary.json").read_bytes()
    diagnose(ran, typed={})
    assert run_of(folder, monkeypatch, Planted(), name="again", limit=5) == ran
    assert (ran / "summary.json").read_bytes() == before


LAST = {**MADE_UP, "memory": "last:4", "limit": 2}
UNSCORED = {"task": "utilization", "memory": "bm25", "ability": "pa"}
UNTOLD = {
    "no memory system": (LAST, "memory=last:4 is not a memory system"),
    "no scored answer": (UNSCORED, "no scored answer depends on a memory"),
}


@pytest.mark.parametrize(("words", "said"), UNTOLD.values(), ids=UNTOLD)
def test_a_run_that_tells_nothing_of_a_memory_system_is_not_diagnosed(tmp_path, words, said):
    evaluate(**words, model="rules", out=str(tmp_path / "run"))
    with pytest.raises(UsageError, match=said):
        diagnose(tmp_path / "run", typed={})


def test_code_that_a_run_names_is_run_only_where_it_is_typed_again(planted, monkeypatch):
    folder, _ = planted
    ran = run_of(folder, monkeypatch, Planted(), name="typed", limit=2)
    with pytest.raises(UsageError, match="add model=… to the command"):
        diagnose(ran, typed={"model": None, "memory": None})
    with pytest.raises(UsageError, match=r"model=rules: .* was made with model=python:"):
        diagnose(ran, typed={"model": "rules"})
    diagnose(ran, typed={"model": f"python:{__name__}:Reader", "memory": None})


SAID = Found("told", 1)
HELD = Located(listed=3, kept=SAID)
RIGHT = {"with_evidence": True, "with_memory": True}


@pytest.mark.parametrize(
    ("facts", "stage"),
    [
        (AnswerFacts(failed="memory, search: raised"), "memory failed"),
        (AnswerFacts(known=False, with_evidence=True), "not estimable"),
        (AnswerFacts(shown=SAID, hit=SAID), "not estimable"),
        (AnswerFacts(shown=SAID, hit=SAID, with_evidence=False), "gold suspect"),
        (AnswerFacts(shown=SAID, hit=SAID, **RIGHT), "not used by the reader"),
        (AnswerFacts(shown=SAID, hit=SAID, with_evidence=True, with_memory=False), "not extracted"),
        (AnswerFacts(hit=SAID, **RIGHT), "cut by the budget"),
        (AnswerFacts(located=HELD, **RIGHT), "not indexed"),
        (AnswerFacts(located=Located(listed=3, kept=SAID, ranked=SAID), **RIGHT), "ranked too low"),
        (AnswerFacts(located=Located(listed=3, was=SAID), **RIGHT), "lost in update"),
        (AnswerFacts(located=Located(listed=3), **RIGHT), "not extracted"),
        (AnswerFacts(located=Located(), **RIGHT), "not estimable"),
        (AnswerFacts(**RIGHT), "not estimable"),
    ],
)
def test_the_stage_follows_from_the_facts(facts, stage):
    assert stage_of(facts) == stage


def test_the_shares_of_all_stages_sum_to_one_and_have_intervals():
    stages = [STAGES[place % 4] for place in range(80)]
    estimates = shares(stages, [place // 4 for place in range(80)])
    assert sum(estimate.value for estimate in estimates.values()) == pytest.approx(1)
    for stage in STAGES[:4]:
        estimate = estimates[stage]
        assert estimate.low <= 0.25 <= estimate.high


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("user: I moved to Lisbon with my two sons.", True),
        ("User moved to Lisbon with sons", True),
        ("User moved to Porto with parents", False),
        ("yes", False),
    ],
)
def test_a_memory_says_what_was_told_whole_or_in_fewer_words(memory, said):
    assert says(memory, "I moved to Lisbon with my two sons.") is said


class Judges(LexicalJudge):
    """Relates what speaks of sons to what speaks of children, as an LLM would."""

    comparable = True

    async def answer(self, question, *, about):
        related = ["sons" in item.value for item in question.predicted]
        relation = "bundle" if "children" in question.gold[0].value else "related"
        pairs = [Pair(0, place, relation, "") for place, yes in enumerate(related) if yes]
        return Judgement("ok", tuple(pairs))


@pytest.mark.parametrize(
    ("judge", "needed", "place"),
    [
        (Judges(), "My children live with me", 2),
        (Judges(), "My parents live with me", None),
        (LexicalJudge(), "My children live with me", None),
        (LexicalJudge(), "He likes tulips", 3),
    ],
)
def test_a_judge_that_is_an_llm_is_asked_where_words_do_not_tell(judge, needed, place):
    memories = ["He moved to Lisbon", "Two sons share his flat", "He likes tulips and roses"]
    found = asyncio.run(find_by_meaning(judge, memories, (needed,)))
    assert (None if found is None else found.place) == place
