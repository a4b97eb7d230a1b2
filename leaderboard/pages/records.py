"""Records of the package's own data: the dialogue, the gold, and the answers of all systems.

Of other data only figures are shown, on the boards. The answers of one track at a time are in
memory, as pieces of HTML that are made once and joined.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from alps.leaderboard.comparison import DIGITS
from alps.leaderboard.gold_data import own_track
from alps.leaderboard.pages import NOTHING, FilePlace, computed, figure
from alps.leaderboard.pages.board_table import foreign, metric_title
from alps.leaderboard.pages.common import Content, Renderer, answer_id, record_file, records_folder
from alps.leaderboard.parts import parts_of
from alps.leaderboard.ranking import Board, RankedSystem
from alps.leaderboard.site_data import SiteSystem
from alps.leaderboard.untrusted import is_number
from alps.show.formatting import number, visible
from alps.tasks import MicroRatio, Task, board_tracks
from alps.tasks.record_parts import AnsweredRecord, Passage

# Up to so many answers stand unfolded; characters of an excerpt, and of a text that a page shows:
# the files of the submission hold the rest.
FEW, EXCERPT, LONGEST = 6, 140, 6_000
_SHOWN_SCORES = 2
_STYLES = {"same": "good", "narrower": "good"}


class FileRow(NamedTuple):
    """A row of a file, and the number of its line counted from 0."""

    line: int
    row: Mapping[str, Any]


@dataclass(frozen=True)
class PageRecord:
    """A record made ready once for all systems: `values` are a pool's candidates by their ids."""

    sample: Any
    values: Mapping[str, str]


class _SystemAnswer(NamedTuple):
    system: SiteSystem
    task: Task
    record: PageRecord
    row: Mapping[str, Any]
    verdict: FileRow | None


def write_records(renderer: Renderer) -> None:
    """Write a page for every record of the package's own data with an answer, and their list."""
    # Retrieval asks the same queries of pools of every size: they share a page.
    groups: dict[str, list[Task]] = {}
    for task in board_tracks().values():
        groups.setdefault(records_folder(task), []).append(task)
    lists = []
    for folder, group in groups.items():
        title = group[0].name.capitalize() if len(group) > 1 else group[0].heading
        if entries := _write_group(renderer, folder, group, title):
            lists.append({"folder": folder, "title": title, "entries": entries})
    renderer.write("records/index.html", "records.html", lists=lists)


def _write_group(
    renderer: Renderer, folder: str, group: Sequence[Task], title: str
) -> list[dict[str, str]]:
    answers, samples = _answers_in_group(renderer.content, group)
    names = [name for name in samples if name in answers]
    entries = []
    for n, name in enumerate(names):
        sample, pieces = samples[name], answers.pop(name)
        if len(pieces) <= FEW:
            pieces = [piece.replace("<details", "<details open", 1) for piece in pieces]
        renderer.write(
            f"records/{folder}/{record_file(name)}",
            "record.html",
            task=group[0],
            title=title,
            folder=folder,
            name=name,
            sample=sample,
            gold=group[0].public.gold(sample) if sample.gold is not None else (),
            passages=_passages(group[0], sample),
            answers=Markup("\n".join(pieces)),
            before=record_file(names[n - 1]) if n else "",
            after=record_file(names[n + 1]) if n + 1 < len(names) else "",
        )
        entries.append({"name": name, "file": record_file(name), "excerpt": _excerpt(sample)})
    return entries


def _answers_in_group(
    content: Content, group: Sequence[Task]
) -> tuple[dict[str, list[str]], Mapping[str, Any]]:
    """Return the answers on all tracks of a group, by record, and the samples of the records."""
    answers: dict[str, list[str]] = {}
    samples: Mapping[str, Any] = {}
    for task in group:
        systems = _systems(content, task)
        own = own_track(task.track) if systems else None
        if own is not None:
            samples = own.samples
            size = Markup("<h3>{} distractors</h3>").format(task.data.pool_size)
            for name, pieces in _answers_by_record(systems, task, samples).items():
                answers.setdefault(name, []).extend([size] if len(group) > 1 else [])
                answers[name] += pieces
    return answers, samples


