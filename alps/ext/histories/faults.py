"""Faults of a story and its questions that no model is needed to see."""

from collections.abc import Iterator
from dataclasses import dataclass

from alps.data.audit_findings import Severity
from alps.ext.histories.model import SetQuestion, Story
from alps.text import fold

SHORTEST_INSIDE = 4
"""Letters of a gold that a question may not hold; a shorter one is in many by chance."""
LATEST, EARLIEST = "2100", "1971"
"""All times lie between them: clocks that begin in 1970 have 0 where they have none."""
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        code: What kind of thing it is, as tables call it.
        severity: `serious` where an answer to the question can't be trusted.
        detail: One sentence that holds for all of the kind.
        question: The question that it is of; empty for the history.
        what: Where and what it is.
    """

    code: str
    severity: Severity
    detail: str
    question: str
    what: str


def faults_of(story: Story) -> Iterator[Fault]:
    """Yield what is wrong with a story."""
    yield from _of_sessions(story)
    named = {session.id for session in story.sessions}
    for session in story.sessions:
        named.update(message.id for message in session.messages)
    asked: dict[tuple[str, int | None], str] = {}
    for question in story.questions:
        # Asked again after more sessions, it is another question.
        text = fold(question.text), question.sessions
        if text in asked:
            detail = "a question is repeated in one history"
            what = f"as {asked[text]}: {question.text}"
            yield Fault("duplicate-question", "serious", detail, question.id, what)
        asked.setdefault(text, question.id)
        yield from _of_question(question, named, story)


def _of_sessions(story: Story) -> Iterator[Fault]:
    said: dict[tuple[str, ...], str] = {}
    before = ""
    dated = any(session.at for session in story.sessions)
    for session in story.sessions:
        name = f"{story.id}, session {session.id}"
        texts = tuple(message.text for message in session.messages)
        if not texts:
            yield Fault("empty-session", "note", "a session has no messages", "", name)
        elif texts in said:
            detail = "two sessions of a history are identical"
            yield Fault("doubled-session", "warning", detail, "", f"{name}: as {said[texts]}")
        said.setdefault(texts, session.id)
        if (session.written or dated) and not EARLIEST <= session.at < LATEST:
            detail = "a session has no valid time"
            yield Fault("impossible-date", "serious", detail, "", f"{name}: {session.written}")
        elif session.at and session.at < before:
            detail = "sessions are not in chronological order"
            yield Fault("out-of-order", "warning", detail, "", f"{name}: {session.written}")
        before = max(before, session.at)
        for message in session.messages:
            if any(mark in message.text for mark in _SPECIAL):
                detail = "a message contains a special token"
                yield Fault("special-mark", "note", detail, "", f"{name}: {message.id}")
                break


def _of_question(question: SetQuestion, named: set[str], story: Story) -> Iterator[Fault]:
    gold, text = fold(question.answer), fold(question.text)
    if not question.abstains and len(gold) >= SHORTEST_INSIDE and gold in text:
        what = f"{question.answer}: {question.text}"
        if " or " in text:
            detail = "the question lists the answer among options, so guessing works"
            yield Fault("answer-among-choices", "note", detail, question.id, what)
        else:
            detail = "the question contains the answer verbatim"
            yield Fault("answer-in-question", "serious", detail, question.id, what)
    if not gold and not question.abstains and not question.points:
        detail = "the question has no gold answer"
        yield Fault("no-answer", "serious", detail, question.id, question.text)
    missing = [name for name in question.evidence if name not in named]
    if missing:
        detail = "evidence points to missing messages or sessions"
        yield Fault("missing-evidence", "warning", detail, question.id, ", ".join(missing))
    elif not question.evidence and not question.abstains:
        detail = "the question has no evidence, so retrieval and diagnosis skip it"
        yield Fault("no-evidence", "note", detail, question.id, question.text)
    written = question.at or question.more.get("written", "")
    if written and not EARLIEST <= question.at < LATEST:
        detail = "a question has an invalid time"
        yield Fault("impossible-date", "serious", detail, question.id, written)
    before = story.sessions if question.sessions is None else story.sessions[: question.sessions]
    late = max((session.at for session in before), default="")
    if question.at and late > question.at:
        detail = "a question is dated before an earlier session"
        yield Fault("asked-too-early", "warning", detail, question.id, f"{question.at} < {late}")
