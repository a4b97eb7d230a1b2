"""The settings of submit, verify, rescore, leaderboard build and leaderboard serve."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from alps.leaderboard.submission import Kind
from alps.leaderboard.untrusted import Day, Slug
from alps.settings import JudgeSettings
from alps.values import HomePath, Share


class SubmitSettings(BaseModel):
    """Settings of `alps leaderboard submit`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(
        None, description="what the system is called on the boards; else its model"
    )
    org: str | None = Field(None, description="who submits it")
    url: str | None = Field(None, description="where to read more; https://…")
    notes: str | None = Field(None, description="at most 2,000 characters")
    kind: Kind | None = Field(
        None, description="of the system, where its name does not say it: memory, …"
    )
    snapshot: str | None = Field(None, description="the dated version of the model behind it")
    open_weights: bool | None = Field(
        None, description="yes or no: can everybody have the weights?"
    )
    public: bool | None = Field(
        None, description="yes or no: can everybody see the gold of these data?"
    )
    calls: bool = Field(False, description="yes: publish raw texts, errors and calls, too")
    verdicts: bool = Field(
        True, description="no: keep the judge's verdicts; its part can't be recomputed then"
    )
    data: str | None = Field(
        None, description="where the data lie, to check the scores on; a local folder"
    )
    out: HomePath | None = Field(
        None, description="the folder that is written; its name becomes the slug"
    )
    date: Day | None = Field(None, description="the day of the submission; today unless given")
    request: HomePath | None = Field(
        None, description="a file to write the text of the pull request into"
    )
    dry_run: bool = Field(False, description="yes: only show what would be published")


class VerifySettings(BaseModel):
    """Settings of `alps leaderboard verify`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str | None = Field(
        None, description="the data, where they are not the samples: a local folder"
    )
    split: str | None = Field(None, description="their split, where it is not the one on the card")
    base: str | None = Field(
        None, description="a git reference, or another copy of the submissions' folder"
    )
    changed: str | None = Field(None, description="a file with the paths that changed, one a line")
    reviewed: bool = Field(False, description="yes: a maintainer's review.json may be there")
    record: bool = Field(
        False, description="yes: a maintainer notes in review.json that it is format-checked"
    )
    continues: Slug | None = Field(
        None, description="a maintainer knows: it comes from the submitter of that submission"
    )
    format: Literal["table", "json"] = Field("table", description="table or json")


class RescoreSettings(JudgeSettings):
    """Settings of `alps leaderboard rescore`; `out` is the folder of the new verdicts."""

    data: str | None = Field(
        None, description="the data with their gold, maybe private; samples where it is them"
    )
    split: str | None = Field(None, description="their split, where it is not the one on the card")
    status: Literal["re-scored", "reproduced"] = Field(
        "re-scored", description="reproduced: the system was run again"
    )
    sample: Share | None = Field(
        None, description="a share of the sessions, such as 20%: the scores are corrected by it"
    )
    note: str | None = Field(
        None, description="what a reader should know; at most 2,000 characters"
    )
    date: Day | None = Field(None, description="the day of the review; today unless given")
    dry_run: bool = Field(
        False, description="say what judging would ask and cost, without one request"
    )


class SiteSettings(BaseModel):
    """Settings of `alps leaderboard build`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    submissions: HomePath | None = Field(
        None,
        description="the folder that holds a folder for each submission; else that of the "
        "checkout, or ours",
    )
    out: HomePath = Field("site", description="the folder that is written")
    people: HomePath | None = Field(
        None,
        description="human agreement, as alps annotate agreement out= writes it, for its row on "
        "boards; else agreement.json beside our submissions",
    )


class ServeSettings(SiteSettings):
    """Settings of `alps leaderboard serve`."""

    port: int = Field(8000, ge=0, le=65_535, description="on loopback; 0 for any that is free")
    build: bool = Field(True, description="no: serve the site that lies in out= already")
