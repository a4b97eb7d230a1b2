"""PersonaMem's files: questions as CSV, beside the histories that they are about.

`questions_<size>.csv` names for each question the history it is about and where that history ends
(Jiang et al., COLM 2025, arXiv 2504.14225). `options_<size>.jsonl`, a question a line, says why
options of a generated set are wrong.
"""

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from alps.data.hub import fetch_files, is_hub
from alps.errors import DataError, UsageError, closest
from alps.jsonl import scan
from alps.schema import Turn
from alps.slips import refuse_form_of
from alps.tasks.personamem.histories import open_histories
from alps.tasks.personamem.rows import (
    BENCHMARKS,
    LETTERS,
    SIZES,
    CsvRow,
    HistorySource,
    LinkedHistories,
    OnFault,
    PersonaQuestion,
    link_column,
    links_in,
    read_benchmark,
    read_rows,
    refuse,
    sizes_of,
)

__all__ = [
    "LETTERS",
    "SIZES",
    "PersonaMem",
    "PersonaQuestion",
    "find_folder",
    "open_personamem",
    "read_questions",
    "sizes_in",
]

_SHOWN = 80
_COLUMNS = (
    "persona_id",
    "question_id",
    "question_type",
    "topic",
    "user_question_or_message",
    "correct_answer",
    "all_options",
    "shared_context_id",
    "end_index_in_shared_context",
)


def read_questions(path: Path, on_fault: OnFault = refuse) -> Iterator[PersonaQuestion]:
    """Yield the questions of a file in its order.

    Args:
        path: The file.
        on_fault: Takes what is wrong with a row, which is then left out.

    Raises:
        DataError: If a column is missing or occurs twice, or a row can't be read; names the file,
            the line and the column.
    """
    seen: dict[str, int] = {}
    for row in read_rows(path, _COLUMNS, on_fault):
        try:
            question = _question(row)
            if question.id in seen:
                twice = f"'{question.id[:_SHOWN]}' appears twice, first on line {seen[question.id]}"
                raise row.fault(twice, "question_id")
        except DataError as fault:
            on_fault(fault)
            continue
        seen[question.id] = row.line
        yield question


def _question(row: CsvRow) -> PersonaQuestion:
    options = row.texts("all_options", len(LETTERS), "four")
    end = row.count("end_index_in_shared_context")
    if end is None:
        raise row.fault("empty", "end_index_in_shared_context")
    return PersonaQuestion(
        persona=row.text("persona_id"),
        id=row.text("question_id"),
        type=row.text("question_type"),
        topic=row.cells["topic"],
        message=row.text("user_question_or_message"),
        options=tuple(map(_bare, options, LETTERS)),
        gold=_gold(row),
        history=row.cells["shared_context_id"],
        end=end,
        sessions_back=row.count("distance_to_ref_in_blocks"),
        tokens_back=row.count("distance_to_ref_in_tokens"),
        tokens=row.count("context_length_in_tokens"),
        letters=row.count("context_length_in_letters"),
        irrelevant_tokens=row.count("num_irrelevant_tokens"),
        line=row.line,
    )


def _gold(row: CsvRow) -> int:
    text = row.cells["correct_answer"].strip()
    letter = text.strip("()").lower()
    if len(letter) != 1 or letter not in LETTERS:
        shown = f"'{text[:20]}' is not one of the letters (a) to ({LETTERS[-1]})"
        raise row.fault(shown, "correct_answer")
    return LETTERS.index(letter)


def _bare(option: str, letter: str) -> str:
    """Return an option without the letter it begins with."""
    return option.removeprefix(f"({letter})").strip()