def _answers_by_record(
    systems: Sequence[SiteSystem], task: Task, samples: Mapping[str, Any]
) -> dict[str, list[str]]:
    records = {}
    for name, sample in samples.items():
        values = {candidate.id: candidate.value for candidate in getattr(sample, "candidates", ())}
        records[name] = PageRecord(sample, values)
    answers: dict[str, list[str]] = {}
    for system in systems:
        for name, pieces in _answers_of(system, task, records).items():
            answers.setdefault(name, []).extend(pieces)
    return answers


def _systems(content: Content, task: Task) -> Sequence[SiteSystem]:
    """Return the systems with answers to the package's own data, as the boards order them."""
    ordered: dict[str, SiteSystem] = {}
    for board in content.by_track.get(task.track, ()):
        for row in (*board.standings, *board.floor_systems):
            ordered.setdefault(row.system.slug, row.system)
    for system in content.systems:
        if task.track in system.tracks:
            ordered.setdefault(system.slug, system)
    known = []
    for system in ordered.values():
        if system.on_pages(task.track) is not None:
            known.append(system)
    return known


def _passages(task: Task, sample: Any) -> list[Passage]:
    """Return the texts that a record asks about, of a sample with neither dialogue nor query."""
    parts = task.shown.record_parts(AnsweredRecord(sample, None, None, None))
    return [part for part in parts if isinstance(part, Passage) and part.text]


def _excerpt(sample: Any) -> str:
    turns = getattr(sample, "dialogue", ()) or getattr(sample, "new_dialogue", ())
    words = str(getattr(sample, "query", ""))
    words = words or next((turn.text for turn in turns if turn.role == "user"), "")
    flat = " ".join(words.split())
    return flat if len(flat) <= EXCERPT else f"{flat[:EXCERPT].rsplit(' ', 1)[0]} …"


def _rows_of(system: SiteSystem, track: str, stage: str) -> dict[tuple[str, int], FileRow]:
    """Return the rows of a file by record and repeat."""
    rows: dict[tuple[str, int], FileRow] = {}
    for line, row in enumerate(system.entry.rows(track, stage)):
        repeat = row.get("repeat")
        key = row["benchmark_id"], repeat if isinstance(repeat, int) else 0
        rows[key] = FileRow(line, row)
    return rows


def _answers_of(
    system: SiteSystem, task: Task, records: Mapping[str, PageRecord]
) -> dict[str, list[str]]:
    """Return, by record, what a system answered to it, as HTML."""
    verdicts = _rows_of(system, task.track, "verdicts")
    scores = _rows_of(system, task.track, "scores")
    body = _body_of(task)
    shown = [
        (metric.name, escape(metric_title(metric)))
        for metric in task.metrics
        if not isinstance(metric.value, MicroRatio)
    ]
    where = f"{system.slug}/{task.track}/scores.jsonl"
    name_of = Markup("<strong>{}</strong>").format(foreign(system.card.name))
    page = Markup('<p class="note"><a href="../../systems/{}.html">page of the system</a></p>')
    link = page.format(system.slug)
    answers: dict[str, list[str]] = {}
    below = [part.under_answers(system, task.track) for part in parts_of(system.card)]
    for key, prediction in _rows_of(system, task.track, "predictions").items():
        record = records.get(key[0])
        if record is None:
            continue
        score = scores.get(key)
        repeat = key[1]
        head = _head_of(name_of, repeat, str((score or prediction).row.get("outcome")))
        summary = f"<summary>{head}{_figures(where, shown, score)}</summary>"
        inside = body(_SystemAnswer(system, task, record, prediction.row, verdicts.get(key)))
        found = "".join(under(key[0]) for under in below)
        # A link to what is inside unfolds it; of answers that were asked for again, to the first.
        mark = "" if repeat else f' id="{answer_id(task.track, system.slug)}"'
        body_of = f"<div{mark}>{inside}{found}{link}</div>"
        piece = f'<details class="answer">{summary}{body_of}</details>'
        answers.setdefault(key[0], []).append(piece)
    return answers


def _head_of(name: Markup, repeat: int, outcome: str) -> str:
    """Return the name of a system, which of its answers it is, and how it failed."""
    head = name
    if repeat:
        letter = chr(ord("A") + repeat % 26)
        head += Markup(' <small class="muted">answer {}</small>').format(letter)
    if outcome != "ok":
        head += Markup(' <span class="badge poor">{}</span>').format(visible(outcome))
    return head


