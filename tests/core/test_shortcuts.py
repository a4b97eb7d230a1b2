"""Known items under judges that take a shortcut: none tells a dozen of any rubric apart."""

import asyncio
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from alps.judges.admission import FEWEST_RIGHT, ORDER, KnownItem, drawn_items, pool
from alps.judges.embedded import ALWAYS_NO, ALWAYS_YES, ConstantJudge, LexicalJudge
from alps.judges.rubric import _OURS, OPTION, OptionVerdict, rubric
from alps.similarity import features, similarity

SEEDS = 40
Measure = Callable[[str, str], float]


def answer_of(item: KnownItem) -> str:
    payload = item.question.payload()
    memories = payload.get("predicted") or payload.get("items")
    return memories[0]["value"] if memories else payload.get("response") or payload["answer"]


def texts_of(item: KnownItem) -> dict[str, str]:
    """What an answer can share words with: each part of what is shown, and all of it."""
    payload = item.question.payload()
    parts = {
        "memory": payload.get("memory") or "",
        "gold": " ".join(one["value"] for one in payload.get("gold") or ()),
        "dialogue": " ".join(one["text"] for one in payload.get("dialogue") or ()),
        "options": " ".join((payload.get("options") or {}).values()),
        "query": payload.get("query") or payload.get("message") or "",
    }
    parts["facts"] = " ".join((parts["memory"], parts["gold"], parts["dialogue"]))
    parts["all"] = " ".join((parts["facts"], parts["options"], parts["query"]))
    return parts


def shared(answer: str, text: str) -> float:
    said, there = features(answer).content, features(text).content
    return sum(min(weight, there[piece]) for piece, weight in said.items() if piece in there)


def recall(answer: str, text: str) -> float:
    return shared(answer, text) / (sum(features(text).content.values()) or 1)


def precision(answer: str, text: str) -> float:
    return shared(answer, text) / (sum(features(answer).content.values()) or 1)


def plain_words(answer: str, text: str) -> float:
    said, there = set(answer.lower().split()), set(text.lower().split())
    return len(said & there) / (len(said | there) or 1)


def characters(answer: str, text: str) -> float:
    said, there = ({one[n : n + 3] for n in range(len(one))} for one in (answer, text))
    return len(said & there) / (len(said | there) or 1)


def length(answer: str, text: str) -> float:
    return len(answer)


def sentences(answer: str, text: str) -> float:
    return sum(answer.count(mark) for mark in ".!?")


def digits(answer: str, text: str) -> float:
    return sum(map(str.isdigit, answer))


FORMS = (length, sentences, digits)


OVERLAPS = (shared, recall, precision, plain_words, characters, similarity)


@cache
def measured(name: str) -> dict[str, dict[str, float]]:
    """By measure, the value of each known item of a rubric, by its name."""
    items = pool(rubric(name))
    values = {}
    for form in FORMS:
        values[form.__name__] = {item.name: form(answer_of(item), "") for item in items}
    for part in texts_of(items[0]):
        for measure in OVERLAPS:
            own = {item.name: measure(answer_of(item), texts_of(item)[part]) for item in items}
            values[f"{measure.__name__} with {part}"] = own
    return values


def most_right(values: list[tuple[float, bool]]) -> int:
    """How many a judge gets right that says yes from the best threshold on, or below it."""
    best = 0
    for limit in {value for value, _ in values} | {float("inf")}:
        right = sum((value >= limit) == good for value, good in values)
        best = max(best, right, len(values) - right)
    return best


def dozens(name: str) -> Iterator[list[KnownItem]]:
    for seed in range(SEEDS):
        yield drawn_items(rubric(name), f"judge {seed}")


@pytest.mark.parametrize("name", [name for name in _OURS if name != OPTION])
def test_no_judge_by_words_or_by_form_is_admitted_at_its_best_threshold(name: str) -> None:
    admitted = {}
    for seed, drawn in enumerate(dozens(name)):
        for measure, values in measured(name).items():
            right = most_right([(values[item.name], item.good) for item in drawn])
            if right >= FEWEST_RIGHT:
                admitted[measure] = seed, right
    assert not admitted


def by_words(item: KnownItem, measure: Measure, limit: float) -> bool:
    """Whether a judge is right that names the option which shares most with an answer."""
    options = item.question.options
    shares = [measure(answer_of(item), option) for option in options]
    best = max(shares)
    chosen = shares.index(best) if best >= limit and shares.count(best) == 1 else None
    return item.is_right(OptionVerdict("ok", chosen))


@pytest.mark.parametrize("measure", OVERLAPS, ids=lambda one: one.__name__)
def test_no_judge_of_options_by_words_is_admitted_at_its_best_threshold(measure: Measure) -> None:
    for limit in (0.001, *(n / 20 for n in range(1, 20)), 1.0, 2.0):
        right = {item.name: by_words(item, measure, limit) for item in pool(rubric(OPTION))}
        most = max(sum(right[item.name] for item in drawn) for drawn in dozens(OPTION))
        assert most < FEWEST_RIGHT, limit


@pytest.mark.parametrize("name", _OURS)
@pytest.mark.parametrize(
    "judge",
    [LexicalJudge(), ConstantJudge(ALWAYS_YES), ConstantJudge(ALWAYS_NO)],
    ids=["lexical", "always yes", "always no"],
)
def test_no_judge_of_the_package_that_reads_nothing_is_admitted(judge, name: str) -> None:
    right = {}
    for item in pool(rubric(name)):
        verdict = asyncio.run(judge.answer(item.question, about=item.name))
        right[item.name] = item.is_right(verdict)
    assert max(sum(right[item.name] for item in drawn) for drawn in dozens(name)) < FEWEST_RIGHT


@pytest.mark.parametrize("name", _OURS)
def test_a_judge_that_is_perfect_but_obeys_answers_is_not_admitted(name: str) -> None:
    for drawn in dozens(name):
        assert sum(item.kind != ORDER for item in drawn) < FEWEST_RIGHT
