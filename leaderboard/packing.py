"""Pack finished runs as one submission: the card, and the rows of every track that are published.

The same runs, words and date give the same bytes. What is packed is verified before it is written
anywhere: what `alps leaderboard verify` would refuse is refused here; so are keys, absolute paths
and addresses of hosts, which it would flag.
"""

import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from alps.data.hub import is_hub
from alps.errors import DataError, RunFolderError, UsageError
from alps.extension import brought
from alps.leaderboard.cards import (
    SubmitterDetails,
    different,
    run_card,
    system_card,
    system_settings,
    track_card,
    write_track,
)
from alps.leaderboard.checks import Findings, Verification
from alps.leaderboard.checks.card import WORDS_OF_PEOPLE, leaks_of
from alps.leaderboard.checks.files import SUBMISSIONS, check_folder
from alps.leaderboard.parts import check_filled, parts_of_run
from alps.leaderboard.recompute import judge_named
from alps.leaderboard.submission import (
    CARD,
    REVIEW,
    SAMPLES,
    PublishedSystem,
    PublishedTrack,
    Submission,
    checksum_of,
    kinds_of,
    memory_of_run,
    without,
    write_card,
)
from alps.leaderboard.untrusted import faults_of, read_model, shown
from alps.leaderboard.verify import Options, verify
from alps.llm.secrets import redact
from alps.run.opened import RunFolder, open_run
from alps.show.formatting import interval, number
from alps.tasks import board_tracks
from alps.tasks.registry import board_tasks, track_title

_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
# Findings that say that a journal has changed since the summary.
_STALE = ("score", "row_score", "missing_ids", "extra_ids", "duplicate_ids", "row", "verdict")
# Settings by which a run is of a part of its split, and what to do then.
_PARTIAL = {"limit": "repeat the run without limit=", "shard": "join the shards with alps merge"}


@dataclass(frozen=True)
class Packed:
    """A packed submission: where it lies, or would, its files with their bytes, and its findings.

    None of these is serious.
    """

    folder: Path
    card: Submission
    files: tuple[tuple[str, int], ...]
    verification: Verification


