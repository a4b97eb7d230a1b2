"""Course of a run: its folder is claimed, its tracks are run, and parts of extensions called."""

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.judges.admission import Checks, admit_judge
from alps.judges.base import fingerprint_id
from alps.judges.embedded import embedded_judge, is_embedded_judge
from alps.llm.ledger import Ledger
from alps.run.collector import Journals, RunPlan, run_tracks
from alps.run.engine import TrackPlan
from alps.run.folder import (
    Predictions,
    add_learned,
    build_manifest,
    claim,
    prompt_hashes,
    write_config,
)
from alps.run.opened import MANIFEST, PREDICTIONS, read_manifest
from alps.run.parts import Course, Parts
from alps.run.progress import Watched, progress_line
from alps.run.services import AS_EVER, AskedAs, Services, Shared, open_services
from alps.run.session import DATA_ASKED, RunSession
from alps.run.source import RunData, TrackData
from alps.run.summary import served_row
from alps.schema import UNHEARD
from alps.settings import RunSettings
from alps.systems import NO_SYSTEM, Unheard, floor_systems, is_local
from alps.systems.resolve import in_variants
from alps.tasks import Task
from alps.tasks.base import JudgingOptions, rubrics_of

if TYPE_CHECKING:
    from alps.llm.structured import Ladder

STRUCTURED = "structured"


@dataclass(frozen=True)
class RunResult:
    """How a run went, how many answers were there when it began, and the check of its judge."""

    course: Course
    resumed: int
    judge_check: Checks | None
    judge_check_before: Checks | None


async def run_course(
    session: RunSession,
    *,
    services: Services,
    ledger: Ledger,
    judged: Predictions | None,
    told: Sequence[str],
    manifest: Mapping[str, Any] | None,
    begun: bool,
    shown: Path,
    watched: Watched = progress_line,
    asked_as: AskedAs = AS_EVER,
) -> RunResult:
    """Claim the folder, and ask, judge and score what its journals do not hold yet.

    Args:
        session: The settings, the data, the folder and the parts of extensions.
        services: Who is asked; they are closed in the end.
        ledger: What the calls are written to.
        judged: Finished predictions that are judged again, if they are.
        told: Lines above the settings that repeat the run.
        manifest: Manifest of the folder whose journals are scored without a run.
        begun: Whether there is anything in the folder to go on from.
        shown: The folder as messages call it.
        watched: Shows how it goes on.
        asked_as: How an LLM judge is asked.

    Raises:
        AlpsError: If the folder holds another run, or somebody can't be asked.
    """
    settings, data, folder = session.settings, session.data, session.folder
    judge = services.judge
    async with aclosing(services):
        for part in services.parts:
            await part.begin(services, data, generate=judged is None)
        merging = manifest is not None
        if manifest is None:
            manifest = _manifest(session, services, judged)
        _claim(session, manifest, judged, begun=begun, shown=shown)
        _resume_modes(settings, folder, services.ladder)
        write_config(folder, _given(settings), told=told)
        plan = _plan(session, services)
        journals = plan.journals
        resumed = _answered(journals) if judged is None and not merging else 0
        try:
            more = sum(part.more_records(data) for part in services.parts)
            total = settings.repeats * (data.n + more)
            title = f"{settings.task} {services.systems[0][0].name}"
            if resumed:
                title += f", resumed with {resumed:,} answered"
            course = Course(session, services, plan, {})
            for part in services.parts:
                await part.before(course)
            with watched(title, total, ledger.totals) as progress:
                checked = await admit_judge(
                    judge,
                    rubrics_of(data.tasks),
                    folder,
                    totals=ledger.totals,
                    check=settings.judge_check and asked_as is AS_EVER,
                    ask=not merging,
                )
                plan = plan.under(checked.judge)
                outcomes = await run_tracks(plan, progress=progress)
                course = Course(session, services, plan, outcomes)
                for part in services.parts:
                    await part.more(course, progress)
            for part in services.parts:
                await part.after(course)
        finally:
            journals.close()
            modes = _structured_modes(settings, data.tasks, services.ladder)
            add_learned(folder, {STRUCTURED: modes, **served_row(ledger.totals)})
    return RunResult(course, resumed, checked.checks, checked.before)


def _answered(journals: Journals) -> int:
    """Return how many answers are there; others are asked for again."""
    rows = map(journals.predictions.get, journals.predictions.keys())
    return sum(row is not None and row.get("outcome") not in UNHEARD for row in rows)


def _plan(session: RunSession, services: Services) -> RunPlan:
    """Open the journals of the folder, and say who answers and judges which records."""
    settings, judge = session.settings, services.judge
    floor_judge = judge if judge.comparable else embedded_judge("lexical")
    return RunPlan(
        tracks=track_plans(settings, session.data, services, session.folder),
        judge=judge,
        options=JudgingOptions(extras=settings.extras == "judge"),
        floor_judge=floor_judge,
        journals=Journals.open(session.folder, baselines=floor_judge.comparable),
        workers=settings.records_at_once,
        places=_places(settings, services),
    )


def _places(settings: RunSettings, services: Services) -> AbstractAsyncContextManager[None]:
    """Return what a record waits for before it is read, so that memory does not grow with them."""
    if services.batches is not None and services.batches.places is not None:
        return services.batches.places
    if services.shared is None:
        return nullcontext()
    at_once = settings.records_at_once
    return services.shared.places_of(settings.model, settings.api_base, at_once)


