"""Scores of PersonaMem: what an answer is worth, trivial rules, metrics and breakdowns.

In the published 32k set the gold is a longest option in .505 of the questions, and a rule that
looks at type and length alone reaches .661, more than published memory systems. So every score
stands beside such rules, and a second headline counts the questions that the rule gets wrong.

Distance is confounded with type: in the published run without any history, which can't forget,
accuracy falls from .83 at one session to .32 at six. So curves over distances are standardised
over types, and the raw ones stand next to them.

Generated users name a preference that was replaced twice, and the one that holds once, before what
they tried and did not like. So whoever counts how often, and looks where first, each option is
named in the history has three types right without understanding: those are a search.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from typing import Any

from alps.judges.base import Judge
from alps.schema import Prediction
from alps.tasks.base import Answer, Row, Scored
from alps.tasks.metrics import Breakdown, Inference, MacroRatio, Metric, OnBoards
from alps.tasks.personamem.persona_timeline import NEW_IDEAS
from alps.tasks.personamem.release import LETTERS, PersonaMem, PersonaQuestion
from alps.tasks.personamem.samples import ChoiceSample, invalid_kind
from alps.text import fold

PAPER = {
    "recall_user_shared_facts": "acknowledge latest user preferences",
    "recalling_facts_mentioned_by_the_user": "recall user-shared facts",
    "track_full_preference_evolution": "track full preference evolution",
    "recalling_the_reasons_behind_previous_updates": "revisit reasons behind preference updates",
    "suggest_new_ideas": "suggest new ideas",
    "generalizing_to_new_scenarios": "generalize to new scenarios",
    "provide_preference_aligned_recommendations": "provide preference-aligned recommendations",
}
"""The seven types as the files name them, and as the paper does."""

ERRORS = {
    "superseded": "an outdated preference or reason",
    "order": "the preferences in the wrong order",
    "other_topic": "a statement about another topic",
    "disliked": "something tried and disliked",
    "known": "not new: the user mentioned it",
    "unsaid": "never said by the user",
    "generic": "a generic answer",
    "refusal": "invalid: a refusal",
    "no_answer": "invalid: no answer",
    "two_answers": "invalid: several options",
    "not_an_option": "none of the options",
    "cut_off": "invalid: cut off before the answer",
    "too_long": "invalid: longer than the limit of the model or its server",
    "format": "invalid: not in the requested form",
    "unknown": "reason unknown in the data",
}
"""Why an answer is wrong, by kind."""

_SESSIONS = (*range(1, 11), 20, 40, 60)
_THOUSANDS = (4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 96, 128, 256, 512, 1_024)
_CONFOUNDED = (
    "distance is confounded with question type: even without a history, where nothing can be "
    "forgotten, the accuracy of published answers falls from .83 to .32 as the distance grows"
)


def _session_bins() -> dict[int, str]:
    """Return the bins of sessions by the largest number in each."""
    bins = {1: "1"}
    for before, last in pairwise(_SESSIONS):
        bins[last] = str(last) if last == before + 1 else f"{before + 1}–{last}"
    return bins


def _token_bins() -> dict[int, str]:
    """Return the bins of tokens by the largest number in each."""
    bins = {}
    for before, last in pairwise((0, *_THOUSANDS)):
        bins[1_000 * last - 1] = f"{before}–{last}k"
    return bins


_BY_SESSIONS, _BY_TOKENS = _session_bins(), _token_bins()
_BEYOND = "more"


def _bin_of(value: int | None, bins: dict[int, str]) -> str | None:
    if value is None:
        return None
    return next((label for last, label in bins.items() if value <= last), _BEYOND)


def _in_order(bins: dict[int, str]) -> dict[str, str]:
    return dict.fromkeys((*bins.values(), _BEYOND), "")


BREAKDOWNS = (
    Breakdown("type", "By type (name in the data, name in the paper)", "accuracy", PAPER),
    Breakdown("topic", "By topic", "accuracy"),
    Breakdown(
        "sessions",
        "By distance in sessions",
        "accuracy",
        _in_order(_BY_SESSIONS),
        standardised="type",
        warning=_CONFOUNDED,
    ),
    Breakdown(
        "tokens",
        "By distance in tokens",
        "accuracy",
        _in_order(_BY_TOKENS),
        standardised="type",
        warning=_CONFOUNDED,
    ),
    Breakdown(
        "history",
        "By length of the history in tokens",
        "accuracy",
        _in_order(_BY_TOKENS),
        standardised="type",
    ),
    Breakdown("error", "Wrong answers by kind", None, ERRORS),
)


def groups_of(question: PersonaQuestion) -> dict[str, str]:
    """Return the group of a question in each breakdown that it belongs to, whatever the answer."""
    groups = {
        "type": question.type,
        "topic": question.topic,
        "sessions": _bin_of(question.sessions_back, _BY_SESSIONS),
        "tokens": _bin_of(question.tokens_back, _BY_TOKENS),
        "history": _bin_of(question.tokens, _BY_TOKENS),
    }
    return {name: group for name, group in groups.items() if group is not None}


def error_of(invalid: str | None, choice: str | None, kinds: Sequence[str]) -> str:
    """Return what is wrong with a wrong answer, a key of `ERRORS`.

    Args:
        invalid: The kind of an invalid response; None for others.
        choice: The letter of the option that was chosen; None for none of them.
        kinds: Why each option is wrong, where the data say so.
    """
    if invalid is not None:
        return invalid
    if choice is None:
        return "not_an_option"
    place = LETTERS.index(choice)
    return kinds[place] if place < len(kinds) and kinds[place] in ERRORS else "unknown"


SEARCHED = frozenset(
    (NEW_IDEAS, "recall_user_shared_facts", "provide_preference_aligned_recommendations")
)
"""The types of generated sets that `by_mentions` gets right in at least nine of ten questions."""


# The ids of published questions have hyphens. Where the questions came alone, nothing else tells.
_GENERATED = re.compile(r"[0-9a-f]{32}")


def is_generated(question: PersonaQuestion) -> bool:
    """Tell whether a question is of `alps data personas`, by its id."""
    return _GENERATED.fullmatch(question.id) is not None


def by_mentions(files: PersonaMem, question: PersonaQuestion) -> list[int]:
    """Return the options that a count of mentions picks; all where the history is not there.

    For new ideas the least named ones. Else of those that are named, the least often named, and of
    these the one that is named first.
    """
    everything = list(range(len(question.options)))
    if not files.holds(question):
        return everything
    history = " ".join(_folded(files, question.history)[: question.end])
    named = _own_parts([fold(option) for option in question.options])
    counts = [history.count(part) for part in named]
    if question.type == NEW_IDEAS:
        return places_of(min, counts)
    least = min(filter(None, counts), default=0)
    fewest = [place for place in everything if counts[place] == least]
    first = {place: history.find(named[place]) for place in fewest}
    return [place for place in fewest if first[place] == min(first.values())]


@lru_cache(maxsize=4)
def _folded(files: PersonaMem, history: str) -> tuple[str, ...]:
    """Return the text of each turn of a history: dozens of questions share it."""
    return tuple(fold(turn.text) for turn in files.whole_history(history))


def _own_parts(options: Sequence[str]) -> list[str]:
    """Return each option without the beginning and the end that all of them share."""
    begun = _shared(options)
    ended = _shared([option[begun:][::-1] for option in options])
    return [option[begun : len(option) - ended] or option for option in options]


def _shared(texts: Sequence[str]) -> int:
    """Return how many characters all of them begin with."""
    for place, characters in enumerate(zip(*texts, strict=False)):
        if len(set(characters)) > 1:
            return place
    return min(map(len, texts))


TYPES = {
    "recall_user_shared_facts": "latest preference acknowledged",
    "recalling_facts_mentioned_by_the_user": "fact recalled",
    "track_full_preference_evolution": "evolution of a preference",
    "recalling_the_reasons_behind_previous_updates": "reason for a change",
    NEW_IDEAS: "new idea",
    "generalizing_to_new_scenarios": "new scenario",
    "provide_preference_aligned_recommendations": "recommendation",
}
"""The seven types as the files name them, with what tables call them; `PAPER` has other names."""

TYPES_OF_V2 = {
    "ask_to_forget": "preference to be forgotten",
    "neutral_preferences": "neutral preference",
    "stereotypical_pref": "stereotypical preference",
    "anti_stereotypical_pref": "preference against a stereotype",
    "therapy_background": "therapy",
    "health_and_medical_conditions": "health",
    "sensitive_info": "sensitive information",
}
"""The types of PersonaMem-v2, its `pref_type`."""
_ALL_TYPES = TYPES | TYPES_OF_V2


def score(
    sample: ChoiceSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score one choice; a failed prediction is wrong.

    A baseline that can't tell k options apart gets 1/k where the gold is among them.
    """
    given = prediction.prediction or {}
    tied = given.get("tied") or [given.get("choice")]
    value = 1 / len(tied) if sample.gold in tied else 0.0
    return scored(sample, prediction, value, given.get("choice"))


