"""A reply turned into a typed answer, or into the kind of failure that it is."""

from collections.abc import Sequence
from typing import TypeVar

from alps.llm.repair import Reading, looks_like_refusal, readings
from alps.llm.types import AnswerType, Completion, Read, Reply
from alps.schema import Outcome

T = TypeVar("T")


def understand(reply: Reply, answer: AnswerType[T] | None) -> Completion[T]:
    """Turn a reply into a typed answer, or into the kind of failure that it is."""
    text = reply.text
    cut = reply.finish_reason == "length"
    if text is None or not text.strip():
        declined = reply.refusal is not None or reply.finish_reason == "content_filter"
        outcome: Outcome = "refused" if declined else "truncated" if cut else "empty"
        return Completion(outcome=outcome, raw=reply.refusal or text, error=f"the model gave no text ({outcome})")
    if answer is None:
        return Completion(outcome="ok", value=text, raw=text, truncated=cut)  # type: ignore[arg-type]
    return _understand_json(text, answer, cut=cut)


def _understand_json(text: str, answer: AnswerType[T], *, cut: bool) -> Completion[T]:
    fitting, problem, found_json, broken_off = _fitting(text, answer)
    cut = cut or broken_off
    for reading, read in fitting:
        if cut and not (answer.partial and read.value) and (reading.repaired or not read.value):
            continue
        if not answer.partial and reading.literal and _contradicted(reading, read, fitting):
            return Completion("invalid", raw=text, error="it holds several different answers: give exactly one")
        notes = (*((reading.how,) if reading.how else ()), *read.notes)
        return Completion("ok", read.value, text, reading.repaired, reading.truncated, notes)
    if cut:
        outcome: Outcome = "truncated"
        problem = "the answer was cut off before anything usable"
    elif looks_like_refusal(text) and not found_json:
        outcome, problem = "refused", "the model declined in prose"
    else:
        outcome = "invalid" if found_json else "unparsable"
    return Completion(outcome, raw=text, error=problem)


def _fitting(text: str, answer: AnswerType[T]) -> tuple[list[tuple[Reading, Read[T]]], str, bool, bool]:
    """Return the readings that have the shape of an answer, and of the others: what was wrong, if any was JSON, or cut.

    Of readings that had to be mended, the first that fits is enough.
    """
    fitting: list[tuple[Reading, Read[T]]] = []
    problem, found_json, broken_off = "it holds no JSON", False, False
    for reading in readings(text):
        if fitting and not reading.literal:
            break
        found_json, broken_off = True, broken_off or reading.truncated
        try:
            fitting.append((reading, answer.read(reading.node)))
        except ValueError as error:
            problem = str(error)
    return fitting, problem, found_json, broken_off


def _contradicted(reading: Reading, read: Read[T], fitting: Sequence[tuple[Reading, Read[T]]]) -> bool:
    return any(other.literal and other is not reading and there.value != read.value for other, there in fitting)
