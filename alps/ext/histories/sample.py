"""A question of a set with its history, or with the memories found for it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any

from alps.ext.histories.book import HARMLESS, WRONG_GOLD, Book, BookEntry
from alps.ext.histories.model import HistorySession, SetQuestion, Story
from alps.ext.histories.porter import stem
from alps.schema import Turn
from alps.tasks.by_memory import Context, History, HistoryPlace
from alps.text import fold

UNKNOWN = "No information available"
_WORD = re.compile(r"\w+")
_DATED = re.compile(r"\[(\d{4}-\d\d-\d\d) \d\d:\d\d\] ")
_WHEN = re.compile(r"\b(when|what (date|day|month|year)|how long ago)\b", re.IGNORECASE)
_ROLE = re.compile(r"(?:user|assistant): ")


@dataclass(frozen=True)
class HistorySample:
    """One question; its history is read from the files on demand.

    Attributes:
        benchmark_id: The id of the question.
        session_id: The history: questions about one are not independent.
        shown: What a memory chose of the history; None for all of it.
    """

    benchmark_id: str
    session_id: str
    entry: BookEntry
    book: Book
    shown: Context | None = None

    @property
    def question(self) -> SetQuestion:
        """What is asked."""
        return self.entry.question

    @property
    def gold(self) -> str:
        """The right answer."""
        return self.question.answer

    @property
    def has_gold(self) -> bool:
        """Whether there is anything that an answer can be judged by."""
        question = self.question
        if question.scoring == "points":
            return bool(question.points)
        return question.abstains or bool(question.answer.strip())

    @property
    def story(self) -> Story:
        """The history with its times."""
        return self.book.story(self.entry)

    @property
    def sessions(self) -> tuple[HistorySession, ...]:
        """The sessions before the question."""
        return self.story.sessions[: self.question.sessions]

    @property
    def sound(self) -> bool:
        """Whether nothing is known that would make an answer to it wrongly judged."""
        return HARMLESS.issuperset(self.entry.defects)

    @property
    def wrong_gold(self) -> bool:
        """Whether its gold is known to be wrong."""
        return WRONG_GOLD in self.entry.defects


@dataclass(frozen=True)
class HistoryQuestion:
    """One question as a class of the user's is given it.

    Attributes:
        history: The sessions that are shown: when each began, and its turns.
        memories: What a memory returned as texts.
        asked_at: When it is asked; empty where nobody knows.
    """

    benchmark_id: str
    session_id: str
    history: tuple[Mapping[str, Any], ...]
    memories: tuple[str, ...]
    question: str
    asked_at: str


def history_of(sample: HistorySample) -> History:
    """Return the sessions before a question, as a memory is given them."""
    return history_in(sample.sessions)


@lru_cache(maxsize=4)
def history_in(sessions: tuple[HistorySession, ...]) -> History:
    """Return sessions as a memory is given them."""
    said = []
    for session in sessions:
        turns = [Turn(role=one.role, text=one.said) for one in session.messages]
        said.append(tuple(turns))
    known = all(session.at for session in sessions)
    return History(tuple(said), tuple(one.at for one in sessions) if known else ())


def place_of(sample: HistorySample) -> HistoryPlace:
    """Return where a question is asked, without reading the history."""
    question = sample.question
    return HistoryPlace(question.history, sample.entry.turns, question.text, question.at)


def evidence_of(sample: HistorySample) -> Context | None:
    """Return the messages that an answer needs; None where the set names none that are there.

    Of a question that can't be answered it is nothing, if the set names none.
    """
    wanted = set(sample.question.evidence)
    turns, positions, place = [], [], 0
    for session, said in zip(sample.sessions, history_of(sample).sessions, strict=True):
        for message, turn in zip(session.messages, said, strict=True):
            if session.id in wanted or message.id in wanted:
                turns.append(turn)
                positions.append(place)
            place += 1
    if not turns and not sample.question.abstains:
        return None
    return Context(tuple(turns), positions=tuple(positions))


def needed_of(sample: HistorySample) -> tuple[str, ...]:
    """Return the texts of the evidence, where the set names single messages."""
    shown = evidence_of(sample)
    sessions = {session.id for session in sample.sessions}
    if shown is None or not shown.turns or sessions & set(sample.question.evidence):
        return ()
    return tuple(turn.text for turn in shown.turns)


def asked(sample: HistorySample) -> dict[str, Any]:
    """Return what a system is shown: sessions with their times, memories, and the question."""
    question = sample.question
    shown: dict[str, Any] = {"history": sessions_shown(sample)}
    if sample.shown is not None and sample.shown.memories:
        shown["memories"] = list(sample.shown.memories)
    at = {"asked_at": _minute(question.at)} if question.at else {}
    return {**shown, **at, "question": question.text}


def sessions_shown(sample: HistorySample) -> list[dict[str, Any]]:
    """Return the turns that a system is shown, in their sessions."""
    shown = sample.shown
    if shown is not None and not shown.turns:
        return []
    history, sessions = history_of(sample), sample.sessions
    turns = history.turns if shown is None else shown.turns
    positions: Sequence[int] = range(len(history.turns) - len(turns), len(history.turns))
    if shown is not None and shown.positions is not None:
        positions = shown.positions
    rows: list[dict[str, Any]] = []
    number, end, last = -1, 0, -1
    for position, turn in zip(positions, turns, strict=True):
        while position >= end:
            number += 1
            end += len(sessions[number].messages)
        if number != last:
            at = {"at": _minute(sessions[number].at)} if sessions[number].at else {}
            rows.append({**at, "turns": []})
            last = number
        rows[-1]["turns"].append({"role": turn.role, "text": turn.text})
    return rows


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def for_class(sample: HistorySample) -> HistoryQuestion:
    """Return the input of a user's class, without anything that reveals the answer."""
    return HistoryQuestion(
        sample.benchmark_id,
        sample.session_id,
        tuple(sessions_shown(sample)),
        () if sample.shown is None else sample.shown.memories,
        sample.question.text,
        sample.question.at,
    )


