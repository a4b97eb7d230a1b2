"""Histories and questions, whatever set they are of: what every reader yields.

A reader turns the files of a set into stories: the sessions of somebody, and what is asked about
them. Nothing here knows a set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from alps.errors import UsageError
from alps.ext.histories.files import Role, SetChoice, SetFiles
from alps.tasks.metrics import Metric

Scoring = Literal["judged", "exact", "guided", "points"]


@dataclass(frozen=True)
class Message:
    """One message of a session.

    Attributes:
        id: What evidence names it by; empty where the set has none.
        speaker: Who says it, where that is a name and no role.
    """

    role: Role
    text: str
    id: str = ""
    speaker: str = ""

    @property
    def said(self) -> str:
        """The text as a system gets it: behind the name of who says it, where there is one."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


@dataclass(frozen=True)
class HistorySession:
    """One session.

    Attributes:
        at: When it begins, ISO 8601 with a zone; empty where nobody knows, or no such time is.
        written: The same as the file writes it.
    """

    id: str
    at: str
    messages: tuple[Message, ...]
    written: str = ""


@dataclass(frozen=True)
class SetQuestion:
    """One question about a history.

    Attributes:
        id: The same in every run on the same files.
        history: The id of its history.
        answer: The right answer; what makes it unanswerable where it `abstains`.
        kind: Its kind, as the set calls it.
        at: When it is asked, ISO 8601; empty where the set does not say.
        evidence: The ids of the messages or sessions that an answer needs.
        abstains: Whether the right answer is that nothing is known.
        scoring: How an answer is judged: by the gold (`judged`), by being the very gold (`exact`),
            by a gold that says what a good answer does (`guided`), or by each of its `points`.
        points: What is judged one by one, where the set has that.
        sessions: How many sessions come before it; None for all.
        more: What the authors' scoring needs beyond that.
    """

    id: str
    history: str
    text: str
    answer: str
    kind: str
    at: str = ""
    evidence: tuple[str, ...] = ()
    abstains: bool = False
    scoring: Scoring = "judged"
    points: tuple[str, ...] = ()
    sessions: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Story:
    """The sessions of one user in chronological order, and the questions about them."""

    id: str
    sessions: tuple[HistorySession, ...]
    questions: tuple[SetQuestion, ...]

    @property
    def lacks_times(self) -> bool:
        """Whether a session has no valid time though times are given, so that all are left out."""
        given = any(session.at or session.written for session in self.sessions)
        return given and not all(session.at for session in self.sessions)

    def in_order(self) -> "Story":
        """Return it with its sessions in the order of time; as it is where that is not known."""
        # Questions that are asked between sessions count them as they stand.
        counted = any(question.sessions is not None for question in self.questions)
        if counted or not all(session.at for session in self.sessions):
            return self
        # LongMemEval's oracle file has its sessions in no order of time.
        return replace(self, sessions=tuple(sorted(self.sessions, key=lambda one: one.at)))


Marks = Mapping[str, float]
"""What a judge said of an answer, by the name of the rubric."""


@dataclass(frozen=True)
class Authors:
    """How the authors of a set score answers.

    Attributes:
        metrics: What is reported so.
        rubrics: Those that an answer to a question is judged by: the name of the rubric, and what
            the judge is shown as the gold, for each.
        score: Scores by metric and counts, from the question, the answer (None for a failed one)
            and the marks, which lack those of rubrics that no judge was asked.
        judged: Of the metrics the one that a judge decides, which is also reported on the sound
            questions, and on those whose gold is wrong; empty where there is none.
        paired: What lines of an answer are paired with, and the lines: each line, in its turn, with
            the first that it tells of those that no line before it did; None where nothing is.
        recorded: The format of `alps import` whose verdicts are those of `judged`; empty for none.
    """

    metrics: tuple[Metric, ...]
    rubrics: Callable[[SetQuestion], Sequence[tuple[str, str]]]
    score: Callable[[SetQuestion, str | None, Marks], tuple[dict[str, float], dict[str, float]]]
    judged: str = ""
    paired: Callable[[SetQuestion, str], tuple[Sequence[str], Sequence[str]]] | None = None
    recorded: str = ""


# Its mappings have no hash, and `read_story` caches by the set.
@dataclass(frozen=True, eq=False)
class CitedSet:
    """One set of histories and questions; each is made once, and is equal to itself alone.

    Attributes:
        name: That of the task.
        title: What tables call it.
        licence: Of its data.
        language: Of its texts.
        source: Where its files are, for people.
        files: Finds its stories in what `data=` names, by a choice.
        story: Makes a story of what a place holds; raises KeyError, TypeError or ValueError where
            that has another form.
        kinds: Its kinds of questions, in the order of tables, each with what else it is called.
        authors: How its authors score; None where nobody but us does.
        rubrics: The names of the rubrics that its scores depend on besides those of all sets.
        hub: Its data set of the Hugging Face hub, OWNER/NAME; empty where there is none.
        wanted: The files that a run fetches from there, as patterns.
        expected: How many questions the official files have, by kind; nothing where that is open.
        chosen: The values that `set=` and `size=` take, the default first.
    """

    name: str
    title: str
    licence: str
    language: str
    source: str
    files: Callable[[Path, SetChoice], SetFiles]
    story: Callable[[Any], Story]
    kinds: Mapping[str, str] = field(default_factory=dict)
    authors: Authors | None = None
    rubrics: tuple[str, ...] = ()
    hub: str = ""
    wanted: Callable[[SetChoice], Sequence[str]] = lambda choice: ("*",)
    expected: Callable[[SetChoice], Mapping[str, int]] = lambda choice: {}
    chosen: Mapping[Literal["set", "size"], tuple[str, ...]] = field(default_factory=dict)

    def choose(self, given: SetChoice) -> SetChoice:
        """Return what a run chooses, with what it leaves open.

        Raises:
            UsageError: If the set has no such files.
        """
        for key in ("set", "size"):
            value = getattr(given, key)
            known = self.chosen.get(key, ())
            if value is not None and value not in known:
                has = f"use {', '.join(known)}" if known else f"it has no {key}s; leave it out"
                raise UsageError(f"{key}={value}: not a {key} of {self.name}; {has}")
        # Who leaves the size open and who names the first one share a board. What a set is where
        # none is named, the files say.
        return replace(given, size=given.size or next(iter(self.chosen.get("size", ())), None))

    def named(self, split: str | None) -> SetChoice:
        """Return the files that an audit names by one word, whichever key a run has for them.

        Raises:
            UsageError: If the set has several, and none of that name.
        """
        known = [value for values in self.chosen.values() for value in values]
        for key, values in self.chosen.items():
            if split in values:
                return SetChoice(**{key: split})
        if split is not None and known:
            raise UsageError(f"split={split}: no part of {self.title}; use {', '.join(known)}")
        return SetChoice()


def when(text: str, *forms: str) -> str:
    """Return a time as ISO 8601 in UTC; empty where it has none of the forms, or never was.

    Without a form it is ISO 8601 already; without a zone it is taken for UTC.
    """
    for form in forms or ("",):
        try:
            read = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
        except ValueError:
            continue
        # The zone of the machine would give each machine other times.
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).isoformat()
    return ""
