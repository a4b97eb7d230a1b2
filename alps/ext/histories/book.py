"""Questions and histories of a set, and their faults; histories are read on demand.

Faults are those that no model is needed to see, and what others found.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from alps.data.audit_findings import SEVERITIES, AuditReport, Severity, Tally, TrackLooked
from alps.data.hub import fetch_files, hub_name, is_hub
from alps.errors import DataError, UsageError
from alps.ext.histories.files import SetChoice, SetFiles, StoryPlace, fault_of, lines
from alps.ext.histories.model import CitedSet, Message, SetQuestion, Story
from alps.text import fold

_HERE = Path(__file__).parent
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError)
T = TypeVar("T")
WRONG_GOLD = "wrong gold"
HARMLESS = frozenset(("wrong evidence", "doubled session"))
"""Defects that leave the gold right: an answer that is judged right is right."""
SHORTEST_INSIDE = 4
"""Letters of a gold that a question may not hold; a shorter one is in many by chance."""
LATEST, EARLIEST = "2100", "1971"
"""All times lie between them: clocks that begin in 1970 have 0 where they have none."""
# Some messages of LongMemEval hold such marks, which tokenisers refuse.
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_QUESTIONS, _HISTORIES = "questions", "histories"
_OWN = "histories"


@dataclass(frozen=True)
class Defect:
    """What is known to be wrong with a question.

    Attributes:
        id: Of the question.
        what: What it is.
        source: Who found it.
        note: What they call it, and where.
        asked: The first digits of the hash of the question, where its id alone could be that of
            another one in another file; empty where it can't.
    """

    id: str
    what: str
    source: str
    note: str = ""
    asked: str = ""

    def is_of(self, question: SetQuestion) -> bool:
        """Tell whether it is of this question, which has its id."""
        return self.asked in ("", hashlib.sha256(question.text.encode()).hexdigest()[:12])


def known_defects(name: str) -> list[Defect]:
    """Return the listed defects of the set `name`."""
    path = _HERE / "defects" / f"{name}.jsonl"
    return [Defect(**place.read()) for place in lines(path)] if path.is_file() else []


@dataclass(frozen=True)
class BookEntry:
    """A question with the data that a run needs.

    Attributes:
        place: Where its history lies.
        turns: How many messages come before it.
        defects: What is wrong with it; of a wrong gold `WRONG_GOLD`.
    """

    question: SetQuestion
    place: StoryPlace
    turns: int
    defects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Book:
    """A set that was opened: all its questions were read once, and no history is kept.

    Attributes:
        undated: How many of its histories lack the time of a session, see `Story.lacks_times`.
    """

    cited: CitedSet
    entries: tuple[BookEntry, ...]
    histories: int
    sha256: str
    commonest: dict[str, str] = field(default_factory=dict)
    undated: int = 0

    def story(self, entry: BookEntry) -> Story:
        """Return the history of a question, with all questions about it."""
        return read_story(self.cited, entry.place)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many questions there are by kind, in the order of the set."""
        found = Counter(entry.question.kind for entry in self.entries)
        order = [*self.cited.kinds, *sorted(found)]
        return {kind: found[kind] for kind in dict.fromkeys(order) if found[kind]}


# The questions of one history follow one another.
@lru_cache(maxsize=4)
def read_story(cited: CitedSet, place: StoryPlace) -> Story:
    """Return the story that lies at a place; see `made_of`."""
    return made_of(cited, place, lambda node: cited.story(node).in_order())


def made_of(cited: CitedSet, place: StoryPlace, make: Callable[[Any], T]) -> T:
    """Return the result of `make` for the file or folder at a place.

    Raises:
        DataError: If that has another form.
    """
    try:
        return make(place.read())
    except _UNREADABLE as error:
        what = fault_of(error)
        line, start = getattr(place, "line", None), getattr(place, "start", 0)
        where = f" at byte {start:,}" if start and line is None else ""
        message = f"not a history in the form of {cited.title}{where} ({what})"
        raise DataError(message, path=place.path, line=line) from error


def stories(cited: CitedSet, places: Iterable[StoryPlace]) -> Iterator[tuple[StoryPlace, Story]]:
    """Yield the stories of a set one after the other.

    Raises:
        DataError: If one has another form.
    """
    for place in places:
        yield place, made_of(cited, place, lambda node: cited.story(node).in_order())


def files_of(cited: CitedSet, data: str, choice: SetChoice) -> SetFiles:
    """Return the files of a set in what `data=` names; samples are our own, the hub's are fetched.

    Raises:
        UsageError: If there are none.
        HubError: If they can't be fetched.
    """
    path = Path(data).expanduser()
    if data == "samples":
        path = _HERE / "samples" / cited.name
    elif is_hub(data):
        if not cited.hub:
            what = f"the hub does not have {cited.title}"
            raise UsageError(f"data={data}: {what}; get it from {cited.source}")
        path = fetch_files(data, cited.wanted(choice))
    elif not path.exists():
        raise UsageError(f"data={data}: no such path; get {cited.title} from {cited.source}")
    return cited.files(path, choice)


