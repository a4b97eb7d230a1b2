"""From labels to a calibration: a judge is asked about the labelled items, or its recorded verdicts
are taken.

The folder of a calibration is much like that of a run: a manifest, the verdicts as a journal, the
calls, and `calibration.json` at the end. The same command again resumes it.
"""

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args

from alps.calibration.ask import Heard, LabelledJudge
from alps.calibration.gates import Gates
from alps.calibration.labels import (
    ITEMS,
    SCALE,
    STRESS,
    VERDICTS,
    Item,
    LabelSet,
    Verdict,
    Verdicts,
    on_scale,
    read_labels,
    read_verdicts,
    stress_labels,
)
from alps.calibration.report import RubricReport, calibrate, report_rows
from alps.calibration.rows import read_object
from alps.errors import BudgetError, RunFolderError, UsageError, closest
from alps.event_loop import run_loop
from alps.jsonl import Row, parse_json, scan
from alps.judges.base import Judge, fingerprint_id
from alps.judges.calibration_file import MATCHING, bound, rubric_of
from alps.judges.resolve import is_embedded_judge
from alps.judges.rubric import add_rubric
from alps.llm.ledger import Totals
from alps.run.engine import stopping_together
from alps.run.folder import MANIFEST, build_manifest, claim, claimed_folder, write_json
from alps.run.journal import Journal
from alps.run.progress import progress_line
from alps.run.services import Services, check_judge, closing, open_judge
from alps.run.session import effective_judge, refuse_without_effect
from alps.run.summary import served, summarise_calls
from alps.schema import UNHEARD, Outcome
from alps.settings import CalibrateSettings

SAMPLE, CALIBRATION = "sample.json", "calibration.json"
COMPANIONS = 4
"""Pairs of other items that a judge which is asked several times is shown with each pair of the
stress set.
"""
_FURTHEST_AHEAD = timedelta(days=2)
"""Time zones reach from UTC-12 to UTC+14: for two hours of a day, three dates are in use."""
_NOT_RANDOM = "items were not drawn at random: sensitivity and base rates are not those of a run"
_CHOSEN = "pairs were chosen by a judge's verdicts and by likeness: sensitivity and base rates are not those of a run"


@dataclass(frozen=True)
class Calibrated:
    """A finished calibration.

    Attributes:
        row: What stands in `calibration.json`.
        folder: Where it stands; None where none was asked for.
        unheard: Items that the judge could not be asked about; they are left out of all figures.
        left_out: Rubrics that the judge does not rate.
        budget_spent: Whether some were not asked for want of money.
    """

    judge: str
    reports: tuple[RubricReport, ...]
    row: dict[str, Any]
    folder: Path | None
    unheard: int = 0
    left_out: tuple[str, ...] = ()
    budget_spent: bool = False
    too_many_unheard: bool = False


def calibrate_judge(settings: CalibrateSettings) -> Calibrated:
    """Hold a judge against people's labels.

    Recorded verdicts are taken where `verdicts` names a file of them, or where the label folder has
    one that holds `judge`; else the judge is asked.

    Raises:
        AlpsError: If labels, verdicts, judge or folder can't be used.
    """
    refuse_without_effect(settings)
    labels, sample = _labels(settings.labels), _sample(settings.labels)
    folder = Path(settings.out) if settings.out else None
    if folder is not None and any((folder / name).exists() for name in (ITEMS, SCALE)):
        raise UsageError(f"out={settings.out}: is a label folder; choose another")
    recorded = _recorded(settings)
    if recorded is None:
        settings = effective_judge(settings)
        return _asked(settings, labels, sample, folder or _folder(settings, labels))
    verdicts = read_verdicts(recorded, settings.judge or None, labels=labels)
    reports = _reports(settings, labels, verdicts, sample)
    row = {**report_rows(reports, verdicts, labels), "made": date.today().isoformat()}
    if folder is not None:
        _refuse_another(folder, row)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"{folder}: {error.strerror}; choose another out=") from error
        write_json(folder / CALIBRATION, row)
    return Calibrated(verdicts.judge, tuple(reports), row, folder)


