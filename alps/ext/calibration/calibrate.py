"""From labels to a calibration: a judge is asked, or its recorded verdicts are taken.

The folder of a calibration is much like that of a run: a manifest, the verdicts as a journal, the
calls, and `calibration.json` at the end. The same command again resumes it.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from alps.api import called, plain
from alps.errors import BudgetError, RunFolderError, UsageError, closest
from alps.event_loop import run_loop, stopping_together
from alps.ext.audits import SAMPLE
from alps.ext.calibration.agreement import LabelScale
from alps.ext.calibration.ask import LabelledJudge, askable
from alps.ext.calibration.calibration_file import bound
from alps.ext.calibration.examples import Example, disagreements_of
from alps.ext.calibration.gates import gated
from alps.ext.calibration.judge_of_run import PinnedJudge, hash_of, read_judge_of_run
from alps.ext.calibration.label_rows import on_scale, read_object
from alps.ext.calibration.labels import (
    ITEMS,
    SCALE,
    STRESS,
    VERDICTS,
    JudgedItem,
    LabelSet,
    Verdict,
    Verdicts,
    read_labels,
    read_verdicts,
    stress_labels,
)
from alps.ext.calibration.matrix import label_matrix
from alps.ext.calibration.part import after_calibration
from alps.ext.calibration.report import RubricReport, report_on, report_rows
from alps.ext.calibration.settings import GATES, CalibrateSettings, Gates
from alps.folders import slug
from alps.jsonl import Journal, Row, parse_json, scan
from alps.judges.base import Judge, fingerprint_id
from alps.judges.embedded import is_embedded_judge
from alps.judges.rubric import MATCHING, Rubric, read_rubric
from alps.llm.ledger import Totals
from alps.rows import Calls, ServedBy
from alps.run.folder import build_manifest, claim, claimed_folder, write_json
from alps.run.opened import MANIFEST
from alps.run.progress import progress_line
from alps.run.services import Services, check_judge, open_judge
from alps.run.session import effective_judge, refuse_without_effect
from alps.run.summary import served, served_row, summarise_calls
from alps.schema import UNHEARD, Outcome
from alps.settings import parse_settings
from alps.show.formatting import counted

CALIBRATION = "calibration.json"
# Pairs of other items that a judge which is asked several times is shown with each pair of the
# stress set.
COMPANIONS = 4
# Time zones reach from UTC-12 to UTC+14: for two hours of a day, three dates are in use.
_FURTHEST_AHEAD = timedelta(days=2)
_OTHERWISE = "so sensitivity and base rates may differ from those of a run"
_NOT_RANDOM = f"the items were not drawn at random, {_OTHERWISE}"
_CHOSEN = f"the pairs were chosen by a judge's verdicts and by similarity, {_OTHERWISE}"


@dataclass(frozen=True)
class Calibrated:
    """A finished calibration.

    Attributes:
        row: What is in `calibration.json`.
        folder: Where it is; None where none was asked for.
        unheard: Items that the judge could not be asked about; they are left out of all figures.
        left_out: Rubrics that the judge does not rate.
        budget_spent: Whether some were not asked for want of money.
        calls: What asking took; None where recorded verdicts were read.
        served: What answered, by the purpose of the calls.
        following: What to do next, where the judge is that of a run.
        examples: Items on which the judge differs from people, by rubric.
    """

    judge: str
    reports: tuple[RubricReport, ...]
    row: dict[str, Any]
    folder: Path | None
    unheard: int = 0
    left_out: tuple[str, ...] = ()
    budget_spent: bool = False
    too_many_unheard: bool = False
    calls: Calls | None = None
    served: Mapping[str, Sequence[ServedBy]] = field(default_factory=dict)
    following: tuple[str, ...] = ()
    examples: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        from alps.ext.calibration.short import headline_of

        return f"<Calibrated {headline_of(self.row)}>"

    def _repr_html_(self) -> str:
        from alps.ext.calibration.short import print_short
        from alps.show.table import as_html

        return as_html(lambda console: print_short(self, console))


def rubric_reports(
    labels: LabelSet, verdicts: Verdicts, *, gates: Gates = GATES, seed: int = 0
) -> list[RubricReport]:
    """Report on a judge, one rubric after the other.

    Rubrics that it said nothing about are left out.

    Raises:
        UsageError: If no item has both a verdict and a label of anybody.
    """
    if not verdicts.by_item:
        what = "gave no verdict, so there is nothing to compare with people"
        raise UsageError(f"judge={verdicts.judge}: {what}")
    if not any(map(labels.labels_of, labels.items.keys() & verdicts.by_item.keys())):
        raise UsageError(
            f"judge={verdicts.judge}: no verdict ({len(verdicts.by_item):,} in total) is on a "
            "labelled item; compare the item ids of verdicts and labels"
        )
    reports = []
    for rubric in labels.rubrics:
        matrix = label_matrix(labels, rubric, verdicts)
        if matrix.items:
            report = report_on(rubric, matrix, epsilon=gates.epsilon, seed=seed)
            reports.append(gated(report, matrix, gates))
    return reports


def calibrate_judge(settings: CalibrateSettings) -> Calibrated:
    """Compare a judge with people's labels.

    Recorded verdicts are taken where `verdicts` names a file of them, or where the label folder has
    one that holds `judge`, unless it is embedded; else the judge is asked.

    Raises:
        AlpsError: If labels, verdicts, judge or folder can't be used.
    """
    refuse_without_effect(settings)
    labels, sample = _labels(settings.labels), _sample(settings.labels)
    folder = Path(settings.out) if settings.out else None
    # Its recorded verdicts.jsonl would be taken for the journal of the judge that is asked.
    if folder is not None and any((folder / name).exists() for name in (ITEMS, SCALE)):
        raise UsageError(f"out={settings.out}: this is a label folder; choose another folder")
    recorded = _recorded(settings)
    if recorded is None:
        settings = effective_judge(settings)
        return _from_judge(settings, labels, sample, folder or _folder(settings, labels))
    verdicts = read_verdicts(recorded, settings.judge or None, labels=labels)
    reports = _reports(settings, labels, verdicts, sample)
    return _from_verdicts(settings, labels, verdicts, reports, recorded)


def _from_verdicts(
    settings: CalibrateSettings,
    labels: LabelSet,
    verdicts: Verdicts,
    reports: Sequence[RubricReport],
    recorded: Path,
) -> Calibrated:
    folder = Path(settings.out) if settings.out else None
    reports = [_lacking(report, labels, verdicts, settings.max_failures) for report in reports]
    row = report_rows(reports, verdicts, labels) | _gates(settings)
    of_run = read_judge_of_run(Path(settings.labels).expanduser())
    if of_run is not None and of_run.said(recorded, verdicts.judge):
        row = bound(
            row,
            PinnedJudge(of_run),
            today=of_run.day,
            days=settings.valid_days,
            api_base=of_run.api_base,
            own=labels.own,
        )
        row |= of_run.model_dump(mode="json", include={"served"})
        folder = folder or _folder(settings, labels, of_run.name)
        following = tuple(after_calibration(of_run, [*row["rubrics"]], folder))
    else:
        # Without `expires`: how this judge was asked is not known, so this corrects no score.
        row, following = {**row, "made": date.today().isoformat()}, ()
    if folder is not None:
        _refuse_another(folder, row)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"{folder}: {error.strerror}; choose another out=") from error
        write_json(folder / CALIBRATION, row)
    examples = _examples(labels, verdicts, row)
    return Calibrated(
        verdicts.judge,
        tuple(reports),
        row,
        folder,
        unheard=sum(report.counts.get("unheard", 0) for report in reports),
        following=following,
        examples=examples,
    )


def _lacking(
    report: RubricReport, labels: LabelSet, verdicts: Verdicts, max_failures: float
) -> RubricReport:
    """Count the labelled items of which a file of verdicts has none, as those of a judge asked."""
    items = labels.items_of(report.rubric)
    labelled = [item.item_id for item in items if labels.labels_of(item.item_id)]
    missing = sum(name not in verdicts.by_item for name in labelled)
    if not missing:
        return report
    of = counted(missing, "labelled item")
    limits = [f"no verdict for {of}"] if missing > max_failures * len(items) else []
    return replace(report, counts={**report.counts, "unheard": missing}).limited(*limits)


def _gates(settings: CalibrateSettings) -> dict[str, Any]:
    """Return the gates that are not the default, for `calibration.json`; nothing without any."""
    changed = {}
    for name, value in vars(settings.gates()).items():
        if value != getattr(GATES, name):
            changed[name] = value
    return {"gates": changed} if changed else {}


def _examples(
    labels: LabelSet, verdicts: Verdicts, row: Mapping[str, Any]
) -> dict[str, tuple[Example, ...]]:
    return {rubric: disagreements_of(labels, verdicts, rubric) for rubric in row["rubrics"]}


def _refuse_another(folder: Path, row: Mapping[str, Any]) -> None:
    """Refuse to write `row` over a calibration of another judge, other labels or other verdicts.

    Raises:
        RunFolderError: What the folder holds, in one line.
    """
    # The figures by which scores were corrected must not become those of another judge.
    if (folder / MANIFEST).exists():
        raise RunFolderError(
            f"{folder} holds a run or a calibration with judge calls; choose another out="
        )
    path = folder / CALIBRATION
    if not path.exists():
        return
    try:
        old = parse_json(path.read_bytes())
    except (ValueError, OSError):
        old = None
    if not isinstance(old, dict):
        raise RunFolderError(f"{path}: can't be read and is not overwritten; choose another out=")
    judges = f"another judge ({old.get('judge')}, not {row['judge']})"
    whats = {"judge": judges, "labels": "other labels", "fingerprint": "other verdicts"}
    for name, what in whats.items():
        if old.get(name) != row[name]:
            raise RunFolderError(f"{folder} holds a calibration of {what}; choose another out=")


def _labels(name: str) -> LabelSet:
    """Read the labels of a folder or the stress set, and add the rubrics of the folder."""
    if name == STRESS:
        return stress_labels()
    folder = Path(name).expanduser()
    labels = read_labels(folder)
    own: dict[str, Rubric] = {}
    for path in sorted(folder.glob("rubrics/*.md")):
        try:
            rubric = read_rubric(path)
        except ValueError as error:
            raise UsageError(str(error)) from error
        except OSError as error:
            raise UsageError(f"{path}: can't be read ({error.strerror})") from error
        if (other := own.setdefault(rubric.id, rubric)) is not rubric:
            # A judge is bound to its instructions by the ids: of two that are the same one would
            # be lost.
            raise UsageError(
                f"{path.with_stem(other.name)} and {path}: both have the id {rubric.id}; "
                "give each a unique id"
            )
    return replace(labels, own=tuple(own.values()))


def _sample(name: str) -> Mapping[str, Any]:
    """Return how the items of each rubric were drawn from a run, where they were drawn from one."""
    path = Path(name).expanduser() / SAMPLE
    if name == STRESS or not path.is_file():
        return {}
    rubrics = read_object(path).values.get("rubrics")
    if not isinstance(rubrics, dict) or not all(isinstance(one, dict) for one in rubrics.values()):
        raise UsageError(
            f"{path}: not written by alps annotate draw; remove this file, or draw the items again"
        )
    return rubrics


def _reports(
    settings: CalibrateSettings, labels: LabelSet, verdicts: Verdicts, sample: Mapping[str, Any]
) -> list[RubricReport]:
    """Report on each rubric, with how its items were drawn and what follows from that."""
    reports = []
    for raw in rubric_reports(labels, verdicts, gates=settings.gates(), seed=settings.seed):
        drawn = sample.get(raw.rubric)
        report = replace(raw, details=replace(raw.details, sample=drawn))
        # The error rates of chosen items are not those that a correction needs.
        chosen = drawn is not None and drawn.get("random") is False
        limit = _CHOSEN if raw.rubric == MATCHING else _NOT_RANDOM
        reports.append(report.limited(limit) if chosen else report)
    return reports


def _recorded(settings: CalibrateSettings) -> Path | None:
    """Return the file of recorded verdicts; None where the judge is to be asked."""
    if settings.verdicts:
        return Path(settings.verdicts).expanduser()
    path = Path(settings.labels).expanduser() / VERDICTS
    exists = settings.labels != STRESS and path.is_file()
    if not settings.judge:
        if not exists:
            raise UsageError(
                "judge= is missing, and there are no recorded verdicts; add judge=PROVIDER/MODEL"
            )
        return path
    # To ask an embedded judge costs nothing, and binds the calibration to it.
    if not exists or is_embedded_judge(settings.judge):
        return None
    return path if _is_recorded(settings.judge, path) else None


def _is_recorded(judge: str, path: Path) -> bool:
    """Tell whether the verdicts of a judge are in a file; refuse one that can't be asked either."""
    names = {str(row.get("judge")): None for _, _, row in scan(path) if row is not None}
    # That is most likely a misspelt name.
    if judge not in names and "/" not in judge:
        known = f"recorded: {', '.join(names)}; built-in: lexical; LLMs: provider/model"
        raise UsageError(f"judge={judge}: unknown{closest(judge, names)} ({known})")
    return judge in names