def open_book(cited: CitedSet, data: str, given: SetChoice) -> Book:
    """Read the questions of a set, and look at every history once.

    Raises:
        UsageError: If there are none at what `data=` says.
        DataError: If a file has another form.
    """
    found = files_of(cited, data, cited.choose(given))
    listed: dict[str, list[Defect]] = {}
    for defect in known_defects(cited.name):
        listed.setdefault(defect.id, []).append(defect)
    entries: list[BookEntry] = []
    seen: dict[str, str] = {}
    histories = undated = 0
    for place, story in stories(cited, found.stories):
        histories += 1
        undated += story.lacks_times
        if story.questions and not story.sessions:
            raise DataError(f"{story.id} has questions but no sessions", path=place.path)
        entries += _entries(story, place, listed)
        for question in story.questions:
            # Answers, verdicts and scores find their question by its id alone.
            if question.id in seen:
                other = seen[question.id]
                where = f"in {story.id}" if other == story.id else f"in {other} and in {story.id}"
                raise DataError(
                    f"the question {question.id} appears twice, {where}", path=place.path
                )
            seen[question.id] = story.id
    if not entries:
        raise _no_questions(cited, data, given)
    commonest = _commonest(entry.question for entry in entries)
    return Book(cited, tuple(entries), histories, sha256_of(found.hashed), commonest, undated)


def _no_questions(cited: CitedSet, data: str, given: SetChoice) -> UsageError:
    sizes = cited.chosen.get("size", ())
    other = f" of size {given.size or sizes[0]}; sizes: {', '.join(sizes)}" if sizes else ""
    return UsageError(f"data={data}: the data has no questions of {cited.title}{other}")


def _commonest(questions: Iterable[SetQuestion]) -> dict[str, str]:
    """Return the most frequent gold of each kind."""
    golds: dict[str, Counter[str]] = {}
    for question in questions:
        # The gold of an unanswerable question is a reason, and no guess.
        if not question.abstains:
            golds.setdefault(question.kind, Counter())[question.answer] += 1
    return {kind: counts.most_common(1)[0][0] for kind, counts in golds.items()}


