"""Memory systems on pages: their cells and rows on boards, their hits, their sections and files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.ext.memory.board_setup import ahead as ahead_of_none
from alps.ext.memory.board_setup import (
    declared,
    memory_name,
    rows_beside,
    setup_of,
    transport_of,
    words_of,
)
from alps.leaderboard.gold_data import task_under
from alps.leaderboard.pages import NOTHING, FilePlace, figure, pair, whole
from alps.leaderboard.pages.board_table import BoardSection, filled, foreign, score_cells
from alps.leaderboard.pages.downloads import columns_of
from alps.leaderboard.pages.records import shown_text
from alps.leaderboard.pages.systems import text_of
from alps.leaderboard.ranking import Board, RankedSystem, RowBeside
from alps.leaderboard.site_data import SiteSystem
from alps.show.formatting import visible
from alps.tasks import Metric
from alps.tasks.by_memory import FULL, LAST, ORACLE, PLACEBO
from alps.tasks.by_memory import NOTHING as NO_MEMORY

TEMPLATE = Path(__file__).with_name("templates") / "board.html"
MOST_HITS = 10
_NO_HITS = '<p class="empty">nothing</p>'
# What the reader of a memory system is shown in the rows beside it, and what to make of them.
_BESIDE = {
    NO_MEMORY: "the reader without memory, the reference of every Δ",
    FULL: "the full history",
    ORACLE: "the annotated evidence: an upper bound for memory",
    PLACEBO: "placebo: turns of another user, as many as a memory system would return",
}


def under_name(board: Board, row: RankedSystem) -> Markup:
    """Return which memory system it is and how it was called, and why it has no place."""
    memory = memory_name(row.system, board.key.track)
    about = Markup("<small>{} · {}</small>").format(foreign(memory), transport_of(memory))
    about += _tokens_shown(row.track)
    if row.withheld:
        return about + Markup("<small>not admitted: {}</small>").format(foreign(row.withheld))
    if left_out := declared(row.system.card, board.key.track):
        without = ", ".join(left_out)
        about += Markup("<small>declared as not applicable: {}</small>").format(without)
    if row.difference.reason:
        return about + Markup("<small>not ranked: {}</small>").format(
            foreign(row.difference.reason)
        )
    if row.difference.note:
        about += Markup("<small>{}</small>").format(foreign(row.difference.note))
    return about


def _tokens_shown(track: FilePlace) -> Markup:
    """Return how many tokens of a history the reader was shown; nothing where none has a part."""
    if track.value.get("tokens_shown") is None:
        return Markup()
    median = figure(track["tokens_shown"]["median"], whole)
    return Markup("<small>{} tokens shown (median)</small>").format(median)


def sections(board: Board, shown: Sequence[Metric], width: int) -> Iterator[BoardSection]:
    """Yield the comparison rows of a board: the same reader with other memories."""
    rows = []
    for row in board.beside:
        name = Markup("{}<small>{}</small>").format(foreign(row.memory), _shows(row))
        name += _tokens_shown(row.track)
        cells = [Markup(), name, pair(row.ahead) if row.ahead["value"] else NOTHING]
        cells += score_cells(board, row.score(board.metric.name), "floor")
        cells += [NOTHING] if board.has_corrected else []
        cells += [pair(row.score(metric.name)) for metric in shown]
        rows.append(filled(cells, {"search": visible(row.memory).lower()}, width))
    if rows:
        note = "the same readers with other memory= values, from the submissions; never ranked"
        yield BoardSection("floors", "For comparison", note, rows)


def _shows(row: RowBeside) -> str:
    if row.memory.startswith(LAST):
        return "the last turns of the history"
    return _BESIDE.get(row.memory, "a memory system that is bundled with alps")


def download(board: Board, row: RankedSystem) -> dict[str, Any]:
    """Return the memory of a system in downloads, and how far it is ahead of none."""
    ahead = columns_of("ahead", row.ahead.value if row.ahead is not None else None)
    name = memory_name(row.system, board.key.track)
    return {"memory": name, "not_admitted": row.withheld or None, **ahead}


def listed_hits(hits: Mapping[str, list[Mapping[str, Any]]], record: str) -> str:
    """List what a memory system found for a record, the best first, as far as a page shows it."""
    lists = []
    for name, found in hits.items():
        # A record that is asked several times has its number behind its id.
        if name == record or name.rpartition(" ")[0] == record:
            lines = [f"<li>{shown_text(hit.get('text'))}</li>" for hit in found[:MOST_HITS]]
            more = (
                '<p class="note">More hits are in memory.jsonl of the submission.</p>'
                if found[MOST_HITS:]
                else ""
            )
            lists.append(f"<ol>{''.join(lines)}</ol>{more}" if lines else _NO_HITS)
    return f"<h4>Found by its memory system</h4>{''.join(lists)}" if lists else ""


@dataclass(frozen=True)
class MemoryView:
    """A memory system of a run: how it was run, its admission, and the seconds of its phases.

    `failed` are the checks that it did not pass, each with why, `declared` those that it was
    declared to do without.
    """

    name: str
    transport: str
    place: FilePlace
    task: str
    facts: list[tuple[str, str]]
    checks: list[tuple[str, str]]
    failed: list[tuple[str, str]]
    declared: list[str]
    phases: list[tuple[str, FilePlace]]
    beside: list[tuple[str, str, Markup, Markup]]


def memories(system: SiteSystem) -> Iterator[MemoryView]:
    """Yield the memory system of each run of a submission."""
    for n, memory in enumerate(system.card.memory or ()):
        tracks = [name for name, track in system.card.tracks.items() if track.run == memory.run]
        memory_called, checks = memory_name(system, tracks[0]), []
        for when, of_time in memory.admission.items():
            for check in of_time:
                checks.append((f"{check.name} ({when} the run)", check.fault))
        settings = [(name, text_of(value)) for name, value in sorted(memory.settings.items())]
        place = system.root["memory"][n]
        yield MemoryView(
            name=memory_called,
            transport=transport_of(memory_called),
            place=place,
            task=str(system.run(tracks[0])["settings"]["task"].value),
            facts=[*_setups(system, tracks), *memory.versions.items(), *settings],
            checks=checks,
            failed=[check for check in checks if check[1]],
            declared=declared(system.card, tracks[0]),
            phases=list(place["phases"].items()),
            beside=list(_rows_of(system, tracks)),
        )


def _setups(system: SiteSystem, tracks: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in tracks:
        task = task_under(name, system.card.tracks[name].conditions)
        setup = setup_of(system.card, name, task)
        yield task.heading, words_of(setup or {})


def _rows_of(
    system: SiteSystem, tracks: Sequence[str]
) -> Iterator[tuple[str, str, Markup, Markup]]:
    """Yield the task, the memory, the difference and the score of each row and of the run."""
    for name in tracks:
        task = task_under(name, system.card.tracks[name].conditions)
        lead = task.headline.name
        rows = sorted(rows_beside(system, name), key=lambda row: -(row.ahead["value"].value or 0.0))
        if rows:
            own = ahead_of_none(system, name)
            yield task.heading, "this system", _pair(own), pair(system.tracks[name]["scores"][lead])
        for row in rows:
            yield task.heading, row.memory, _pair(row.ahead), pair(row.score(lead))


def _pair(ahead: FilePlace | None) -> Markup:
    return NOTHING if ahead is None else pair(ahead)
