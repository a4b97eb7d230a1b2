"""Record of PersonaMem: the history around the evidence, the options, and which one was chosen."""

from collections.abc import Iterator, Sequence

from alps.tasks.personamem.evidence import evidence_position
from alps.tasks.personamem.figures import ERRORS, PAPER
from alps.tasks.personamem.release import LETTERS, Question
from alps.tasks.personamem.scores import ChoiceSample, by_length_and_type
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    REPAIRED,
    AnsweredRecord,
    Dialogue,
    Facts,
    Highlight,
    Listed,
    Part,
    Passage,
    Rank,
    ScoredAnswer,
    Side,
)

LAST_TURNS = 4
"""Turns that are shown of a history in which no evidence is found."""
_BEFORE, _AFTER = 1, 2
_WIDTH = 44


def record_parts(record: AnsweredRecord) -> list[Part]:
    """Show the history around the evidence, the message, the options and the choice."""
    score, sample = record.score or {}, record.sample
    chosen, error = score.get("choice"), score.get("error")
    given = [("chosen", str(chosen or "none of the options"))]
    if error is not None:
        given.append(("what is wrong", ERRORS.get(error, str(error))))
    given += _answers(record)
    if sample is None:
        return [Facts("Answer", (("gold", str(score.get("gold"))), *given))]
    question = sample.question
    position = evidence_position(sample)
    shown = (record.prediction or {}).get("shown")
    return [
        Facts("Question", tuple(_about(question, position))),
        *_history(sample, position),
        Passage("Message", question.message),
        Listed("Options", tuple(_options(sample, chosen))),
        Facts("Answer", (*given, *_seen(shown, position))),
        Passage("Reason", str(record.answer.get("reason") or "")),
        Passage("Free answer", str(record.answer.get("answer") or "")),
    ]


def _about(question: Question, position: int | None) -> Iterator[tuple[str, str]]:
    yield "type", f"{question.type} (in the paper: {PAPER.get(question.type, '–')})"
    yield "topic", question.topic
    length = f"{question.end:,} messages"
    if question.tokens is not None:
        length += f", {question.tokens:,} tokens"
    yield "history", length
    back, total = question.tokens_back, question.tokens
    if back is not None:
        sessions = question.sessions_back
        apart = "" if sessions is None else f", {sessions} session{'s' * (sessions != 1)}"
        at = "not found in the history" if position is None else f"message {position}"
        yield "evidence", f"{at}; {back:,} tokens{apart} before the question"
    if back is not None and total:
        yield "", drawn(back, total)


def drawn(back: int, total: int) -> str:
    """Draw a history as a line, with a dot `back` of its `total` tokens before the question."""
    share = 1 - min(1.0, back / total)
    place = round(share * (_WIDTH - 1))
    return f"├{'─' * place}●{'─' * (_WIDTH - 1 - place)}┤ question"


def _history(sample: ChoiceSample, position: int | None) -> Iterator[Part]:
    question = sample.question
    if not sample.files.holds(question):
        return
    turns = sample.files.history(question)
    if position is None:
        first, title = max(0, len(turns) - LAST_TURNS), "History, its last turns"
        yield Dialogue(title, turns, folded=True, shown=tuple(range(first, len(turns))))
        return
    around = range(max(0, position - _BEFORE), min(len(turns), position + 1 + _AFTER))
    places = [place for place in around if turns[place].role != "system" or place == position]
    yield Dialogue(
        "History, around the evidence",
        turns,
        folded=True,
        shown=tuple(places),
        labels={position: "evidence"},
    )


def _options(sample: ChoiceSample, chosen: str | None) -> Iterator[Side]:
    question = sample.question
    kinds, by_length = sample.files.kinds_of(question), by_length_and_type(question)
    for place, option in enumerate(question.options):
        letter = LETTERS[place]
        marks = ["gold"] if place == question.gold else []
        marks += ["chosen"] if letter == chosen else []
        marks += ["the length rule's pick"] if place in by_length else []
        if place < len(kinds) and place != question.gold:
            marks.append(ERRORS.get(kinds[place], kinds[place]))
        yield Side(letter, option, " · ".join(marks))


def _answers(record: AnsweredRecord) -> Iterator[tuple[str, str]]:
    """Yield what was chosen under each order of the options, or how likely each option is."""
    choices = record.answer.get("choices")
    if choices:
        letters = [str(choice.get("choice") or "–") for choice in choices]
        yield "under each order", " ".join(letters)
    logprobs = record.answer.get("logprobs")
    if logprobs:
        means = [
            f"{letter} {row['mean']:.3f}" for letter, row in zip(LETTERS, logprobs, strict=True)
        ]
        yield "log-probability", f"{', '.join(means)} (a token)"


def _seen(shown: object, position: int | None) -> Sequence[tuple[str, str]]:
    """Return what a memory showed of the history, and whether the evidence was in it."""
    if not isinstance(shown, dict):
        return ()
    kept = [f"{shown[name]:,} {name}" for name in ("turns", "memories") if shown.get(name)]
    told = f"{', '.join(kept) or 'nothing'} ({shown.get('tokens', 0):,} tokens)"
    if left_out := shown.get("left_out"):
        told += f", {left_out:,} left out by the budget"
    places = shown.get("positions")
    if places and position is not None:
        told += f", {'with' if position in places else 'without'} the evidence"
    return (("shown", told),)


def _wrong_by_length(answer: ScoredAnswer) -> Rank:
    """The length rule would have got it: what the history says was missed."""
    leaked = answer.value("leak_adjusted") is None
    return () if answer.judged and leaked and answer.value("accuracy") == 0 else None


def _right_against_length(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("leak_adjusted") == 1 else None


def _wrong_against_length(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("leak_adjusted") == 0 else None


HIGHLIGHTS = (
    FAILED,
    JUDGEMENT_FAILED,
    REPAIRED,
    Highlight("wrong where the length rule is wrong", 5, _wrong_against_length),
    Highlight("wrong where the length rule is right", 3, _wrong_by_length),
    Highlight("right where the length rule is wrong", 2, _right_against_length),
)
