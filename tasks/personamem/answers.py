"""Answers to a question of PersonaMem: one letter, and the ways in which there is none."""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from alps.llm.types import EmptyAnswer, Read
from alps.llm.understanding import SEVERAL_ANSWERS
from alps.tasks.personamem.release import LETTERS

Letter = Literal["a", "b", "c", "d"]
NO_LETTER = "there is none; name the letter of one option"
SEVERAL, NO_OPTION = "names several options", "is none of the letters a, b, c, d"
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
