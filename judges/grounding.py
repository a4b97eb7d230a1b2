"""A deterministic proxy for the use of a memory: how much of what it says turns up in an answer.

It reads words, not meaning: an answer can use a memory without its words, and name it without using
it. So it never stands in for a rubric; it is what can be said without a judge.
"""

from alps.judges.copying import own_text
from alps.judges.support import Dialogue
from alps.similarity import features


def grounding(response: str, memory: str, dialogue: Dialogue) -> float | None:
    """Return the weighted share of a memory's content words in an answer, in [0, 1].

    Only the answer's own sentences count. None where the memory has no content words.
    """
    wanted = features(memory).content
    if not wanted:
        return None
    # What is copied from the dialogue does not count: repeating everything is using nothing.
    said = features(own_text(response, dialogue)).content
    return sum(weight for piece, weight in wanted.items() if piece in said) / sum(wanted.values())
