"""Pack finished runs as one submission: the card, and the rows of every track without what nobody
else needs.

The same runs, words and date give the same bytes. What is packed is verified before it is written
anywhere: what `alps verify` would refuse is refused here, and so are keys, absolute paths and
addresses of hosts, which it would flag.
"""

import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alps.data.hub import is_hub
from alps.errors import DataError, RunFolderError, UsageError
from alps.jsonl import dump, scan
from alps.leaderboard.card import Details, make_card, system_of
from alps.leaderboard.checks.card import WORDS_OF_PEOPLE, leaks_of
from alps.leaderboard.checks.files import SUBMISSIONS, check_folder, file_card
from alps.leaderboard.checks.rows import CallRow
from alps.leaderboard.findings import Findings, Verification
from alps.leaderboard.strict_reader import read_model
from alps.leaderboard.submission import CARD, REVIEW, SAMPLES, STAGES, Submission, write_card
from alps.leaderboard.unsafe_text import leak_in, leak_in_answer, shown, texts_of
from alps.leaderboard.verify import Options, verify
from alps.report.runs import Run, open_run
from alps.tasks.registry import TASKS

_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_SCORE_PARTS = ("benchmark_id", "track", "repeat", "outcome", "stage", "scores", "counts")
_MACHINE = ("notes", "error")
"""Fields that our own code writes; all others of a prediction are the system's words."""
_STALE = (
    "score",
    "row_score",
    "missing_ids",
    "extra_ids",
    "duplicate_ids",
    "row",
    "verdict",
    "unscorable",
)


@dataclass(frozen=True)
class Packed:
    """A packed submission.

    Attributes:
        folder: Where it lies, or would.
        card: Its card.
        files: Its files by their names, with their bytes.
        verification: What verifying it found; nothing serious.
    """

    folder: Path
    card: Submission
    files: tuple[tuple[str, int], ...]
    verification: Verification


def pack(
    runs: Sequence[Path],
    details: Details,
    *,
    out: Path | None = None,
    calls: bool = False,
    verdicts: bool = True,
    data: str | None = None,
    show: Callable[[Packed], None] | None = None,
    write: bool = True,
) -> Packed:
    """Pack `runs` into one folder.

    Args:
        runs: Run folders of one system.
        details: What the submitter says.
        out: The folder to write, whose name becomes the slug; None for one named after the name and
            the date.
        calls: Whether raw texts, errors and the calls go with it.
        verdicts: Whether the verdicts go with it; without them nobody can recompute what a judge
            decided.
        data: Where the data of all runs lie now; None for where they were, unless that is the hub.
        show: Is told what will be published, before it is.
        write: Whether it is written at all.

    Raises:
        UsageError: If the runs are not finished, not of one system, share a track, or hold what
            must not be published.
        RunFolderError: If the files of a run can't be read, or have changed since its summary.
    """
    opened = [_finished(folder) for folder in runs]
    _check_together(opened)
    slug = out.name if out is not None else slug_of(details.name, details.submitted)
    if not _SLUG.match(slug):
        raise UsageError(
            f"out={out}: the folder's name becomes the slug: small letters, digits and single hyphens alone"
        )
    target = out if out is not None else _home() / slug
    _check_target(target, slug)
    with TemporaryDirectory(prefix="alps-submit-") as scratch:
        folder = Path(scratch) / slug
        files = {
            name: _write_track(folder / name, run, name, calls=calls, verdicts=verdicts)
            for run in opened
            for name in run.tracks
        }
        card = make_card(slug, opened, details, files)
        write_card(folder / CARD, card)
        _check_card(card)
        found = _verified(folder, opened, data)
        listed = sorted(
            (path.relative_to(folder).as_posix(), path.stat().st_size)
            for path in folder.rglob("*.json*")
        )
        packed = Packed(target, card, tuple(listed), found)
        if show is not None:
            show(packed)
        if write:
            _put(folder, target)
    return packed


