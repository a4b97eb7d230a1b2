"""Judging of the same predictions in several cells: a judge, a wording of its rubrics, a draw.

Each cell of each run has a run folder of its own, so that it resumes, and nothing is asked twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.judging.prompts import Wording
from alps.judges.resolve import is_embedded_judge
from alps.keys import AskSettings
from alps.llm.ledger import counted_in
from alps.rows import Calls, Manifest
from alps.run.finished import Finished
from alps.run.folder import caps_left
from alps.run.opened import read_manifest, refuse_same_names
from alps.run.services import AskedAs
from alps.run.session import OF_THE_JUDGE
from alps.run.start import score_again

# Settings of the commands that judge in cells, of which a single run knows nothing.
_OUR_OWN = frozenset({"judge", "prompts", "draws", "format", "out", "max_cost", "max_total_tokens"})


@dataclass(frozen=True)
class Cell:
    """One way in which all predictions are judged.

    Attributes:
        name: Of its folder in that of a run.
        draw: Which independent draw of the judge, from 0.
    """

    name: str
    judge: str
    wording: Wording
    draw: int = 0


@dataclass(frozen=True)
class CellPlan:
    """What is to be judged.

    Attributes:
        sources: The runs whose predictions are judged.
        folders: For each run, in their order, where the scores of each cell land, by its name.
        notes: What is left out.
    """

    sources: tuple[Path, ...]
    cells: tuple[Cell, ...]
    folders: tuple[Mapping[str, Path], ...]
    max_cost: float | None
    max_total_tokens: int | None
    notes: tuple[str, ...]

    @property
    def out(self) -> Path:
        """The folder that those of all runs are in."""
        return next(iter(self.folders[0].values())).parent.parent

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges, in their order."""
        return tuple(dict.fromkeys(cell.judge for cell in self.cells))

    @property
    def wordings(self) -> tuple[Wording, ...]:
        """The wordings, in their order."""
        return tuple({cell.wording.name: cell.wording for cell in self.cells}.values())

    @property
    def announcement(self) -> str:
        """What will be done, in one line."""
        names = ", ".join(wording.name for wording in self.wordings)
        runs = str(self.sources[0]) if len(self.sources) == 1 else f"{len(self.sources)} runs"
        return (
            f"Nothing is generated: the predictions of {runs} are judged by "
            f"{', '.join(self.judges)} in the wordings {names}."
        )


@dataclass(frozen=True)
class JudgedCells:
    """A plan that was carried out; `finished` holds, for each run, what came of each cell."""

    plan: CellPlan
    finished: tuple[Mapping[str, Finished], ...]

    @property
    def budget_spent(self) -> bool:
        """Whether the budget stopped any of it."""
        return any(run.budget_spent for run in self._runs())

    @property
    def too_many_unscored(self) -> bool:
        """Whether in any cell more records are unscored than may be."""
        return any(run.too_many_unscored for run in self._runs())

    @property
    def calls(self) -> Calls:
        """What was asked in all cells together; a cost of which some is not known is None."""
        counts = dict.fromkeys(("http", "cached", "prompt_tokens", "completion_tokens"), 0)
        cost: float | None = 0.0
        for run in self._runs():
            calls = run.summary.calls
            for name in counts:
                counts[name] += getattr(calls, name)
            # A sum of the known prices alone would read as the bill.
            cost = None if cost is None or calls.cost is None else cost + calls.cost
        return Calls.model_validate({**counts, "cost": cost})

    def _runs(self) -> Iterator[Finished]:
        for row in self.finished:
            yield from row.values()


def plan_cells(
    sources: Sequence[Path],
    settings: AskSettings,
    cells: Sequence[Cell],
    *,
    kind: str,
    notes: Sequence[str] = (),
) -> CellPlan:
    """Lay out where every cell of every run lands: `out=`, else beside the first run.

    `kind` is what the folder beside the run is called for.
    """
    first = sources[0].resolve()
    beside = sources[0].parent if sources[0].name not in ("", "..") else first.parent
    out = Path(settings.out) if settings.out else beside / f"{first.name}--{kind}"
    folders = []
    for source in sources:
        folders.append({cell.name: out / source.resolve().name / cell.name for cell in cells})
    caps = settings.max_cost, settings.max_total_tokens
    return CellPlan(tuple(sources), tuple(cells), tuple(folders), *caps, tuple(notes))


def read_same_data(sources: Sequence[Path]) -> list[Manifest]:
    """Read the manifests of runs that can be judged together.

    Raises:
        UsageError: If there is none, two would land in one folder, or their data differ.
    """
    if not sources:
        raise UsageError("name at least one run")
    refuse_same_names(sources)
    manifests = [read_manifest(source) for source in sources]
    _check_same_data(sources, manifests)
    return manifests


def judge_cells(plan: CellPlan, given: Mapping[str, Any]) -> JudgedCells:
    """Judge every run in every cell; what is finished is not asked again.

    What a judge is asked beside the score (`extras`) is left out. Caps on money and tokens hold for
    all of it together.

    Args:
        plan: What is to be judged.
        given: The settings that were typed; the others stay as they were in each run.

    Raises:
        AlpsError: If a judge can't be used, or a folder holds another run.
    """
    judging = {key: value for key, value in given.items() if key not in _OUR_OWN}
    everywhere = [folder for row in plan.folders for folder in row.values()]
    finished: list[dict[str, Finished]] = []
    for source, row in zip(plan.sources, plan.folders, strict=True):
        finished.append({})
        for cell in plan.cells:
            folder = row[cell.name]
            own = {**_for_judge(cell.judge, judging), "out": str(folder), "extras": "none"}
            if not is_embedded_judge(cell.judge):
                # A run knows only what it spends itself.
                others = [other for other in everywhere if other != folder]
                own |= caps_left(plan, counted_in(others))
            asked_as = AskedAs(cell.wording.rubrics, cell.draw)
            finished[-1][cell.name] = score_again(source, own, asked_as=asked_as)
    return JudgedCells(plan, tuple(finished))


def _for_judge(judge: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that have an effect on this judge."""
    # What was typed for LLM judges would be refused beside an embedded one.
    ignored = (*OF_THE_JUDGE, "judge_structured") if is_embedded_judge(judge) else ()
    own = {key: value for key, value in given.items() if key not in ignored}
    return {**own, "judge": judge}


def _check_same_data(sources: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    """Refuse runs that can't be ranked, before they are paid for."""
    first = manifests[0].data.tracks
    for source, manifest in zip(sources[1:], manifests[1:], strict=True):
        tracks = manifest.data.tracks
        shared = [track for track in first if track in tracks]
        if not shared:
            raise UsageError(f"{source}: no track in common with {sources[0]}")
        if other := [track for track in shared if first[track].sha256 != tracks[track].sha256]:
            raise UsageError(
                f"{source}: not on the data of {sources[0]}: {other[0]} has another sha256"
            )