def _from_judge(
    settings: CalibrateSettings, labels: LabelSet, sample: Mapping[str, Any], folder: Path
) -> Calibrated:
    check_judge(settings)  # before the folder is made
    if (folder / CALIBRATION).exists() and not (folder / MANIFEST).exists():
        raise RunFolderError(
            f"{folder} holds a calibration from recorded verdicts; choose another out="
        )
    with claimed_folder(folder) as ledger:
        services = open_judge(settings, ledger)
        judge, totals = services.judge, ledger.totals
        asked = run_loop(_ask_all(settings, labels, services, folder, totals))
        labels, answers = asked.labels, asked.answers
        verdicts = _verdicts(judge, labels, answers, folder / VERDICTS)
        unheard: Counter[str] = Counter()
        for name, answer in answers.items():
            if answer.outcome in UNHEARD:
                unheard[labels.items[name].rubric] += 1
        reports = []
        for report in _reports(settings, labels, verdicts, sample):
            missing = unheard[report.rubric]
            most = settings.max_failures * len(labels.items_of(report.rubric))
            limits = [f"no response for {counted(missing, 'item')}"] if missing > most else []
            counts = {**report.counts, "unheard": missing}
            reports.append(replace(report, counts=counts).limited(*limits))
        row = bound(
            report_rows(reports, verdicts, labels) | _gates(settings),
            judge,
            today=asked.oldest,
            days=settings.valid_days,
            api_base=settings.judge_api_base,
            own=labels.own,
        )
        calls = summarise_calls(totals)
        row |= {"unheard": unheard.total(), "calls": calls.row(), **served_row(totals)}
        write_json(folder / CALIBRATION, row)
    return Calibrated(
        judge=judge.name,
        reports=tuple(reports),
        row=row,
        folder=folder,
        unheard=unheard.total(),
        left_out=asked.left_out,
        budget_spent=any(answer.outcome == "budget" for answer in answers.values()),
        too_many_unheard=unheard.total() > settings.max_failures * len(answers),
        calls=calls,
        served=served(totals),
        examples=_examples(labels, verdicts, row),
    )


