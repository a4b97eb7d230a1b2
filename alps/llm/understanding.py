"""Parsing of a reply into a typed answer or a kind of failure, without its reasoning.

Providers and servers leave thought in the text where no reasoning parser fits the model. Forms that
are known: tags (`<think>…</think>`, `<|begin_of_thought|>…`, `[THINK]…`), of which a template may
have written the opening one already, and OpenAI's harmony channels, whole or with their markers
stripped (`analysis…assistantfinal…`).
"""

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from alps.llm.replies import JSON_LIKE, Reading, looks_like_refusal, readings, too_much
from alps.llm.types import AnswerType, Completion, Read, Reply
from alps.schema import Outcome

_WORDS = (
    r"(?:think|thinking|thoughts?|reason|reasoning|analysis|reflection|rationale|scratchpad|draft)"
)
_OPENINGS = (
    rf"<(?:\w+:)?{_WORDS}(?:\s[^<>\n]{{0,80}})?>",
    rf"<\|(?:(?:begin|start)(?:_of)?_)?{_WORDS}(?:_(?:begin|start))?\|>",
    rf"◁{_WORDS}▷",
    r"(?-i:\[(?:THINK|THINKING|THOUGHT|REASONING)\])",
    r"(?:<\|start\|>assistant)?<\|channel\|?>\s*(?:analysis|commentary|thought)\b(?!\s+to=)(?:"
    r"[^<\n]*<\|message\|>)?",
    r"(?-i:\A\s*(?:analysis|commentary)(?=[A-Z0-9\"'{\[(<]|[^\x00-\x7f]))",
)
_CLOSINGS = (
    rf"</(?:\w+:)?{_WORDS}\s*>",
    rf"<\|(?:/|end(?:_of)?_){_WORDS}\|>|<\|{_WORDS}_end\|>",
    rf"◁/{_WORDS}▷",
    r"(?-i:\[/(?:THINK|THINKING|THOUGHT|REASONING)\])",
    r"(?:<\|start\|>assistant)?<\|channel\|>\s*(?:final\b|commentary\s+to=functions)"
    r"[^\n{]*?<\|message\|>",
    r"<channel\|>",
    r"(?-i:assistantfinal)",
)
_MARKER = re.compile(
    rf"(?P<opening>{'|'.join(_OPENINGS)})|(?P<closing>{'|'.join(_CLOSINGS)})", re.IGNORECASE
)
# What a marker begins with, unless it begins the text: looked for first, since the whole
# expression is slow.
_CANDIDATE = re.compile(r"<|◁|\[|assistantfinal")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)
_ENDS = re.compile(r"(?:\s*<\|(?:end|return|call|im_end|eot_id|endoftext)\|>)+\s*\Z")
_WRAPPED = re.compile(
    r"<\|?(?:begin_of_|start_)?(answer|final|final_answer|solution|response|output)\|?>"
    r"(.*?)(?:<\|?(?:/|end_of_|end_)\1\|?>)?",
    re.IGNORECASE | re.DOTALL,
)
_QUOTES = frozenset("`'\"‘’“”«»")
_CODE = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.DOTALL | re.MULTILINE)
_ANSWER_BEGINS = re.compile(r"\s*(?:```|[{\[])")
_MOST_MARKERS = 100
# Characters of a text that is not looked at for an answer
_KEPT = 60_000
# Bytes of the end of an answer that are looked at for repetition, and how many times smaller they
# are packed where it repeats itself. Of 4,660 answers of real models, none of which does, the most
# repetitive is packed 7.6 times smaller.
_END, _FEWEST, _REPEATED = 6_000, 600, 10
RAN_WILD = "it repeats itself until it is cut off"
SEVERAL_ANSWERS = "it contains several different answers: give exactly one"
# Of what stands between two tags within a line: less is a mention of the tags. No thought of less
# was met.
_FEWEST_WORDS = 4


@dataclass(frozen=True)
class Parted:
    """A text in its two parts.

    Attributes:
        answer: What is not thought; the text itself where it holds none.
        thought: The thought, without its markers; None where there is none.
        unfinished: Whether the text breaks off while the model is still thinking.
    """

    answer: str
    thought: str | None = None
    unfinished: bool = False


def part_thought(text: str, *, typed: bool) -> Parted:
    """Part the thought in `text` from its answer.

    A marker counts where it can't be a quotation: outside the strings of JSON where the answer is
    `typed`, else outside code and quotation marks. A closing marker without an opening one makes
    thought of everything before it.
    """
    if next(_markers(text, 0), None) is None:
        return Parted(text)
    answer: list[str] = []
    thought: list[str] = []
    start = at = 0
    for _ in range(_MOST_MARKERS):
        marker = _next_marker(text, at, typed=typed)
        if marker is None:
            break
        if marker["closing"] is not None:
            answer, thought = [], [text[: marker.start()]]
            start = at = marker.end()
            continue
        closing = next((m for m in _markers(text, marker.end()) if m["closing"] is not None), None)
        if closing is None and (typed or _begins(text, marker)):
            before = "".join(answer) + text[start : marker.start()]
            return Parted(before, text[marker.end() :].strip(), unfinished=True)
        if closing is None or not (typed or _is_thought(text, marker, closing)):
            at = closing.end() if closing is not None else marker.end()
            continue
        answer.append(text[start : marker.start()])
        thought.append(text[marker.end() : closing.start()])
        start = at = closing.end()
    if not thought:
        return Parted(text)
    parted = "\n\n".join(filter(None, (part.strip() for part in thought)))
    return Parted(_unwrapped("".join([*answer, text[start:]])), parted or None)


