"""A count of mentions as a reader of PersonaMem, and the types of question that it solves.

Generated users name a preference that was replaced twice, and the one that holds once, before what
they tried and did not like. So whoever counts how often, and looks where first, each option is
named in the history has three types right without understanding: those are a search.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from alps.tasks.personamem.release import PersonaMem, Question
from alps.text import fold

NEW_IDEAS = "suggest_new_ideas"
SEARCHED = frozenset(
    (NEW_IDEAS, "recall_user_shared_facts", "provide_preference_aligned_recommendations")
)
"""The types of generated sets that `by_mentions` gets right in at least nine of ten questions."""


# The ids of published questions have hyphens. Where the questions came alone, nothing else tells.
_GENERATED = re.compile(r"[0-9a-f]{32}")


def is_generated(question: Question) -> bool:
    """Tell whether a question is of `alps data personas`, by its id."""
    return _GENERATED.fullmatch(question.id) is not None


def by_mentions(files: PersonaMem, question: Question) -> list[int]:
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
        return [place for place in everything if counts[place] == min(counts)]
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