def pack(
    runs: Sequence[Path],
    details: SubmitterDetails,
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
        show: Called with what will be published, before it is written.
        write: Whether it is written at all.

    Raises:
        UsageError: If the runs are not finished, not of one system, share a track, or hold what
            must not be published.
        RunFolderError: If the files of a run can't be read, or have changed since its summary.
    """
    found = [_opened(path) for path in runs]
    opened = [run for run, _ in found]
    _check_together(opened)
    slug = out.name if out is not None else slug_of(details.name, details.submitted)
    if not _SLUG.match(slug):
        rule = "use only lowercase letters, digits and single hyphens"
        raise UsageError(f"out={out}: the folder's name becomes the slug: {rule}")
    # Among those of the checkout, where there is one.
    target = out or (SUBMISSIONS if SUBMISSIONS.is_dir() else Path()) / slug
    _check_target(target, slug)
    with TemporaryDirectory(prefix="alps-submit-") as scratch:
        folder = Path(scratch) / slug
        files, further = _write_runs(folder, found, details, calls, verdicts)
        card = make_card(slug, opened, details, files, further)
        write_card(folder / CARD, card)
        _check_leaks(card)
        # Nothing is written before all of it has been checked as a maintainer will.
        verification = _verified(folder, opened, data)
        written = []
        for path in folder.rglob("*.json*"):
            written.append((path.relative_to(folder).as_posix(), path.stat().st_size))
        packed = Packed(target, card, tuple(sorted(written)), verification)
        if show is not None:
            show(packed)
        if write:
            _put(folder, target)
    return packed


def _write_runs(
    folder: Path,
    runs: Sequence[tuple[RunFolder, bool]],
    details: SubmitterDetails,
    calls: bool,
    verdicts: bool,
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Write the files of all tracks; return their cards, and those of parts by their fields."""
    files: dict[str, Any] = {}
    further: dict[str, list[dict[str, Any]]] = {}
    for index, (run, withheld) in enumerate(runs):
        for name in run.tracks:
            place = folder / name
            files[name] = write_track(place, run, name, calls, verdicts, withheld=withheld)
        for field, part in parts_of_run(run).items():
            of_run = part.run_card(folder, run, index, details, calls=calls, verdicts=verdicts)
            if of_run is not None:
                check_filled(field, [field], Submission, "run_card")
                further.setdefault(field, []).append(of_run)
    return files, further


def slug_of(name: str, day: str) -> str:
    """Return a safe name for the folder of a submission.

    Raises:
        UsageError: If nothing of the name is left of it in ASCII.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    # A folder's name has to be one on every file system, and read the same in any script.
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-")
    if not slug:
        fault = "has no Latin letter or digit for the folder's name; give out=FOLDER"
        raise UsageError(f"name={shown(name)}: {fault}")
    return f"{slug}-{day}"


def today() -> str:
    """Return the day on which something is submitted."""
    return date.today().isoformat()


def make_card(
    slug: str,
    runs: Sequence[RunFolder],
    details: SubmitterDetails,
    files: Mapping[str, Mapping[str, Any]],
    further: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Submission:
    """Make the card of finished runs.

    `files` are the cards of each track's files by their stage; `further` those that extensions have
    of runs, by their field.

    Raises:
        UsageError: If something in it can't be published as it is; names the field.
        RunFolderError: If the files of a run lack something, as those of an older version may.
    """
    tracks: dict[str, Any] = {}
    try:
        for index, run in enumerate(runs):
            tracks |= {name: track_card(run, index, name, files[name]) for name in run.tracks}
        row = {
            "format": 1,
            "slug": slug,
            "name": details.name,
            "org": details.org,
            "url": details.url,
            "submitted": details.submitted,
            "alps": runs[0].manifest.alps,
            "notes": details.notes,
            "system": system_card(runs[0], details),
            "runs": [run_card(run, details) for run in runs],
            "tracks": tracks,
            **{field: list(cards) for field, cards in further.items()},
        }
        Submission.model_validate(row)
        return Submission.model_validate({**row, "checksum": checksum_of(row)})
    except ValidationError as error:
        field, fault = faults_of(error)[0]
        raise UsageError(f"{field}: {fault}; alps cannot publish this value") from error


def _opened(path: Path) -> tuple[RunFolder, bool]:
    """Open a run to pack; tell whether an extension stopped it, so that it has no scores."""
    opened = open_run(path)
    parts = parts_of_run(opened).values() if opened.summary is None else ()
    stopped = next(filter(None, (part.stopped(opened) for part in parts)), None)
    run = stopped or opened
    if fault := _why_not_packed(run):
        raise UsageError(f"{path}: {fault}")
    return run, stopped is not None


def _why_not_packed(run: RunFolder) -> str:
    """Say why a run can't be on a board; empty where it can."""
    settings = run.manifest.settings
    if run.summary is None:
        return "not finished; to finish the run, repeat the same alps run"
    for key, mend in _PARTIAL.items():
        if settings.get(key) is not None:
            return f"{key}={settings[key]}: only a part of the split; {mend}"
    # By rubrics in other words a judge is another one, with a board of its own.
    if "wording" in run.manifest.judge:
        return "judged with other rubric prompts; submit a run with the bundled prompts"
    if unknown := set(str(settings.get("task")).split(",")) - {*board_tasks(), "all"}:
        return f"task={min(unknown)} has no board; submit runs of {', '.join(board_tasks())}"
    for name in run.tracks:
        if name not in run.summary.tracks:
            return f"its summary lacks {name}; to finish the run, repeat the same alps run"
    return _why_judge_not_replayed(run)


def _why_judge_not_replayed(run: RunFolder) -> str:
    """Say why nobody can recompute the scores under the judge of a run; empty where one can."""
    comparable, parts = run.finished.comparable, without(run.manifest.judge, "id")
    if comparable and run.judge.startswith(tuple(brought("judges"))):
        fault = "boards cannot recompute scores under the judge of an extension"
    elif comparable != judge_named(run.judge, parts).comparable:
        fault = "scores under this judge are not comparable, so they are on no board"
    else:
        return ""
    mend = "judge the run again with another judge: alps score RUN judge=PROVIDER/MODEL"
    return f"judge={run.judge}: {fault}; {mend}"


def _check_together(runs: Sequence[RunFolder]) -> None:
    if not runs:
        raise UsageError("name at least one run")
    known, seen = dict[str, Any](), dict[str, RunFolder]()
    for run in runs:
        system = system_of(run)
        # Tasks from different systems would be the best of each under one name.
        if part := different(known, system):
            fault = f"different systems, because the runs differ in {redact(part)}"
            both = f"{runs[0].folder} and {run.folder}"
            raise UsageError(f"{both}: {fault}; submit them separately")
        known |= system
        for name in run.tracks:
            if name in seen:
                both = f"{seen[name].folder} and {run.folder}"
                raise UsageError(f"{both}: both have {name}; leave out one of the runs")
            seen[name] = run


def system_of(run: RunFolder) -> dict[str, Any]:
    """Return what two runs must share to be of one system."""
    settings, own = run.manifest.settings, run.manifest.system
    shared = system_settings(settings) | {"alps": run.manifest.alps}
    if memory_of_run(settings) is not None:
        shared["settings of the memory"] = own.get("memory")
        shared["api_base"] = settings.get("api_base")
    rest = without(own, "memory", "name")
    # A reader that is not asked, where the answer is the memory itself, declares nothing.
    if rest and kinds_of(run.model)[0] in ("llm", "program", "python"):
        shared["settings"] = rest
    return shared


def _check_leaks(card: Submission) -> None:
    for path, leak in leaks_of(card.model_dump()):
        mend = "repeat the run without it; for a file, give a relative path"
        if path in WORDS_OF_PEOPLE:
            mend = f"remove it from {path}="
        elif "key" in leak:
            mend = "repeat the run with the key in the environment"
        raise UsageError(f"{path}: contains {leak}, which must not be published; {mend}")


def _verified(folder: Path, runs: Sequence[RunFolder], data: str | None) -> Verification:
    """Verify what was packed on the data of the runs, without fetching any from the hub.

    Raises:
        UsageError: If it would be refused.
        RunFolderError: If its scores do not follow from its rows.
    """
    places = []
    # What is on the hub is not fetched again: packing needs no network.
    for run in runs:
        asked = str(run.manifest.settings.get("data", SAMPLES))
        places.append(data or (None if is_hub(asked) else asked))
    verification = verify(folder, Options(data=tuple(places)))
    for finding in verification.findings:
        if finding.severity == "serious":
            fault = f"{finding.where}: {finding.what}"
            # A run is mended by running it again, a card by packing it with other words.
            if finding.code in (*_STALE, "unscorable"):
                mend = "the files have changed since the run's summary; repeat the same alps run"
                folders = ", ".join(str(run.folder) for run in runs)
                raise RunFolderError(f"{folders}: {fault}; {mend}")
            # The packed folder is as it was written: it is the run that was changed.
            again = "files of the run are lost or have changed; repeat the run with another out="
            unchanged = finding.mend.endswith("unchanged")
            raise UsageError(f"{fault}; {again if unchanged else finding.mend}")
    return verification


def _check_target(target: Path, slug: str) -> None:
    if not target.exists() and not target.is_symlink():
        return
    try:
        there = read_model(target / CARD, Submission).slug
    except DataError as error:
        raise UsageError(f"{target}: already exists; choose another out=") from error
    # A maintainer's review is of what lies there, and must not lie beside other answers.
    if there != slug or (target / REVIEW).exists():
        fault = "contains another submission or a reviewed one; choose another out="
        raise UsageError(f"{target}: {fault}")
    findings = Findings()
    check_folder(target, findings)
    for finding in findings.kept:
        if finding.severity == "serious":
            fault = f"{finding.where}: {finding.what}"
            raise UsageError(f"{target}: {fault}; move it, or choose another out=")


def _put(folder: Path, target: Path) -> None:
    """Copy a packed folder to its target; one that is there is replaced as a whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # On the same disk, so that a submission is there whole or not at all.
    with TemporaryDirectory(prefix=".alps-", dir=target.parent) as scratch:
        shutil.copytree(folder, Path(scratch) / "new")
        if target.exists():
            target.rename(Path(scratch) / "old")
        (Path(scratch) / "new").rename(target)


CHECKLIST = (
    ("Only one folder below `leaderboard/submissions/` has changed.", False),
    (
        "`alps leaderboard submit` packed the submission. Nothing was edited afterwards, and "
        "there is no `review.json`.",
        True,
    ),
    (
        "`alps leaderboard verify leaderboard/submissions/NAME` does not refuse the "
        "submission. Each warning is explained in `notes` or below.",
        True,
    ),
    (
        "The runs cover whole splits without `limit`, and every record has an answer or a failure.",
        True,
    ),
    ("The system did not see the gold, and its answers do not address the judge.", False),
    ("System name, organisation, URL, model snapshot and `open_weights` are correct.", False),
    (
        "I have read what will be published (`dry_run=yes`) and may publish it. The submission "
        "has no keys or private data.",
        False,
    ),
    ("Others can repeat the run: `notes` or the page at the URL explains how.", False),
)
"""What a pull request says, and whether packing has seen to it; the rest only a person can say."""
_MODELS = ("llm", "memory", "retriever")


def missing(card: Submission, verification: Verification) -> Iterator[str]:
    """Yield what a submitter should still give, the most important first."""
    tracks = board_tracks()
    if any(one.files.verdicts is None for name, one in card.tracks.items() if tracks[name].judged):
        yield "verdicts=yes: boards rank a judge's scores only with verdicts"
    for finding in verification.findings:
        if finding.severity == "warning":
            yield f"notes=: explain “{finding.what}”"
    if card.system.kind in _MODELS:
        yield from _missing_of_model(card.system)
    if card.notes is None:
        yield "notes=: how the answers were generated and how to repeat the run"
    if card.org is None:
        yield "org=: your organisation"
    if card.url is None:
        yield "url=: a page about the system"


def _missing_of_model(system: PublishedSystem) -> Iterator[str]:
    if system.snapshot is None:
        yield f"snapshot=: the dated version of {system.model}"
    if system.open_weights is None:
        yield "open_weights=yes or no: whether the weights are public"


def request_text(packed: Packed) -> str:
    """Return the text of the pull request, with a tick at what was checked when it was packed."""
    card = packed.card
    lines = [f"This pull request submits {card.name} to the leaderboard.", ""]
    for item, seen_to in CHECKLIST:
        tick = "x" if seen_to else " "
        lines.append(f"- [{tick}] {item.replace('NAME', card.slug)}")
    lines += ["", "| task | metric | score | 95 % interval | n |", "|---|---|---:|---|---:|"]
    lines += [_request_row(name, track) for name, track in card.tracks.items()]
    why = "How the answers were generated, and why the warnings are acceptable:"
    lines += ["", why, "", card.notes or "…"]
    for finding in packed.verification.findings:
        if finding.severity == "warning":
            lines.append(f"- {finding.what}: …")
    return "\n".join(lines) + "\n"


def _request_row(name: str, track: PublishedTrack) -> str:
    title, metrics = track_title(name), board_tracks()[name].metrics
    lead = next((one for one in metrics if one.headline and one.name in track.scores), metrics[0])
    score = track.scores.get(lead.name)
    if score is None:
        return f"| {title} | {lead.title.strip()} | – | – | – |"
    figures = f"{number(score.value)} | {interval(score)} | {score.n:,}"
    return f"| {title} | {lead.title.strip()} | {figures} |"


def write_request(packed: Packed, path: Path) -> None:
    """Write the text of the pull request.

    Raises:
        UsageError: If it can't be written, or lies in the folder of the submission.
    """
    if path.resolve().is_relative_to(packed.folder.resolve()):
        raise UsageError(f"request={path}: must be outside the submission; choose another path")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(request_text(packed), encoding="utf-8")
    except OSError as error:
        fault = f"{error.strerror or error}; choose another path"
        raise UsageError(f"request={path}: {fault}") from error
