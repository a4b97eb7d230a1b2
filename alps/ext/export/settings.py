"""Settings of `alps export`."""

from typing import Literal

from pydantic import Field

from alps.keys import FrozenSettings, HomePath

Target = Literal["csv", "parquet", "hf", "inspect", "mlflow", "wandb"]


class ExportSettings(FrozenSettings):
    """Settings of `alps export`."""

    format: Target = Field(description="csv, parquet, hf, inspect, mlflow or wandb")
    out: HomePath = Field(description="folder to write")
