"""Diagnosis of a run with a memory system, printed: the stages, or one wrong answer by itself."""

from collections.abc import Iterator

from rich.console import Console

from alps.errors import UsageError
from alps.ext.memory.attribution import DEEPER, STAGES, AnswerFacts, Found, Stage
from alps.ext.memory.diagnose import Diagnosis, Miss
from alps.show.formatting import counted
from alps.show.record_text import pick
from alps.show.table import (
    Table,
    dim,
    figures,
    named,
    print_parts,
    row_of,
    thousands,
    with_interval,
)

_MEANINGS: dict[Stage, str] = {
    "memory failed": "a call of the memory system failed",
    "not extracted": "no memory contains the evidence",
    "lost in update": "the memory with the evidence was replaced or removed",
    "not indexed": "a memory contains the evidence, but a search for the memory's words misses it",
    "ranked too low": "the search finds the evidence, but not among the first k",
    "cut by the budget": "the evidence is among the hits, but was not shown",
    "not used by the reader": "the evidence was shown, but the answer is wrong",
    "gold suspect": "the reader is wrong even with the evidence alone",
    "not estimable": "the data has no evidence, or the system lists no memories",
}


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print how many wrong answers each stage has."""
    misses = len(diagnosis.misses)
    users = len({miss.user for miss in diagnosis.misses})
    of = f"{counted(misses, 'wrong answer')} of {diagnosis.answers:,}"
    title = f"memory={diagnosis.memory}: {of}, {counted(users, 'user')}"
    rows = []
    for stage in STAGES:
        share, count = diagnosis.shares[stage], diagnosis.count(stage)
        cells = stage, thousands(count), *with_interval(share)
        rows.append(row_of(*cells, style="" if count else "dim"))
    columns = [named("cause"), *figures("wrong answers", "share", "95 % interval")]
    table = Table(title, columns, rows)
    notes = []
    located = [miss.facts.located for miss in diagnosis.misses]
    looked = [one for one in located if one is not None]
    if differing := sum(not one.same for one in looked):
        notes.append(
            f"After the second ingestion, the system's hits differ for {differing:,} of "
            f"{len(looked):,} answers, so the cause of these errors is less certain"
        )
    shown = [stage for stage in STAGES if diagnosis.count(stage)]
    lines = [*(f"{note}." for note in notes), *(f"{stage}: {_MEANINGS[stage]}." for stage in shown)]
    print_parts(console, [table], map(dim, lines))


def print_miss(diagnosis: Diagnosis, word: str, console: Console) -> None:
    """Print the diagnosis of one wrong answer.

    Raises:
        UsageError: If `word` means none of them.
    """
    if not diagnosis.misses:
        raise UsageError(f"{diagnosis.folder}: all answers are right")
    where = f"the wrong answers of {diagnosis.folder}"
    key = pick(word, [miss.key for miss in diagnosis.misses], where=where)
    miss = next(miss for miss in diagnosis.misses if miss.key == key)
    title = f"{miss.key}: {miss.stage} ({_MEANINGS[miss.stage]})"
    columns = [named(wraps="no"), named(wraps="fold")]
    print_parts(console, [Table(title, columns, [row_of(*cells) for cells in _rows(miss)])])


def _rows(miss: Miss) -> Iterator[tuple[str, str]]:
    facts = miss.facts
    yield "asked", miss.query
    for text in miss.needed:
        yield "needed", text
    if facts.failed:
        yield "failed", facts.failed
    said: set[str] = set()
    for name, found in _looked_through(facts):
        again = found is not None and found.text in said
        yield name, "no" if found is None else f"{found.place}: {'same' if again else found.text}"
        said |= set() if found is None else {found.text}
    if facts.located is None:
        yield "second ingestion", "not checked, or the system failed"
    elif facts.located.listed is None:
        yield "memories", "the system lists none"
    yield "with the evidence alone", _right(facts.with_evidence)
    yield "with that memory alone", _right(facts.with_memory)


def _looked_through(facts: AnswerFacts) -> Iterator[tuple[str, Found | None]]:
    yield "shown", facts.shown
    yield "among the hits", facts.hit
    if (located := facts.located) is None:
        return
    yield f"among {DEEPER} k hits", located.ranked
    yield "by its own words", located.indexed
    if located.listed is not None:
        yield "after ingestion", located.was
        yield f"in {counted(located.listed, 'memory', 'memories')}", located.kept


def _right(right: bool | None) -> str:
    return "not sent, or no response" if right is None else "right" if right else "wrong"
