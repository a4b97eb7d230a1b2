"""Human labels: a local page to give them, and their export; each step of this is a module.

All work on items to be labelled, the questions about each, and the plan of the folder that holds
them, which are here. The files of a folder:

- `annotate.json`: the plan, `LabelPlan`.
- `items.jsonl`: `{"item_id", "rubric", "system", "cluster", "language", "payload"}` a line. Items
  to rate or to relate are those of a label folder, whose `scale.json` and `sample.json` lie beside.
- `shown.jsonl`: `{"item_id", "by", "answer"}`, what is hidden until a label is given.
- `records.jsonl`: `{"record", "track", "input", "gold"}`, the rows that memories come from.
- `journal-NAME.jsonl`: what one person said, `labels.GivenLabel` a line.

Every choice has a code of one or two keys; all codes of a question are equally long, so that no
label takes more than two keystrokes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alps.errors import DataError, UsageError
from alps.ext.calibration.agreement import LabelScale
from alps.ext.calibration.labels import ITEMS
from alps.ext.people.settings import Job
from alps.jsonl import Row, dump, parse_json, scan
from alps.judges.rubric import labelled_as
from alps.run.folder import write_whole
from alps.schema import CANONICAL_LABELS, UNMAPPED, FrozenRow
from alps.slips import read_toml, refuse_form_of
from alps.text import fold

PLAN, SHOWN, RECORDS = "annotate.json", "shown.jsonl", "records.jsonl"
Answer = Mapping[str, Any]
KEEP, EDIT, REJECT, ADD, NOTHING = "keep", "edit", "reject", "add", "nothing"
WORDS = 25
"""The most words of a query, as the authors of the benchmark ask for."""
# Those of the authors' validator: explicit and stable, repeated, by default, weak.
CONFIDENCES = (0.95, 0.8, 0.65, 0.5)
TIME_SCOPES = ("long_term", "short_term", "past", "future")
TYPES = ("direct", "indirect")
_GLOSSES: Mapping[Any, str] = {
    KEEP: "correct, and about this user",
    EDIT: "about this user, but badly worded",
    REJECT: "wrong, or not about this user",
    ADD: "write a memory that the draft lacks",
    NOTHING: "the draft is complete",
    "direct": "the user says it",
    "indirect": "the user implies it",
    "long_term": "a trait or habit that lasts",
    "short_term": "true for days or weeks",
    "past": "no longer true",
    "future": "a plan or an intention",
    0.95: "said explicitly, and stable",
    0.8: "said more than once",
    0.65: "likely, and never contradicted",
    0.5: "weak evidence",
}
"""When to give each answer, in one line under its button."""
_LONGEST_GLOSS = 110
_LISTED = re.MULTILINE | re.DOTALL


class LabelPlan(FrozenRow):
    """What a folder is for, as `annotate.json` has it.

    Attributes:
        source: What it is made from, as it was typed.
        n: Items of each rubric, or memories, at most.
        annotators: People an item, where `people` names all who label.
        target: The half-width of the interval at which people may stop.
        audit: The share of the sessions that are labelled whole, to audit the run by.
        audit_seed: Of their drawing; None where the answers draw them.
    """

    job: Job
    source: str
    split: str | None = None
    n: int = 100
    seed: int = 0
    annotators: int = 2
    people: tuple[str, ...] = ()
    blind: bool = True
    target: float | None = None
    audit: float | None = None
    audit_seed: int | None = None

    def check_person(self, person: str) -> None:
        """Refuse a person who is not among the named ones who label.

        Raises:
            UsageError: If it is such a person.
        """
        if self.people and person not in self.people:
            raise UsageError(f"as={person}: not one of the annotators ({', '.join(self.people)})")


@dataclass(frozen=True)
class LabelItem:
    """Something to be labelled.

    Attributes:
        group: What is read once for several items: those of one session, or the item alone.
        shown: What is shown after a label is given; None where there is nothing.
        by: Whose answer that is: a judge's name, or `draft`.
    """

    item_id: str
    rubric: str
    cluster: str | None
    payload: Mapping[str, Any]
    system: str | None = None
    shown: Answer | None = None
    by: str | None = None

    @property
    def group(self) -> str:
        """The items that one person reads together."""
        return self.cluster or self.item_id


@dataclass(frozen=True)
class Work:
    """The plan of a folder, and its items in their order."""

    folder: Path
    plan: LabelPlan
    items: Mapping[str, LabelItem] = field(default_factory=dict)


def open_work(folder: Path) -> Work:
    """Read what is to be labelled in `folder`.

    Raises:
        UsageError: If nothing is there.
        DataError: If a file can't be read.
    """
    path = folder / PLAN
    if not path.is_file():
        fix = f"create it with alps annotate {folder} job=… from=…"
        raise UsageError(f"{folder}: nothing to annotate ({PLAN} is missing); {fix}")
    try:
        plan = LabelPlan.model_validate(parse_json(path.read_bytes()))
    except (ValueError, ValidationError) as error:
        raise DataError("is not the plan of an annotation folder", path=path) from error
    shown: dict[str, Row] = {}
    for row in read_lines(folder / SHOWN):
        shown[str(row.get("item_id"))] = row
    items: dict[str, LabelItem] = {}
    for row in read_lines(folder / ITEMS):
        item = _item(row, shown.get(str(row.get("item_id")), {}), folder / ITEMS)
        items[item.item_id] = item
    if not items:
        raise DataError("has no items", path=folder / ITEMS)
    return Work(folder, plan, items)


def read_lines(path: Path) -> list[Row]:
    """Read the objects of a file, one a line; none where there is no file.

    Raises:
        DataError: If a line is not an object.
    """
    rows = []
    refuse_form_of(path)
    for line, (_, _, row) in enumerate(scan(path), start=1):
        if row is None:
            raise DataError("not a JSON object", path=path, line=line)
        rows.append(row)
    return rows


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    """Write objects into a file, one a line."""
    write_whole(path, b"".join(map(dump, rows)))


def _item(row: Row, shown: Row, path: Path) -> LabelItem:
    try:
        named: Row = {name: row[name] for name in ("item_id", "rubric", "payload")}
    except KeyError as error:
        raise DataError("missing field", path=path, field=str(error.args[0])) from error
    about: Row = {name: row.get(name) for name in ("system", "cluster")}
    return LabelItem(**named, **about, shown=shown.get("answer"), by=shown.get("by"))


@dataclass(frozen=True)
class AnswerChoice:
    """One answer to a question: its value, its keys, its words, and when to give it."""

    value: Any
    code: str
    text: str
    gloss: str = ""

    @property
    def name(self) -> str:
        """The value as a form has it."""
        return str(self.value)


@dataclass(frozen=True)
class LabelQuestion:
    """Something asked of an item.

    Attributes:
        name: The field of the answer that it fills.
        unless: Verdicts after which it is not asked.
    """

    name: str
    text: str
    choices: Sequence[AnswerChoice]
    unless: tuple[str, ...] = ()

    def read(self, word: str) -> Any:
        """Return the value of a form's word.

        Raises:
            UsageError: If it stands for none.
        """
        for choice in self.choices:
            if choice.name == word:
                return choice.value
        raise UsageError(f"Choose an answer: {self.text}")


@dataclass(frozen=True)
class LabelForm:
    """Form of an item: questions, text fields, and their initial values.

    Attributes:
        texts: By field, the words above a field of text.
        values: What the fields of text start as.
    """

    questions: Sequence[LabelQuestion]
    texts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def single(self) -> bool:
        """Whether one answer is all: choosing it commits it."""
        return len(self.questions) == 1 and not self.texts


def form_of(item: LabelItem, scales: Mapping[str, LabelScale]) -> LabelForm:
    """Return the form of an item."""
    if item.rubric in scales:
        return LabelForm((_on_scale(scales[item.rubric], item.rubric),))
    if item.rubric == "queries":
        texts = {"query": "A query that needs this memory", "second": "Another query (optional)"}
        return LabelForm((), texts)
    verdicts = (ADD, NOTHING) if item.rubric == "missing" else (KEEP, EDIT, REJECT)
    texts = {"value": "The memory", "quote": "Quote from the dialogue (evidence)"}
    values = {} if item.rubric == "missing" else {"value": item.payload["memory"]["value"]}
    return LabelForm((_verdict(verdicts), *_of_a_memory(item)), texts, values)


def _on_scale(scale: LabelScale, rubric: str) -> LabelQuestion:
    known = labelled_as(rubric, ())
    text = "" if known is None else known.text
    values = scale.values
    numbers = all(isinstance(value, int) and 0 <= value <= 9 for value in values)
    choices = []
    for place, value in enumerate(values, start=1):
        # On a scale of digits a key is the value, so that 1 never means 0.
        code = str(value) if numbers else _code(place, len(values))
        word = str(value)
        if tuple(values) == (0, 1):
            word = "met" if value == 1 else "not met"
        gloss = gloss_in(text, word.replace(" ", "_"), rubric)
        choices.append(AnswerChoice(value, code, word, gloss))
    return LabelQuestion("label", "Your label", choices)


@cache
def _glosses() -> Mapping[str, Mapping[str, str]]:
    """Return those of labels of our rubrics whose own sentences are too long for a line."""
    return read_toml(Path(str(files("alps.judges"))) / "glosses.toml")


def gloss_in(text: str, label: str, rubric: str) -> str:
    """Return a rubric's explanation of a label, on one line; empty if there is none.

    Args:
        text: The rubric; its labels are items of a list, as "- `met`: the constraint is kept."
        label: The label, as the rubric has it.
        rubric: Its name, which ends in the dimension where the rubric has a list for each.
    """
    if (known := _glosses().get(rubric, {}).get(label)) is not None:
        return known
    for section in text.split("\n### ")[1:]:
        if rubric.endswith(section.partition(":")[0]):
            text = section
    found = re.search(rf"^- `?{re.escape(label)}`?: (.+?)(?=\n *\n|\n *- |\Z)", text, _LISTED)
    if found is None:
        return ""
    said = " ".join(found[1].split())
    # «Everything else.» alone says too little.
    sentences = re.split(r"(?<=[.;]) ", said.removeprefix("everything else. "), maxsplit=1)
    line = sentences[0].rstrip(".;:")
    line = line if len(line) <= _LONGEST_GLOSS else f"{line[:_LONGEST_GLOSS].rpartition(' ')[0]} …"
    return f"{line[0].lower()}{line[1:]}" if line[1:2].islower() else line


def _code(place: int, count: int) -> str:
    # Of one length: the page takes an answer at the last key, so none may begin as another.
    return f"{place:0{len(str(count))}}"


def _verdict(words: Sequence[str]) -> LabelQuestion:
    choices = [AnswerChoice(word, word[0], word, _GLOSSES[word]) for word in words]
    text = "Is a memory missing?" if ADD in words else "What should be done with this memory?"
    return LabelQuestion("verdict", text, choices)


def _of_a_memory(item: LabelItem) -> list[LabelQuestion]:
    """Return the questions about a memory that is kept, edited or added."""
    named: list[tuple[str, str, Sequence[Any]]] = [
        ("type", "How does the user express this memory?", TYPES),
        ("time_scope", "Which period does this memory describe?", TIME_SCOPES),
        ("confidence", "How certain is it that this memory is true?", CONFIDENCES),
    ]
    questions = []
    for name, text, values in named:
        choices = []
        for n, value in enumerate(values, 1):
            word = str(value).replace("_", " ")
            choices.append(AnswerChoice(value, str(n), word, _GLOSSES[value]))
        questions.append(_unless_rejected(name, text, choices))
    # The authors' validator accepts evidence in turns of the user alone.
    turns = [n for n, turn in enumerate(item.payload["dialogue"]) if turn["role"] == "user"]
    shown = []
    for n, turn in enumerate(turns, start=1):
        shown.append(AnswerChoice(turn, _code(n, len(turns)), f"turn {n}"))
    questions.append(_unless_rejected("evidence", "Which turn expresses this memory?", shown))
    questions.append(_unless_rejected("label", "What is this memory about?", _labels()))
    return questions


def _unless_rejected(name: str, text: str, choices: Sequence[AnswerChoice]) -> LabelQuestion:
    return LabelQuestion(name, text, choices, unless=(REJECT, NOTHING))


def _labels() -> list[AnswerChoice]:
    """Return the taxonomy: the first key is the group, the second the label in it."""
    groups: dict[str, int] = {}
    choices = []
    for label in CANONICAL_LABELS:
        group, _, rest = label.partition("/")
        groups[group] = groups.get(group, 0) + 1
        code = f"{len(groups)}{groups[group]}"
        choices.append(AnswerChoice(label, code, f"{group} / {rest}".replace("_", " ")))
    return [*choices, AnswerChoice(UNMAPPED, "00", "none of these")]


def read_answer(item: LabelItem, form: LabelForm, given: Mapping[str, str]) -> Answer:
    """Return the answer that a filled-in form gives.

    Raises:
        UsageError: If something is missing or does not fit; one sentence for whoever labels.
    """
    answer: dict[str, Any] = {}
    for question in form.questions:
        if answer.get("verdict") in question.unless and question.unless:
            continue
        answer[question.name] = question.read(given.get(question.name, ""))
    if item.rubric == "queries":
        return {"queries": read_queries(item, given)}
    if answer.get("verdict") in (REJECT, NOTHING) or not form.texts:
        return answer
    return answer | _texts(item, answer, given)


def _texts(item: LabelItem, answer: Answer, given: Mapping[str, str]) -> dict[str, str | None]:
    """Return the value and the quote of a memory, checked against the dialogue.

    The quote is None where no words of the turn were marked.
    """
    value = given.get("value", "").strip()
    turn = item.payload["dialogue"][answer["evidence"]]["text"]
    quote = given.get("quote", "").strip()
    if not value:
        raise UsageError("Write the memory")
    if fold(quote) not in fold(turn):
        fix = "copy it from there, or leave it empty"
        raise UsageError(f"The quote is not in the selected turn: {fix}")
    old = item.payload.get("memory", {}).get("value", "")
    # The log of changes counts kept and edited apart: verdict and text must not contradict.
    if answer["verdict"] == EDIT and fold(value) == fold(old):
        raise UsageError("The memory is unchanged: edit it, or choose keep")
    if answer["verdict"] == KEEP and fold(value) != fold(old):
        raise UsageError("The memory has changed: choose edit, or restore the text")
    return {"value": value, "quote": quote or None}


def read_queries(item: LabelItem, given: Mapping[str, str]) -> list[str]:
    """Return one or two queries for a memory: at most 25 words, and not its value word by word.

    Raises:
        UsageError: If one is too long, or gives the memory away.
    """
    queries = [given.get(name, "").strip() for name in ("query", "second")]
    queries = [query for query in queries if query]
    value = fold(item.payload["memory"]["value"])
    if not queries:
        raise UsageError("Write a query")
    for query in queries:
        if len(query.split()) > WORDS:
            raise UsageError(f"The query has {len(query.split())} words: use at most {WORDS}")
        # Such a query is answered by its own words, and needs no memory.
        if value in fold(query):
            raise UsageError("The query repeats the memory: ask without stating the memory")
    return queries