def read_kinds(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the kind of each option by question id; none without the file, as in published sets.

    Raises:
        DataError: If a row can't be read; names file, line and field.
    """
    kinds: dict[str, tuple[str, ...]] = {}
    if not path.is_file():
        return kinds
    refuse_form_of(path)
    for line, (_, _, row) in enumerate(scan(path), start=1):
        if row is None:
            raise DataError("not a JSON object", path=path, line=line)
        question, options = row.get("question_id"), row.get("options")
        if not isinstance(question, str):
            raise DataError("expected a string", path=path, line=line, field="question_id")
        if not isinstance(options, list) or not all(isinstance(kind, str) for kind in options):
            raise DataError("expected a list of texts", path=path, line=line, field="options")
        kinds[question] = tuple(options)
    return kinds


@dataclass(frozen=True)
class PersonaMem:
    """The files of one size in a folder.

    Attributes:
        size: Of the histories.
        questions: The file of the questions.
        histories: Where the histories are; several files are looked through in turn.
        version: How the questions are written: 1, or 2 for PersonaMem-v2.
    """

    size: str
    questions: Path
    histories: tuple[HistorySource, ...]
    version: int = 1

    def read(self, on_fault: OnFault = refuse) -> Iterator[PersonaQuestion]:
        """Yield the questions in their order; see `read_questions`."""
        if self.version == 1:
            return read_questions(self.questions, on_fault)
        return read_benchmark(self.questions, self.size, self.histories, on_fault)

    def rows(self) -> Iterator[CsvRow]:
        """Yield the rows of the questions, with all columns that are there."""
        return read_rows(self.questions, (), lambda fault: None)

    def holds(self, question: PersonaQuestion) -> bool:
        """Tell whether the history of a question is there."""
        return any(question.history in histories for histories in self.histories)

    def check(self, question: PersonaQuestion) -> None:
        """Check that the history of a question is there, and as long as the question says.

        Raises:
            DataError: If not; names the line of the question.
        """
        self._histories_of(question)

    @property
    def generated(self) -> bool:
        """Whether `alps data personas` wrote them: the timelines lie beside the questions."""
        return (self.questions.parent / f"timelines_{self.size}.jsonl").is_file()

    def whole_history(self, name: str) -> tuple[Turn, ...]:
        """Return all of a history, also what comes after a question.

        Raises:
            DataError: If it is not there.
        """
        for histories in self.histories:
            if name in histories:
                return histories.read(name, histories.length(name))
        raise DataError(f"no history '{name}' next to this file", path=self.questions)

    def history(self, question: PersonaQuestion) -> tuple[Turn, ...]:
        """Return what the user and the assistant said before the question.

        Raises:
            DataError: If the history is not there, or is shorter than the question says.
        """
        return self._histories_of(question).read(question.history, question.end)

    def last_said(self, question: PersonaQuestion, count: int) -> tuple[Turn, ...]:
        """Return the last messages before a question, `count` at most, and read no others.

        Raises:
            DataError: If the history is not there, or is shorter than the question says.
        """
        start = max(0, question.end - count)
        return self._histories_of(question).read(question.history, question.end, start)

    def kinds_of(self, question: PersonaQuestion) -> tuple[str, ...]:
        """Return why each option of a question is wrong, where the data say so, else nothing.

        Raises:
            DataError: If the file that says so can't be read.
        """
        return self._kinds.get(question.id, ())

    @cached_property
    def _kinds(self) -> dict[str, tuple[str, ...]]:
        return read_kinds(self.questions.with_name(f"options_{self.size}.jsonl"))

    def _histories_of(self, question: PersonaQuestion) -> HistorySource:
        name, line = question.history, question.line
        for histories in self.histories:
            if name in histories:
                length = histories.length(name)
                if question.end > length:
                    short = f"{question.end}, but history '{name[:_SHOWN]}' has {length} messages"
                    field = "end_index_in_shared_context"
                    raise DataError(short, path=self.questions, line=line, field=field)
                return histories
        files = ", ".join(histories.path.name for histories in self.histories)
        place = "the folder of data=" if self.version == 2 else files or self.questions.parent
        missing = f"no history '{name[:_SHOWN]}' in {place}"
        field = "shared_context_id" if self.version == 1 else link_column(self.size)
        raise DataError(missing, path=self.questions, line=line, field=field)


def find_folder(data: str, size: str | None, key: str = "size") -> Path:
    """Return the folder of `data=`; of a data set of the hub, fetch the size that `key` names.

    Raises:
        UsageError: If no size of a data set of the hub is named.
        HubError: If it can't be fetched.
    """
    if not is_hub(data):
        return Path(data).expanduser()
    if size is None:
        raise UsageError(f"data={data}: name a size with {key}= ({', '.join(SIZES)})")
    own = (f"questions_{size}.csv", f"shared_contexts_{size}*.jsonl")
    folder = fetch_files(data, (*own, BENCHMARKS[0]))
    benchmark = folder / BENCHMARKS[0]
    # Beside the histories of its questions lie five times as many of its training set.
    if benchmark.is_file() and size in sizes_of(benchmark):
        fetch_files(data, [glob.escape(link) for link in links_in(benchmark, size)])
    return folder


def sizes_in(folder: Path) -> dict[str, tuple[Path, int]]:
    """Return the sizes of PersonaMem in a folder: the file of the questions, and its version.

    Raises:
        DataError: If a file of that name can't be read.
    """
    found = {size: (folder / f"questions_{size}.csv", 1) for size in SIZES}
    there = {size: place for size, place in found.items() if place[0].is_file()}
    benchmark = next((folder / name for name in BENCHMARKS if (folder / name).is_file()), None)
    if not there and benchmark is not None:
        there = dict.fromkeys(sizes_of(benchmark), (benchmark, 2))
    return there


def open_personamem(
    folder: Path, size: str | None = None, *, name: str | None = None
) -> PersonaMem:
    """Find PersonaMem's files of one size in a folder, which errors call by `name`.

    Raises:
        UsageError: If there are none, or several sizes and none was named.
    """
    name = name or str(folder)
    there = sizes_in(folder)
    if size is None and len(there) > 1:
        raise UsageError(f"data={name}: name a size with size= (found: {', '.join(there)})")
    if size is not None and size not in SIZES:
        raise UsageError(f"size={size}: unknown{closest(size, SIZES)} (known: {', '.join(SIZES)})")
    chosen = size or next(iter(there), SIZES[0])
    if chosen not in there:
        raise UsageError(f"data={name}: no questions_{chosen}.csv in it")
    questions, version = there[chosen]
    if version == 2:
        linked = LinkedHistories(folder, tuple(links_in(questions, chosen)))
        return PersonaMem(chosen, questions, (linked,) if linked.any() else (), version)
    paths = sorted(folder.glob(f"shared_contexts_{chosen}*.jsonl"))
    return PersonaMem(chosen, questions, tuple(open_histories(path) for path in paths))
