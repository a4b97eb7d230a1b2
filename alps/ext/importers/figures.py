"""Figures of imported answers, and checks of them.

Figures are scores with intervals, trivial baselines, and systems that tie. Checks say what can't
be, what is missing, and what wrong golds leave open.

Sources of what is known: LoCoMo, the counts and errors of dial481/locomo-audit (`results-
audit/RESULTS_AUDIT.md`): 99 of 1,540 golds are wrong, so that no system can deserve more than 93.57
%; the adversarial questions, which that audit leaves out, are 446 (Maharana et al., ACL 2024).
LongMemEval: Wu et al., ICLR 2025, 500 questions of six types, 30 of them abstentions.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from alps.errors import UsageError
from alps.ext.importers.halumem import ANSWERS
from alps.ext.importers.reading import UNKNOWN, ImportedAnswer
from alps.show.formatting import counted
from alps.stats.bootstrap import FEWEST_RESAMPLED, Estimate, clustered_mean
from alps.stats.paired import SIGNIFICANT, Difference, holm, paired_difference, shared_letters
from alps.text import fold

REFUSAL = "I don't know."
_WORD = re.compile(r"\w+")
_ARTICLES = frozenset(("a", "an", "the"))
_REPORTED = re.compile(r"(\d+(?:\.(\d+))?)(%?)\Z")
_NAMED = 3
_ROUNDING = 1e-9


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
    """Two systems on the questions that both have a score for.

    Attributes:
        p_holm: None where too few conversations allow no test; the estimate says why.
    """

    part: str
    first: str
    second: str
    n: int
    difference: Difference
    p_holm: float | None


@dataclass(frozen=True)
class Ties:
    """Letters of systems: two that were tested share one if they do not differ significantly."""

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
        if p is not None and p <= SIGNIFICANT:
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
    found = paired_difference(columns[0], columns[1], conversations, resampled=True)
    count, estimate = len(set(conversations)), found.estimate
    # Where all differ alike the test is that of signs, which is significant from six on.
    alike = bool(estimate.value) and (found.detectable or 0.0) <= _ROUNDING
    if count >= FEWEST_RESAMPLED or not (estimate.reason or alike):
        return found
    reason = estimate.reason or f"{count:,} sessions are too few to test"
    return Difference(replace(estimate, reason=reason), None, None)


@dataclass(frozen=True)
class Known:
    """How many questions a category has.

    Attributes:
        wrong: How many of them have a wrong gold; None if not known.
        optional: Whether most evaluations leave the category out.
    """

    n: int
    wrong: int | None = None
    optional: bool = False

    @property
    def ceiling(self) -> float | None:
        """The best score that a system can deserve."""
        return None if self.wrong is None else (self.n - self.wrong) / self.n


LOCOMO: Mapping[str, Known] = {
    "multi-hop": Known(282, 28),
    "temporal": Known(321, 26),
    "open-domain": Known(96, 9),
    "single-hop": Known(841, 36),
    "adversarial": Known(446, optional=True),
}
LOCOMO_REPEATED = {1_540: 11, 1_986: 12}
"""How many questions stand in one conversation twice, by how many there are: without and with the
adversarial ones."""
LONGMEMEVAL: Mapping[str, Known] = {
    "single-session-user": Known(70),
    "single-session-assistant": Known(56),
    "single-session-preference": Known(30),
    "multi-session": Known(133),
    "temporal-reasoning": Known(133),
    "knowledge-update": Known(78),
}
LONGMEMEVAL_QUESTIONS = sum(known.n for known in LONGMEMEVAL.values())
HALUMEM_QUESTIONS = 3_467
"""Of either version, by the README of MemTensor/HaluMem."""
BEAM_QUESTIONS = 20
"""Of each conversation, whatever its length: 2,000 of 100 (Tavakoli et al., arXiv:2510.27246)."""


def benchmark_of(categories: set[str]) -> Mapping[str, Known]:
    """Return the known benchmark that has these categories; None if there is none."""
    for known in (LOCOMO, LONGMEMEVAL):
        if categories and categories <= set(known):
            return known
    return {}


def flags_of(
    form: str,
    answers: Sequence[ImportedAnswer],
    figures: Sequence[GroupScore],
    reported: str | None,
) -> list[str]:
    """Return what is wrong, or in doubt, a line each."""
    asked = [answer for answer in answers if not answer.of_system]
    flags = [*_duplicates(asked), *_not_shared(asked)]
    parts = list(dict.fromkeys(answer.part for answer in answers))
    for system in dict.fromkeys(answer.system for answer in answers):
        own = [answer for answer in answers if answer.system == system]
        if all(answer.score is None for answer in own):
            flags.append(f"{system}: no verdict on any of {counted(len(own), 'answer')}")
        flags += _missing_in_all(form, system, own)
        for part in parts:
            known = benchmark_of({answer.category for answer in answers if answer.part == part})
            if theirs := [answer for answer in own if answer.part == part]:
                flags += _missing(system, theirs, known)
                of_part = [figure for figure in figures if figure.part == part]
                flags += _held_to_golds(system, theirs, of_part, known)
    if reported is not None:
        flags += _reported(reported, answers, figures)
    return flags


def _duplicates(answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    by_system: dict[str, Counter[tuple[str, str, str, int]]] = {}
    for answer in answers:
        asked = by_system.setdefault(answer.system, Counter())
        question = answer.question or answer.id
        asked[answer.part, answer.conversation, question, answer.repeat] += 1
    for system, asked in by_system.items():
        twice = [question for (_, _, question, _), times in asked.items() if times > 1]
        # A whole file of LoCoMo has its own: they say nothing of whoever answered them.
        if twice and LOCOMO_REPEATED.get(asked.total()) != len(twice):
            more = f", and {len(twice) - _NAMED:,} more" if len(twice) > _NAMED else ""
            yield f"{system}: repeated questions: {'; '.join(twice[:_NAMED])}{more}"


def _not_shared(answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    """Say how many questions only some of several systems answered."""
    ids: dict[str, set[str]] = {}
    for answer in answers:
        ids.setdefault(answer.system, set()).add(f"{answer.part}\0{answer.id}")
    everything = set().union(*ids.values())
    for system, own in ids.items():
        if lacking := len(everything - own):
            missing = counted(lacking, "missing question")
            yield f"{system}: {missing} that other systems answered"


def _missing(
    system: str, answers: Sequence[ImportedAnswer], known: Mapping[str, Known]
) -> Iterator[str]:
    counts = Counter(answer.category for answer in answers)
    for category, about in known.items():
        # LongMemEval's script takes rows that are not there out of the denominator: fewer questions
        # may then be a higher score.
        if category in counts and counts[category] != about.n:
            yield f"{system}: {counts[category]:,} of {about.n:,} questions on {category}"
    absent = [name for name, about in known.items() if name not in counts and not about.optional]
    if absent:
        yield f"{system}: no question on {', '.join(absent)}"


def _missing_in_all(form: str, system: str, answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    """Say how many questions differ from a benchmark whose categories are not known by number."""
    if form == "halumem":
        count = sum(answer.part == ANSWERS for answer in answers)
        if count != HALUMEM_QUESTIONS:
            yield f"{system}: {count:,} questions, but HaluMem has {HALUMEM_QUESTIONS:,}"
    if form == "longmemeval":
        count = len({answer.id for answer in answers})
        # Where `data=` tells the types, `_missing` counts each of them.
        if count != LONGMEMEVAL_QUESTIONS and answers[0].category == UNKNOWN:
            yield f"{system}: {count:,} questions, but LongMemEval has {LONGMEMEVAL_QUESTIONS:,}"
    if form == "beam":
        counts = Counter(answer.conversation for answer in answers)
        others = [name for name, count in counts.items() if count != BEAM_QUESTIONS]
        if others:
            shown = ", ".join(others[:_NAMED])
            chats = counted(len(others), "chat")
            yield f"{system}: {chats} without exactly {BEAM_QUESTIONS} questions: {shown}"


def _held_to_golds(
    system: str,
    answers: Sequence[ImportedAnswer],
    figures: Sequence[GroupScore],
    known: Mapping[str, Known],
) -> Iterator[str]:
    """Name scores above what wrong golds let a system deserve, and what these leave open."""
    yield from _categories_above(system, figures, known)
    audited = {name: about for name, about in known.items() if about.wrong is not None}
    if audited:
        own = [answer.score for answer in answers if answer.category in audited]
        yield from _together(system, own, audited)


def _categories_above(
    system: str, figures: Sequence[GroupScore], known: Mapping[str, Known]
) -> Iterator[str]:
    for figure in figures:
        about = known.get(figure.category)
        value = figure.score.value
        if figure.system != system or about is None or about.ceiling is None or value is None:
            continue
        if figure.score.n == about.n and value > about.ceiling:
            credited = math.ceil((value - about.ceiling) * about.n - 1e-6)
            yield (
                f"{system}: {value:.2%} on {figure.category} is above the ceiling of "
                f"{about.ceiling:.2%}: at least {counted(credited, 'answer')} got credit for one "
                f"of the {about.wrong} wrong golds"
            )


def _together(
    system: str, own: Sequence[float | None], audited: Mapping[str, Known]
) -> Iterator[str]:
    scored = [score for score in own if score is not None]
    # How many wrong golds a part of the questions has is not known.
    n = sum(about.n for about in audited.values())
    wrong = sum(about.wrong or 0 for about in audited.values())
    right, ceiling = math.fsum(scored), (n - wrong) / n
    # MemoryLake publishes 94.03 % of 1,540 questions, of which 93.57 % can be right.
    if len(own) == n and right / n > ceiling:
        yield f"{system}: {right / n:.2%} is above the ceiling of {ceiling:.2%}"
    if len(scored) == n:
        low, high = max(0.0, right - wrong) / n, min(float(n), right + wrong) / n
        yield (
            f"{system}: {right / n:.2%} of {n:,} answers are right, but {wrong} golds are wrong "
            f"(dial481/locomo-audit), so the true share is between {low:.2%} and {high:.2%}"
        )


def _reported(
    reported: str, answers: Sequence[ImportedAnswer], figures: Sequence[GroupScore]
) -> Iterator[str]:
    """Hold a published accuracy against what was recomputed, and against what n can give."""
    value, decimals = parse_share(reported)
    if len({figure.system for figure in figures}) > 1:
        raise UsageError(f"reported={reported} needs exactly one file")
    # Of a benchmark with several parts, its questions are the first.
    overall = figures[0]
    own, n = overall.score.value, overall.score.n
    if own is None:
        return
    # A README may print another run than the file beside it: MIRIX's full context has 87.52 %
    # there, and 87.99 % by its rows.
    if abs(own - value) > 0.5 * 10**-decimals + _ROUNDING:
        yield f"{overall.system}: reported {reported}, recomputed {own:.{max(1, decimals - 1)}%}"
    # Marks between right and wrong add up to any share.
    if any(answer.score not in (0, 1, None) for answer in answers if answer.part == overall.part):
        return
    if abs(round(value * n) / n - value) > 0.5 * 10**-decimals + _ROUNDING:
        yield f"{overall.system}: no number of right answers out of {n:,} gives {reported}"


def parse_share(reported: str) -> tuple[float, int]:
    """Read `74.3%` or `0.743`; return the share, and how many decimals of it were written.

    Raises:
        UsageError: If it is no share.
    """
    match = _REPORTED.match(reported.strip())
    if match is None:
        raise UsageError(f"reported={reported}: must be a share, such as 74.3% or 0.743")
    percent = bool(match[3])
    value = float(match[1]) / (100 if percent else 1)
    if value > 1:
        raise UsageError(f"reported={reported}: more than 100 %; write 74.3% or 0.743")
    return value, len(match[2] or "") + (2 if percent else 0)