def scored(
    sample: ChoiceSample,
    prediction: Prediction,
    value: float,
    choice: str | None,
    *,
    invalid: str = "",
) -> Scored:
    """Return the scores of an answer that is worth so much, in [0, 1], or of the kind `invalid`.

    `choice` is the letter that it chooses; None where it chooses none.
    The counts split questions by whether the gold is among the picks of the length rule.
    """
    kind = sample.question.type
    leaked = float(sample.question.gold in by_length_and_type(sample.question))
    scores = {"accuracy": value, kind: value}
    if not leaked:
        scores["leak_adjusted"] = value
    if is_generated(sample.question):
        scores["search" if kind in SEARCHED else "understanding"] = value
    counts = {
        f"{kind}_n": 1.0,
        f"{kind}_hits": value,
        f"{kind}_leaked_n": leaked,
        f"{kind}_leaked_hits": leaked * value,
        f"{kind}_unleaked_n": 1 - leaked,
        f"{kind}_unleaked_hits": (1 - leaked) * value,
    }
    details = {"choice": choice, "gold": sample.gold, "type": kind}
    if prediction.outcome != "ok":
        invalid = invalid_kind(prediction.outcome, prediction.error)
    if invalid:
        counts[f"invalid_{invalid}"], details["invalid"] = 1.0, invalid
    if choice != sample.gold:
        kinds = sample.files.kinds_of(sample.question)
        details["error"] = error_of(invalid or None, choice, kinds)
    question = sample.question
    if question.who:
        details["who"] = question.who
    same = (question.persona, question.topic, question.message)
    return Scored(scores, counts, details, question=same)