def _figures(file: str, shown: Sequence[tuple[str, str]], score: FileRow | None) -> str:
    """Return the first scores of a record, each with its title and its place in `file`."""
    if score is None or not isinstance(score.row.get("scores"), dict):
        return ""
    scores = FilePlace(file, f"/{score.line}", score.row)["scores"]
    known = [(name, title) for name, title in shown if is_number(scores.value.get(name))]
    marks = []
    for name, title in known[:_SHOWN_SCORES]:
        marks.append(f'<span class="mark">{title} {figure(scores[name])}</span>')
    return "".join(marks)


def _memories(answer: _SystemAnswer) -> str:
    """List predicted memories, each with the gold related to it, and the gold nothing matches."""
    related_to: dict[str, list[str]] = {}
    pairs = _pairs(answer.verdict)
    for pair in pairs:
        relation, style = pair["relation"], _STYLES.get(pair["relation"], "muted")
        words = f"{shown_text(relation)} <code>{shown_text(pair['gold'])}</code>"
        said = f'<small class="{style}">{words}</small>'
        related_to.setdefault(pair["predicted"], []).append(said)
    lines = []
    for n, item in enumerate(_items(answer.row), start=1):
        related = related_to.get(f"p{n}", ())
        action = f"<small>{shown_text(item['action'])}</small> " if item.get("action") else ""
        matched = " ".join(related) or '<small class="muted">matches no gold memory</small>'
        lines.append(f"<li>{action}{shown_text(item.get('value'))} {matched}</li>")
    missed = _missed(answer.record, pairs)
    body = f"<ul>{''.join(lines)}</ul>" if lines else '<p class="empty">no memories</p>'
    if missed and answer.verdict:
        body += f'<p class="note">Unmatched gold: {" ".join(missed)}</p>'
    return body


