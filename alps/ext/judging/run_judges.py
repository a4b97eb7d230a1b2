"""Judging of the same predictions by several judges under several wordings, in several draws.

Trivial judges stand beside them: `lexical`, and two that always say the same.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from alps.errors import UsageError
from alps.ext.judging.grid import Cell, CellPlan, plan_cells, read_same_data
from alps.ext.judging.prompts import Wording, read_wordings, rubrics_of
from alps.ext.judging.settings import JudgesSettings
from alps.folders import same_file, slug
from alps.judges.embedded import CONSTANT_JUDGES, LexicalJudge
from alps.judges.resolve import is_embedded_judge

TRIVIAL_JUDGES = (LexicalJudge.name, *CONSTANT_JUDGES)


def plan_judges(sources: Sequence[Path], settings: JudgesSettings) -> CellPlan:
    """Check runs, judges and wordings before anything is asked.

    The cells are those of a crossed design of all LLM judges, wordings and draws; an embedded judge
    has one, and so has each trivial judge, in the end.

    Args:
        sources: Run folders; where there are several, all their common tracks must have the same
            data.
        settings: The judges, the folder of the wordings, and where the scores land.

    Raises:
        AlpsError: What can't be used, and why, in one line.
    """
    if not settings.judge:
        raise UsageError("name the judges, judge=a,b, or anchors=RUN for a drift between two runs")
    if "level" in settings.model_fields_set:
        raise UsageError(f"level={settings.level} would change nothing without anchors=RUN")
    judges = [name.strip() for name in settings.judge.split(",")]
    _check_names(judges)
    asked = [name for name in judges if not is_embedded_judge(name)]
    for key, value in (("prompts", settings.prompts), ("draws", settings.draws)):
        if not asked and value not in (None, 1):
            raise UsageError(f"{key}={value} would change nothing: no judge is a litellm model")
    manifests = read_same_data(sources)
    notes: tuple[str, ...] = ()
    wordings: tuple[Wording, ...] = (Wording(),)
    if settings.prompts is not None:
        folder = Path(settings.prompts).expanduser()
        others, notes = read_wordings(folder, rubrics_of(manifests))
        wordings = (Wording(), *others)
    cells: list[Cell] = []
    for judge in dict.fromkeys((*judges, *TRIVIAL_JUDGES)):
        if judge in asked:
            cells += _crossed(judge, wordings, settings.draws)
        else:
            cells.append(Cell(slug(judge), judge, Wording()))
    _check_cells(cells)
    return plan_cells(sources, settings, cells, kind="judges", notes=notes)


def _crossed(judge: str, wordings: Iterable[Wording], draws: int) -> list[Cell]:
    cells = []
    for wording in wordings:
        for draw in range(draws):
            again = f"--draw{draw + 1}" if draw else ""
            cells.append(Cell(f"{slug(judge)}--{wording.name}{again}", judge, wording, draw))
    return cells


def _check_names(judges: Sequence[str]) -> None:
    for judge in judges:
        if not judge:
            raise UsageError("judge=: names no judge between two commas")
        if judges.count(judge) > 1:
            raise UsageError(f"judge={judge}: named twice")


def _check_cells(cells: Sequence[Cell]) -> None:
    folders: dict[str, Cell] = {}
    for cell in cells:
        other = folders.setdefault(same_file(cell.name), cell)
        if other is not cell:
            about = "" if other.judge != cell.judge else f" in the wording {other.wording.name}"
            raise UsageError(f"judge={cell.judge}: would have the folder of {other.judge}{about}")
