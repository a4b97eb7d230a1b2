"""Breakdowns of PersonaMem's accuracy by type, topic, distance and length; errors by kind.

Distance is confounded with type: in the published run without any history, which can't forget,
accuracy falls from .83 at one session to .32 at six. So curves over distances are standardised
over types, and the raw ones stand next to them.
"""

from collections.abc import Sequence
from itertools import pairwise

from alps.tasks.metrics import Breakdown
from alps.tasks.personamem.release import LETTERS, Question

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
    "superseded": "a preference or a reason that a later one replaced",
    "order": "the preferences in a wrong order",
    "other_topic": "what was said about another topic",
    "disliked": "what was tried and not liked",
    "known": "no new idea: the user named it",
    "unsaid": "what the user never said",
    "generic": "an answer that fits anybody",
    "refusal": "invalid: a refusal",
    "no_answer": "invalid: no answer",
    "two_answers": "invalid: several options",
    "not_an_option": "none of the options",
    "cut_off": "invalid: cut off before the answer",
    "too_long": "invalid: longer than the model, or its server, takes",
    "format": "invalid: not in the form that was asked for",
    "unknown": "the data don't say what is wrong with the option",
}
"""Why an answer is wrong, by kind."""

_SESSIONS = (*range(1, 11), 20, 40, 60)
_THOUSANDS = (4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 96, 128, 256, 512, 1_024)
_CONFOUNDED = (
    "distance is confounded with type: without any history, where nothing can be forgotten, "
    "published answers fall from .83 to .32 over sessions"
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
    Breakdown("type", "By type (in the data, in the paper)", "accuracy", PAPER),
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


def groups_of(question: Question) -> dict[str, str]:
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