def slug_of(name: str, day: str) -> str:
    """Return a safe name for the folder of a submission.

    Raises:
        UsageError: If nothing of the name is left of it in ASCII.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-")
    if not slug:
        raise UsageError(
            f"name={shown(name)}: has no Latin letter or digit to name a folder by; give out=FOLDER"
        )
    return f"{slug}-{day}"


def _finished(folder: Path) -> Run:
    run = open_run(folder)
    settings = run.manifest["settings"]
    if run.summary is None:
        raise UsageError(f"{folder}: not finished; the same alps run again finishes it")
    if settings.get("limit") is not None:
        raise UsageError(
            f"{folder}: limit={settings['limit']}: only a part of the split; run it without limit="
        )
    if "wording" in run.manifest["judge"]:
        raise UsageError(f"{folder}: judged by rubrics in other words; submit the run with our own")
    if unknown := [
        task for task in str(settings.get("task")).split(",") if task not in (*TASKS, "all")
    ]:
        raise UsageError(
            f"{folder}: task={unknown[0]} has no board; submit runs of {', '.join(TASKS)}"
        )
    if lost := [name for name in run.tracks if name not in run.summary["tracks"]]:
        raise UsageError(
            f"{folder}: its summary lacks {lost[0]}; the same alps run again finishes it"
        )
    return run


def _check_together(runs: Sequence[Run]) -> None:
    if not runs:
        raise UsageError("name at least one run")
    first, seen = system_of(runs[0]), dict[str, Run]()
    for run in runs:
        for part, value in system_of(run).items():
            if value != first[part]:
                both = f"{runs[0].folder} and {run.folder}"
                raise UsageError(
                    f"{both}: not of one system (its {part} differs); submit them one by one"
                )
        for name in run.tracks:
            if name in seen:
                raise UsageError(
                    f"{seen[name].folder} and {run.folder}: both have {name}; leave one of them out"
                )
            seen[name] = run


def _write_track(
    folder: Path, run: Run, name: str, *, calls: bool, verdicts: bool
) -> dict[str, Any]:
    """Write the files of one track; return their cards by their stage."""
    folder.mkdir(parents=True)
    cards: dict[str, Any] = {}
    ids = set()
    for stage in STAGES[:3]:
        rows = [row for key, row in run.rows(stage).items() if key.track == name]
        ids |= {row["benchmark_id"] for row in rows}
        if stage == "verdicts" and not (verdicts and rows):
            continue
        stripped = [_stripped(stage, row, calls=calls) for row in rows]
        _check_rows(stripped, f"{run.folder / stage}.jsonl", run)
        cards[stage] = _write(folder / f"{stage}.jsonl", stripped)
    if calls:
        known = tuple(CallRow.model_fields)
        rows = [
            row
            for _, _, row in scan(run.folder / "calls.jsonl")
            if row is not None and row.get("about") in ids
        ]
        if rows:
            cards["calls"] = _write(
                folder / "calls.jsonl", [{part: row.get(part) for part in known} for row in rows]
            )
    return cards


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    try:
        path.write_bytes(b"".join(dump(dict(row)) for row in rows))
        return file_card(path).model_dump()
    except ValueError as error:
        raise RunFolderError(
            f"{path.parent.name}/{path.name}: {error}; such a number can't be published"
        ) from error


def _stripped(stage: str, row: Mapping[str, Any], *, calls: bool) -> dict[str, Any]:
    """Return what of a row is published; raw texts, thoughts and errors only where calls are."""
    if stage == "scores":
        return {part: row[part] for part in _SCORE_PARTS if part in row}
    if calls:
        return dict(row)
    kept = dict(row)
    for part in (
        kept,
        *(kept[name] for name in ("support", "used") if isinstance(kept.get(name), dict)),
    ):
        part.update({"error": None} if "error" in part else {})
        if "raw" in part:
            part["raw"] = [] if isinstance(part["raw"], list) else None
    kept.pop("thought", None)
    return kept


def _check_rows(rows: Sequence[Mapping[str, Any]], where: str, run: Run) -> None:
    passed = str(run.manifest["settings"].get("env") or "").split(",")
    for row in rows:
        ours = "\n".join(text for part in _MACHINE for text, _ in texts_of(row.get(part)))
        theirs = "\n".join(text for text, _ in texts_of(row))
        if leak := leak_in_answer(theirs, secret=passed) or (leak_in(ours) if ours else None):
            record = shown(str(row.get("benchmark_id")), 40)
            other = ", or unset the variable if it is no key" if ": the value of" in leak else ""
            raise UsageError(
                f"{where}, {record}: holds {leak}; take it out before it is published{other}"
            )


def _check_card(card: Submission) -> None:
    for path, leak in leaks_of(card.model_dump()):
        if path in WORDS_OF_PEOPLE:
            mend = f"take it out of {path}="
        else:
            mend = (
                "run it with the key in the environment"
                if "key" in leak
                else "run it by a relative name"
            )
        raise UsageError(f"{path}: holds {leak}, which must not be published; {mend}")


def _verified(folder: Path, runs: Sequence[Run], data: str | None) -> Verification:
    """Verify what was packed on the data of the runs, without fetching any from the hub.

    Raises:
        UsageError: If it would be refused.
        RunFolderError: If its scores do not follow from its rows: a journal has changed since the
            summary.
    """
    given = [str(run.manifest["settings"].get("data", SAMPLES)) for run in runs]
    places = [data or (None if is_hub(place) else place) for place in given]
    found = verify(folder, Options(data=tuple(places)))
    for finding in found.findings:
        if finding.severity == "serious":
            said = f"{finding.where}: {finding.what}"
            if finding.code in _STALE:
                mend = "the files have changed since the summary; the same alps run again mends it"
                raise RunFolderError(
                    f"{', '.join(str(run.folder) for run in runs)}: {said}; {mend}"
                )
            raise UsageError(f"{said}; {finding.mend}")
    return found


def _home() -> Path:
    """Return where submissions are put: among those of the checkout, else here."""
    return SUBMISSIONS if SUBMISSIONS.is_dir() else Path()


def _check_target(target: Path, slug: str) -> None:
    if not target.exists() and not target.is_symlink():
        return
    try:
        there = read_model(target / CARD, Submission).slug
    except DataError as error:
        raise UsageError(f"{target}: there is something else; choose another out=") from error
    if there != slug or (target / REVIEW).exists():
        raise UsageError(
            f"{target}: another submission, or one that was reviewed; choose another out="
        )
    findings = Findings()
    check_folder(target, findings)
    if strange := next(
        (finding for finding in findings.kept if finding.severity == "serious"), None
    ):
        raise UsageError(
            f"{target}: {strange.where}: {strange.what}; move it, or choose another out="
        )


def _put(folder: Path, target: Path) -> None:
    """Copy a packed folder to its place; one that is there is replaced as a whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _beside(target) as room:
        shutil.copytree(folder, room / "new")
        if target.exists():
            target.rename(room / "old")
        (room / "new").rename(target)


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    with TemporaryDirectory(prefix=".alps-", dir=target.parent) as room:
        yield Path(room)


def today() -> str:
    """Return the day on which something is submitted."""
    return date.today().isoformat()
