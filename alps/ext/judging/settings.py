"""Settings of `alps judges`."""

from pydantic import Field

from alps.keys import AskSettings
from alps.values import Format, HomePath


class JudgesSettings(AskSettings):
    """What `alps judges` can be told beside the runs."""

    judge: str = Field(
        "", description="judges, with commas between: litellm models or embedded ones"
    )
    prompts: str | None = Field(
        None,
        description="a folder of prompt variants: NAME/RUBRIC.md, or NAME.md for a single rubric",
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
        None,
        description="folder of the scores: RUN/JUDGE--VARIANT in it, or RUN/VARIANT of one judge "
        "[next to the run]",
    )
    format: Format = Field("table", description="table or json")