def _items(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    prediction = row.get("prediction")
    items = prediction.get("memory_items") if isinstance(prediction, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _missed(record: PageRecord, pairs: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the gold memories of a record that no predicted one matches."""
    matched = {pair["gold"] for pair in pairs if pair["relation"] in _STYLES}
    names = [f"g{n}" for n in range(1, len(record.sample.gold or ()) + 1)]
    return [f"<code>{name}</code>" for name in names if name not in matched]


def _pairs(verdict: FileRow | None) -> list[Mapping[str, str]]:
    pairs = verdict.row.get("pairs") if verdict is not None else None
    names = ("gold", "predicted", "relation")
    # Rows of a submission are anybody's: what has not the shape of a pair is passed over.
    valid: list[Mapping[str, str]] = []
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, dict) and all(isinstance(pair.get(name), str) for name in names):
            valid.append(pair)
    return valid


def _choice(answer: _SystemAnswer) -> str:
    """Show the memory that was chosen, and the answer where there is one."""
    prediction, record = answer.row.get("prediction"), answer.record
    if not isinstance(prediction, dict):
        return '<p class="empty">no choice</p>'
    assert answer.task.public.choice is not None
    chosen = ""
    with suppress(LookupError, TypeError):  # a row of anybody
        chosen = str(answer.task.public.choice(prediction)[0])
    text = record.values.get(chosen, "not in the pool") if record.values else chosen
    right = '<small class="muted">not the gold</small>'
    if chosen == record.sample.gold:
        right = '<small class="good">correct choice</small>'
    body = f"<p>{shown_text(text)} {right}</p>"
    if prediction.get("answer"):
        body += _paragraph(prediction["answer"])
    return body


def _response(answer: _SystemAnswer) -> str:
    """Show the response, and the marks that the judge gave it."""
    prediction, verdict = answer.row.get("prediction"), answer.verdict
    said = ""
    with suppress(LookupError, TypeError):  # a row of anybody
        said = "\n".join(answer.task.public.texts(prediction)) if prediction else ""
    body = _paragraph(said) if said else '<p class="empty">no response</p>'
    if verdict is None:
        return body
    marks = verdict.row.get("marks")
    if not isinstance(marks, dict):
        return f'{body}<p class="note">Not rated: the judge gave no marks for this answer.</p>'
    file = f"{answer.system.slug}/{answer.task.track}/verdicts.jsonl"
    root = FilePlace(file, f"/{verdict.line}", verdict.row)
    for name in marks:
        mark = root["marks"][name]
        written = figure(mark, str) if is_number(mark.value) else shown_text(mark.value)
        if isinstance(mark.value, bool):
            written = "met" if mark.value else "not met"
        body += f'<span class="mark">{shown_text(name)} {written}</span>'
    if verdict.row.get("reason"):
        body += f'<p class="note">{shown_text(verdict.row["reason"])}</p>'
    return body


def _paragraph(value: object) -> str:
    """Return untrusted words as a paragraph that begins on the side on which their script does."""
    # The direction of a paragraph is not found in a `bdi` inside it.
    return f'<p class="prose" dir="auto">{escape(visible(_cut(value)))}</p>'


def shown_text(value: object) -> str:
    """Return untrusted words, escaped and cut where they are endless."""
    return str(foreign(_cut(value)))


def _cut(value: object) -> str:
    words = value if isinstance(value, str) else "" if value is None else str(value)
    return words if len(words) <= LONGEST else f"{words[:LONGEST]} …"


def _body_of(task: Task) -> Callable[[_SystemAnswer], str]:
    """Return how an answer is written: as memories next to gold, as a choice, or as a text."""
    if task.public.paired is not None:
        return _memories
    return _choice if task.public.choice is not None else _response


FOLDER = "compare"
# Shows a column: that of the address, or else of the first choice, and that of the second.
_SHOWN = (
    "main:is(:has(#of{n}:target,.other option:nth-child({n}):checked),"
    ":not(:has(:target)):has(.one option:nth-child({n}):checked)) .c{n}{{display:table-cell}}\n"
)


def compare_page(board: Board) -> str:
    """Return the page on which two systems of a board are compared; empty where it has none."""
    return _compare_page(board) if len(compared(board)) > 1 else ""


def place_on(board: Board, slug: str) -> str:
    """Return the page that compares a system with the first of a board; empty without one."""
    rows = compared(board)
    for n, row in enumerate(rows, start=1):
        if row.system.slug == slug and len(rows) > 1:
            # Beside itself the first would stand alone: the page shows it next to the second.
            return f"{_compare_page(board)}#of{n}" if n > 1 else _compare_page(board)
    return ""


def _compare_page(board: Board) -> str:
    return f"{FOLDER}/{board.id}.html"


def compared(board: Board) -> list[RankedSystem]:
    """Return the systems of a board whose records may be shown: those of the package's data."""
    if board.any.system.on_pages(board.key.track) is None:
        return []
    return [row for row in (*board.standings, *board.floor_systems) if row.records]


def write_compared(renderer: Renderer) -> None:
    """Write the page of each board with several systems, and the style that shows two of them."""
    most = 0
    for board in renderer.content.boards:
        page, rows = compare_page(board), compared(board)
        if page:
            most = max(most, len(rows))
            records = list(_record_rows(board, rows))
            title = metric_title(board.metric)
            about = {"board": board, "metric": title, "systems": rows, "records": records}
            renderer.write(page, "compare.html", **about)
    renderer.put(f"{FOLDER}/columns.css", "".join(_SHOWN.format(n=n + 1) for n in range(most)))


def _record_rows(board: Board, rows: list[RankedSystem]) -> Iterator[dict[str, str]]:
    """Yield the records, each with the way to its page and a cell for each system."""
    folder = records_folder(board.task)
    names = sorted({name for row in rows for name in row.records})
    for name in names:
        page = f"records/{folder}/{record_file(name)}"
        cells = []
        for n, row in enumerate(rows, start=1):
            cells.append(_score_cell(board, row, name, f"../{page}", n))
        yield {"name": name, "page": page, "cells": Markup("".join(cells))}


def _score_cell(board: Board, row: RankedSystem, name: str, page: str, n: int) -> str:
    """Return a score with the way to the answer that got it.

    Short, as a page has tens of thousands: its origin stands on the table, its file on its column.
    """
    if name not in row.records:
        return f'<td class="c{n}">{NOTHING}</td>'
    answer = answer_id(board.key.track, row.system.slug)
    written = number(round(row.records[name], DIGITS))
    return f'<td class="c{n}"><a href="{page}#{answer}">{written}</a></td>'


def record_score(board: Board, row: RankedSystem, name: str) -> Markup:
    """Return the score of a system on a record, by the metric of a board."""
    value = round(row.records[name], DIGITS)
    args = (row.system.slug, board.key.track, board.metric.name, name)
    return computed(value, "record_score", *args, written=number(value))