def _markers(text: str, at: int) -> Iterator[re.Match[str]]:
    positions = (candidate.start() for candidate in _CANDIDATE.finditer(text, at))
    for position in (0, *positions) if at == 0 else positions:
        marker = _MARKER.match(text, position) if position >= at else None
        if marker is not None:
            yield marker
            at = marker.end()


def _next_marker(text: str, at: int, *, typed: bool) -> re.Match[str] | None:
    """Return the next marker from `at` on that is not quoted."""
    code = ((m.start(), m.end(), True) for m in _CODE.finditer(text, at))
    quoted = _quoted_json(text, at) if typed else code
    span = next(quoted, None)
    for marker in _markers(text, at):
        while span is not None and span[1] <= marker.start():
            span = next(quoted, None)
        inside = span is not None and span[0] <= marker.start()
        if inside and span is not None and not span[2]:  # in a string of JSON that breaks off
            inside = marker["closing"] is None or not _ANSWER_BEGINS.match(text, marker.end())
        if not inside and not _in_quotation_marks(text, marker):
            return marker
    return None


def _in_quotation_marks(text: str, marker: re.Match[str]) -> bool:
    before, after = text[marker.start() - 1 : marker.start()], text[marker.end() : marker.end() + 1]
    return before in _QUOTES and after in _QUOTES and bool(before) and bool(after)


def _begins(text: str, opening: re.Match[str]) -> bool:
    """Tell whether a text begins with an opening marker, but for a sentence such as «Sure!»."""
    before = text[: opening.start()].rstrip()
    return not before or (_few_words(before) and not before[-1].isalnum())


def _is_thought(text: str, opening: re.Match[str], closing: re.Match[str]) -> bool:
    """Tell whether markers in plain text hold a thought; two in one sentence are spoken of."""
    begins_line = not text[text.rfind("\n", 0, opening.start()) + 1 : opening.start()].strip()
    return begins_line or not _few_words(text[opening.end() : closing.start()])


def _few_words(text: str) -> bool:
    return len(text.split()) < _FEWEST_WORDS


