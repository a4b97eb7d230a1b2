"""Boards as files that hold nothing to run: CSV for spreadsheets, JSON for programs."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from alps.leaderboard.pages import FilePlace
from alps.leaderboard.pages.common import Renderer, page_of
from alps.leaderboard.parts import part_of
from alps.leaderboard.ranking import Board, PeopleRow, RankedSystem
from alps.show.spreadsheets import csv_of

INDEX = "data/boards.json"
_FIGURES = ("value", "low", "high", "n")
_PAID = ("cost", "prompt_tokens", "completion_tokens")
_OF_REFERENCES = {"id", "title", "kind", "benchmark", "ran_by", "data", "judge", "source"}


def write_downloads(renderer: Renderer) -> None:
    """Write every board as CSV and JSON, and the list of them."""
    content = renderer.content
    for board in content.boards:
        rows = list(_rows(board))
        renderer.put(f"data/{board.id}.csv", csv_of(rows))
        renderer.put(f"data/{board.id}.json", as_json({**_about(board), "rows": rows}))
    index = {
        "boards": list(map(_about, content.boards)),
        "references": [
            table.model_dump(mode="json", include=_OF_REFERENCES)
            for table in content.references.tables
        ],
        "submissions": len(content.systems),
    }
    renderer.put(INDEX, as_json(index))


def as_json(value: Any) -> str:
    """Return JSON that is safe inside a page: without `<`, `>`, `&` and line separators."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    # In a page that embeds the file, `</script>` in a name would end the script.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"{text}\n"


def _about(board: Board) -> dict[str, Any]:
    key, run = board.key, board.any.system.run(board.key.track)
    return {
        "id": board.id,
        "page": page_of(board.task),
        "task": board.task.name,
        "track": key.track,
        "title": board.task.heading,
        "metric": key.metric,
        "data": run["data"]["name"].value,
        "split": run["data"]["split"].value,
        "data_sha256": key.data,
        "conditions": json.loads(key.conditions),
        **({f"{key.field}_setup": json.loads(key.setup)} if key.setup else {}),
        "n": key.n,
        "judge_fingerprint": key.judge,
        "comparable": board.comparable,
        "judge_known": board.judge_known,
    }


def _rows(board: Board) -> Iterator[dict[str, Any]]:
    for standing in board.standings:
        yield _of_system(board, standing, "ranked")
    for beside in board.beside:
        ahead = columns_of("ahead", beside.ahead.value)
        yield _row(board, beside.track["scores"], section="beside", name=beside.memory, **ahead)
    for standing in board.floor_systems:
        yield _of_system(board, standing, "floor")
    for floor in board.floors:
        about: dict[str, Any] = {"section": "floor", "name": floor.name, "judge": floor.judge}
        yield _row(board, floor.scores, **about)
    if (people := board.people) is not None:
        about = {"section": "people", "name": " and ".join(people.names), **_draft(people)}
        yield _row(board, people.scores, **about)
    for reported in board.reported:
        table = reported.table
        about = {"section": table.kind, "name": reported.name, "role": reported.row.role}
        about |= {"table": table.id, "judge": None if table.judge is None else table.judge.name}
        yield _row(board, reported.scores, **about)


def _row(board: Board, scores: FilePlace | Mapping[str, FilePlace], **about: Any) -> dict[str, Any]:
    """Return a row that is of no submission: what it is, and its scores."""
    values = {metric: place.value for metric, place in scores.items()}
    return {**about, **_figures(board, values)}


def _draft(people: PeopleRow) -> dict[str, Any]:
    """Return what matched two people's items, and how many of these are a draft's."""
    shares = [None, None] if people.verbatim is None else [one.value for one in people.verbatim]
    without = None if people.without is None else people.without.value
    return {
        "matched_by": people.rule,
        "from_draft_first": shares[0],
        "from_draft_second": shares[1],
        "without_draft": without,
    }


def _of_system(board: Board, row: RankedSystem, section: str) -> dict[str, Any]:
    card, track = row.system.card, row.track.value
    calls = row.system.run(board.key.track)["calls"].value
    # Of replies from a cache it is not known what they took.
    unknown = row.system.from_cache(board.key.track)
    paid = {name: None if unknown else calls[name] for name in _PAID}
    part = part_of(board.key.field)
    return {
        "section": section,
        "rank_best": row.rank.best if row.rank is not None else None,
        "rank_worst": row.rank.worst if row.rank is not None else None,
        "slug": card.slug,
        "name": card.name,
        "org": card.org,
        "kind": card.system.kind,
        "open_weights": card.system.open_weights,
        "status": row.system.status,
        "recomputed": row.recomputed,
        "copy_of": row.copy_of,
        # Failed answers count as the worst there, so the score's own column has another order.
        "sorted_by": row.counted(board.metric.name).value,
        "judged_again": row.again["value"].value if row.again is not None else None,
        "submitted": card.submitted,
        "judge": track["judge"],
        "n": track["n"],
        "unscored": track["unscored"],
        "failed": sum(track["failed_predictions"].values()),
        **paid,
        **({} if part is None else part.download(board, row)),
        **_figures(board, track["scores"], _audited(board, row)),
    }


def _audited(board: Board, row: RankedSystem) -> Mapping[str, Mapping[str, Any]]:
    """Return what audits correct, where a maintainer drew what was audited."""
    # As on pages: a draw that the submitter could choose is no correction.
    audit = row.track.value.get("audit")
    if not audit or not row.system.audit_is_drawn(board.key.track):
        return {}
    scores: Mapping[str, Mapping[str, Any]] = audit["scores"]
    return scores


def _figures(
    board: Board,
    scores: Mapping[str, Mapping[str, Any]],
    audited: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for metric in (board.metric, *board.others):
        score = scores.get(metric.name) or {}
        figures |= columns_of(metric.name, score)
        if metric is board.metric and board.key.judge is not None:
            corrected = audited.get(metric.name) or score.get("corrected") or {}
            figures |= columns_of(f"{metric.name}_corrected", corrected)
    return figures


def columns_of(title: str, score: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the columns of a score: its value, its interval and n."""
    return {f"{title}_{name}": (score or {}).get(name) for name in _FIGURES}