def sha256_of(paths: Iterable[Path]) -> str:
    """Return the hash of files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _entries(
    story: Story, place: StoryPlace, listed: dict[str, list[Defect]]
) -> Iterator[BookEntry]:
    ends = [0]
    for session in story.sessions:
        ends.append(ends[-1] + len(session.messages))
    found: dict[str, list[str]] = {}
    for fault in _faults_of(story):
        if fault.question and fault.severity == "serious":
            found.setdefault(fault.question, []).append(fault.code)
    for question in story.questions:
        defects = found.get(question.id, [])
        for defect in listed.get(question.id, ()):
            if defect.is_of(question):
                defects.append(defect.what)
        turns = ends[-1] if question.sessions is None else ends[question.sessions]
        yield BookEntry(question, place, turns, tuple(dict.fromkeys(defects)))


@dataclass(frozen=True)
class _Fault:
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


def _faults_of(story: Story) -> Iterator[_Fault]:
    yield from _of_sessions(story)
    named = {session.id for session in story.sessions}
    for session in story.sessions:
        named.update(message.id for message in session.messages)
    asked: dict[tuple[str, int | None], str] = {}
    for question in story.questions:
        # Asked again after more sessions, it is another question.
        text = fold(question.text), question.sessions
        # LoCoMo asks 11 questions of categories 1 to 4 twice.
        if text in asked:
            detail = "a question is repeated in one history"
            what = f"same as {asked[text]}: {question.text}"
            yield _Fault("duplicate-question", "serious", detail, question.id, what)
        asked.setdefault(text, question.id)
        yield from _of_gold(question)
        yield from _of_evidence(question, named)
        yield from _of_time(question, story)


def _of_sessions(story: Story) -> Iterator[_Fault]:
    said: dict[tuple[str, ...], str] = {}
    before = ""
    dated = any(session.at for session in story.sessions)
    for session in story.sessions:
        name = f"{story.id}, session {session.id}"
        texts = tuple(message.text for message in session.messages)
        if not texts:
            yield _Fault("empty-session", "note", "a session has no messages", "", name)
        elif texts in said:
            detail = "two sessions of a history are identical"
            # A warning: the gold stays right. Thirteen histories of LongMemEval S have such a
            # session.
            yield _Fault("doubled-session", "warning", detail, "", f"{name}: same as {said[texts]}")
        said.setdefault(texts, session.id)
        # A set may have no times at all; a session without one among others with times is a fault.
        if (session.written or dated) and not EARLIEST <= session.at < LATEST:
            detail = "a session has no valid time"
            yield _Fault("impossible-date", "serious", detail, "", f"{name}: {session.written}")
        elif session.at and session.at < before:
            detail = "sessions are not in chronological order"
            yield _Fault("out-of-order", "warning", detail, "", f"{name}: {session.written}")
        before = max(before, session.at)
        if (marked := next(filter(_has_special_mark, session.messages), None)) is not None:
            detail = "a message contains a special token"
            yield _Fault("special-mark", "note", detail, "", f"{name}: {marked.id}")


def _has_special_mark(message: Message) -> bool:
    return any(mark in message.text for mark in _SPECIAL)


def _of_gold(question: SetQuestion) -> Iterator[_Fault]:
    gold, text = fold(question.answer), fold(question.text)
    if not question.abstains and len(gold) >= SHORTEST_INSIDE and gold in text:
        what = f"{question.answer}: {question.text}"
        # «Tea or coffee?» has to name its answer, and gives nothing away.
        if " or " in text:
            detail = "the question names the answer as an option, so guessing may succeed"
            yield _Fault("answer-among-choices", "note", detail, question.id, what)
        else:
            detail = "the question contains the answer verbatim"
            yield _Fault("answer-in-question", "serious", detail, question.id, what)
    if not gold and not question.abstains and not question.points:
        detail = "the question has no gold answer"
        yield _Fault("no-answer", "serious", detail, question.id, question.text)


def _of_evidence(question: SetQuestion, named: set[str]) -> Iterator[_Fault]:
    missing = [name for name in question.evidence if name not in named]
    if missing:
        detail = "evidence points to missing messages or sessions"
        yield _Fault("missing-evidence", "warning", detail, question.id, ", ".join(missing))
    elif not question.evidence and not question.abstains:
        detail = "the question has no evidence, so retrieval and diagnosis skip it"
        yield _Fault("no-evidence", "note", detail, question.id, question.text)


def _of_time(question: SetQuestion, story: Story) -> Iterator[_Fault]:
    written = question.at or question.more.get("written", "")
    if written and not EARLIEST <= question.at < LATEST:
        detail = "a question has an invalid time"
        yield _Fault("impossible-date", "serious", detail, question.id, written)
    before = story.sessions if question.sessions is None else story.sessions[: question.sessions]
    late = max((session.at for session in before), default="")
    if question.at and late > question.at:
        detail = "a question is dated before a session that precedes it"
        yield _Fault("asked-too-early", "warning", detail, question.id, f"{question.at} < {late}")


def _count(tally: Tally, story: Story) -> None:
    """Count what is wrong with a history and its questions."""
    told: set[tuple[str, str]] = set()
    for fault in _faults_of(story):
        unit, of = (_QUESTIONS, fault.question) if fault.question else (_HISTORIES, story.id)
        # A history with three empty sessions is one history.
        if (fault.detail, of) not in told:
            tally.find(fault.code, fault.severity, fault.detail, of, fault.what, unit=unit)
        told.add((fault.detail, of))


def audit_set(cited: CitedSet, data: str, split: str | None) -> AuditReport | None:
    """Audit a set in the files that `data=` names; None where they are of another layout.

    Raises:
        DataError: If a file that is the set's can't be read.
    """
    name = hub_name(data)
    if name is not None and name.repository != cited.hub:
        return None
    try:
        found = files_of(cited, data, cited.named(split))
        first = next(iter(stories(cited, found.stories)), None)
    except (UsageError, DataError) as error:
        # The audit offers `data=` to every set: what this one can't read may be another's. The
        # files of a set of one's own have names that no other set's have.
        if isinstance(error, DataError) and cited.name == _OWN:
            raise
        return None
    if first is None or not first[1].questions:
        return None
    tally = Tally(cited.name)
    listed = {one.id: one for one in known_defects(cited.name)}
    questions = 0
    for _, story in stories(cited, found.stories):
        tally.look(_HISTORIES)
        tally.look(_QUESTIONS, len(story.questions))
        questions += len(story.questions)
        _count(tally, story)
        for question in story.questions:
            defect = listed.get(question.id)
            if defect is not None and defect.is_of(question):
                code = f"known-{defect.what}".replace(" ", "-")
                detail = f"{defect.what} (according to {defect.source})"
                serious: Severity = "warning" if defect.what in HARMLESS else "serious"
                tally.find(code, serious, detail, question.id, question.text, unit=_QUESTIONS)
    findings = sorted(
        tally.findings(), key=lambda one: (SEVERITIES.index(one.severity), one.code, -one.count)
    )
    looked = TrackLooked(cited.name, questions, questions)
    return AuditReport(data, cited.name, (looked,), tuple(findings), ())
