"""Parts of extensions in a run: what each checks, wraps, asks and adds to the summary.

A run opens the parts of those extensions alone that its settings or its folder ask for, and the
course of a run (`alps.run.start`) calls each method of all of them at its time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.errors import UsageError
from alps.extension import Extension, extensions, load, made, sole

if TYPE_CHECKING:
    from alps.llm.types import Gathering
    from alps.rows import Summary
    from alps.run.collector import Outcome, RunPlan
    from alps.run.engine import TrackPlan
    from alps.run.estimate import Stage
    from alps.run.progress import Advance
    from alps.run.services import Services, Shared, UsedModel
    from alps.run.session import RunSession
    from alps.run.source import RunData
    from alps.settings import RunSettings

Estimated = Callable[["RunSettings", "RunData", Path, Path], "list[Stage]"]
"""Counts what a run of data asks, whose answers and verdicts lie in two folders."""


@dataclass(frozen=True)
class Course:
    """A run under way.

    Attributes:
        session: Its settings, its data and its folder.
        services: Who is asked.
        plan: What is evaluated.
        outcomes: What came out of each track; empty until all are answered.
    """

    session: "RunSession"
    services: "Services"
    plan: "RunPlan"
    outcomes: "Mapping[str, Outcome]"


class RunPart:
    """The part of an extension in one run; a method that it does not define does nothing.

    The methods are in the order in which a run calls them. All may raise an `AlpsError`. Those
    up to `check` are called on an object of their own, made before the settings take effect: the
    part that is then opened knows nothing of what they kept.
    """

    def __init__(self, settings: "RunSettings") -> None:
        self.settings = settings

    def refuse(self) -> None:
        """Refuse settings that can't be meant, before the data is opened."""

    def uses(self, key: str) -> bool:
        """Tell whether it makes use of a key of the spine that means nothing to the rest."""
        return False

    def narrow(self, data: "RunData") -> "RunData":
        """Return the data with those records alone that the run is of."""
        return data

    def check(self, data: "RunData", *, generate: bool, keys: bool) -> None:
        """Refuse what can't be carried out, before anything is written or paid for.

        Args:
            data: What is asked about.
            generate: Whether the system is asked; else finished predictions are judged.
            keys: Whether keys are asked for, too.
        """

    def asked(self) -> "Sequence[UsedModel]":
        """Return the LLMs that are asked besides model and judge: the budget counts them."""
        return ()

    def gather(self, folder: Path, shared: "Shared") -> "Gathering | None":
        """Return the collector of batched requests; None if each is sent alone."""
        return None

    def open(self, services: "Services", data: "RunData", folder: Path | None) -> "Services":
        """Return the services with what it puts before them; `folder` is None in a dry run."""
        return services

    async def begin(self, services: "Services", data: "RunData", *, generate: bool) -> None:
        """Ask what must be known before the folder is claimed; nothing is paid for."""

    def versions(self) -> Mapping[str, str]:
        """Return the versions of libraries that its answers depend on, for the manifest."""
        return {}

    def place(self, source: Path, folder: Path) -> None:
        """Bring what lies with the predictions of `source`, which are judged again in `folder`."""

    def more_records(self, data: "RunData") -> int:
        """Return how many answers it asks for besides those of the tracks."""
        return 0

    async def before(self, course: Course) -> None:
        """Do what comes before the first record."""

    async def more(self, course: Course, progress: "Advance") -> None:
        """Ask for more answers, once all tracks are scored."""

    async def after(self, course: Course) -> None:
        """Do what comes after the last record."""

    def summarise(self, summary: "Summary", course: Course) -> "Summary":
        """Return the summary with what it found."""
        return summary

    def conclude(self, session: "RunSession", spent: tuple[int, float]) -> bool:
        """Carry out what needs the finished run; return whether the budget stopped it.

        `spent` has the tokens and US dollars that the run took of its caps.
        """
        return False

    def conclusions(self, summary: "Summary", session: "RunSession") -> "Summary":
        """Return the summary with what that found, or an earlier command found so."""
        return summary

    def fault(self, summary: "Summary") -> str | None:
        """Return why the run fails though it is finished; None where it does not."""
        return None

    def rounds(self, plans: "Sequence[TrackPlan]") -> "Iterable[tuple[str, Sequence[TrackPlan]]]":
        """Yield, for a dry run, what else is evaluated, and its folder within that of the run."""
        return ()

    def stages(self, session: "RunSession", estimated: Estimated) -> "Sequence[Stage]":
        """Return, for a dry run, what else is asked."""
        return ()

    async def aclose(self) -> None:
        """Close what it opened, whatever happened."""


Parts = tuple[RunPart, ...]


def involved(settings: "RunSettings", folder: Path) -> list[Extension]:
    """Return the extensions that have a part in a run with these settings in this folder."""
    return [one for one in extensions() if _has_part(one, settings, folder)]


def _has_part(one: Extension, settings: "RunSettings", folder: Path) -> bool:
    # Keys that can't be added are left out, and were told of.
    if any(map(settings.is_given, type(settings).model_fields.keys() & {*one.part_if})):
        return True
    if not one.tasks.keys().isdisjoint(settings.task.split(",")):
        return True
    if one.part_after and (folder / one.part_after).exists():
        return True
    return one.has_part is not None and one.has_part(settings, folder)


def parts_of(settings: "RunSettings", folder: Path) -> Parts:
    """Open the parts that extensions have in a run.

    Raises:
        UsageError: If one that is named is none.
    """
    parts: list[RunPart] = []
    for one in involved(settings, folder):
        if one.part:
            kind = load(one.part)
            if not (isinstance(kind, type) and issubclass(kind, RunPart)):
                raise UsageError(f"the extension's {one.part} is no alps.run.parts.RunPart")
            parts.append(kind(settings))
    return tuple(parts)


def engine_of(settings: "RunSettings", folder: Path) -> Any:
    """Return what carries out a run in place of this process; None where nothing does."""
    from alps.run.summary import Finished

    one = sole((one for one in involved(settings, folder) if one.engine), "alps run")
    return None if one is None else partial(made, one.engine, Finished)
