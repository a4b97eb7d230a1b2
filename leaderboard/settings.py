"""What `alps submit`, `alps verify` and `alps rescore` can be told."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from alps.leaderboard.submission import Day, Slug
from alps.settings import HomePath, JudgeSettings


class SubmitSettings(BaseModel):
    """What `alps submit` can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[
        str | None, Field(description="what the system is called on the boards; else its model")
    ] = None
    org: Annotated[str | None, Field(description="who submits it")] = None
    url: Annotated[str | None, Field(description="where to read more; https://…")] = None
    notes: Annotated[str | None, Field(description="at most 2,000 characters")] = None
    kind: Annotated[
        Literal["llm", "memory", "retriever", "rules", "floor", "program", "python", "recorded"]
        | None,
        Field(description="of the system, where its name does not say it: memory, …"),
    ] = None
    snapshot: Annotated[
        str | None, Field(description="the dated version of the model behind it")
    ] = None
    open_weights: Annotated[
        bool | None, Field(description="yes or no: can everybody have the weights?")
    ] = None
    public: Annotated[
        bool | None, Field(description="yes or no: can everybody see the gold of these data?")
    ] = None
    calls: Annotated[bool, Field(description="yes: publish raw texts, errors and calls, too")] = (
        False
    )
    verdicts: Annotated[
        bool, Field(description="no: keep the judge's verdicts; its part can't be recomputed then")
    ] = True
    data: Annotated[
        str | None, Field(description="where the data lie, to check the scores on; a local folder")
    ] = None
    out: Annotated[
        HomePath | None, Field(description="the folder that is written; its name becomes the slug")
    ] = None
    date: Annotated[
        Day | None, Field(description="the day of the submission; today unless given")
    ] = None
    dry_run: Annotated[bool, Field(description="yes: only show what would be published")] = False


class VerifySettings(BaseModel):
    """What `alps verify` can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Annotated[
        str | None, Field(description="the data, where they are not the samples: a local folder")
    ] = None
    split: Annotated[
        str | None, Field(description="their split, where it is not the one on the card")
    ] = None
    base: Annotated[
        str | None, Field(description="a git reference, or another copy of the submissions' folder")
    ] = None
    changed: Annotated[
        str | None, Field(description="a file with the paths that changed, one a line")
    ] = None
    reviewed: Annotated[bool, Field(description="yes: a maintainer's review.json may be there")] = (
        False
    )
    record: Annotated[
        bool, Field(description="yes: a maintainer notes in review.json that it is schema-valid")
    ] = False
    continues: Annotated[
        Slug | None,
        Field(description="a maintainer knows: it comes from the submitter of that submission"),
    ] = None
    format: Annotated[Literal["table", "json"], Field(description="table or json")] = "table"


class RescoreSettings(JudgeSettings):
    """What `alps rescore` can be told; `out` is the folder that the new verdicts are kept in."""

    data: Annotated[
        str | None,
        Field(description="the data with their gold, maybe private; samples where it is them"),
    ] = None
    split: Annotated[
        str | None, Field(description="their split, where it is not the one on the card")
    ] = None
    status: Annotated[
        Literal["re-scored", "reproduced"],
        Field(description="reproduced: the system was run again"),
    ] = "re-scored"
    note: Annotated[
        str | None, Field(description="what a reader should know; at most 2,000 characters")
    ] = None
    date: Annotated[Day | None, Field(description="the day of the review; today unless given")] = (
        None
    )
    dry_run: Annotated[
        bool, Field(description="say what judging would ask and cost, without one request")
    ] = False
