"""Figures of imported answers: scores with intervals, trivial baselines, systems that tie."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from alps.ext.importers.reading import ImportedAnswer
from alps.stats.bootstrap import Estimate, clustered_mean
from alps.stats.paired import Difference, holm, paired_difference, shared_letters
from alps.text import fold

SIGNIFICANCE = 0.05
REFUSAL = "I don't know."
_WORD = re.compile(r"\w+")
_ARTICLES = frozenset(("a", "an", "the"))


@dataclass(frozen=True)
class GroupScore:
    """The score of one system on one group of questions.

    Attributes:
        category: Empty for all questions of the part.
        score: The mean of what the file's judge gave, its interval clustered by conversation.
        unscored: How many answers have no score.
        f1: The mean token F1 with the gold, in which no judge has a part; None without gold.
    """

    system: str
    part: str
    category: str
    score: Estimate
    unscored: int
    f1: Estimate | None


@dataclass(frozen=True)
class BlindBaseline:
    """What an answer that knows nothing gets on the same questions.

    Attributes:
        name: `commonest gold` is that of the question's category.
        score: What it gets at least under the file's judge; None where that can't be known.
        f1: Its token F1; None without gold.
    """

    name: str
    part: str
    score: float | None
    f1: float | None


@dataclass(frozen=True)
class SystemPair:
    """Two systems on the questions that both have a score for."""

    part: str
    first: str
    second: str
    n: int
    difference: Difference
    p_holm: float | None


@dataclass(frozen=True)
class Ties:
    """Letters of systems: two share one exactly if they do not differ significantly."""

    part: str
    letters: dict[str, str]
    pairs: tuple[SystemPair, ...]


def figures_of(answers: Sequence[ImportedAnswer]) -> list[GroupScore]:
    """Return the figures of each system and part: of all its questions, then by category."""
    figures = []
    for part in _in_order(answer.part for answer in answers):
        for system in _in_order(answer.system for answer in answers):
            own = [one for one in answers if (one.part, one.system) == (part, system)]
            if not own:
                continue
            figures.append(_figure(own, ""))
            categories = sorted({answer.category for answer in own})
            for category in categories if len(categories) > 1 else []:
                figures.append(_figure([one for one in own if one.category == category], category))
    return figures


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _figure(answers: Sequence[ImportedAnswer], category: str) -> GroupScore:
    scored = [answer for answer in answers if answer.score is not None]
    return GroupScore(
        system=answers[0].system,
        part=answers[0].part,
        category=category,
        score=_mean(scored, lambda answer: answer.score or 0.0),
        unscored=len(answers) - len(scored),
        f1=_f1_of(answers, lambda answer: answer.answer or ""),
    )


def _mean(answers: Sequence[ImportedAnswer], value: Callable[[ImportedAnswer], float]) -> Estimate:
    values = np.array([value(answer) for answer in answers], dtype=np.float64)
    return clustered_mean(values, [answer.conversation for answer in answers], resampled=True)


def _f1_of(
    answers: Sequence[ImportedAnswer], said: Callable[[ImportedAnswer], str]
) -> Estimate | None:
    """Estimate the token F1 of what is `said`, over the questions with a gold to be found."""
    own = [one for one in answers if one.gold and one.answer is not None and not one.abstains]
    return _mean(own, lambda answer: token_f1(said(answer), answer.gold or "")) if own else None


def token_f1(answer: str, gold: str) -> float:
    """Return the F1 of the words of an answer and of its gold, articles left out.

    Source: Rajpurkar et al., EMNLP 2016.
    """
    said, meant = _words(answer), _words(gold)
    shared = sum((said & meant).values())
    return 2 * shared / (said.total() + meant.total()) if shared else 0.0


def _words(text: str) -> Counter[str]:
    return Counter(word for word in _WORD.findall(fold(text)) if word not in _ARTICLES)


def baselines_of(answers: Sequence[ImportedAnswer]) -> list[BlindBaseline]:
    """Return the trivial baselines of each part, on the questions of its first system."""
    baselines: list[BlindBaseline] = []
    for part in _in_order(answer.part for answer in answers):
        of_part = [answer for answer in answers if answer.part == part]
        baselines += _baselines([one for one in of_part if one.system == of_part[0].system])
    return baselines


def _baselines(answers: Sequence[ImportedAnswer]) -> Iterator[BlindBaseline]:
    part, commonest = answers[0].part, _commonest(answers)
    # A judge may call a refusal right elsewhere, too: it gets this much at least.
    refused = sum(answer.abstains for answer in answers) / len(answers)
    f1 = _f1_of(answers, lambda _: REFUSAL)
    if refused or f1 is not None:
        value = None if f1 is None else f1.value
        yield BlindBaseline("always refuses", part, refused or None, value)
    for name, said in (
        ("repeats question", lambda answer: answer.question or ""),
        ("commonest gold", lambda one: commonest.get(one.category, "")),
    ):
        if (f1 := _f1_of(answers, said)) is not None:
            yield BlindBaseline(name, part, None, f1.value)


def _commonest(answers: Sequence[ImportedAnswer]) -> dict[str, str]:
    golds: dict[str, Counter[str]] = {}
    for answer in answers:
        if answer.gold and not answer.abstains:
            golds.setdefault(answer.category, Counter())[answer.gold] += 1
    return {category: counts.most_common(1)[0][0] for category, counts in golds.items()}


def ties_of(answers: Sequence[ImportedAnswer]) -> list[Ties]:
    """Compare the systems of each part on the questions that both have a score for.

    Every pair is tested between conversations, and p corrected by Holm's method.
    """
    ties = []
    for part in _in_order(answer.part for answer in answers):
        scores: dict[str, dict[str, ImportedAnswer]] = {}
        for answer in answers:
            if answer.part == part and answer.score is not None and not answer.of_system:
                scores.setdefault(answer.system, {})[answer.id] = answer
        if len(scores) > 1:
            ties.append(_ties(part, scores))
    return ties


def _ties(part: str, scores: dict[str, dict[str, ImportedAnswer]]) -> Ties:
    means = {name: np.mean([one.score for one in own.values()]) for name, own in scores.items()}
    order = sorted(scores, key=lambda name: -float(means[name]))
    compared = []
    for first, second in combinations(order, 2):
        shared = [name for name in scores[first] if name in scores[second]]
        if shared:
            compared.append((first, second, _difference(scores[first], scores[second], shared)))
    known = [found.p for _, _, found in compared if found.p is not None]
    corrected = iter(holm(known))
    pairs, different = [], []
    for first, second, found in compared:
        p = None if found.p is None else next(corrected)
        pairs.append(SystemPair(part, first, second, found.estimate.n, found, p))
        if p is not None and p < SIGNIFICANCE:
            different.append((order.index(first), order.index(second)))
    letters = shared_letters(len(order), different)
    named = {name: "".join(own) for name, own in zip(order, letters, strict=True)}
    return Ties(part, named, tuple(pairs))


def _difference(
    first: dict[str, ImportedAnswer], second: dict[str, ImportedAnswer], shared: Sequence[str]
) -> Difference:
    columns = [
        np.array([own[name].score for name in shared], dtype=np.float64) for own in (first, second)
    ]
    conversations = [first[name].conversation for name in shared]
    return paired_difference(columns[0], columns[1], conversations, resampled=True)
