"""A reply turned into a typed answer, or into the kind of failure that it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from alps.llm.repair import Reading, looks_like_refusal, readings
from alps.llm.thought import part_thought
from alps.llm.types import AnswerType, Completion, Read, Reply
from alps.schema import Outcome

T = TypeVar("T")


@dataclass(frozen=True)
class _Fitting(Generic[T]):
    """A reading that has the shape of an answer, and the answer.

    `whole` tells that the shape is the one asked for.
    """

    reading: Reading
    read: Read[T]
    whole: bool


@dataclass
class _Found(Generic[T]):
    """What a text holds.

    Attributes:
        fitting: The readings that have the shape of an answer.
        problem: What was wrong with the last one that has not.
        json: Whether it holds any JSON.
        broken_off: Whether an answer breaks off.
        begun: Whether an answer was begun behind one that is whole, and broke off before anything
            usable.
    """

    fitting: list[_Fitting[T]] = field(default_factory=list)
    problem: str = "it holds no JSON"
    json: bool = False
    broken_off: bool = False
    begun: bool = False


def understand(reply: Reply, answer: AnswerType[T] | None) -> Completion[T]:
    """Turn a reply into a typed answer, or into the kind of failure that it is.

    What the model thought before it answered is kept apart, and nothing in it is ever read as the
    answer.
    """
    text = reply.text
    cut = reply.finish_reason == "length"
    if text is None or not text.strip():
        declined = reply.refusal is not None or reply.finish_reason == "content_filter"
        outcome: Outcome = "refused" if declined else "truncated" if cut else "empty"
        error = f"the model gave no text ({outcome})"
        return Completion(
            outcome=outcome, raw=reply.refusal or text, error=error, thought=reply.thought
        )
    parted = part_thought(text, typed=answer is not None)
    thought = "\n\n".join(filter(None, (reply.thought, parted.thought))) or None
    said = parted.answer if thought is None else parted.answer.strip()
    completion: Completion[T] = Completion(
        "refused", error="the provider's content filter broke the answer off"
    )
    if reply.finish_reason != "content_filter":
        completion = _answered(said, answer, cut=cut, thinking=parted.unfinished)
    return replace(completion, raw=text, thought=thought, strict=reply.strict)


def _answered(
    text: str, answer: AnswerType[T] | None, *, cut: bool, thinking: bool
) -> Completion[T]:
    if thinking:
        return Completion(
            "truncated", error="the model was still thinking when its answer was cut off"
        )
    if not text.strip():
        return Completion(
            "truncated" if cut else "empty", error="the model thought, and gave no answer"
        )
    if answer is None:
        return Completion(outcome="ok", value=text, truncated=cut)  # type: ignore[arg-type]
    return _understand_json(text, answer, cut=cut)


def _understand_json(text: str, answer: AnswerType[T], *, cut: bool) -> Completion[T]:
    found = _find(text, answer, cut=cut)
    cut = cut or found.broken_off
    chosen = _final(found, answer, cut=cut)
    if (
        chosen is not None
        and not answer.partial
        and _is_contradicted(chosen, found.fitting, answer)
    ):
        return Completion("invalid", error="it holds several different answers: give exactly one")
    if chosen is not None:
        reading, read = chosen.reading, chosen.read
        several = f"the last of {len(found.fitting)} answers" if len(found.fitting) > 1 else ""
        notes = (*filter(None, (reading.how, several)), *read.notes)
        return Completion("ok", read.value, None, reading.repaired, reading.truncated, notes)
    problem = found.problem
    if cut:
        outcome: Outcome = "truncated"
        problem = "the answer was cut off before anything usable"
    elif looks_like_refusal(text) and not found.json:
        outcome, problem = "refused", "the model declined in prose"
    else:
        outcome = "invalid" if found.json else "unparsable"
    return Completion(outcome, error=problem)


def _find(text: str, answer: AnswerType[T], *, cut: bool) -> _Found[T]:
    """Read `text` in every way.

    Of readings that had to be mended, the first that fits is enough. Where something literal fits,
    only an answer that was begun behind it counts.
    """
    found: _Found[T] = _Found()
    for reading in readings(text):
        literal_fits = bool(found.fitting) and found.fitting[-1].reading.literal
        if found.fitting and not reading.literal and not (literal_fits and reading.behind):
            break
        found.json = True
        whole = _has_own_shape(reading.node, answer)
        begun = (
            reading.truncated
            and bool(reading.gap)
            and (whole or (cut and isinstance(reading.node, dict)))
        )
        try:
            fitting = _Fitting(reading, answer.read(reading.node), whole)
        except ValueError as error:
            found.problem = str(error)
            found.begun = found.begun or (literal_fits and begun)
            found.broken_off = (
                found.broken_off or found.begun or (reading.truncated and not literal_fits)
            )
            continue
        if reading.literal or not literal_fits or (whole and reading.gap and fitting.read.value):
            found.fitting.append(fitting)
            found.broken_off = found.broken_off or reading.truncated
    return found


def _final(found: _Found[T], answer: AnswerType[T], *, cut: bool) -> _Fitting[T] | None:
    """Return the last answer that is whole; of a text that was cut off, only what may be used."""
    if not found.fitting or found.begun:
        return None
    chosen = [one for one in found.fitting if one.whole] or found.fitting
    last, value = chosen[-1], chosen[-1].read.value
    if cut and not (answer.partial and value) and (last.reading.repaired or not value):
        return None
    return last


def _has_own_shape(node: object, answer: AnswerType[T]) -> bool:
    """Tell whether `node` looks like what was asked for, and not like a part of it that is read all
    the same.
    """
    names = answer.schema.model_fields.keys()
    if isinstance(node, list):
        return bool(node) and len(names) == 1
    return isinstance(node, dict) and bool(names & node.keys())


def _is_contradicted(
    chosen: _Fitting[T], fitting: Sequence[_Fitting[T]], answer: AnswerType[T]
) -> bool:
    """Tell whether a different answer stands right before the last one, with not a word of which
    counts.
    """
    before = fitting[: fitting.index(chosen)]
    if not before or chosen.reading.gap or not chosen.reading.literal:
        return False
    decisions = [answer.decision(one.read.value) for one in (before[-1], chosen)]
    return decisions[0] != decisions[1]
