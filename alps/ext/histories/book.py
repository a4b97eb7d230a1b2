"""Questions and histories of a set; histories are read on demand."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from alps.data.hub import fetch_files, is_hub
from alps.errors import DataError, UsageError
from alps.ext.histories.faults import faults_of
from alps.ext.histories.files import SetChoice, StoryPlace, lines
from alps.ext.histories.model import CitedSet, SetQuestion, Story

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError)
T = TypeVar("T")
WRONG_GOLD = "wrong gold"
HARMLESS = frozenset(("wrong evidence", "doubled session"))
"""Defects that leave the gold right: an answer that is judged right is right."""


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


def known_defects(name: str) -> list[Defect]:
    """Return the listed defects of the set `name`."""
    path = Path(str(files("alps.ext.histories") / "defects" / f"{name}.jsonl"))
    return [Defect(**place.read()) for _, place in lines(path)] if path.is_file() else []


def hash_of(text: str) -> str:
    """Return the digits by which defects know a question."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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
    """A set that was opened: all its questions were read once, and no history is kept."""

    cited: CitedSet
    entries: tuple[BookEntry, ...]
    histories: int
    sha256: str
    commonest: dict[str, str] = field(default_factory=dict)

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
        missing = isinstance(error, KeyError)
        what = f"{error.args[0]} is missing" if missing else str(error)
        line, start = getattr(place, "line", None), getattr(place, "start", 0)
        where = f" at byte {start:,}" if start and line is None else ""
        message = f"no history of {cited.title}{where} ({what})"
        raise DataError(message, path=place.path, line=line) from error


def stories(cited: CitedSet, places: Iterable[StoryPlace]) -> Iterator[tuple[StoryPlace, Story]]:
    """Yield the stories of a set one after the other.

    Raises:
        DataError: If one has another form.
    """
    for place in places:
        yield place, made_of(cited, place, lambda node: cited.story(node).in_order())


def find(cited: CitedSet, data: str, choice: SetChoice) -> Path:
    """Return the file or folder that `data=` names; samples are our own, the hub's are fetched.

    Raises:
        UsageError: If there is none.
        HubError: If it can't be fetched.
    """
    if data == "samples":
        return Path(str(files("alps.ext.histories") / "samples" / cited.name))
    if is_hub(data):
        if not cited.hub:
            raise UsageError(f"data={data}: {cited.title} is not there; get it from {cited.source}")
        return fetch_files(data, cited.wanted(choice))
    path = Path(data).expanduser()
    if not path.exists():
        raise UsageError(f"data={data}: no such path; get {cited.title} from {cited.source}")
    return path


def open_book(cited: CitedSet, data: str, given: SetChoice) -> Book:
    """Read the questions of a set, and look at every history once.

    Raises:
        UsageError: If there are none at what `data=` says.
        DataError: If a file has another form.
    """
    choice = cited.choose(given)
    found = cited.files(find(cited, data, choice), choice)
    listed: dict[str, list[Defect]] = {}
    for defect in known_defects(cited.name):
        listed.setdefault(defect.id, []).append(defect)
    entries: list[BookEntry] = []
    golds: dict[str, Counter[str]] = {}
    seen: dict[str, str] = {}
    histories = 0
    for place, story in stories(cited, found.stories):
        histories += 1
        if story.questions and not story.sessions:
            raise DataError(f"{story.id} has questions and no sessions", path=place.path)
        entries += _entries(story, place, listed)
        for question in story.questions:
            if question.id in seen:
                where = f"in {seen[question.id]} and in {story.id}"
                raise DataError(
                    f"the question {question.id} appears twice, {where}", path=place.path
                )
            seen[question.id] = story.id
            if not question.abstains:
                golds.setdefault(question.kind, Counter())[question.answer] += 1
    if not entries:
        raise UsageError(f"data={data}: no questions of {cited.title} in it")
    commonest = {kind: counts.most_common(1)[0][0] for kind, counts in golds.items()}
    return Book(cited, tuple(entries), histories, sha256_of(found.hashed), commonest)


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
    for fault in faults_of(story):
        if fault.question and fault.severity == "serious":
            found.setdefault(fault.question, []).append(fault.code)
    for question in story.questions:
        defects = found.get(question.id, [])
        for defect in listed.get(question.id, ()):
            if defect.asked in ("", hash_of(question.text)):
                defects.append(defect.what)
        turns = ends[-1] if question.sessions is None else ends[question.sessions]
        # Points are long, and what an answer is judged by is read again with its history.
        yield BookEntry(replace(question), place, turns, tuple(dict.fromkeys(defects)))