def _quoted_json(text: str, at: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the spans of JSON in which a marker is a quotation, and whether the JSON is whole.

    Of JSON that can't be parsed, the spans are its strings.
    """
    decoder = json.JSONDecoder(strict=False)
    while (match := JSON_LIKE.search(text, at)) is not None:
        try:
            _, at = decoder.raw_decode(text, match.start())
            yield match.start(), at, True
        except (ValueError, RecursionError):
            depth = 0
            at = match.start()
            while at < len(text):
                character = text[at]
                if character == '"':
                    closing = _STRING.match(text, at)
                    end = closing.end() if closing is not None else len(text)
                    yield at, end, False
                    at = end
                    continue
                depth += (character in "{[") - (character in "}]")
                at += 1
                if depth <= 0:
                    break


def _unwrapped(answer: str) -> str:
    """Return an answer without markers that end a message, or that say it is the answer."""
    plain = _ENDS.sub("", answer).strip()
    wrapped = _WRAPPED.fullmatch(plain)
    return wrapped[2].strip() if wrapped is not None else plain


T = TypeVar("T")


@dataclass(frozen=True)
class _Fitting(Generic[T]):
    """A reading that has the shape of an answer (`whole`: the shape asked for), and the answer."""

    reading: Reading
    read: Read[T]
    whole: bool


@dataclass
class _Answers(Generic[T]):
    """What a text holds.

    Attributes:
        fitting: The readings that have the shape of an answer.
        problem: What was wrong with the last one that has not.
        json: Whether it holds any JSON.
        broken_off: Whether an answer breaks off.
        begun: Whether behind a whole one an answer was begun and broke off before anything usable.
    """

    fitting: list[_Fitting[T]] = field(default_factory=list)
    problem: str = "it contains no JSON"
    json: bool = False
    broken_off: bool = False
    begun: bool = False


def ran_wild(text: str) -> bool:
    """Tell whether the end of a text says the same again and again."""
    end = text.encode(errors="replace")[-_END:]
    return len(end) >= _FEWEST and len(end) > _REPEATED * len(zlib.compress(end))


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
        error, raw = f"the model returned no text ({outcome})", reply.refusal or text
        return Completion(outcome, raw=raw, error=error, thought=reply.thought)
    if answer is not None and (fault := too_much(text)) is not None:
        return Completion("invalid", raw=text[:_KEPT], error=fault)
    parted = part_thought(text, typed=answer is not None)
    thought = "\n\n".join(filter(None, (reply.thought, parted.thought))) or None
    answer_text = parted.answer if thought is None else parted.answer.strip()
    completion: Completion[T]
    if reply.finish_reason == "content_filter":
        error = "the provider's content filter cut the answer off"
        completion = Completion("refused", error=error)
    elif parted.unfinished:
        error = "the answer was cut off during reasoning"
        completion = Completion("truncated", error=error)
    elif not answer_text.strip():
        error = "the model reasoned but gave no answer"
        completion = Completion("truncated" if cut else "empty", error=error)
    elif answer is None:
        completion = Completion("ok", answer_text, truncated=cut)  # type: ignore[arg-type]
    else:
        completion = _understand_json(answer_text, answer, cut=cut)
    if cut and ran_wild(text):
        why = completion.error and f"{completion.error}; {RAN_WILD}"
        completion = replace(completion, error=why, notes=(*completion.notes, RAN_WILD))
    return replace(completion, raw=text, thought=thought, strict=reply.strict)


def _understand_json(text: str, answer: AnswerType[T], *, cut: bool) -> Completion[T]:
    answers = _find(text, answer, cut=cut)
    cut = cut or answers.broken_off
    chosen = _final(answers, answer, cut=cut)
    if chosen is not None:
        decides = not answer.partial or answer.decision is not None
        if decides and _is_contradicted(chosen, answers.fitting, answer):
            return Completion("invalid", error=SEVERAL_ANSWERS)
        reading, read = chosen.reading, chosen.read
        several = f"the last of {len(answers.fitting)} answers" if len(answers.fitting) > 1 else ""
        notes = (*filter(None, (reading.how, several)), *read.notes)
        return Completion("ok", read.value, None, reading.repaired, reading.truncated, notes)
    problem = answers.problem
    if cut:
        outcome: Outcome = "truncated"
        problem = "the answer was cut off before a usable part"
    elif looks_like_refusal(text) and not answers.json:
        outcome, problem = "refused", "the model declined in prose"
    else:
        outcome = "invalid" if answers.json else "unparsable"
    return Completion(outcome, error=problem)


def _find(text: str, answer: AnswerType[T], *, cut: bool) -> _Answers[T]:
    """Read `text` in every way, the most literal first, until something fits."""
    answers: _Answers[T] = _Answers()
    for reading in readings(text):
        literal_fits = bool(answers.fitting) and answers.fitting[-1].reading.literal
        if answers.fitting and not reading.literal and not (literal_fits and reading.behind):
            break
        answers.json = True
        whole = _has_own_shape(reading.node, answer)
        try:
            fitting = _Fitting(reading, answer.read(reading.node), whole)
        except ValueError as error:
            answers.problem = str(error)
            if not literal_fits:
                answers.broken_off = answers.broken_off or reading.truncated
            elif _is_begun(reading, whole=whole, cut=cut):
                answers.begun = answers.broken_off = True
            continue
        if reading.literal or not literal_fits or (whole and reading.gap and fitting.read.value):
            answers.fitting.append(fitting)
            answers.broken_off = answers.broken_off or reading.truncated
    return answers


def _is_begun(reading: Reading, *, whole: bool, cut: bool) -> bool:
    """Tell whether a reading that can't be used is an answer that was begun and broke off."""
    of_answer = whole or (cut and isinstance(reading.node, dict))
    return reading.truncated and bool(reading.gap) and of_answer


def _final(answers: _Answers[T], answer: AnswerType[T], *, cut: bool) -> _Fitting[T] | None:
    """Return the last answer that is whole; of a text that was cut off, only what may be used."""
    if not answers.fitting or answers.begun:
        return None
    chosen = [candidate for candidate in answers.fitting if candidate.whole] or answers.fitting
    last, value = chosen[-1], chosen[-1].read.value
    if cut and not (answer.partial and value) and (last.reading.repaired or not value):
        return None
    return last


def _has_own_shape(node: object, answer: AnswerType[T]) -> bool:
    """Tell whether `node` looks like what was asked for; a part of it may be read all the same."""
    names = answer.schema.model_fields.keys()
    if isinstance(node, list):
        return bool(node) and len(names) == 1
    return isinstance(node, dict) and bool(names & node.keys())


def _is_contradicted(
    chosen: _Fitting[T], fitting: Sequence[_Fitting[T]], answer: AnswerType[T]
) -> bool:
    """Tell whether a different answer stands right before the last one, not a word between them."""
    before = fitting[: fitting.index(chosen)]
    if not before or chosen.reading.gap or not chosen.reading.literal:
        return False
    one, other = before[-1].read.value, chosen.read.value
    if answer.decision is None:
        return one != other
    return answer.decision(one) != answer.decision(other)
