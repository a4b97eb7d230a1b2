"""Packing of a run with a memory system: diary, ledger, admission, comparison rows.

A run that a check of admission stopped is packed without scores, so that a board can say why.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from alps import rows
from alps.ext.memory import CALLS, FILE
from alps.ext.memory.admission import declared_in
from alps.ext.memory.board_checks import first_fault
from alps.ext.memory.board_setup import ahead_of
from alps.ext.memory.comparison import FOLDER
from alps.ext.memory.journal import phases_of, rows_in, stored_by, used_otherwise
from alps.folders import file_names
from alps.judges.base import fingerprint_id
from alps.leaderboard.cards import (
    LEFT_OUT,
    SubmitterDetails,
    check_publishable,
    run_card,
    track_card,
    write_rows,
    write_track,
)
from alps.leaderboard.gold_data import needs_reader
from alps.leaderboard.recompute import judge_named
from alps.leaderboard.submission import MEMORY_FOLDER, public_name, without
from alps.leaderboard.untrusted import leak_in
from alps.llm.ledger import Ledger
from alps.run.opened import MANIFEST, RunFolder, open_run
from alps.run.summary import summarise_calls
from alps.show.shared_records import sessions_of
from alps.tasks.by_memory import NOTHING

_OWN_SETTINGS = ("name", "k", "options", *LEFT_OUT)
"""What a memory system says of itself in the manifest that the settings of the run say, too."""


def admission_of(run: RunFolder) -> dict[str, list[dict[str, Any]]]:
    """Return the checks of a run's memory system before it and after it, as they are published."""
    admission: dict[str, list[dict[str, Any]]] = {}
    for row in _diary(run):
        if row["phase"] == "admission":
            admission[row["when"]] = row["checks"]
    return admission


def stopped_by(run: RunFolder) -> str | None:
    """Return the check that a run without a summary was stopped by, and why it failed."""
    if run.summary is not None:
        return None
    return first_fault(admission_of(run))


def without_scores(run: RunFolder, fault: str) -> RunFolder:
    """Return a run that admission stopped, with a summary of no scores."""
    judge = judge_named(run.judge, without(run.manifest.judge, "id"), run.judge)
    ledger = Ledger(run.folder / "calls.jsonl")
    ledger.close()
    withheld, tracks = f"not admitted: {fault}", {}
    for name, data in run.tracks.items():
        task = run.tasks[name]
        scores = {}
        for metric in task.metrics:
            none = rows.Score(value=None, low=None, high=None, n=0, unscored=withheld)
            scores[metric.name] = none
        n = data.n * run.repeats
        tracks[name] = rows.TrackSummary(
            task=task.name,
            judge_fingerprint=fingerprint_id(judge.fingerprint_for(task.rubrics)),
            n=n,
            scored=0,
            unscored=n,
            failed_predictions={},
            failed_judgements={},
            scores=scores,
            floors={},
        )
    summary = rows.Summary(
        judge=run.judge,
        judge_fingerprint=str(run.manifest.judge["id"]),
        comparable=judge.comparable,
        model=run.model,
        tracks=tracks,
        calls=summarise_calls(ledger.totals),
    )
    return replace(run, summary_row=summary.row())


def memory_card(
    folder: Path,
    run: RunFolder,
    index: int,
    details: SubmitterDetails,
    *,
    calls: bool,
    verdicts: bool,
) -> dict[str, Any]:
    """Write the files of a run's memory system below `folder`; return their card.

    Raises:
        UsageError: If a row holds what must not be published.
    """
    place = folder / f"{MEMORY_FOLDER}{index}"
    place.mkdir()
    diary = list(_diary(run))
    check_publishable(diary, str(run.folder / FILE), run)
    card: dict[str, Any] = {
        "run": index,
        "settings": _settings(run),
        "versions": dict(run.manifest.versions),
        "admission": admission_of(run),
        "phases": {},
        "diary": write_rows(place / FILE, diary),
    }
    if (fault := first_fault(card["admission"])) is not None:
        card["withheld"] = fault
    if asked := list(rows_in(run.folder / CALLS)):
        card["calls"] = write_rows(place / CALLS, asked)
    card["phases"] = {name: phase.row() for name, phase in phases_of(place).items()}
    if (used := used_otherwise(place, card["phases"])) is not None:
        card["used_otherwise"] = used.row()
    card["bytes_per_1000_turns"] = stored_by(run.folder)
    if fault is None:
        card |= _beside(place, run, details, calls=calls, verdicts=verdicts)
    return card