def _refuse_another(folder: Path, row: Mapping[str, Any]) -> None:
    """Refuse to write `row` over another calibration: of another judge, of other labels or of other
    verdicts.

    Raises:
        RunFolderError: What the folder holds, in one line.
    """
    if (folder / MANIFEST).exists():
        raise RunFolderError(
            f"{folder} holds a run, or a calibration whose judge was asked; choose another out="
        )
    path = folder / CALIBRATION
    if not path.exists():
        return
    try:
        there = parse_json(path.read_bytes())
    except (ValueError, OSError):
        there = None
    if not isinstance(there, dict):
        raise RunFolderError(f"{path}: can't be read, and is not written over; choose another out=")
    judges = f"another judge ({there.get('judge')}, not {row['judge']})"
    for name, what in (
        ("judge", judges),
        ("labels", "other labels"),
        ("fingerprint", "other verdicts"),
    ):
        if there.get(name) != row[name]:
            raise RunFolderError(f"{folder} holds a calibration of {what}; choose another out=")


def _labels(given: str) -> LabelSet:
    if given == STRESS:
        return stress_labels()
    folder = Path(given).expanduser()
    labels = read_labels(folder)
    ids: dict[str, Path] = {}
    for path in sorted(folder.glob("rubrics/*.md")):
        try:
            name = add_rubric(path).id
        except ValueError as error:
            raise UsageError(str(error)) from error
        except OSError as error:
            raise UsageError(f"{path}: can't be read ({error.strerror})") from error
        if ids.setdefault(name, path) is not path:
            # A judge is bound to what it is told by the ids: of two that are the same one would be
            # lost.
            raise UsageError(
                f"{ids[name]} and {path}: have the same id {name}; give each an id of its own"
            )
    return labels


def _sample(given: str) -> Mapping[str, Any]:
    """Return how the items of each rubric were drawn from a run, where they were drawn from one."""
    path = Path(given).expanduser() / SAMPLE
    if given == STRESS or not path.is_file():
        return {}
    drawn = read_object(path).values.get("rubrics")
    if not isinstance(drawn, dict) or not all(isinstance(found, dict) for found in drawn.values()):
        raise UsageError(
            f"{path}: not what alps labels draw wrote; remove it, or draw again next to {ITEMS}"
        )
    return drawn


def _reports(
    settings: CalibrateSettings, labels: LabelSet, verdicts: Verdicts, sample: Mapping[str, Any]
) -> list[RubricReport]:
    """Report on each rubric, with how its items were drawn and what follows from that."""
    reports = calibrate(labels, verdicts, gates=Gates(**settings.gates()), seed=settings.seed)  # type: ignore[arg-type]
    found = []
    for report in reports:
        drawn = sample.get(report.rubric)
        limits = (
            [_CHOSEN if report.rubric == MATCHING else _NOT_RANDOM]
            if drawn and drawn.get("random") is False
            else []
        )
        found.append(replace(report, details={**report.details, "sample": drawn}).limited(*limits))
    return found


def _recorded(settings: CalibrateSettings) -> Path | None:
    """Return the file of recorded verdicts that is meant, or None where the judge is to be asked."""
    if settings.verdicts:
        return Path(settings.verdicts).expanduser()
    there = Path(settings.labels).expanduser() / VERDICTS if settings.labels != STRESS else None
    if not settings.judge:
        if there is None or not there.is_file():
            raise UsageError(
                "judge= is missing (lexical, or a litellm model): there are no recorded verdicts"
            )
        return there
    if there is None or not there.is_file():
        return None
    names = {str(row.get("judge")): None for _, _, row in scan(there) if row is not None}
    if (
        settings.judge not in names
        and "/" not in settings.judge
        and not is_embedded_judge(settings.judge)
    ):
        known = f"recorded: {', '.join(names)}; embedded: lexical; LLMs: provider/model"
        raise UsageError(
            f"judge={settings.judge}: unknown{closest(settings.judge, names)} ({known})"
        )
    return there if settings.judge in names else None


