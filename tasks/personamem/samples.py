"""Questions of PersonaMem as they are asked: a question, its evidence and the answers it may have.

The published files say how many tokens lie between the evidence and the end of the question, and
not where it is: it is the user's turn from which on the turns and the question have just as many
tokens of GPT-4o's tokenizer. Generated files count a token as 4 bytes, and leave the question out.
"""

import os
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from alps.llm.types import EmptyAnswer, Read
from alps.llm.understanding import SEVERAL_ANSWERS
from alps.schema import Turn
from alps.tasks.by_memory import BYTES_A_TOKEN, Context
from alps.tasks.personamem.release import LETTERS, PersonaMem, PersonaQuestion


@dataclass(frozen=True)
class ChoiceSample:
    """One question; its history is read from the file when somebody asks for it.

    Attributes:
        benchmark_id: The id of the question.
        session_id: The persona: questions about one person, duplicates among them, are not
            independent.
        files: Where the history is.
        frequent: The letters that are right most often in the whole file.
        hidden: Whether the system turns with the user's biography are left out.
        shown: What a memory chose of the history; None for all of it.
    """

    benchmark_id: str
    session_id: str
    question: PersonaQuestion
    files: PersonaMem
    frequent: tuple[str, ...]
    hidden: bool = False
    shown: Context | None = None

    @property
    def gold(self) -> str:
        """The letter of the right option."""
        return LETTERS[self.question.gold]

    def history(self) -> tuple[Turn, ...]:
        """Read the history up to the question.

        Raises:
            DataError: If it is not in the files.
        """
        turns = self.files.history(self.question)
        if not self.hidden:
            return turns
        return tuple(turn for turn in turns if turn.role != "system")

    def seen(self) -> Context:
        """Return what a system is shown of the history."""
        return Context(self.history()) if self.shown is None else self.shown


@dataclass(frozen=True)
class ChoiceQuestion:
    """One question as a class of the user's is given it.

    Attributes:
        history: The turns that are shown.
        memories: What a memory returned as texts.
        options: The four answers, without letters.
    """

    benchmark_id: str
    session_id: str
    history: tuple[Turn, ...]
    memories: tuple[str, ...]
    message: str
    options: tuple[str, ...]


def for_class(sample: ChoiceSample) -> ChoiceQuestion:
    """Return what a class of the user's is given: nothing that says which option is right."""
    seen = sample.seen()
    return ChoiceQuestion(
        sample.benchmark_id,
        sample.session_id,
        seen.turns,
        seen.memories,
        sample.question.message,
        sample.question.options,
    )


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


if TYPE_CHECKING:
    from tiktoken import Encoding

ENCODING = "o200k_base"


def count_tokens(text: str) -> int:
    """Return how many tokens `text` has; what looks like a special token is text."""
    return len(_encoding().encode_ordinary(text))


@cache
def _encoding() -> "Encoding":
    # litellm brings the file along: tiktoken would fetch it. Importing litellm takes seconds.
    found = find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    bundled = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(bundled)
    try:
        import tiktoken

        return tiktoken.get_encoding(ENCODING)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


Letter = Literal["a", "b", "c", "d"]
NO_LETTER = "there is none; name the letter of one option"
SEVERAL, NO_OPTION = "names several options", "is not one of the letters a, b, c, d"
_NAMED = re.compile(r"\b[a-d]\b")
_JUST_LETTERS = re.compile(r"[a-d]{2,4}\Z")

_OF_OUTCOME = {
    "empty": "no_answer",
    "refused": "refusal",
    "truncated": "cut_off",
    "too_long": "too_long",
}
_OF_ERROR = {
    NO_LETTER: "no_answer",
    SEVERAL: "two_answers",
    SEVERAL_ANSWERS: "two_answers",
    NO_OPTION: "not_an_option",
}


class ChoiceAnswer(BaseModel):
    """A system's answer: the letter of one option, and why."""

    model_config = ConfigDict(extra="forbid")

    choice: Letter
    reason: Annotated[str, Field(max_length=2_000)] = ""


class StoredChoice(ChoiceAnswer):
    """A choice in files; `tied` are the options that a trivial baseline can't tell apart."""

    tied: Annotated[list[Letter], Field(max_length=4)] | None = None

    @model_validator(mode="after")
    def _each_once(self) -> "StoredChoice":
        if self.tied is not None and (self.choice, len(self.tied)) != (
            min(self.tied, default=""),
            len(set(self.tied)),
        ):
            raise ValueError("tied: the choice first, every option once")
        return self


def read_answer(node: object) -> Read[ChoiceAnswer]:
    """Read a choice: an object with the letter under `choice` or `answer`, or a bare letter.

    Raises:
        ValueError: If it names no option, or several.
    """
    given = node if isinstance(node, dict) else {"choice": node}
    letter = next((given[key] for key in ("choice", "answer") if given.get(key) is not None), None)
    if letter == "" or (letter is None and "choice" in given):
        raise EmptyAnswer(f"choice: {NO_LETTER}")
    if not isinstance(letter, str):
        raise ValueError("expected an object with `choice`: the letter of one option")
    bare = letter.strip().strip("()").rstrip(".:").strip().lower()
    if bare not in tuple(LETTERS):
        several = len(set(_NAMED.findall(bare))) > 1 or _JUST_LETTERS.match(bare)
        raise ValueError(f"choice: '{letter.strip()[:40]}' {SEVERAL if several else NO_OPTION}")
    notes = () if bare == letter else (f"'{letter.strip()[:8]}' read as '{bare}'",)
    reason = given.get("reason")
    answer = ChoiceAnswer.model_validate({"choice": bare, "reason": str(reason or "")[:2_000]})
    return Read(answer, notes)


def invalid_kind(outcome: str, error: str | None) -> str:
    """Return what kind of invalid response a failed answer is, by what was wrong with it."""
    if (kind := _OF_OUTCOME.get(outcome)) is not None:
        return kind
    for said, kind in _OF_ERROR.items():
        if said in (error or ""):
            return kind
    return "format"