def _folder(settings: CalibrateSettings, labels: LabelSet, of_run: str = "") -> Path:
    """Return a folder named after labels, judge, and a hash of all that verdicts depend on.

    `of_run` is the judge of a run, whose verdicts there are taken.
    """
    what = {
        **settings.model_dump(include={"judge", "judge_api_base", "judge_repeats"}),
        **settings.judge_sampling(),
    }
    if settings.judge_request:
        what["request"] = settings.judge_request
    if of_run:
        what["of_run"] = of_run
    # Without it, a changed setting would resume a folder of other verdicts.
    text = json.dumps([labels.sha256, what], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    names = (Path(settings.labels).name, (of_run or settings.judge).rpartition("/")[2])
    slugs = [slug(name) for name in names]
    return Path("calibrations") / "-".join([*filter(None, slugs), digest])


@dataclass(frozen=True)
class _JudgedItems:
    """Verdicts of a judge on labelled items.

    Attributes:
        labels: The items that it could be asked about.
        answers: Its verdicts by item.
        left_out: The rubrics that it does not rate.
        oldest: The day of the oldest verdict: a calibration that is resumed gets no younger.
    """

    labels: LabelSet
    answers: dict[str, Verdict]
    left_out: tuple[str, ...]
    oldest: date


async def _ask_all(
    settings: CalibrateSettings, labels: LabelSet, services: Services, folder: Path, totals: Totals
) -> _JudgedItems:
    """Ask the judge about every item that the journal has no verdict on.

    An item that could not be asked about is not written down.
    """
    judge = services.judge
    async with aclosing(services):
        labels = askable(judge, labels, Path(settings.labels).expanduser() / ITEMS)
        among_others = settings.labels == STRESS and settings.judge_repeats > 1
        asker = LabelledJudge(judge, labels, companions=COMPANIONS if among_others else 0)
        _claim(settings, labels, judge, asker.rubrics, folder)
        items = list(chain.from_iterable(map(labels.items_of, asker.rubrics)))
        key = partial(_item_judged, labels=labels, judge=judge.name)
        journal = Journal(folder / VERDICTS, key=key)
        verdicts: dict[str, Verdict] = {}
        # All workers take from one iterator, so that none asks what another one is asking.
        waiting = iter(items)
        try:
            with progress_line(f"calibrating {judge.name}", len(items), totals) as progress:

                async def work() -> None:
                    for item in waiting:
                        verdict = await _verdict(asker, item, journal, judge.name)
                        verdicts[item.item_id] = verdict
                        failure = "" if verdict.outcome == "ok" else str(verdict.outcome)
                        progress(verdict.outcome == "ok", failure)

                async with stopping_together(
                    work() for _ in range(settings.records_at_once)
                ) as workers:
                    await asyncio.gather(*workers)
            journal.settle(item.item_id for item in items)
            days = map(_day, filter(None, map(journal.get, verdicts)))
            oldest = min(filter(None, days), default=date.today())
        finally:
            journal.close()
    return _JudgedItems(labels, verdicts, asker.left_out, oldest)


def _item_judged(row: Row, labels: LabelSet, judge: str) -> str | None:
    """Return the item that a row of the journal is a verdict of `judge` on; None for other rows."""
    name = row.get("item_id")
    item = labels.items.get(name) if isinstance(name, str) else None
    if item is None or row.get("judge") != judge or _day(row) is None:
        return None
    if not isinstance(row.get("raw"), str | None) or not isinstance(row.get("error"), str | None):
        return None
    return item.item_id if _is_verdict(row, labels.scales[item.rubric]) else None


def _is_verdict(row: Row, scale: LabelScale) -> bool:
    """Tell whether outcome, verdict and draws of a row fit each other and the scale."""
    outcome, verdict, draws = row.get("outcome"), row.get("verdict"), row.get("draws", [])
    if outcome not in get_args(Outcome) or outcome in UNHEARD or not isinstance(draws, list):
        return False
    if (outcome == "ok") != (verdict is not None):
        return False
    values = (verdict, *draws)
    return all(value is None or on_scale(value, scale) is not None for value in values)


def _day(row: Row) -> date | None:
    """Return the day of a verdict in the journal; None without one, or with one to come."""
    try:
        day = date.fromisoformat(str(row.get("day")))
    except ValueError:
        return None
    return day if day <= date.today() + _FURTHEST_AHEAD else None


async def _verdict(asker: LabelledJudge, item: JudgedItem, journal: Journal, judge: str) -> Verdict:
    """Return the verdict in the journal, or ask for one and write it down."""
    row = journal.get(item.item_id)
    if row is not None:
        raw, draws, error = row.get("raw"), tuple(row.get("draws", ())), row.get("error")
        return Verdict(row["verdict"], raw, None, draws, row["outcome"], error)
    verdict = await asker.verdict(item)
    # What could not be asked is asked again when the same command goes on.
    if verdict.outcome not in UNHEARD:
        await journal.append_together(_row(item, verdict, judge))
    return verdict


def _row(item: JudgedItem, verdict: Verdict, judge: str) -> Row:
    row: Row = {
        "item_id": item.item_id,
        "judge": judge,
        "verdict": verdict.value,
        "outcome": verdict.outcome,
    }
    row |= {"draws": list(verdict.draws)} if verdict.draws else {}
    row |= {"error": verdict.error} if verdict.error else {}
    return {**row, "day": date.today().isoformat(), "raw": verdict.raw}


def _claim(
    settings: CalibrateSettings,
    labels: LabelSet,
    judge: Judge,
    rubrics: Iterable[str],
    folder: Path,
) -> None:
    fingerprint = judge.fingerprint_for(list(map(labels.rubric_of, rubrics)))
    manifest = build_manifest(
        # Only what verdicts depend on: with other workers or gates the folder is resumed.
        settings={
            "labels": settings.labels,
            "judge": judge.name,
            "judge_api_base": settings.judge_api_base,
        },
        system={},
        data={"labels": labels.sha256},
        prompts={},
        judge={"id": fingerprint_id(fingerprint), **fingerprint},
    )
    # A mistyped address must not spoil the folder: without verdicts nothing is resumed.
    verdicts = folder / VERDICTS
    claim(folder, manifest, begun=verdicts.is_file() and verdicts.stat().st_size > 0)


def _verdicts(
    judge: Judge, labels: LabelSet, answers: Mapping[str, Verdict], path: Path
) -> Verdicts:
    """Return the answers that the judge gave, in the order of the label folder."""
    verdicts: dict[str, Verdict] = {}
    # Workers finish in any order: that of the folder gives the same figures every time.
    for name in labels.items:
        answer = answers.get(name)
        if answer is not None and answer.outcome not in UNHEARD:
            verdicts[name] = answer
    if not verdicts:
        what = f"judge={judge.name}: no item was judged: {next(iter(answers.values())).error}"
        # A spent budget has an exit code of its own: the same command goes on with a larger one.
        if all(answer.outcome == "budget" for answer in answers.values()):
            raise BudgetError(f"{what}; to resume, repeat the command with a larger budget")
        raise UsageError(what)
    return Verdicts(judge.name, verdicts, hash_of(path))


def calibrate(*, judge: str, labels: str | Path, **settings: Any) -> Calibrated:
    """Compare a judge with people's labels, rubric by rubric.

    Args:
        judge: A litellm model, or `lexical`.
        labels: A folder of labels, or `stress`: items whose answers are known.
        settings: Any other setting of `alps calibrate`.

    Raises:
        AlpsError: If labels, judge or folder can't be used.
    """
    given = {"judge": judge, "labels": str(labels), **settings}
    parsed = parse_settings(plain(given), CalibrateSettings)
    return called(lambda: calibrate_judge(parsed))