def _asked(
    settings: CalibrateSettings, labels: LabelSet, sample: Mapping[str, Any], folder: Path
) -> Calibrated:
    check_judge(settings)
    if (folder / CALIBRATION).exists() and not (folder / MANIFEST).exists():
        raise RunFolderError(
            f"{folder} holds a calibration by recorded verdicts; choose another out="
        )
    with claimed_folder(folder) as ledger:
        services = open_judge(settings, ledger)
        judge = services.judge
        heard, asked, made = run_loop(_ask_all(settings, labels, services, folder, ledger.totals))
        verdicts = _verdicts(judge, labels, heard, folder / VERDICTS)
        unheard = [name for name, said in heard.items() if said.outcome in UNHEARD]
        missing = Counter(labels.items[name].rubric for name in unheard)
        reports = [
            _without(
                report,
                missing[report.rubric],
                settings.max_failures * len(labels.items_of(report.rubric)),
            )
            for report in _reports(settings, labels, verdicts, sample)
        ]
        found = report_rows(reports, verdicts, labels)
        row = bound(
            found, judge, today=made, days=settings.valid_days, api_base=settings.judge_api_base
        )
        row |= {
            "unheard": len(unheard),
            "calls": summarise_calls(ledger.totals),
            **served(ledger.totals),
        }
        write_json(folder / CALIBRATION, row)
    return Calibrated(
        judge=judge.name,
        reports=tuple(reports),
        row=row,
        folder=folder,
        unheard=len(unheard),
        left_out=asked.left_out,
        budget_spent=any(heard[name].outcome == "budget" for name in unheard),
        too_many_unheard=len(unheard) > settings.max_failures * len(heard),
    )


def _without(report: RubricReport, missing: int, most: float) -> RubricReport:
    """Say in a report how many items could not be asked about; above `most` of them it is a limit."""
    limits = [f"{missing} items could not be asked about"] if missing > most else []
    return replace(report, counts={**report.counts, "unheard": missing}).limited(*limits)


def _folder(settings: CalibrateSettings, labels: LabelSet) -> Path:
    """Return a folder named after labels and judge, and after everything that the verdicts depend
    on.
    """
    what = {
        **settings.model_dump(include={"judge", "judge_api_base", "judge_repeats"}),
        **settings.judge_sampling(),
    }
    what |= {"request": settings.judge_request} if settings.judge_request else {}
    digest = hashlib.sha256(json.dumps([labels.sha256, what], sort_keys=True).encode()).hexdigest()[
        :8
    ]
    names = (Path(settings.labels).name, settings.judge.rpartition("/")[2])
    slugs = (re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:40] for name in names)
    return Path("calibrations") / "-".join([*(slug for slug in slugs if slug), digest])


async def _ask_all(
    settings: CalibrateSettings, labels: LabelSet, services: Services, folder: Path, totals: Totals
) -> tuple[dict[str, Heard], LabelledJudge, date]:
    """Ask the judge about every item that the journal has no verdict on.

    What was not heard is not written down.

    The day is that of the oldest verdict: a calibration that is resumed gets no younger by that.
    """
    judge = services.judge
    async with closing(services):
        among_others = settings.labels == STRESS and settings.judge_repeats > 1
        asked = LabelledJudge(judge, labels, companions=COMPANIONS if among_others else 0)
        _claim(settings, labels, judge, asked.rubrics, folder)
        items = [item for name in asked.rubrics for item in labels.items_of(name)]
        journal = Journal(folder / VERDICTS, key=partial(_judged, labels=labels, judge=judge.name))
        heard: dict[str, Heard] = {}
        waiting = iter(items)
        try:
            with progress_line(f"calibrating {judge.name}", len(items), totals) as progress:

                async def work() -> None:
                    for item in waiting:
                        heard[item.item_id] = await _once(asked, item, journal, judge.name)
                        progress(heard[item.item_id].outcome == "ok")

                async with stopping_together(work() for _ in range(settings.workers)) as workers:
                    await asyncio.gather(*workers)
            journal.settle(item.item_id for item in items)
            rows = [row for item in items if (row := journal.get(item.item_id)) is not None]
        finally:
            journal.close()
    return (
        heard,
        asked,
        min((day for row in rows if (day := _day(row)) is not None), default=date.today()),
    )