def _settings(run: RunFolder) -> dict[str, Any]:
    settings = without(run.manifest.system.get("memory", {}), *_OWN_SETTINGS)
    # A program or a server declares when it is opened, and then the manifest is written.
    made = (check["name"] for checks in admission_of(run).values() for check in checks)
    if declared := declared_in(made):
        settings["declares"] = declared
    if isinstance(command := settings.get("command"), str):
        # Arguments of a program may be folders or hosts of the submitter.
        settings["command"] = public_name(f"program:{command}").removeprefix("program:")
    return settings


def _diary(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the rows of a diary as they are published."""
    for row in rows_in(run.folder / FILE):
        # The secret that users are called after would let anybody look for a known one.
        if row.get("phase") == "run":
            continue
        if row.get("phase") == "admission":
            yield {**row, "checks": list(map(_publishable, row["checks"]))}
        else:
            yield row


def _publishable(check: Mapping[str, Any]) -> dict[str, Any]:
    """Return a check as it is published: what failed may name a folder or a host."""
    row = rows.Check(**check).model_dump()
    if (leak := leak_in(row["fault"])) is not None:
        row["fault"] = f"not published, because it contains {leak.partition(' (')[0]}"
    return {**row, "fault": row["fault"][:2_000]}


def _beside(
    place: Path, run: RunFolder, details: SubmitterDetails, *, calls: bool, verdicts: bool
) -> dict[str, Any]:
    """Write the rows beside a run; return them, and how far each is ahead of no memory."""
    found = _finished_beside(run)
    card: dict[str, Any] = {"beside": {}}
    for name, row in found.items():
        tracks = {}
        for track in row.tracks:
            files = write_track(place / FOLDER / name / track, row, track, calls, verdicts)
            # Those of the run itself are the same, on the same records.
            tracks[track] = {**track_card(row, 0, track, files), "floors": {}}
        card["beside"][name] = {"run": run_card(row, details), "tracks": tracks}
    nothing = (row for row in found.values() if row.manifest.settings.get("memory") == NOTHING)
    none = next(nothing, None)
    if none is None:
        return card if found else {}
    card["ahead"] = _ahead(run, none)
    for name, row in found.items():
        if row is not none:
            card["beside"][name]["ahead"] = _ahead(row, none)
    return card


def _finished_beside(run: RunFolder) -> dict[str, RunFolder]:
    """Return the rows beside a run by the names of their published folders."""
    rows_of: dict[str, RunFolder] = {}
    for manifest in sorted((run.folder / FOLDER).glob(f"*/{MANIFEST}")):
        row = open_run(manifest.parent)
        # One that a budget stopped is made once more by `alps memory compare`.
        if row.summary is not None and not row.summary.stopped_by_budget:
            rows_of[manifest.parent.name] = row
    return {name: rows_of[folder] for folder, name in file_names(rows_of, _slug).items()}


def _slug(folder: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-")


def _ahead(run: RunFolder, none: RunFolder) -> dict[str, Any]:
    """Return how far a run is ahead of one without memory, by track."""
    ahead = {}
    for name, task in run.tasks.items():
        if name in none.tracks and needs_reader(task):
            scores = list(_scores_of(run, name))
            sessions = sessions_of([run], name, {row["benchmark_id"] for row in scores})
            of_none = _scores_of(none, name)
            ahead[name] = ahead_of(scores, of_none, task.headline, sessions or {})
    return ahead


def _scores_of(run: RunFolder, track: str) -> Iterator[dict[str, Any]]:
    for key, row in run.rows("scores").items():
        if key.track == track:
            yield row
