"""Checks of the card and the review: form, secrets, contradictions, names of others."""

from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from alps import __version__
from alps.judges.admission import DRAWN
from alps.judges.base import fingerprint_id
from alps.judges.embedded import LexicalJudge, is_embedded_judge
from alps.leaderboard.cards import different, system_settings
from alps.leaderboard.checks import PACK_AGAIN, Findings, some_of
from alps.leaderboard.names import fault_of_name
from alps.leaderboard.recompute import judge_of
from alps.leaderboard.references import read_references
from alps.leaderboard.site_data import contradictions
from alps.leaderboard.submission import (
    CARD,
    REFUTED,
    REVIEW,
    SAMPLES,
    PublishedRubricCheck,
    PublishedTrack,
    Review,
    RunCard,
    Submission,
    checksum_of,
    histories,
    kinds_of,
    without,
)
from alps.leaderboard.untrusted import (
    faults_of,
    leak_in,
    mixed_scripts,
    read_alike,
    read_json,
    shown,
    texts_of,
)
from alps.run.summary import refused_metrics
from alps.systems import is_embedded
from alps.tasks import Task
from alps.tasks.registry import ALL, board_tasks
from alps.text import fold_loosely, letters

# Fields that people write for readers, each by a word of `alps leaderboard submit`.
WORDS_OF_PEOPLE = ("notes", "name", "org")
_OTHER_NAME = "choose another name"
RENAME = "use the name of your own system"
_RESCORE = "write the review again with alps leaderboard rescore"
_FLOOR = "floor/"
_BASELINES = {"baseline", "baselines", "floor", "floors", "oracle", "ceiling"}
_MOST_NAMES = 4

Purpose = Literal["generate", "judge"]


def read_card(folder: Path, findings: Findings) -> Submission | None:
    """Read `submission.json`; None, with the findings, where it can't be relied on at all."""
    try:
        row = read_json(folder / CARD)
    except ValueError as error:
        findings.serious("card", CARD, str(error), PACK_AGAIN)
        return None
    try:
        card = Submission.model_validate(row)
    except ValidationError as error:
        for field, fault in faults_of(error):
            findings.serious("schema", field, fault, PACK_AGAIN)
        return None
    size = f"runs: {len(card.runs)}, tasks: {len(card.tracks)}"
    findings.checked["schema"] = f"{CARD}: format {card.format}; {size}"
    # Seconds, costs and tokens are what nothing recomputes; only the checksum guards them.
    if row.get("checksum") != checksum_of(row):
        what = f"does not match the rest of {CARD}, so the file was changed after packing; times, "
        what += "costs and token counts may be wrong, and alps cannot recompute them"
        findings.serious("checksum", "checksum", what, PACK_AGAIN)
    _check_about(folder, card, findings)
    for where, leak in leaks_of(row):
        if "key" in leak:
            way = "revoke the key, remove it from the run, and pack the run again"
            findings.serious("leak", where, f"contains {leak}", way)
        else:
            findings.warn("leak", where, f"contains {leak}", "remove it and pack again")
    _check_runs(card, findings)
    return card


def _check_about(folder: Path, card: Submission, findings: Findings) -> None:
    own = folder.resolve().name
    if own != card.slug:
        what = f"{card.slug}, but the folder is named {shown(own)}"
        findings.serious("slug", "slug", what, "rename the folder")
    if card.submitted > date.today().isoformat():
        findings.warn("date", "submitted", f"{card.submitted} is in the future")
    if card.alps != __version__:
        what = f"packed with alps {shown(card.alps)}; this is alps {__version__}"
        findings.warn("version", "alps", what, "run the system again with this version")
    names = {"name": card.name, "org": card.org or "", "system.model": card.system.model}
    for field, text in names.items():
        if word := mixed_scripts(text):
            what = f"{shown(word)} mixes similar letters of different alphabets"
            findings.warn("look_alike", field, what)
    kinds = kinds_of(card.system.model)
    if card.system.kind not in kinds:
        what = f"{card.system.kind}, but {shown(card.system.model)} is of kind {' or '.join(kinds)}"
        findings.serious("kind_of_system", "system.kind", what, PACK_AGAIN)


