"""A finished run, and what is to be said where too much of it failed."""

from dataclasses import dataclass, replace
from pathlib import Path

from alps.data.release import GOLD
from alps.llm.ledger import Totals
from alps.rows import CurvePoint, Summary, TrackSummary
from alps.run.course import RunResult
from alps.run.folder import write_summary
from alps.run.parts import Parts
from alps.run.session import RunSession
from alps.run.summary import summarise_run
from alps.schema import FAILURES
from alps.systems.base import STDERR, TRACEBACKS
from alps.tasks import Task


@dataclass(frozen=True)
class Finished:
    """A finished run.

    Attributes:
        too_many_unscored: Whether a larger share of the records than `max_failures` is unscored.
        complaint: What to say of a run of which a larger share failed or is unscored, with the
            first error; else None.
        resumed: How many of its answers an earlier command had left in the folder.
        former: Where the run is that this one took the place of; None where it took none.
    """

    folder: Path
    summary: Summary
    tasks: tuple[Task, ...]
    too_many_unscored: bool
    budget_spent: bool
    complaint: str | None = None
    resumed: int = 0
    former: Path | None = None


def summarised(session: RunSession, ran: RunResult, totals: Totals) -> Summary:
    """Summarise a run and write its summary."""
    data, course = session.data, ran.course
    summary = summarise_run(session.settings, data, course.plan, course.outcomes, totals)
    if ran.judge_check is not None:
        told = {"judge_check": ran.judge_check, "judge_check_before": ran.judge_check_before}
        summary = summary.model_copy(update=told)
    for part in session.parts:
        summary = part.summarise(summary, course)
    write_summary(session.folder, summary)
    return summary


def concluded(session: RunSession, summary: Summary, *, stopped: bool, resumed: int) -> Finished:
    """Finish a run with what extensions made of it, in earlier commands, too."""
    folder, whole = session.folder, summary
    for part in session.parts:
        whole = part.conclusions(whole, session)
    if whole is not summary:
        write_summary(folder, whole)
    done = finished(
        folder,
        whole,
        session.data.tasks,
        session.settings.max_failures,
        budget_spent=stopped,
        resumed=resumed,
        parts=session.parts,
    )
    folders = [one.place for one in session.data.tracks if isinstance(one.place, Path)]
    absent = [place / GOLD for place in folders if not (place / GOLD).is_file()]
    if done.complaint is None or not absent:
        return done
    return replace(done, complaint=f"{done.complaint}; no gold, since {absent[0]} is not there")


def finished(
    folder: Path,
    summary: Summary,
    tasks: tuple[Task, ...],
    max_failures: float,
    *,
    budget_spent: bool,
    resumed: int = 0,
    parts: Parts = (),
) -> Finished:
    """Return a run with its complaint, such as too many failures."""
    n = sum(track.n for track in counted_parts(summary))
    faults = (part.fault(summary) for part in parts)
    fault = next((fault for fault in faults if fault is not None), None)
    return Finished(
        folder,
        summary,
        tasks,
        too_many_unscored=lost_records(summary) > max_failures * n,
        budget_spent=budget_spent,
        complaint=_complaint(summary, max_failures, folder) or fault,
        resumed=resumed,
    )


def counted_parts(summary: Summary) -> list[TrackSummary | CurvePoint]:
    """Return the tracks of a run, and its points at smaller sizes of the context."""
    parts: list[TrackSummary | CurvePoint] = [*summary.tracks.values()]
    for track in summary.tracks.values():
        # The last point is the score of the run.
        parts += [] if track.curve is None else track.curve.points[:-1]
    return parts


def lost_records(summary: Summary) -> int:
    """Return how many records are unscored because a system or a judge was not heard."""
    # Answers that its judge can't rate by any rubric are unscored, and yet nothing went wrong.
    lost = 0
    for track in counted_parts(summary):
        kinds = track.failed_predictions.keys() - set(FAILURES)
        lost += sum(track.failed_predictions[kind] for kind in kinds)
        lost += sum(track.failed_judgements.values())
    return lost


def _complaint(summary: Summary, most: float, folder: Path) -> str | None:
    """Say that more than the share `most` failed or is unscored, with the first error."""
    tracks, unscored, failed = counted_parts(summary), lost_records(summary), 0
    n = sum(track.n for track in tracks)
    errors: list[str] = []
    for track in tracks:
        failed += sum(track.failed_predictions.get(kind, 0) for kind in FAILURES)
        for kind, error in track.errors.items():
            if not kind.startswith("floor/"):
                errors.append(f"; {kind}: {error}")
    if failed + unscored <= most * n:
        return None
    counts = [f"{failed} of {n} predictions failed"] if failed else []
    counts += [f"{unscored} of {n} {'is' if unscored == 1 else 'are'} unscored"] if unscored else []
    account = f"{', '.join(counts)}: more than max_failures={100 * most:g}%"
    logs = [folder / name for name in (TRACEBACKS, STDERR) if (folder / name).is_file()]
    more = f" (more in {logs[0]})" if logs else ""
    return f"{account}{''.join(errors[:1])}{more}"
