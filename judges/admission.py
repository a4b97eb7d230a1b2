"""Known items: answers on which every judge must agree, asked of a judge before it judges.

Each rubric has a pool of them, ours in `checks/`, of which a dozen is drawn by the judge's
fingerprint: six good answers and six bad ones in the same settings, three of which hold an
instruction to the judge. Where those good answers share more words with the setting than the bad
ones, the others share fewer, and likewise for length: who goes by words or by length is right of
nine at most, and so is who counts sentences or digits. Answers are kept in the run folder, so that
each item is asked once.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from alps.event_loop import stopping_together
from alps.jsonl import Journal, Row, scan
from alps.judges.base import (
    POLICIES,
    Item,
    Judge,
    Judgement,
    MatchQuestion,
    Question,
    Relation,
    SupportJudgement,
    SupportQuestion,
    fingerprint_id,
)
from alps.judges.embedded import EmbeddedJudge
from alps.judges.rubric import (
    MATCHING,
    OPTION,
    SUPPORT,
    OptionQuestion,
    OptionVerdict,
    Rubric,
    RubricQuestion,
)
from alps.llm.types import JUDGE_CHECK, Completes, Recorder, Request
from alps.rows import RubricCheck
from alps.schema import UNHEARD, Outcome, Turn

if TYPE_CHECKING:
    from alps.llm.ledger import Totals

DRAWN = 12
"""Known items that a judge is asked about a rubric."""
FEWEST_RIGHT = 10
"""The fewest of them that a judge must get right to be admitted."""
ORDER = "order"
"""The kind of a bad answer that holds an instruction to the judge."""
CHECK_FILE = "judge_check.jsonl"
"""The answers of the judge to known items, in a run folder."""

Checks = dict[str, RubricCheck]


class _Pair(BaseModel):
    """A line of a pool: two answers in one setting; `kind` is what is bad about the bad one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    good: str
    bad: str
    query: str = ""
    memory: str = ""
    dialogue: tuple[str, ...] = ()
    value: str = ""
    type: str = ""
    label: str = ""
    message: str = ""
    options: tuple[str, ...] = ()
    option: int = 0

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The dialogue, which the user begins."""
        turns = []
        for n, text in enumerate(self.dialogue):
            turns.append(Turn(role="assistant" if n % 2 else "user", text=text))
        return tuple(turns)


@dataclass(frozen=True)
class KnownItem:
    """A question whose answer is known.

    Attributes:
        name: Tells it from others; no judge is shown it.
        kind: `good`, or what is bad about a bad answer.
        option: For a good answer, the option that it agrees with, where there are options.
    """

    name: str
    kind: str
    question: Question[Any]
    option: int | None = None

    @property
    def good(self) -> bool:
        """Whether the answer is good."""
        return self.kind == "good"

    def is_right(self, verdict: Any) -> bool:
        """Tell whether a verdict is right; one that could not be read is not."""
        if verdict.outcome != "ok":
            return False
        match verdict:
            case Judgement():
                counted = POLICIES["lenient"]
                return self.good == any(pair.relation in counted for pair in verdict.pairs)
            case SupportJudgement():
                return self.good == all(one == "supported" for one, _ in verdict.support.values())
            case OptionVerdict():
                return bool(verdict.option == self.option)
        assert isinstance(self.question, RubricQuestion)
        rubric = self.question.rubric
        if rubric.kind == "nominal":
            return self.good == all(mark in rubric.accepted for mark in verdict.marks.values())
        lowest, highest = int(rubric.scale[0]), int(rubric.scale[-1])
        above = rubric.score(verdict.marks) - (lowest + highest) / 2
        return above > 0 if self.good else above < 0


def _match(rubric: Rubric, pair: _Pair, answer: str) -> MatchQuestion:
    gold = Item("g1", pair.value, pair.type, pair.label, None)
    return MatchQuestion([gold], [Item("p1", answer, pair.type, pair.label, None)])


def _support(rubric: Rubric, pair: _Pair, answer: str) -> SupportQuestion:
    return SupportQuestion(pair.turns, [Item("p1", answer, None, "", None)])


def _options(rubric: Rubric, pair: _Pair, answer: str) -> OptionQuestion:
    return OptionQuestion(pair.message, answer, pair.options)


def _rated(rubric: Rubric, pair: _Pair, answer: str) -> RubricQuestion:
    return RubricQuestion(rubric, pair.query, answer, pair.memory, pair.turns)


_ASKED: Mapping[str, Callable[[Rubric, _Pair, str], Question[Any]]] = {
    MATCHING: _match,
    SUPPORT: _support,
    OPTION: _options,
}


@cache
def _pairs(rubric: Rubric) -> tuple[_Pair, ...]:
    path = rubric.checks or files("alps.judges") / "checks" / f"{rubric.name}.jsonl"
    if not path.is_file():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(map(_Pair.model_validate_json, lines))


class _Setting(NamedTuple):
    """A good and a bad answer in the same setting."""

    good: KnownItem
    bad: KnownItem


def _settings(rubric: Rubric) -> list[_Setting]:
    asking = partial(_ASKED.get(rubric.name, _rated), rubric)
    settings = []
    for number, pair in enumerate(_pairs(rubric), start=1):
        name = f"{rubric.name}/{number}"
        chosen = pair.option if pair.options else None
        good = KnownItem(f"{name}-good", "good", asking(pair, pair.good), chosen)
        bad = KnownItem(f"{name}-bad", pair.kind, asking(pair, pair.bad))
        settings.append(_Setting(good, bad))
    return settings


def pool(rubric: Rubric) -> list[KnownItem]:
    """Return all known items of a rubric; none for a rubric of the user's own."""
    return list(chain(*_settings(rubric)))


