"""Settings of `alps sensitivity` and `alps judges`."""

from pydantic import Field

from alps.keys import AskSettings
from alps.values import Format, HomePath


class SensitivitySettings(AskSettings):
    """What `alps sensitivity` can be told beside the runs."""

    judge: str = Field(description="a litellm model")
    prompts: str = Field(
        description="a folder of wordings: NAME/RUBRIC.md, or NAME.md for a single rubric"
    )
    out: HomePath | None = Field(
        None, description="where the scores land: RUN/WORDING; else beside the run"
    )
    format: Format = Field("table", description="table or json")


class JudgesSettings(AskSettings):
    """What `alps judges` can be told beside the runs."""

    judge: str = Field(
        "", description="judges, with commas between: litellm models or embedded ones"
    )
    prompts: str | None = Field(
        None, description="a folder of wordings: NAME/RUBRIC.md, or NAME.md for a single rubric"
    )
    draws: int = Field(
        1, ge=1, le=20, description="ask each LLM judge so often, each time a run of its own"
    )
    anchors: HomePath | None = Field(
        None, description="a folder: the first run's answers, judged once more without the cache"
    )
    level: float = Field(
        0.001, gt=0, lt=1, description="the share of checks of an unchanged judge that alarm"
    )
    out: HomePath | None = Field(
        None, description="where the scores land: RUN/JUDGE--WORDING; else beside the run"
    )
    format: Format = Field("table", description="table or json")
