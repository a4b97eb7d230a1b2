"""Check of a run's judge: it answers known items before its first verdict, once a run folder."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.jsonl import Journal, Row, scan
from alps.judges.admission import KnownItem, drawn_items, partly_admitted
from alps.judges.base import Judge, fingerprint_id
from alps.judges.embedded import EmbeddedJudge
from alps.judges.rubric import Rubric
from alps.llm.ledger import Totals
from alps.llm.types import JUDGE_CHECK, Recorder, Request
from alps.rows import RubricCheck
from alps.run.collector import stopping_together
from alps.schema import UNHEARD, Outcome

FILE = "judge_check.jsonl"
"""The answers of the judge to known items, in a run folder."""

Checks = dict[str, RubricCheck]


@dataclass(frozen=True)
class CheckedJudge:
    """A judge that answered known items.

    Attributes:
        judge: The judge; under a rubric that it is not admitted for it is asked nothing.
        checks: How many items it got right, by the names of rubrics; empty where it was not
            checked, None where there was nothing to check.
        stopped: Whether the budget left items unasked.
        before: What the folder holds of a check that is set aside.
    """

    judge: Judge
    checks: Checks | None = None
    stopped: bool = False
    before: Checks | None = None


@dataclass(frozen=True)
class _Asked:
    """A known item, with the rubric and the fingerprint of the judge that is asked."""

    item: KnownItem
    rubric: str
    judge: str

    @property
    def key(self) -> str:
        return f"{self.judge} {self.item.name}"

    def row(self, verdict: Any) -> Row:
        raw = verdict.raw or ()
        return {
            "rubric": self.rubric,
            "item": self.item.name,
            "kind": self.item.kind,
            "judge": self.judge,
            "outcome": verdict.outcome,
            "right": self.item.is_right(verdict),
            "error": verdict.error,
            "raw": [raw] if isinstance(raw, str) else list(raw),
        }


async def admit_judge(
    judge: Judge,
    rubrics: Sequence[Rubric],
    folder: Path,
    *,
    totals: Totals,
    check: bool,
    ask: bool = True,
) -> CheckedJudge:
    """Ask a judge the known items that the journal in `folder` holds no answer to.

    Args:
        judge: Who is asked.
        rubrics: By which it is going to judge.
        folder: Where its answers are kept, each as soon as it is there.
        totals: Of the calls of the run; their `stage` says how far the check is.
        check: Whether it is checked at all.
        ask: Whether it may be asked; else what the journal holds counts.

    Raises:
        AlpsError: If the judge can't be asked.
    """
    # How an embedded judge errs is known from calibrations; recorded verdicts have nobody to ask.
    if not rubrics or isinstance(judge, EmbeddedJudge):
        return CheckedJudge(judge)
    if not check or not (ask or (folder / FILE).exists()):
        return CheckedJudge(judge, {}, before=_before(judge, rubrics, folder))
    asked = _drawn(judge, rubrics)
    with closing(Journal(folder / FILE, key=_key)) as journal:
        waiting = [one for one in asked if ask and journal.get(one.key) is None]
        asking = judge.under(JUDGE_CHECK)
        answered = itertools.count(1)

        def tell() -> None:  # to whoever watches: a small judge takes minutes for it
            totals.stage = f"judge check {next(answered):,}/{len(waiting):,}"

        tasks = (_ask(asking, one, journal, tell) for one in waiting)
        async with stopping_together(tasks) as answering:
            outcomes = await asyncio.gather(*answering)
        totals.stage = ""
        journal.settle(one.key for one in asked)
        checks = _counted(asked, journal)
    stopped = "budget" in outcomes
    unheard: Outcome = "budget" if stopped else "transport"
    return CheckedJudge(partly_admitted(judge, checks, unheard=unheard), checks, stopped)


def _before(judge: Judge, rubrics: Sequence[Rubric], folder: Path) -> Checks | None:
    """Count what the folder holds of a whole check of this judge; None where it holds none."""
    asked = _drawn(judge, rubrics)
    if not {one.key for one in asked} <= _kept(folder / FILE):
        return None
    with closing(Journal(folder / FILE, key=_key)) as journal:
        return _counted(asked, journal)


async def requests_of_check(
    judge: Judge, rubrics: Sequence[Rubric], folder: Path
) -> list[Request[Any]]:
    """Return the calls of the check of a judge, but for those that `folder` has answers to."""
    if isinstance(judge, EmbeddedJudge):
        return []
    requests: list[Request[Any]] = []
    known = _kept(folder / FILE)
    for one in _drawn(judge, rubrics):
        if one.key not in known:
            recorder = Recorder()
            noting = judge.under(JUDGE_CHECK).on(recorder)
            await noting.answer(one.item.question, about=one.item.name)
            requests += recorder.requests
    return requests


def _drawn(judge: Judge, rubrics: Sequence[Rubric]) -> list[_Asked]:
    asked = []
    for rubric in rubrics:
        fingerprint = fingerprint_id(judge.fingerprint_for((rubric,)))
        for item in drawn_items(rubric, fingerprint):
            asked.append(_Asked(item, rubric.name, fingerprint))
    return asked


async def _ask(judge: Judge, asked: _Asked, journal: Journal, tell: Callable[[], None]) -> Outcome:
    """Keep the answer to one item; an item that was not heard is asked again another time."""
    verdict = await judge.answer(asked.item.question, about=asked.item.name)
    tell()
    if verdict.outcome not in UNHEARD:
        await journal.append_together(asked.row(verdict))
    outcome: Outcome = verdict.outcome
    return outcome


def _counted(asked: Iterable[_Asked], journal: Journal) -> dict[str, RubricCheck]:
    right: dict[str, int] = {}
    heard: dict[str, int] = {}
    for one in asked:
        row = journal.get(one.key)
        right[one.rubric] = right.get(one.rubric, 0) + bool(row and row.get("right") is True)
        heard[one.rubric] = heard.get(one.rubric, 0) + (row is not None)
    return {name: RubricCheck(right=right[name], n=heard[name]) for name in right}


def _key(row: Row) -> str | None:
    judge, item = row.get("judge"), row.get("item")
    return f"{judge} {item}" if isinstance(judge, str) and isinstance(item, str) else None


def _kept(path: Path) -> set[str | None]:
    """Return the keys of a journal that may be written at this moment."""
    return {_key(row) for _, _, row in scan(path) if row is not None} if path.exists() else set()