def drawn_items(rubric: Rubric, fingerprint: str) -> list[KnownItem]:
    """Draw the known items of `rubric`, always the same for the id of a judge's fingerprint.

    They are the good and the bad answers of the same settings. Half of these hold an instruction
    to the judge: who is perfect but obeys gets as many wrong as forbid an admission. Among the
    others is every kind.
    """
    draw = random.Random(f"{rubric.name} {fingerprint}")
    settings = _settings(rubric)
    draw.shuffle(settings)
    ordering = [one for one in settings if one.bad.kind == ORDER]
    others = _kinds_in_turn([one for one in settings if one.bad.kind != ORDER])
    half = DRAWN // 4
    chosen = list(chain(*ordering[:half], *others[:half]))
    draw.shuffle(chosen)
    return chosen


def _kinds_in_turn(settings: Iterable[_Setting]) -> list[_Setting]:
    """Put settings into an order in which the first of every kind come before the second ones."""
    seen: dict[str, int] = {}
    ranked = []
    for one in settings:
        seen[one.bad.kind] = seen.get(one.bad.kind, 0) + 1
        ranked.append((seen[one.bad.kind], one))
    return [one for _, one in sorted(ranked, key=lambda entry: entry[0])]


class Refusal(NamedTuple):
    """Why a judge gives no scores under a rubric, and the outcome of each of its verdicts."""

    outcome: Outcome
    error: str


def is_admitted(share: RubricCheck) -> bool:
    """Tell whether a judge tells the known items of a rubric apart."""
    return share.right >= FEWEST_RIGHT


def partly_admitted(
    judge: Judge, shares: Mapping[str, RubricCheck], *, unheard: Outcome = "transport"
) -> Judge:
    """Return a judge that is asked nothing under rubrics whose items it can't tell apart.

    Args:
        judge: The judge as it was asked.
        shares: How many items it got right, by the names of rubrics.
        unheard: What became of items that it did not answer.
    """
    refusals = {}
    for name, share in shares.items():
        if not is_admitted(share):
            outcome: Outcome = unheard if _is_open(share) else "invalid"
            refusals[name] = Refusal(outcome, _why(judge.name, name, share))
    return PartlyAdmitted(judge, refusals) if refusals else judge


def _is_open(share: RubricCheck) -> bool:
    """Tell whether a judge may still be admitted, once it answers the other items."""
    return share.right + DRAWN - share.n >= FEWEST_RIGHT


def _why(judge: str, rubric: str, share: RubricCheck) -> str:
    if _is_open(share):
        answered = f"judge {judge} answered only {share.n} of {DRAWN} known items of the rubric"
        instead = "so alps withholds its scores; to retry the other items, repeat the same command"
        return f"{answered} {rubric}, {instead}"
    return (
        f"judge {judge} got {share.right} of {DRAWN} known items of the rubric {rubric} right, "
        f"fewer than {FEWEST_RIGHT}, so alps withholds its scores (to show "
        "them with a mark, set judge_check=no)"
    )


