"""What each system answered to a record and what became of it, as pieces of HTML that are made once
and joined.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from alps.leaderboard.provenance import Place, figure
from alps.leaderboard.site_data import System
from alps.leaderboard.tables import foreign, metric_title
from alps.report.formatting import visible
from alps.tasks import Metric, Task

LONGEST = 6_000
"""Characters of a text that a page shows; the files of the submission hold the rest."""
_SHOWN = 2
_STYLES = {"same": "good", "narrower": "good"}


class Held(NamedTuple):
    """A row of a file, and the number of its line counted from 0."""

    line: int
    row: Mapping[str, Any]


Rows = Mapping[tuple[str, int], Held]


def rows_of(system: System, track: str, stage: str) -> Rows:
    """Return the rows of a file by record and repeat."""
    found: dict[tuple[str, int], Held] = {}
    for line, row in enumerate(system.rows(track, stage)):
        repeat = row.get("repeat")
        found[row["benchmark_id"], repeat if isinstance(repeat, int) else 0] = Held(line, row)
    return found


@dataclass(frozen=True)
class Asked:
    """A record as its answers are shown beside it.

    `values` are the words of a pool's candidates by their ids.
    """

    sample: Any
    values: Mapping[str, str]


def asked(samples: Mapping[str, Any]) -> dict[str, Asked]:
    """Return the records of a track, each made ready once for all systems."""
    return {
        name: Asked(
            sample,
            {candidate.id: candidate.value for candidate in getattr(sample, "candidates", ())},
        )
        for name, sample in samples.items()
    }


def answers_of(system: System, task: Task, records: Mapping[str, Asked]) -> dict[str, list[str]]:
    """Return, by record, what a system answered to it, as HTML."""
    predictions, verdicts, scores = (
        rows_of(system, task.track, s) for s in ("predictions", "verdicts", "scores")
    )
    body = _BODIES[task.name]
    shown = [metric for metric in task.metrics if metric.numerator is None]
    head = Markup("<strong>{}</strong>").format(foreign(system.card.name))
    link = Markup('<p class="note"><a href="../../systems/{}.html">its page</a></p>').format(
        system.slug
    )
    found: dict[str, list[str]] = {}
    for (name, repeat), prediction in predictions.items():
        record = records.get(name)
        if record is None:
            continue
        score, verdict = scores.get((name, repeat)), verdicts.get((name, repeat))
        outcome = str((score or prediction).row.get("outcome"))
        again = (
            Markup(' <small class="muted">answer {}</small>').format(chr(65 + repeat % 26))
            if repeat
            else ""
        )
        said = (
            ""
            if outcome == "ok"
            else Markup(' <span class="badge poor">{}</span>').format(visible(outcome))
        )
        figures = _figures(system, task, shown, score)
        inside = body(system, task, record, prediction.row, verdict)
        summary = f"<summary>{head}{again}{said}{figures}</summary>"
        found.setdefault(name, []).append(
            f'<details class="answer">{summary}<div>{inside}{link}</div></details>'
        )
    return found


def _figures(system: System, task: Task, shown: Sequence[Metric], score: Held | None) -> str:
    """Return the first scores of a record, each with its place in `scores.jsonl`."""
    if score is None or not isinstance(score.row.get("scores"), dict):
        return ""
    root = Place(f"{system.slug}/{task.track}/scores.jsonl", f"/{score.line}", score.row)
    held = [metric for metric in shown if _is_number(score.row["scores"].get(metric.name))][:_SHOWN]
    return "".join(
        f'<span class="mark">{escape(metric_title(metric))} {figure(root["scores"][metric.name])}</span>'
        for metric in held
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _memories(
    system: System, task: Task, record: Asked, prediction: Mapping[str, Any], verdict: Held | None
) -> str:
    """List predicted memories, each with the gold that it was related to, and the gold that nothing
    matched.
    """
    items = _items(prediction)
    pairs = _pairs(verdict)
    lines = []
    for n, item in enumerate(items, start=1):
        related = [
            (pair["gold"], pair["relation"]) for pair in pairs if pair["predicted"] == f"p{n}"
        ]
        action = f"<small>{_text(item['action'])}</small> " if item.get("action") else ""
        known = [
            f'<small class="{_STYLES.get(how, "muted")}">{_text(how)} <code>{_text(gold)}</code></small>'
            for gold, how in related
        ]
        matched = " ".join(known) or '<small class="muted">matches no gold</small>'
        lines.append(f"<li>{action}{_text(item.get('value'))} {matched}</li>")
    found = {pair["gold"] for pair in pairs if pair["relation"] in ("same", "narrower")}
    missed = [
        f"<code>g{n}</code>"
        for n in range(1, len(record.sample.gold or ()) + 1)
        if f"g{n}" not in found
    ]
    rest = (
        f'<p class="note">Gold that nothing matches: {" ".join(missed)}</p>'
        if missed and verdict
        else ""
    )
    return (f"<ul>{''.join(lines)}</ul>" if lines else '<p class="empty">no memories</p>') + rest


def _items(prediction: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    held = prediction.get("prediction")
    items = held.get("memory_items") if isinstance(held, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _pairs(verdict: Held | None) -> list[Mapping[str, str]]:
    pairs = verdict.row.get("pairs") if verdict is not None else None
    if not isinstance(pairs, list):
        return []
    names = ("gold", "predicted", "relation")
    return [
        pair
        for pair in pairs
        if isinstance(pair, dict) and all(isinstance(pair.get(n), str) for n in names)
    ]


def _choice(
    system: System, task: Task, record: Asked, prediction: Mapping[str, Any], verdict: Held | None
) -> str:
    """Show the memory that was chosen, and the answer where there is one."""
    held = prediction.get("prediction")
    if not isinstance(held, dict):
        return '<p class="empty">no choice</p>'
    chosen = str(held.get("selected_memory_id"))
    right = (
        '<small class="good">the right one</small>'
        if chosen == record.sample.gold
        else '<small class="muted">not the gold</small>'
    )
    parts = [f"<p>{_text(record.values.get(chosen, 'not in the pool'))} {right}</p>"]
    parts += [f'<p class="prose">{_text(held["answer"])}</p>'] if held.get("answer") else []
    return "".join(parts)


def _response(
    system: System, task: Task, record: Asked, prediction: Mapping[str, Any], verdict: Held | None
) -> str:
    """Show the response, and what the judge made of it."""
    held = prediction.get("prediction")
    answer = held.get("answer") if isinstance(held, dict) else None
    parts = [
        f'<p class="prose">{_text(answer)}</p>' if answer else '<p class="empty">no response</p>'
    ]
    marks = verdict.row.get("marks") if verdict is not None else None
    if verdict is not None and isinstance(marks, dict):
        root = Place(f"{system.slug}/{task.track}/verdicts.jsonl", f"/{verdict.line}", verdict.row)
        for name in marks:
            mark = root["marks"][name]
            met = (
                {True: "met", False: "not met"}.get(mark.value)
                if isinstance(mark.value, bool)
                else None
            )
            given = met or (figure(mark, str) if _is_number(mark.value) else _text(mark.value))
            parts.append(f'<span class="mark">{_text(name)} {given}</span>')
        parts += (
            [f'<p class="note">{_text(verdict.row["reason"])}</p>']
            if verdict.row.get("reason")
            else []
        )
    elif verdict is not None:
        parts.append('<p class="note">Not rated: its judge rates no answers by a rubric.</p>')
    return "".join(parts)


def _text(value: object) -> str:
    """Return a stranger's words, escaped and cut where they are endless."""
    words = value if isinstance(value, str) else "" if value is None else str(value)
    cut = words if len(words) <= LONGEST else f"{words[:LONGEST]} …"
    return str(foreign(cut))


_BODIES: dict[str, Callable[[System, Task, Asked, Mapping[str, Any], Held | None], str]] = {
    "extraction": _memories,
    "update": _memories,
    "retrieval": _choice,
    "utilization": _response,
}
