"""The settings of submit, verify, rescore, leaderboard build and leaderboard serve."""

from typing import Literal

from pydantic import Field

from alps.keys import FrozenSettings, HomePath, Share
from alps.leaderboard.submission import Kind
from alps.leaderboard.untrusted import Day, Slug
from alps.settings import JudgeSettings


class SubmitSettings(FrozenSettings):
    """Settings of `alps leaderboard submit`."""

    name: str | None = Field(None, description="name of the system on boards [its model]")
    org: str | None = Field(None, description="organisation that submits")
    url: str | None = Field(None, description="https://… page about the system")
    notes: str | None = Field(
        None, description="how the answers were generated (at most 2,000 characters)"
    )
    kind: Kind | None = Field(
        None, description="memory or retriever, if the system contains such a component"
    )
    snapshot: str | None = Field(None, description="dated version of the model")
    open_weights: bool | None = Field(None, description="yes or no: are the weights public?")
    public: bool | None = Field(
        None, description="yes or no: are the gold answers of the data public?"
    )
    # Raw texts and errors may hold private data, and fill the size that a submission may have.
    calls: bool = Field(False, description="yes: also publish raw texts, errors and calls")
    verdicts: bool = Field(
        True, description="no: leave out the judge's verdicts; boards then do not rank the scores"
    )
    data: str | None = Field(None, description="local folder of the data, to check the scores")
    out: HomePath | None = Field(
        None, description="folder to write; its name identifies the submission"
    )
    date: Day | None = Field(None, description="day of the submission [today]")
    request: HomePath | None = Field(None, description="file for the text of the pull request")
    dry_run: bool = Field(False, description="yes: only show what would be published")


class VerifySettings(FrozenSettings):
    """Settings of `alps leaderboard verify`."""

    # Never a word of the card: verification must open no path that a stranger chose.
    data: str | None = Field(None, description="local folder of the data, if not the samples")
    split: str | None = Field(None, description="split, if not the one on the card")
    base: str | None = Field(
        None, description="git reference or folder to compare the submissions with"
    )
    changed: str | None = Field(None, description="file with the changed paths, one per line")
    reviewed: bool = Field(False, description="yes: allow a maintainer's review.json")
    record: bool = Field(
        False, description="maintainers: yes records the status format-checked in review.json"
    )
    continues: Slug | None = Field(
        None, description="maintainers: earlier submission by the same submitter"
    )
    format: Literal["table", "json"] = Field("table", description="table or json")


class RescoreSettings(JudgeSettings):
    """Settings of `alps leaderboard rescore`; `out` is the folder of the new verdicts."""

    data: str | None = Field(None, description="data with gold (may be private), or samples")
    split: str | None = Field(None, description="split, if not the one on the card")
    status: Literal["re-scored", "reproduced"] = Field(
        "re-scored", description="reproduced: the system was run again"
    )
    sample: Share | None = Field(
        None, description="share of sessions to audit, such as 20%, to correct scores"
    )
    note: str | None = Field(None, description="note for readers, at most 2,000 characters")
    date: Day | None = Field(None, description="day of the review [today]")
    dry_run: bool = Field(False, description="yes: print calls and cost without sending a request")


class SiteSettings(FrozenSettings):
    """Settings of `alps leaderboard build`."""

    submissions: HomePath | None = Field(
        None,
        description="folder of submissions [that of the checkout, or the bundled one]",
    )
    out: HomePath = Field("site", description="folder to write")
    people: HomePath | None = Field(
        None,
        description="file of human agreement, from alps annotate agreement out= [agreement.json "
        "next to the bundled submissions]",
    )


class ServeSettings(SiteSettings):
    """Settings of `alps leaderboard serve`."""

    port: int = Field(8000, ge=0, le=65_535, description="port on loopback; 0: any free port")
    build: bool = Field(True, description="no: serve the site in out= without building it")