def by_length_and_type(question: PersonaQuestion) -> list[int]:
    """Return the longest options, or the shortest of a question for new ideas.

    The strongest rule known on the published set: micro .661, macro .729 at 32k.
    """
    return shortest(question) if question.type == NEW_IDEAS else longest(question)


def longest(question: PersonaQuestion) -> list[int]:
    """Return the longest options."""
    return places_of(max, [len(option) for option in question.options])


def shortest(question: PersonaQuestion) -> list[int]:
    """Return the shortest options."""
    return places_of(min, [len(option) for option in question.options])


def places_of(pick: Callable[[Sequence[float]], float], values: Sequence[float]) -> list[int]:
    """Return the places of the values that are the largest or the smallest, as `pick` says."""
    wanted = pick(values)
    return [place for place, value in enumerate(values) if value == wanted]


def _most_words(question: PersonaQuestion) -> list[int]:
    asked = set(question.message.casefold().split())
    shared = [len(asked & set(option.casefold().split())) for option in question.options]
    return places_of(max, shared)


def _random_place(question: PersonaQuestion) -> list[int]:
    return [sha256(question.id.encode()).digest()[0] % len(LETTERS)]


def _answered(places: Sequence[int]) -> dict[str, Any]:
    letters = [LETTERS[place] for place in places]
    return {"choice": letters[0], "reason": "", "tied": letters}


SYSTEMS: dict[str, Answer | str] = {
    "rules": "rules:best_told_option",
    "oracle": lambda sample: _answered([sample.question.gold]),
    # No baseline that stands in every run: who verifies a submission has no histories.
    "mentions": lambda sample: _answered(by_mentions(sample.files, sample.question)),
    "floor/longest": lambda sample: _answered(longest(sample.question)),
    "floor/shortest": lambda sample: _answered(shortest(sample.question)),
    "floor/length-by-type": lambda sample: _answered(by_length_and_type(sample.question)),
    "floor/frequent-letter": lambda sample: _answered(
        [LETTERS.index(letter) for letter in sample.frequent]
    ),
    "floor/shared-words": lambda sample: _answered(_most_words(sample.question)),
    "floor/random": lambda sample: _answered(_random_place(sample.question)),
}

_PER_TYPE = tuple(((f"{kind}_hits", f"{kind}_n"),) for kind in _ALL_TYPES)
_HALVES = tuple(
    ((f"{kind}_leaked_hits", f"{kind}_leaked_n"), (f"{kind}_unleaked_hits", f"{kind}_unleaked_n"))
    for kind in _ALL_TYPES
)
RESAMPLED = Inference(resampled=True)
_FIGURE = Metric("", "", judged=False, inference=replace(RESAMPLED, baseline_differences=True))
_OF_TYPES = Metric("", "", judged=False, optional=True, inference=RESAMPLED)
METRICS = (
    replace(
        _FIGURE,
        name="accuracy",
        title="accuracy",
        headline=True,
        inference=replace(_FIGURE.inference, sign_test=True),
        on_boards=OnBoards(
            # Two: a table with more is wider than a page of 1,280 pixels.
            companions=("leak_adjusted", "length_balanced")
        ),
    ),
    replace(_FIGURE, name="macro_accuracy", title="mean over types", value=MacroRatio(_PER_TYPE)),
    replace(_FIGURE, name="leak_adjusted", title="accuracy where the length rule fails"),
    replace(
        _FIGURE,
        name="length_balanced",
        title="accuracy, length rule balanced",
        value=MacroRatio(_HALVES),
    ),
    # Of generated users alone: what a count of mentions solves is no understanding.
    replace(_OF_TYPES, name="understanding", title="accuracy, reasoning types"),
    replace(_OF_TYPES, name="search", title="accuracy, retrieval types"),
    *(replace(_OF_TYPES, name=kind, title=f"  {title}") for kind, title in _ALL_TYPES.items()),
)