def by_rules(sample: HistorySample) -> dict[str, Any]:
    """Answer with the text that has most of the question's rare words; of «when», with its day."""
    found = _texts(sample)
    wanted = _words(sample.question.text)
    if not found:
        return {"answer": UNKNOWN}
    counts: Counter[str] = Counter()
    known = [_words(text) for _, text in found]
    for words in known:
        counts.update(words)
    weights = {word: log(1 + len(found) / counts[word]) for word in wanted if counts[word]}
    marks = [sum(weights.get(word, 0.0) for word in words) for words in known]
    best = max(range(len(found)), key=lambda place: (marks[place], -place))
    if not marks[best]:
        return {"answer": UNKNOWN}
    at, text = found[best]
    # The day of the right session alone has an F1 of .42 on LoCoMo's category 2.
    return {"answer": _day(at) if at and _WHEN.search(sample.question.text) else text}


def _texts(sample: HistorySample) -> list[tuple[str, str]]:
    """Return the texts that are shown, each behind the day that it was said."""
    found: list[tuple[str, str]] = []
    for session in sessions_shown(sample):
        found += [(session.get("at", ""), turn["text"]) for turn in session["turns"]]
    for memory in () if sample.shown is None else sample.shown.memories:
        dated = _DATED.match(memory)
        bare = _ROLE.sub("", memory[dated.end() if dated else 0 :], count=1)
        found.append((dated[1] if dated else "", bare))
    return found


@lru_cache(maxsize=50_000)
def _words(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in _WORD.findall(fold(text)))


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def _day(at: str) -> str:
    year, month, day = at[:10].split("-")
    return f"{int(day)} {_MONTHS[int(month) - 1]} {year}"