def _judged(row: Row, labels: LabelSet, judge: str) -> str | None:
    """Return the item on which a row of the journal has a verdict of `judge`.

    None where it is no such row.
    """
    item = labels.items.get(name) if isinstance(name := row.get("item_id"), str) else None
    outcome, verdict, draws = row.get("outcome"), row.get("verdict"), row.get("draws", [])
    known = (
        outcome in get_args(Outcome)
        and outcome not in UNHEARD
        and (outcome == "ok") == (verdict is not None)
    )
    if (
        item is None
        or row.get("judge") != judge
        or not known
        or not isinstance(draws, list)
        or _day(row) is None
    ):
        return None
    said = [value for value in (verdict, *draws) if value is not None]
    if any(on_scale(value, labels.scales[item.rubric]) is None for value in said):
        return None
    return (
        item.item_id
        if all(isinstance(row.get(name), str | None) for name in ("raw", "error"))
        else None
    )


def _day(row: Row) -> date | None:
    """Return the day of a verdict in the journal.

    None where there is none, or one to come in every time zone.
    """
    try:
        day = date.fromisoformat(str(row.get("day")))
    except ValueError:
        return None
    return day if day <= date.today() + _FURTHEST_AHEAD else None


async def _once(asked: LabelledJudge, item: Item, journal: Journal, judge: str) -> Heard:
    if (row := journal.get(item.item_id)) is not None:
        return Heard(
            row["outcome"],
            row["verdict"],
            tuple(row.get("draws", ())),
            row.get("raw"),
            row.get("error"),
        )
    heard = await asked.verdict(item)
    if heard.outcome not in UNHEARD:
        journal.append(_row(item, heard, judge))
    return heard


def _row(item: Item, heard: Heard, judge: str) -> Row:
    row: Row = {
        "item_id": item.item_id,
        "judge": judge,
        "verdict": heard.value,
        "outcome": heard.outcome,
    }
    row |= {"draws": list(heard.draws)} if heard.draws else {}
    row |= {"error": heard.error} if heard.error else {}
    return {**row, "day": date.today().isoformat(), "raw": heard.raw}


def _claim(
    settings: CalibrateSettings,
    labels: LabelSet,
    judge: Judge,
    rubrics: Iterable[str],
    folder: Path,
) -> None:
    fingerprint = judge.fingerprint_for([rubric_of(name) for name in rubrics])
    manifest = build_manifest(
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
    claim(folder, manifest)


def _verdicts(judge: Judge, labels: LabelSet, heard: Mapping[str, Heard], path: Path) -> Verdicts:
    found = {
        name: Verdict(said.value, said.raw, None, said.draws)
        for name in labels.items
        if (said := heard.get(name)) is not None and said.outcome not in UNHEARD
    }
    if not found:
        what = f"judge={judge.name}: no item was judged: {next(iter(heard.values())).error}"
        if all(said.outcome == "budget" for said in heard.values()):
            raise BudgetError(f"{what}; the same command with a larger budget goes on")
        raise UsageError(what)
    return Verdicts(judge.name, found, hashlib.sha256(path.read_bytes()).hexdigest())
