"""Judging of the same predictions under several wordings of a judge's rubrics."""

from collections.abc import Sequence
from pathlib import Path

from alps.errors import UsageError
from alps.ext.judging.grid import Cell, CellPlan, plan_cells, read_same_data
from alps.ext.judging.prompts import Wording, read_wordings, rubrics_of
from alps.ext.judging.settings import SensitivitySettings
from alps.judges.resolve import is_embedded_judge


def plan_wordings(sources: Sequence[Path], settings: SensitivitySettings) -> CellPlan:
    """Check runs, judge and wordings before anything is asked; a cell is named by its wording.

    Args:
        sources: Run folders; where there are several, all their common tracks must have the same
            data.
        settings: The judge, the folder of the wordings, and where the scores land.

    Raises:
        AlpsError: What can't be used, and why, in one line.
    """
    if is_embedded_judge(settings.judge):
        raise UsageError(
            f"judge={settings.judge}: no LLM is asked, so it has no wording; give a litellm model"
        )
    manifests = read_same_data(sources)
    folder = Path(settings.prompts).expanduser()
    others, notes = read_wordings(folder, rubrics_of(manifests))
    cells = []
    for wording in (Wording(), *others):
        cells.append(Cell(wording.name, settings.judge, wording))
    return plan_cells(sources, settings, cells, kind="sensitivity", notes=notes)
