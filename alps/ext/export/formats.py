"""Formats that `alps export` knows, its settings, and the export of runs in one of them."""

from collections.abc import Callable, Sequence
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


_FORMATS: dict[Target, str] = {
    "csv": "alps.ext.export.rows:write_csv",
    "parquet": "alps.ext.export.rows:write_parquet",
    "hf": "alps.ext.export.rows:write_hf",
    "inspect": "alps.ext.export.inspect_logs:write_inspect",
    "mlflow": "alps.ext.export.rows:write_mlflow",
    "wandb": "alps.ext.export.rows:write_wandb",
}
_EXTRAS = ("inspect", "mlflow", "wandb")
"""The formats whose library an extra of the same name brings."""


def export_runs(folders: Sequence[Path], settings: ExportSettings) -> list[Path]:
    """Write runs into a new folder; return what was written.

    Raises:
        UsageError: If two runs have one name, a run is not finished, the extra of the format is
            not installed, or there is something in the folder.
        RunFolderError: If a run, or the folder, can't be read or written.
    """
    from alps.run.opened import open_run, refuse_same_names

    out = Path(settings.out)
    # The name of its folder is a run's in every table.
    refuse_same_names(folders)
    runs = [open_run(folder) for folder in folders]
    for run in runs:
        # A run without a summary is refused before a folder is made.
        _ = run.finished
    refuse_full(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        return _written(settings.format, runs, out)
    except OSError as error:
        raise RunFolderError(f"{out}: {error.strerror or error}; choose another out=") from error


def _written(name: Target, runs: "Sequence[RunFolder]", out: Path) -> list[Path]:
    try:
        # Some writers import the library of their extra only when they are called.
        writer: Writer = load(_FORMATS[name])
        return writer(runs, out)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        extra = f"pip install 'alps-eval[{name}]'"
        raise UsageError(f"format={name} needs {error.name}: {extra}") from error
