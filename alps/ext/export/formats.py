"""Formats that `alps export` knows, its settings, and the export of runs in one of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from alps.errors import RunFolderError, UsageError
from alps.extension import load
from alps.folders import refuse_full
from alps.keys import FrozenSettings, HomePath

if TYPE_CHECKING:
    from alps.run.opened import RunFolder

Target = Literal["csv", "parquet", "hf", "inspect", "mlflow", "wandb"]


class ExportSettings(FrozenSettings):
    """Settings of `alps export`."""

    format: Target = Field(description="csv, parquet, hf, inspect, mlflow or wandb")
    out: HomePath = Field(description="folder to write")


Writer = Callable[["Sequence[RunFolder]", Path], list[Path]]


@dataclass(frozen=True)
class _Format:
    """Where its writer is, and the extra that brings its library; empty where alps has it."""

    writer: str
    extra: str = ""


_FORMATS: dict[Target, _Format] = {
    "csv": _Format("alps.ext.export.rows:write_csv"),
    "parquet": _Format("alps.ext.export.rows:write_parquet"),
    "hf": _Format("alps.ext.export.rows:write_hf"),
    "inspect": _Format("alps.ext.export.inspect_logs:write_inspect", "inspect"),
    "mlflow": _Format("alps.ext.export.rows:write_mlflow", "mlflow"),
    "wandb": _Format("alps.ext.export.rows:write_wandb", "wandb"),
}


def export_runs(folders: Sequence[Path], settings: ExportSettings) -> list[Path]:
    """Write runs into a new folder; return what was written.

    Raises:
        UsageError: If two runs have one name, a run is not finished, the extra of the format is
            not installed, or there is something in the folder.
        RunFolderError: If a run, or the folder, can't be read or written.
    """
    from alps.run.opened import open_run, refuse_same_names

    out, form = Path(settings.out), _FORMATS[settings.format]
    # The name of its folder is a run's in every table.
    refuse_same_names(folders)
    runs = [open_run(folder) for folder in folders]
    for run in runs:
        _ = run.finished
    refuse_full(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        return _written(form, settings.format, runs, out)
    except OSError as error:
        raise RunFolderError(f"{out}: {error.strerror or error}; choose another out=") from error


def _written(form: _Format, name: str, runs: "Sequence[RunFolder]", out: Path) -> list[Path]:
    try:
        # Some writers import the library of their extra only when they are called.
        writer: Writer = load(form.writer)
        return writer(runs, out)
    except ModuleNotFoundError as error:
        if not form.extra:
            raise
        raise UsageError(
            f"format={name} needs {error.name}: pip install 'alps-eval[{form.extra}]'"
        ) from error
