"""Place of a question's evidence in its history, found by the distance that the file gives.

The published files say how many tokens lie between the evidence and the end of the question, and
not where it is: it is the user's turn from which on the turns and the question have just as many
tokens. Generated files count a token as 4 bytes, and leave the question out.
"""

from functools import lru_cache
from itertools import accumulate

from alps.data.tokens import count_tokens
from alps.tasks.personamem.release import PersonaMem
from alps.tasks.personamem.scores import ChoiceSample
from alps.tasks.recall import BYTES_A_TOKEN, Context


def evidence_position(sample: ChoiceSample) -> int | None:
    """Return the position of the turn that a question is about; None where none fits."""
    question = sample.question
    back = question.tokens_back
    if back is None or not sample.files.holds(question):
        return None
    lengths = _lengths(sample.files, question.history)[: question.end]
    to_end = list(accumulate(reversed(lengths)))[::-1]
    if sample.files.generated:
        to_end = [size // BYTES_A_TOKEN for size in to_end]
    else:
        back -= count_tokens(question.message)
    return to_end.index(back) if back in to_end else None


@lru_cache(maxsize=64)
def _lengths(files: PersonaMem, history: str) -> tuple[int, ...]:
    """Return the length of each turn of a history: dozens of questions share it."""
    turns = files.whole_history(history)
    if files.generated:
        return tuple(len(turn.text.encode()) for turn in turns)
    return tuple(count_tokens(turn.text) for turn in turns)


def evidence(sample: ChoiceSample) -> Context | None:
    """Return the turn that a question is about, with the reply to it; None where none is found."""
    position = evidence_position(sample)
    if position is None:
        return None
    turns = sample.files.history(sample.question)  # positions count the system turns, too
    end = position + 1
    if end < len(turns) and turns[end].role == "assistant":
        end += 1
    return Context(turns[position:end], positions=tuple(range(position, end)))


def needed(sample: ChoiceSample) -> tuple[str, ...]:
    """Return what the user said in the turn that a question is about; nothing where none is."""
    shown = evidence(sample)
    return () if shown is None else (shown.turns[0].text,)