def leaks_of(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a card (plain JSON) that must not be published, with the reason."""
    of_people: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for text, where in texts_of(row):
        if where != "url":
            (of_people if where in WORDS_OF_PEOPLE else others).append((text, where))
    for texts, hosts in ((of_people, False), (others, True)):
        # All at once first, and one by one only where there is any: patterns are slow.
        if leak_in("\n".join(text for text, _ in texts), hosts=hosts):
            for text, where in texts:
                if leak := leak_in(text, hosts=hosts):
                    yield where, leak


def _check_runs(card: Submission, findings: Findings) -> None:
    idle = set(range(len(card.runs)))
    for name, track in card.tracks.items():
        idle.discard(track.run)
        if track.run >= len(card.runs):
            what = f"{track.run}, but the last run on the card is runs.{len(card.runs) - 1}"
            findings.serious("run", f"tracks.{name}.run", what, "pack again")
    # A run without a track would add calls and costs that belong to nothing.
    if idle:
        mend = "pack again with alps leaderboard submit"
        findings.serious("run", f"runs.{min(idle)}", "no task belongs to this run", mend)
    for n, run in enumerate(card.runs):
        # Ranks are of whole splits: a part of one may be the easy part.
        if run.settings.get("limit") is not None:
            where, what = f"runs.{n}.settings.limit", "the run covers only a part of the split"
            findings.serious("limit", where, what, "run the whole split, without limit=")
        if run.data.name == SAMPLES and not run.data.public:
            where, what = f"runs.{n}.data.public", "false, but the samples are public"
            findings.serious("public", where, what, "pack again")


def check_systems(card: Submission, findings: Findings) -> None:
    """Refuse runs of different systems: their tasks would be the best of each under one name."""
    known: dict[str, Any] = {}
    for n in range(len(card.runs)):
        system = _system_of(card, n)
        if part := different(known, system):
            what = f"of another system than runs.0, because the runs differ in {shown(part)}"
            findings.serious("system", f"runs.{n}", what, "submit the runs separately")
        known |= system


def _system_of(card: Submission, n: int) -> dict[str, Any]:
    shared = system_settings(card.runs[n].settings)
    if (memory := card.memory_of(n)) is not None:
        # What a program declares is told by checks of admission, which depend on the task.
        shared["settings of the memory"] = without(memory.settings, "declares")
    return shared


def check_tasks(card: Submission, findings: Findings) -> None:
    """Refuse a run of a task that has no board: code of a submitter's own task is not run."""
    for n, run in enumerate(card.runs):
        for name in str(run.settings.get("task", ALL)).split(","):
            if name not in (*board_tasks(), ALL):
                what = f"{shown(name)} has no board, and alps does not import its code"
                mend = f"submit runs of {', '.join(board_tasks())}"
                findings.serious("task", f"runs.{n}.settings.task", what, mend)
                break


def is_baseline(card: Submission) -> bool:
    """Tell whether a card says that it is a floor or the oracle, which are never ranked."""
    return card.system.kind == "floor" or card.system.model.startswith(_FLOOR)


def is_own(model: str) -> bool:
    """Tell whether a system goes by the name of one of the package's own."""
    return model.startswith(_FLOOR) or is_embedded(model)


def check_baseline_name(card: Submission, findings: Findings) -> None:
    """Refuse a name that calls a system a baseline which by its model is none."""
    # Baselines stand apart on the boards, as what any score is worth: none may be made up.
    words = fold_loosely(card.name).replace("/", " ").replace("-", " ").replace(":", " ").split()
    if words and words[0] in _BASELINES and not is_baseline(card):
        what = f"{shown(card.name)} calls itself a baseline, but its model is "
        what += f"{shown(card.system.model)}"
        findings.serious("baseline", "name", what, RENAME)


def check_claims(card: Submission, findings: Findings) -> None:
    """Refuse names that claim what boards say in columns of their own, or that are none."""
    fields = {"name": card.name, "org": card.org or ""}
    for field, text in fields.items():
        # A baseline is called as what it is.
        if text and not is_baseline(card) and (fault := fault_of_name(text)):
            findings.serious("name", field, f"{shown(text)} {fault}", _OTHER_NAME)


def check_reference_names(card: Submission, findings: Findings) -> None:
    """Refuse a name that only looks like that of a reference row; a person checks the same one."""
    own = letters(card.name)
    for row in _reference_rows():
        if is_baseline(card) or not read_alike(card.name, row):
            continue
        what = f"{shown(card.name)} is too similar to {shown(row)}, a reference row"
        if fold_loosely(card.name) != fold_loosely(row):
            findings.serious("name", "name", what, _OTHER_NAME)
        elif own[0] not in letters(card.system.model)[0]:
            what = f"{shown(card.name)} is the name of a reference row, but the model is "
            what += shown(card.system.model)
            findings.warn("name", "name", what)


@cache
def _reference_rows() -> frozenset[str]:
    tables = read_references().tables
    return frozenset(row.name for table in tables for row in table.rows)


def check_name(
    folder: Path, card: Submission, findings: Findings, *, continues: str | None, own_review: bool
) -> None:
    """Refuse a name that reads as that of another system, unless a maintainer joined the two.

    One joins by `continues`, or in a review, unless that came with the change (`own_review` false).
    """
    # A name, an organisation and a folder are free for all to take; a review is a maintainer's.
    own = folder.resolve()
    others = dict(_names_in(own.parent))
    others.pop(own.name, None)
    links = {other: _continued(own.parent / other) for other in others}
    links[own.name] = continues or (_continued(folder) if own_review else None)
    joined = histories(links)[own.name]
    for other, name in others.items():
        if other not in joined and read_alike(card.name, name):
            what = f"{shown(card.name)} is too similar to {shown(name)} (submission {shown(other)})"
            mend = "choose another name; for a later version of that system, a maintainer sets "
            mend += f"continues={shown(other)}"
            findings.serious("name", "name", what, mend)


def _names_in(submissions: Path) -> Iterator[tuple[str, str]]:
    """Yield the folder and the name of every submission whose card can be read."""
    try:
        folders = sorted(submissions.iterdir())
    except OSError:
        return
    for folder in folders:
        try:
            row = read_json(folder / CARD)
        # One that can't be read is refused when it is verified itself.
        except (OSError, ValueError):
            continue
        if isinstance(row, dict) and isinstance(name := row.get("name"), str):
            yield folder.name, name


def _continued(folder: Path) -> str | None:
    try:
        return Review.model_validate(read_json(folder / REVIEW)).continues
    except (OSError, ValueError):
        return None


def check_review(
    folder: Path, findings: Findings, card: Submission | None, *, reviewed: bool, in_change: bool
) -> Review | None:
    """Check that a review can be one of this submission; return it where it applies.

    It does for a maintainer who asks (`reviewed`). What comes by a change (`in_change`)
    brings no review with it.
    """
    path = folder / REVIEW
    if not path.is_symlink() and not path.exists():
        return None
    if in_change and not reviewed:
        mend = "remove it; maintainers keep it and set reviewed=yes"
        findings.serious("review", REVIEW, "only maintainers write this file", mend)
        return None
    review = _read_review(path, findings)
    if review is None:
        return None
    if card is not None:
        _check_reviewed_tracks(review, card, findings)
    if reviewed:
        return review
    # A review that lies in a clone is anybody's word: only who asks as a maintainer applies it.
    what = f"alps applies this review ({review.status}, {review.date}) only with reviewed=yes"
    findings.note("review", REVIEW, what)
    return None


def _check_reviewed_tracks(review: Review, card: Submission, findings: Findings) -> None:
    named = dict.fromkeys((*review.tracks, *review.recomputed))
    if unknown := [name for name in named if name not in card.tracks]:
        what = f"reviews tasks that are missing from the card: {some_of(unknown)}"
        findings.serious("review", REVIEW, what, _RESCORE)


def _read_review(path: Path, findings: Findings) -> Review | None:
    try:
        return Review.model_validate(read_json(path))
    except ValidationError as error:
        for field, fault in faults_of(error):
            findings.serious("review", f"{REVIEW}: {field}", fault, _RESCORE)
    except ValueError as error:
        findings.serious("review", REVIEW, str(error), _RESCORE)
    return None


def check_refuted(card: Submission | None, review: Review | None, findings: Findings) -> None:
    """Refuse a submission whose score a maintainer did not reproduce under the same judge."""
    if card is None or review is None:
        return
    refuted = contradictions(card, review)
    for contradiction in refuted:
        mend = "boards do not rank this system until a maintainer has reviewed the verdicts"
        findings.serious("refuted", REVIEW, str(contradiction), mend)
    if review.status == REFUTED and not refuted:
        what = f"a maintainer refuted this submission on {review.date}"
        findings.serious("refuted", REVIEW, what, "boards do not rank refuted systems")


def check_judges(card: Submission, findings: Findings) -> None:
    """Compare the id of each judge with the hash of its parts."""
    for n, run in enumerate(card.runs):
        parts = run.fingerprint
        printed, actual = run.judge.get("id"), fingerprint_id(parts)
        if printed != actual:
            what = f"the card has {shown(str(printed), 20)}, "
            what += f"but the judge's settings hash to {actual}"
            findings.serious("fingerprint", f"runs.{n}.judge.id", what, PACK_AGAIN)
        if not isinstance(parts.get("rubrics", {}), dict):
            where, what = f"runs.{n}.judge.rubrics", "must be an object with a hash for each rubric"
            findings.serious("fingerprint", where, what, PACK_AGAIN)


def check_identity(
    name: str, track: PublishedTrack, run: RunCard, task: Task, findings: Findings
) -> None:
    """Compare a track's conditions and judge with the rest of the card."""
    judge = judge_of(track, run)
    if isinstance(judge, LexicalJudge) and run.fingerprint != judge.fingerprint:
        what = f"named {judge.name}, but its fingerprint is not that of {judge.name} in this "
        what += "version"
        mend = "judge the run again with this version, or give the judge another name"
        findings.serious("identity", f"runs.{track.run}.judge", what, mend)
    # These decide the board that the track stands on.
    expected = fingerprint_id(judge.fingerprint_for(task.rubrics))
    for part, printed, value in (
        ("conditions", track.conditions, dict(task.conditions)),
        ("comparable", track.comparable, judge.comparable),
        ("judge_fingerprint", track.judge_fingerprint, expected),
    ):
        if printed != value:
            what = f"the card has {shown(str(printed))}, but should have {shown(str(value))}"
            findings.serious("identity", f"tracks.{name}.{part}", what, PACK_AGAIN)
    _check_judge_names(name, track, run, findings)


def _check_judge_names(name: str, track: PublishedTrack, run: RunCard, findings: Findings) -> None:
    kind = str(run.judge.get("judge"))
    names = {f"tracks.{name}.judge": track.judge}
    if isinstance(asked := run.settings.get("judge"), str):
        names[f"runs.{track.run}.settings.judge"] = asked
    for where, called in names.items():
        if called != kind and not (kind == "recorded" and called.startswith("recorded:")):
            what = f"{shown(called)}, but the fingerprint belongs to {shown(kind)}"
            findings.serious("identity", where, what, PACK_AGAIN)


def check_prompt(name: str, run: RunCard, task: Task, findings: Findings) -> None:
    """Warn where a model was asked in other words than ours."""
    sha256 = run.prompts.get(task.prompt.id)
    if sha256 != task.prompt_sha256:
        how = "is missing" if sha256 is None else "differs from the bundled prompt"
        mend = "run the system with the prompts of this version"
        findings.warn("prompt", f"{name}: prompts", f"{task.prompt.id} {how}", mend)


def check_served(card: Submission, findings: Findings) -> None:
    """Warn where the answers, or the verdicts of one judge, are of several models or builds."""
    roles: dict[Purpose, tuple[str, str]] = {
        "generate": ("model", "the answers"),
        "judge": ("judge", "the verdicts"),
    }
    for purpose, (setting, role) in roles.items():
        by_name: dict[str, list[int]] = {}
        for n, run in enumerate(card.runs):
            by_name.setdefault(str(run.settings.get(setting)), []).append(n)
        for asked, indexes in sorted(by_name.items()):
            where = f"runs.{indexes[0]}." if len(indexes) == 1 else "runs."
            for kind, names in _served_by(card, indexes, purpose).items():
                # An alias may lead to another model during a run: two systems under one name.
                if len(names) > 1:
                    what = f"{role} by {shown(asked, 60)} come from {len(names)} {kind}: "
                    what += _listed(sorted(names))
                    mend = f"name a dated snapshot in {setting}=, then repeat the run"
                    findings.warn("served", f"{where}served.{purpose}", what, mend)


def _served_by(card: Submission, indexes: list[int], purpose: Purpose) -> dict[str, set[str]]:
    """Return the names of the models and builds that answered in some runs of a card."""
    names: dict[str, set[str]] = {"models": set(), "builds": set()}
    for n in indexes:
        for row in (card.runs[n].served or {}).get(purpose, []):
            names["models"].add(row.model or "")
            names["builds"].add(row.fingerprint or "")
    # One that the provider did not name may well be any of the others.
    return {kind: of_kind - {""} for kind, of_kind in names.items()}


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    listed = ", ".join(shown(name, 60) for name in names[:_MOST_NAMES])
    return listed + (f" and {more} more" if more > 0 else "")


JUDGE_CHECK = "judge_check"


def check_judge_check(
    name: str, track: PublishedTrack, run: RunCard, task: Task, findings: Findings
) -> None:
    """Compare a judge's known items with the rubrics and scores of a track; warn without any."""
    where = f"runs.{track.run}.judge_check"
    if is_embedded_judge(track.judge):
        if run.judge_check is not None:
            what = f"judge {shown(track.judge)} is built in and needs no check on known items"
            findings.serious(JUDGE_CHECK, where, what, PACK_AGAIN)
        return
    values = [score.value for score in track.scores.values()]
    if not task.rubrics or values.count(None) == len(values):
        return
    if not run.judge_check:
        what = f"judge {shown(track.judge)} was not checked on known items; boards show this"
        findings.warn(JUDGE_CHECK, where, what, "repeat the run without judge_check=no")
        return
    lacking = [one.name for one in task.rubrics if one.name not in run.judge_check]
    if lacking:
        what = f"{name} uses rubrics without known-item checks: {', '.join(lacking)}"
        findings.serious(JUDGE_CHECK, where, what, PACK_AGAIN)
    check_shares(run.judge_check, where, findings)
    _check_refused(name, track, run, task, findings)


def _check_refused(
    name: str, track: PublishedTrack, run: RunCard, task: Task, findings: Findings
) -> None:
    for metric in refused_metrics(task, judge_of(track, run)):
        if metric in track.scores and track.scores[metric].value is not None:
            what = "the judge got too few known items right, so this metric must have no score"
            findings.serious(JUDGE_CHECK, f"tracks.{name}.scores.{metric}", what, PACK_AGAIN)


def check_shares(
    checks: Mapping[str, PublishedRubricCheck], where: str, findings: Findings
) -> None:
    """Refuse shares of known items that nobody can have got right."""
    for rubric, share in checks.items():
        if not share.right <= share.n <= DRAWN:
            what = f"{share.right} of {share.n} right, but alps gives a judge {DRAWN} known items"
            findings.serious(JUDGE_CHECK, f"{where}.{shown(rubric, 40)}", what, PACK_AGAIN)
