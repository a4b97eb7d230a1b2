"""Sweeps: many runs in one process, on shared limits and one budget; each has its own run folder.

What one of them loses stops no other. The same sweep again goes on where it was.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from alps import __version__
from alps.errors import AlpsError, RunFolderError, UsageError
from alps.event_loop import run_loop, stopping_together
from alps.ext.sweeps.plan import PlanError, SweepCell, SweepPlan, told_once
from alps.ext.sweeps.progress import SweepProgress
from alps.extension import blamed
from alps.folders import kept_working_folder, working_folder
from alps.llm.ledger import Totals, calls_in
from alps.run.course import answering_services, run_course
from alps.run.folder import changed_code, claimed_folder, refuse_other_files, repeating
from alps.run.fresh import begins_again, former_of, kept_former, made_room
from alps.run.opened import MANIFEST, SUMMARY, open_run
from alps.run.progress import Watched
from alps.run.services import (
    Shared,
    UsedModel,
    asked_models,
    capped,
    check_priced_models,
    open_cache,
)
from alps.run.session import RunSession, resolve, run_folder
from alps.run.source import RunData, open_data, options_of
from alps.run.summary import Finished, concluded, finished, lost_records, summarised
from alps.settings import RunSettings
from alps.show.formatting import counted

# Runs that are open at once: each holds about 6 files, and a process may often hold 1,024.
_OPEN = 64
Only = Literal["all", "failed"]


@dataclass(frozen=True)
class Ended:
    """An ended run of a sweep: its result, or the reason for having none."""

    cell: SweepCell
    folder: Path
    finished: Finished | None
    fault: str = ""

    @property
    def judge(self) -> str | None:
        """Who judged; None where there is nothing to compare."""
        if self.finished is None or self.finished.budget_spent:
            return None
        return self.finished.summary.judge

    @property
    def failure(self) -> str:
        """Why it is to be run again; nothing where it is complete."""
        if self.finished is None:
            return self.fault
        if self.finished.budget_spent:
            return "stopped by the budget"
        lost = lost_records(self.finished.summary)
        return self.finished.complaint or (counted(lost, "unscored record") if lost else "")


@dataclass(frozen=True)
class Swept:
    """A sweep that has ended; `left` were not to be run now."""

    plan: SweepPlan
    ended: tuple[Ended, ...]
    left: int = 0

    @property
    def failed(self) -> list[Ended]:
        """The runs that are not complete."""
        return [one for one in self.ended if one.failure]

    @property
    def budget_spent(self) -> bool:
        """Whether the budget stopped one of them."""
        return any(one.finished is not None and one.finished.budget_spent for one in self.ended)


def sweep(plan: SweepPlan, *, only: Only = "all", board: SweepProgress) -> Swept:
    """Run or resume the runs of a plan.

    Args:
        plan: The plan.
        only: `failed` leaves out what has not begun or is complete.
        board: Shows how far they are.

    Raises:
        PlanError: If the settings, the data or the folder of a run can't be used; nothing was asked
            then.
    """
    sessions = _resolved(plan)
    known = [_complete(session) for session in sessions]
    chosen = []
    for place, session in enumerate(sessions):
        begun = (session.folder / MANIFEST).exists()
        if known[place] is None and (begun or only == "all"):
            chosen.append(place)
    cells = plan.cells
    records = [session.settings.repeats * session.data.n for session in sessions]
    board.expect([cells[place] for place in chosen], [records[place] for place in chosen])
    running = _all(plan, [(cells[place], sessions[place]) for place in chosen], sessions, board)
    with kept_working_folder():
        ran = dict(zip(chosen, run_loop(running), strict=True))
    ended, left = [], 0
    for place, session in enumerate(sessions):
        if (done := known[place]) is not None:
            ended.append(Ended(cells[place], session.folder, done))
        elif place in ran:
            ended.append(ran[place])
        else:
            left += 1
    return Swept(plan, tuple(ended), left)


def _resolved(plan: SweepPlan) -> list[RunSession]:
    """Resolve every run before the first is asked anything; data that several share are read once.

    Raises:
        PlanError: With a line for each fault.
    """
    opened: dict[object, RunData] = {}
    sessions: list[RunSession] = []
    told: dict[str, list[str]] = {}
    for cell in plan.cells:
        try:
            session = resolve(_placed(cell, plan), opening=partial(_open_once, opened))
            refuse_other_files(session.folder)
            # Without a price a budget in dollars would never be spent.
            if plan.max_cost is not None:
                check_priced_models(_asked(session))
        except AlpsError as error:
            told.setdefault(str(error), []).append(str(cell))
        else:
            sessions.append(session)
    if told:
        raise PlanError(list(told_once(plan.name, told)))
    return sessions


def _placed(cell: SweepCell, plan: SweepPlan) -> RunSettings:
    """Return the settings of a run with its folder: in that of the sweep, under its own name."""
    if plan.out is None:
        return cell.settings
    folder = plan.out / run_folder(cell.settings).name
    return cell.settings.model_copy(update={"out": str(folder)})


def _complete(session: RunSession) -> Finished | None:
    """Return a run of which nothing is left to be asked; None where it is to be run."""
    folder = session.folder
    if not (folder / MANIFEST).exists() or not (folder / SUMMARY).exists():
        return None
    if session.settings.fresh:
        return None
    try:
        run = open_run(folder)
        summary = run.finished
    except (UsageError, RunFolderError):
        return None
    # After a change of version, code or data the run goes its usual way, which refuses or scores it
    # again.
    same = run.manifest.alps == __version__
    same = same and not changed_code(run.manifest.code, session.code)
    same = same and run.manifest.data.row() == session.data.description
    if not same or lost_records(summary) or summary.stopped_by_budget:
        return None
    most = session.settings.max_failures
    tasks, parts = session.data.tasks, session.parts
    return finished(folder, summary, tasks, most, budget_spent=False, parts=parts)


async def _all(
    plan: SweepPlan,
    chosen: Sequence[tuple[SweepCell, RunSession]],
    sessions: Sequence[RunSession],
    board: SweepProgress,
) -> list[Ended]:
    """Run them side by side; those of one model take turns, so that none holds up another."""
    shared = _shared(plan, sessions)
    models = {cell.settings.model for cell, _ in chosen}
    # A model that waits for its limit must not hold the places of the others.
    each = max(1, _OPEN // max(1, len(models)))
    turns = {model: asyncio.Semaphore(each) for model in models}

    async def run(place: int, cell: SweepCell, session: RunSession) -> Ended:
        async with turns[cell.settings.model]:
            try:
                done = await _run_beside_others(session, shared, board.watched(place))
                ended = Ended(cell, session.folder, done)
            except AlpsError as error:
                ended = Ended(cell, session.folder, None, str(error))
            except Exception as error:  # whatever it is, the other runs go on
                fault = blamed(error) or f"{type(error).__name__}: {error}"
                ended = Ended(cell, session.folder, None, fault)
        board.end(place, ended.failure)
        return ended

    work = (run(place, *one) for place, one in enumerate(chosen))
    try:
        with board:
            async with stopping_together(work) as running:
                return list(await asyncio.gather(*running))
    finally:
        await shared.aclose()


async def _run_beside_others(session: RunSession, shared: Shared, watched: Watched) -> Finished:
    """Carry out a run in a loop in which others run, too, on what they share; it has no audit.

    Raises:
        AlpsError: If the folder holds another run, or somebody can't be asked.
    """
    folder = session.folder
    # Not where the process is now: the class of a run beside it may have moved it.
    located = replace(session, folder=working_folder() / folder)
    refuse_other_files(located.folder)
    whole = made_room(located)
    with claimed_folder(located.folder) as ledger:
        begun = not begins_again(located.folder)
        ran = await run_course(
            located,
            services=answering_services(located, ledger, shared),
            ledger=ledger,
            judged=None,
            told=repeating(folder),
            manifest=None,
            watched=watched,
            begun=begun,
            shown=folder,
        )
        # Intervals take seconds, in which no other run could go on; and much memory.
        async with shared.summing:
            summary = await asyncio.to_thread(summarised, located, ran, ledger.totals)
        stopped = summary.stopped_by_budget
        done = concluded(located, summary, stopped=stopped, resumed=ran.resumed)
    former = kept_former(located.folder, was_whole=whole)
    return replace(done, folder=folder, former=former and former_of(folder))


def _asked(session: RunSession) -> list[UsedModel]:
    return asked_models(session.settings, session.data.tasks, session.parts)


def _open_once(opened: dict[object, RunData], settings: RunSettings) -> RunData:
    """Return the data of a run out of `opened`, or open them and keep them there."""
    named = settings.task, settings.data, settings.split, settings.limit, settings.seed
    opened_with = *named, options_of(settings)
    if opened_with not in opened:
        opened[opened_with] = open_data(settings)
    return opened[opened_with]


def _shared(plan: SweepPlan, sessions: Sequence[RunSession]) -> Shared:
    """Open what all runs share; the budget counts what earlier sweeps spent in these folders."""
    # Systems that ask no model need neither the cache nor a budget, nor the packages of either.
    if not any(_asked(session) for session in sessions):
        return Shared()
    from alps.llm.structured import Ladder

    before = Totals()
    for session in sessions:
        before.add_all(calls_in(session.folder / "calls.jsonl"))
    return Shared(open_cache(), capped(plan, before), Ladder())
