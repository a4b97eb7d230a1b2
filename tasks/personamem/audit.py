"""The audit of a PersonaMem-shaped folder: what gives its answers away, or makes them doubtful.

| code | severity | what it is |
|---|---|---|
| `length-leak` | serious, warning | of one type, the gold is a longest or a shortest option |
| `letter-leak` | serious, warning | one letter is right too often, in all or in one type |
| `id-leak` | serious | the question's id or its place in the file tells the letter |
| `column-leak` | serious | another column holds the gold's letter or text |
| `gold-in-message` | serious | the message contains the gold, word for word, and not all options |
| `question-in-history` | serious | the history before a question ends with the question itself |
| `missing-history` | serious | the history is not there, or ends before the question |
| `equal-options` | serious, warning | two options are one text (serious: one of them the gold) |
| `unreadable-row` | serious | a row that no run reads |
| `duplicate-question` | warning | a persona is asked the same again: rows depend on each other |
| `duplicate-message` | note | several personas get the same question |

A leak is a rule that finds the gold more often than a blind guess does: exact one-sided binomial
test, as in `audit_findings.above_chance`, which takes rows for independent. It is serious from a
gain of `SERIOUS_GAIN` on.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from alps.data.audit_findings import (
    SEVERITIES,
    SHORTEST_INSIDE,
    AuditReport,
    DataFinding,
    Severity,
    Tally,
    TrackLooked,
    above_chance,
    chance_of,
)
from alps.errors import DataError, UsageError, closest
from alps.tasks.personamem.release import (
    LETTERS,
    PersonaMem,
    PersonaQuestion,
    open_personamem,
    sizes_in,
)
from alps.tasks.personamem.scores import longest, shortest
from alps.text import fold

SERIOUS_GAIN = 0.2
# A rule must find this many golds: of fewer rows one more or less says nothing.
FEWEST = 10
# The question comes right after its slice: whoever cuts one too late has it among the last.
NEAR_THE_END = 2
_ALL = "questions"
_GOLD_COLUMNS = ("correct_answer", "all_options", "incorrect_answers")


def audit_personamem(data: str, folder: Path, split: str | None) -> AuditReport | None:
    """Audit every size of PersonaMem in a folder, or the one that `split` names.

    None where there is none: the folder is in another layout.

    Raises:
        UsageError: If the size that is named is not there.
        DataError: If a file is not what its name says.
    """
    sizes = list(sizes_in(folder))
    if not sizes:
        return None
    if split not in (None, *sizes):
        known = f"{closest(str(split), sizes)} (found: {', '.join(sizes)})"
        raise UsageError(f"split={split}: not in {data}{known}")
    sizes = sizes if split is None else [split]
    looked: list[TrackLooked] = []
    findings: list[DataFinding] = []
    unchecked: list[str] = []
    for each in sizes:
        files = open_personamem(folder, each)
        audit = _SizeAudit(files)
        findings += audit.findings()
        looked.append(TrackLooked(each, audit.rows, len(audit.questions)))
        if not files.histories:
            unchecked.append(f"{each}: the histories, because their file is missing")
    findings.sort(key=lambda one: (SEVERITIES.index(one.severity), one.track, one.code, -one.count))
    return AuditReport(data, ", ".join(sizes), tuple(looked), tuple(findings), tuple(unchecked))


class _SizeAudit:
    """Audits the questions of one size; rows that can't be read are counted, never raised."""

    def __init__(self, files: PersonaMem) -> None:
        self._files = files
        self._tally = Tally(files.size)
        self.rows = 0
        self.questions = tuple(files.read(on_fault=self._count_fault))
        self.rows += len(self.questions)
        self._tally.look(_ALL, self.rows)

    def _count_fault(self, fault: DataError) -> None:
        self.rows += 1
        what = str(fault).partition(": ")[2]
        name = f"line {fault.line}" if fault.line else Path(str(fault.path)).name
        detail = "a run cannot read the row"
        self._tally.find("unreadable-row", "serious", detail, name, what, unit=_ALL)

    def findings(self) -> list[DataFinding]:
        """Return everything that was found."""
        for question in self.questions:
            self._look_at_options(question)
            if self._files.histories:
                self._look_at_history(question)
        self._look_at_duplicates()
        leaks = [*self._length_leaks(), *self._letter_leaks(), *self._id_leaks()]
        return [*self._tally.findings(), *leaks, *self._column_leaks()]

    def _look_at_options(self, question: PersonaQuestion) -> None:
        options = [fold(option) for option in question.options]
        gold = options[question.gold]
        repeated = [option for option, count in Counter(options).items() if count > 1]
        if gold in repeated:
            self._find("equal-options", "serious", "the gold equals a wrong option", question, gold)
        elif repeated:
            what = repeated[0]
            self._find("equal-options", "warning", "wrong options are equal", question, what)
        message = fold(question.message)
        held = [option in message for option in options]
        if held[question.gold] and not all(held) and len(gold) >= SHORTEST_INSIDE:
            self._find(
                "gold-in-message", "serious", "the message contains the gold", question, gold
            )

    def _look_at_history(self, question: PersonaQuestion) -> None:
        try:
            last = self._files.last_said(question, NEAR_THE_END)
        except DataError as error:
            what = str(error).rpartition(f"{error.field}: ")[2]
            detail = "the history is missing or too short, so a run refuses it"
            self._find("missing-history", "serious", detail, question, what)
            return
        message = fold(question.message)
        if any(message in fold(said.text) for said in last):
            detail = "the history includes the question itself"
            self._find("question-in-history", "serious", detail, question, question.message)

    def _look_at_duplicates(self) -> None:
        asked: set[tuple[str, str, str]] = set()
        said: set[str] = set()
        for question in self.questions:
            message = fold(question.message)
            key = message, question.topic, question.persona
            if key in asked:
                detail = "a persona gets the same question again, so rows are not independent"
                self._find("duplicate-question", "warning", detail, question, message)
            elif message in said:
                detail = "several personas get the same question"
                self._find("duplicate-message", "note", detail, question, message)
            asked.add(key)
            said.add(message)

    def _length_leaks(self) -> Iterator[DataFinding]:
        rules = {"the longest": longest, "the shortest": shortest}
        by_type = _by_type(self.questions)
        tried = len(rules) * len(by_type)
        for kind, questions in by_type.items():
            for name, picks in rules.items():
                what, picked = f"the gold is {name} option of {kind}", list(map(picks, questions))
                yield from self._leak("length-leak", what, questions, picked, tried=tried)

    def _letter_leaks(self) -> Iterator[DataFinding]:
        groups = {"all types": self.questions, **_by_type(self.questions)}
        for kind, questions in groups.items():
            counts = Counter(question.gold for question in questions)
            letter = max(counts, key=lambda place: (counts[place], -place), default=0)
            what = f"the gold is option ({LETTERS[letter]}) in {kind}"
            picked, tried = [[letter]] * len(questions), len(LETTERS) * len(groups)
            yield from self._leak("letter-leak", what, questions, picked, tried=tried)

    def _id_leaks(self) -> Iterator[DataFinding]:
        """Look for a number of the row that, counted modulo 4, is the letter's but for a shift."""
        places = {question.id: place for place, question in enumerate(self.questions)}
        order = {name: place for place, name in enumerate(sorted(places))}
        rules: dict[str, Callable[[str], int]] = {
            "the position in the file": places.__getitem__,
            "the position among sorted ids": order.__getitem__,
            "the first character of the id": lambda name: ord(name[0]),
            "the last character of the id": lambda name: ord(name[-1]),
            "the digits of the id": _number_in,
        }
        for name, number in rules.items():
            numbers = [number(question.id) for question in self.questions]
            pairs = zip(self.questions, numbers, strict=True)
            shifts = Counter((question.gold - own) % len(LETTERS) for question, own in pairs)
            shift = max(shifts, key=lambda one: (shifts[one], -one), default=0)
            picked = [[(own + shift) % len(LETTERS)] for own in numbers]
            what, tried = f"{name} reveals the letter", len(rules) * len(LETTERS)
            # Even a small gain is serious.
            found = self._leak("id-leak", what, self.questions, picked, tried=tried, serious=True)
            yield from found

    def _column_leaks(self) -> Iterator[DataFinding]:
        golds = {question.line: question for question in self.questions}
        hits: Counter[str] = Counter()
        n, columns = len(golds), 1
        for row in self._files.rows():
            question = golds.get(row.line)
            columns = len(row.cells)
            if question is None:
                continue
            for name, cell in row.cells.items():
                hits[name] += name not in _GOLD_COLUMNS and _tells(cell, question)
        for name, count in hits.items():
            if above_chance(count, [len(LETTERS)] * n, tried=columns) is not None:
                detail = f"the column {name} contains the letter or the text of the gold"
                yield self._tally.finding("column-leak", "serious", (count, n), _ALL, detail)

    def _leak(
        self,
        code: str,
        what: str,
        questions: Sequence[PersonaQuestion],
        picked: Sequence[Sequence[int]],
        *,
        tried: int,
        serious: bool = False,
    ) -> Iterator[DataFinding]:
        """Yield a finding where a rule, one of so many tried, finds the gold above chance.

        `picked` are the places of the options that it guesses among, by question.
        """
        pairs = zip(questions, picked, strict=True)
        hits = sum(question.gold in places for question, places in pairs)
        # A blind pick is among k of four options with a chance of k/4.
        sizes = [len(LETTERS) / len(places) for places in picked]
        p = above_chance(hits, sizes, tried=tried) if hits >= FEWEST else None
        if p is None:
            return
        chance = chance_of(sizes)
        serious = serious or hits / len(questions) - chance >= SERIOUS_GAIN
        detail = f"{what} (by chance {chance:.0%}, p = {p:.1g})"
        severity: Severity = "serious" if serious else "warning"
        yield self._tally.finding(code, severity, (hits, len(questions)), _ALL, detail)

    def _find(
        self, code: str, severity: Severity, detail: str, question: PersonaQuestion, what: str
    ) -> None:
        self._tally.find(code, severity, detail, question.id, what, unit=_ALL)


def _by_type(questions: Sequence[PersonaQuestion]) -> dict[str, list[PersonaQuestion]]:
    groups: defaultdict[str, list[PersonaQuestion]] = defaultdict(list)
    for question in questions:
        groups[question.type].append(question)
    return dict(groups)


def _number_in(name: str) -> int:
    digits = "".join(sign for sign in name if sign in "0123456789")
    return int(digits[-9:] or 0)


def _tells(cell: str, question: PersonaQuestion) -> bool:
    """Tell whether a cell is the gold's letter, or holds its text and no other option's."""
    folded = fold(cell)
    if folded.strip("()") == LETTERS[question.gold]:
        return True
    options = [fold(option) for option in question.options]
    held = [len(option) >= SHORTEST_INSIDE and option in folded for option in options]
    return held[question.gold] and sum(held) == 1