class PartlyAdmitted:
    """A judge that is not admitted under some rubrics: under those it is asked nothing.

    Args:
        judge: The judge as it was asked.
        refusals: Why it is not admitted, by the names of the rubrics.
    """

    def __init__(self, judge: Judge, refusals: Mapping[str, Refusal]) -> None:
        self._judge = judge
        self.refusals = refusals
        self.name = judge.name
        self.fingerprint = judge.fingerprint
        self.answers = judge.answers
        self.relations: frozenset[Relation] = judge.relations
        self.comparable = judge.comparable

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return everything that verdicts under `rubrics` depend on."""
        return self._judge.fingerprint_for(rubrics)

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Ask the judge where it is admitted; else fail."""
        refusal = self.refusals.get(_rubric_of(question))
        if refusal is not None:
            return question.failed(*refusal)
        return await self._judge.answer(question, about=about)

    def on(self, client: Completes) -> Judge:
        """Return the whole judge with another client."""
        # A client that only notes requests must see which verdicts would take a call.
        return self._judge.on(client)

    def under(self, purpose: str) -> Judge:
        """Return the whole judge, whose calls go by another purpose."""
        return self._judge.under(purpose)


def refusal_of(judge: Judge, rubrics: Iterable[str]) -> str | None:
    """Say why `judge` gives no scores that depend on any of `rubrics`; None where it does."""
    refusals = judge.refusals if isinstance(judge, PartlyAdmitted) else {}
    return next((refusals[name].error for name in rubrics if name in refusals), None)


def _rubric_of(question: Question[Any]) -> str:
    match question:
        case MatchQuestion():
            return MATCHING
        case SupportQuestion():
            return SUPPORT
        case OptionQuestion():
            return OPTION
    assert isinstance(question, RubricQuestion)
    return question.rubric.name


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
class _AskedItem:
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
    totals: "Totals",
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
    if not check or not (ask or (folder / CHECK_FILE).exists()):
        return CheckedJudge(judge, {}, before=_before(judge, rubrics, folder))
    asked = _drawn(judge, rubrics)
    with closing(Journal(folder / CHECK_FILE, key=_key)) as journal:
        waiting = [one for one in asked if ask and journal.get(one.key) is None]
        asking = judge.under(JUDGE_CHECK)
        answered = count(1)

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
    if not {one.key for one in asked} <= _kept(folder / CHECK_FILE):
        return None
    with closing(Journal(folder / CHECK_FILE, key=_key)) as journal:
        return _counted(asked, journal)


async def requests_of_check(
    judge: Judge, rubrics: Sequence[Rubric], folder: Path
) -> list[Request[Any]]:
    """Return the calls of the check of a judge, but for those that `folder` has answers to."""
    if isinstance(judge, EmbeddedJudge):
        return []
    requests: list[Request[Any]] = []
    known = _kept(folder / CHECK_FILE)
    for one in _drawn(judge, rubrics):
        if one.key not in known:
            recorder = Recorder()
            noting = judge.under(JUDGE_CHECK).on(recorder)
            await noting.answer(one.item.question, about=one.item.name)
            requests += recorder.requests
    return requests


def _drawn(judge: Judge, rubrics: Sequence[Rubric]) -> list[_AskedItem]:
    asked = []
    for rubric in rubrics:
        fingerprint = fingerprint_id(judge.fingerprint_for((rubric,)))
        for item in drawn_items(rubric, fingerprint):
            asked.append(_AskedItem(item, rubric.name, fingerprint))
    return asked


async def _ask(
    judge: Judge, asked: _AskedItem, journal: Journal, tell: Callable[[], None]
) -> Outcome:
    """Keep the answer to one item; an item that was not heard is asked again another time."""
    verdict = await judge.answer(asked.item.question, about=asked.item.name)
    tell()
    if verdict.outcome not in UNHEARD:
        await journal.append_together(asked.row(verdict))
    outcome: Outcome = verdict.outcome
    return outcome


def _counted(asked: Iterable[_AskedItem], journal: Journal) -> dict[str, RubricCheck]:
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
