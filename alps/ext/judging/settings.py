"""Settings of `alps judges`."""

from pydantic import Field

from alps.keys import AskSettings, Format, HomePath


class JudgesSettings(AskSettings):
    """Settings of `alps judges`."""

    judge: str = Field("", description="judges, separated by commas")
    # The same LoCoMo answers got 91 % and 35 % under two prompts of a judge
    # (mem0ai/memory-benchmarks).
    prompts: str | None = Field(
        None,
        description="folder of prompt variants: NAME/RUBRIC.md, or NAME.md for a single rubric",
    )
    # A judge at temperature 0 may still answer otherwise: draws tell that noise from a change.
    draws: int = Field(
        1, ge=1, le=20, description="verdicts per item by each LLM judge, each as its own run"
    )
    anchors: HomePath | None = Field(
        None, description="folder for the first run's answers, judged again without the cache"
    )
    # A check may run every night: at .05 an unchanged judge would raise an alarm every 20 nights.
    level: float = Field(
        0.001, gt=0, lt=1, description="accepted rate of false alarms if the judge did not change"
    )
    out: HomePath | None = Field(
        None,
        description="folder for the scores; subfolders are RUN/JUDGE--VARIANT, or RUN/VARIANT for "
        "one judge [next to the run]",
    )
    format: Format = Field("table", description="table or json")
