"""First screen of a report on one run: every task's score, warnings, and records worth reading."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from alps.ext.looking.record import RecordCard
from alps.ext.looking.report_sections import Head, TrackSection, cards_in
from alps.jsonl import scan
from alps.run.opened import AnswerKey
from alps.show import charts
from alps.show.caveats import judge_mark
from alps.show.charts import axis_of, colour_of
from alps.show.formatting import (
    conditions,
    counted,
    dollars,
    interval,
    number,
    task_and_metric,
    task_title,
)
from alps.show.short_form import Headline
from alps.show.svg import SHARES, axis_labels

_COSTLIEST = 20
"""How many costly records are looked at: an id that several tasks have names none of them."""


@dataclass(frozen=True)
class TaskRow:
    """A task of a run: its headline against the trivial baseline that comes closest."""

    section: TrackSection
    lead: Headline
    name: str
    chart: Markup

    @property
    def baseline(self) -> str:
        """The name of that baseline, without its prefix; empty where there is none."""
        return self.lead.baseline[0].removeprefix("floor/") if self.lead.baseline else ""


@dataclass(frozen=True)
class Notable:
    """A record worth reading: why, on which task, and its card, which has a fragment."""

    why: str
    task: str
    section: TrackSection
    card: RecordCard
    score: float | None
    anchor: str


@dataclass(frozen=True)
class Overview:
    """First screen of a run's report.

    Attributes:
        answer: The result in one line.
        shown: The tasks that have a score; `warnings` name the others.
        what: What was run.
        judge: Who judged, and whether systems can be ranked with it.
        more: Cards of records worth reading that are in no group of their section.
    """

    answer: str
    what: str
    judge: str
    axis: Markup
    rows: list[TaskRow]
    shown: list[TaskRow]
    warnings: list[str]
    notable: list[Notable]
    more: dict[str, list[RecordCard]]


def overview_of(head: Head) -> Overview:
    """Put together the first screen of a run."""
    rows = [_row(section) for section in head.sections]
    notable, more = _notable(head, rows)
    return Overview(
        answer=_answer(head, rows),
        what=_what(head, rows),
        judge=_judge(head),
        axis=axis_labels(axis_of(rows[0].lead.metric) if len(rows) == 1 else SHARES),
        rows=rows,
        shown=[row for row in rows if row.lead.score.value is not None],
        warnings=list(_warnings(rows)),
        notable=notable,
        more=more,
    )


def _row(section: TrackSection) -> TaskRow:
    metric = section.headline.metric
    lead = Headline(section.track, section.found, metric)
    name = task_and_metric(section.track, section.found, metric)
    floor = lead.baseline[1].scores[metric.name].value if lead.baseline else None
    chart = charts.whisker(
        lead.score,
        name=name,
        axis=axis_of(metric),
        style=colour_of(section.colour),
        tick=None if floor is None else ("best trivial baseline", floor),
    )
    return TaskRow(section, lead, name, chart)


def _answer(head: Head, rows: Sequence[TaskRow]) -> str:
    if len(rows) > 1:
        above = sum(row.lead.is_above for row in rows)
        below = sum(row.lead.is_below for row in rows)
        if not any(row.lead.verdict for row in rows):
            return f"{head.run.model} on {counted(len(rows), 'task')}"
        of = f"above the best trivial baseline on {above} of {len(rows)} tasks"
        return f"{head.run.model}: {of}, below on {below}"
    (row,) = rows
    if row.lead.score.value is None:
        return f"{head.run.model}: {row.name}: no score"
    verdict = f", {row.lead.verdict}" if row.lead.verdict else ""
    return f"{head.run.model}: {row.name} {number(row.lead.score.value)}{verdict}"


def _what(head: Head, rows: Sequence[TaskRow]) -> str:
    # What all tasks share, such as the memory; the model is in the title.
    how = {conditions(row.section.found, sized=False) for row in rows}
    shared = how.pop() if len(how) == 1 else ""
    tasks = f", {len(rows)} tasks (not averaged)" if len(rows) > 1 else ""
    return f"{head.run.data}{shared}{tasks}, {counted(head.n, 'record')}"


def _judge(head: Head) -> str:
    if not any(section.judged for section in head.sections):
        return "no judge"
    judge = f"judged by {head.summary.judge}{judge_mark(head.summary)}"
    if head.comparable:
        return judge
    return f"{judge}, for debugging; rank with judge=PROVIDER/MODEL"


def _warnings(rows: Sequence[TaskRow]) -> Iterator[str]:
    for row in rows:
        lead = row.lead
        if lead.is_below and lead.ahead is not None and lead.baseline is not None:
            theirs = number(lead.baseline[1].scores[lead.metric.name].value)
            between = f" {interval(lead.ahead)}" if lead.ahead.low is not None else ""
            name = task_title(row.section.track, row.section.found)
            against = f"trivial baseline {row.baseline} {theirs}"
            apart = f"Δ {number(lead.ahead.value)}{between}"
            yield f"↓ {name} {number(lead.score.value)}, below {against}, {apart}"
    bare: dict[str, list[str]] = {}
    for row in rows:
        if row.lead.score.value is None:
            reason = row.lead.score.unscored or "no record is scored"
            name = task_title(row.section.track, row.section.found)
            bare.setdefault(reason, []).append(name)
    for reason, names in bare.items():
        yield f"Not scored: {', '.join(names)} ({reason})"
    if any(row.section.needs_rating_judge for row in rows):
        yield "Utilization needs an LLM judge: alps score RUN judge=PROVIDER/MODEL"
    yield from _lost([row.section for row in rows if row.lead.score.value is not None])


def _lost(sections: Sequence[TrackSection]) -> Iterator[str]:
    unscored = sum(section.found.unscored for section in sections)
    if failed := sum(section.failed for section in sections) - unscored:
        yield f"{counted(failed, 'invalid response')}, given the minimum score"
    if unscored:
        yield f"{counted(unscored, 'record')} unscored"


def _notable(
    head: Head, rows: Sequence[TaskRow]
) -> tuple[list[Notable], dict[str, list[RecordCard]]]:
    """Return the worst, the best and the most costly record, and cards that no section has."""
    found = [*_extremes(rows), *_most_costly(head)]
    own, more = cards_in((one.section, one.key) for one in found)
    notable: dict[tuple[str, AnswerKey], Notable] = {}
    for one in found:
        section, at = one.section, (one.section.anchor, one.key)
        if at in notable:
            notable[at] = replace(notable[at], why=f"{notable[at].why}, {one.why}")
            continue
        card = own[at]
        score = card.view.scores.get(section.headline.metric.name)
        task = task_title(section.track, section.found)
        anchor = f"{section.anchor}-{one.kind}"
        notable[at] = Notable(one.why, task, section, card, score, anchor)
    return list(notable.values()), more


@dataclass(frozen=True)
class _Found:
    kind: str
    why: str
    section: TrackSection
    key: AnswerKey


def _extremes(rows: Sequence[TaskRow]) -> Iterator[_Found]:
    """Yield the worst record of the weakest task and the best of the strongest."""
    scored = sorted((row for row in rows if row.section.worst), key=_strength)
    if not scored:
        return
    worst, best = scored[0].section, scored[-1].section
    # Where every record has the same score, none of them is the worst.
    if worst.worst is not None and worst.best is not None and worst.worst[1] != worst.best[1]:
        yield _Found("worst", "worst", worst, worst.worst[0])
    if best.best is not None:
        yield _Found("best", "best", best, best.best[0])


def _strength(row: TaskRow) -> float:
    ahead = row.lead.ahead
    value = 0.0 if ahead is None or ahead.value is None else ahead.value
    metric = row.lead.metric
    return (-value if metric.lower_is_better else value) / (metric.highest - metric.lowest)


def _most_costly(head: Head) -> Iterator[_Found]:
    spent = spent_on(head.run.folder)
    if len(spent) < 2:
        return
    priced = all(one.cost is not None for one in spent.values())
    most = sorted(spent, key=lambda name: _price(spent[name], priced), reverse=True)
    first = [name for name in most[:_COSTLIEST] if _price(spent[name], priced)]
    tracks: dict[str, list[AnswerKey]] = {}
    for key in head.run.rows("scores", ids=set(first)):
        if key.repeat == 0:
            tracks.setdefault(key.id, []).append(key)
    for name in first:
        # Calls name the record alone: of an id that several tasks have, they tell none.
        if len(keys := tracks.get(name, [])) == 1:
            said = dollars(spent[name].cost) if priced else counted(spent[name].tokens, "token")
            section = next(one for one in head.sections if one.track == keys[0].track)
            yield _Found("costly", f"most costly, {said}", section, keys[0])
            return


class Spent(NamedTuple):
    """US dollars and tokens that one record cost; None where a price is not known."""

    cost: float | None
    tokens: int


def _price(spent: Spent, priced: bool) -> float:
    return (spent.cost or 0.0) if priced else spent.tokens


def spent_on(folder: Path) -> dict[str, Spent]:
    """Return the cost of the answer to each record of a run, by id, without verdicts."""
    spent: dict[str, Spent] = {}
    for _, _, row in scan(folder / "calls.jsonl"):
        about = (row or {}).get("about")
        if row is None or row.get("purpose") != "generate" or not isinstance(about, str):
            continue
        before, cost, total = spent.get(about, Spent(0.0, 0)), row.get("cost"), None
        if before.cost is not None and isinstance(cost, int | float):
            total = before.cost + cost
        tokens = [row.get("prompt_tokens"), row.get("completion_tokens")]
        used = sum(count for count in tokens if isinstance(count, int))
        spent[about] = Spent(total, before.tokens + used)
    return spent