def track_plans(
    settings: RunSettings, data: RunData, services: Services, folder: Path | None = None
) -> tuple[TrackPlan, ...]:
    """Return what is evaluated on each track of a run."""
    return tuple(
        TrackPlan(
            track.task,
            partial(track.samples, data.sessions),
            systems,
            floor_systems(track.task, folder),
            floor_sample=_floor_sample(settings, track),
            n=track.n,
            sessions=data.sessions,
        )
        for track, systems in zip(data.tracks, services.systems, strict=True)
    )


def _floor_sample(settings: RunSettings, track: TrackData) -> frozenset[int]:
    """Draw the positions of records on which floors are judged by calls: in every run the same."""
    size = min(settings.baseline_records, track.n)
    drawn = random.Random(f"{settings.seed} {track.task.track}").sample(range(track.n), size)
    return frozenset(drawn)


def _claim(
    session: RunSession,
    manifest: Mapping[str, Any],
    judged: Predictions | None,
    *,
    begun: bool,
    shown: Path,
) -> None:
    """Claim the folder, and bring finished predictions into it.

    They come first: without them the manifest would vouch for a run that can't be judged.
    """
    folder = session.folder
    if judged is not None:
        for part in session.parts:
            part.place(judged.source, folder)
    if judged is not None and not (folder / MANIFEST).exists():
        judged.place(folder)
    claim(folder, manifest, begun=begun, shown=shown)
    if judged is not None and not (folder / PREDICTIONS).exists():
        judged.place(folder)


def _manifest(
    session: RunSession, services: Services, judged: Predictions | None
) -> dict[str, Any]:
    settings, data = session.settings, session.data
    fingerprint = services.judge.fingerprint_for(rubrics_of(data.tasks))
    manifest = build_manifest(
        settings=settings.recorded(),
        system=_described(services),
        data=data.description,
        prompts=prompt_hashes(data.tasks, support=settings.extras == "judge"),
        judge={"id": fingerprint_id(fingerprint), **fingerprint},
        predictions=None if judged is None else judged.sha256,
        structured=_structured_modes(settings, data.tasks, services.ladder),
        code=session.code,
    )
    for part in session.parts:
        manifest["versions"] |= part.versions()
    if data.asked not in (None, settings.data):
        manifest[DATA_ASKED] = data.asked
    return manifest


def _described(services: Services) -> dict[str, Any]:
    """Return the system as the manifest has it; a memory is before some of the tracks alone."""
    first = services.systems[0][0]
    memories: dict[str, Any] = {}
    for row in services.systems:
        memories |= {"memory": row[0].settings["memory"]} if "memory" in row[0].settings else {}
    return {"name": first.name, **first.settings, **memories}


def _given(settings: RunSettings) -> dict[str, Any]:
    """Return the settings that were given, in the order of their definition."""
    names = (name for name in RunSettings.model_fields if name in settings.model_fields_set)
    return {name: getattr(settings, name) for name in names}


def _structured_modes(
    settings: RunSettings, tasks: Sequence[Task], ladder: "Ladder | None"
) -> dict[str, str]:
    """Return the modes in which `model` and `judge` are asked, if LLMs that give typed answers."""
    modes: dict[str, str] = {}
    if ladder is None:
        return modes
    if not is_local(settings.model, tasks) and not all(task.asking.plain for task in tasks):
        modes["model"] = settings.structured or ladder.mode(settings.model, settings.api_base)
    if not is_embedded_judge(settings.judge):
        modes["judge"] = settings.judge_structured or ladder.mode(
            settings.judge, settings.judge_api_base
        )
    return modes


def _resume_modes(settings: RunSettings, folder: Path, ladder: "Ladder | None") -> None:
    """Begin with the modes that earlier sessions came to, so no endpoint need refuse one again."""
    if ladder is None:
        return
    from alps.llm.structured import MODES

    kept = read_manifest(folder).structured
    asked = {
        "model": (settings.model, settings.api_base),
        "judge": (settings.judge, settings.judge_api_base),
    }
    for role, (model, api_base) in asked.items():
        mode = kept.get(role) if isinstance(kept, dict) else None
        if mode in MODES:
            ladder.resume(model, api_base, mode)


def answering_services(
    session: RunSession, ledger: Ledger, shared: Shared | None = None
) -> Services:
    """Open the systems and the judge of a run; `shared` is what runs beside it use, too.

    Raises:
        AlpsError: If somebody can't be asked, or the part of an extension can't be opened.
    """
    data, folder = session.data, session.folder
    services = open_services(
        session.settings,
        data.tasks,
        ledger,
        folder,
        id_key=data.id_key,
        shared=shared,
        parts=session.parts,
    )
    return wrapped(services, data, folder)


def judging_services(
    settings: RunSettings,
    tasks: Sequence[Task],
    ledger: Ledger,
    folder: Path | None,
    asked_as: AskedAs = AS_EVER,
    *,
    parts: Parts = (),
) -> Services:
    """Open a judge but no system: missing predictions stay missing."""
    judging = open_services(
        settings.model_copy(update={"model": NO_SYSTEM}),
        tasks,
        ledger,
        folder,
        asked_as,
        parts=parts,
    )
    systems = tuple((Unheard(settings.model),) * settings.repeats for task in tasks)
    return replace(judging, systems=systems)


def wrapped(services: Services, data: RunData, folder: Path | None) -> Services:
    """Return the services with their systems as the samples of `data` are asked.

    `folder` is that of the run; None in a dry run.

    Raises:
        AlpsError: If the part of an extension can't be opened.
    """
    rows = []
    for track, systems in zip(data.tracks, services.systems, strict=True):
        rows.append(tuple(in_variants(system, track.task) for system in systems))
    services = replace(services, systems=tuple(rows))
    for part in services.parts:
        services = part.open(services, data, folder)
    return services
