"""Keys of audits: who audits a run, and which share of it."""

from pydantic import Field

from alps.keys import JudgingKeys
from alps.values import Address, HomePath, Share


class AuditKeys(JudgingKeys):
    """Who audits the verdicts of a run, and how many of them."""

    audit_judge: str | None = Field(
        None, description="a better judge, who judges a drawn share of the records once more"
    )
    audit_judge_api_base: Address = Field(None, description="endpoint of audit_judge")
    audit: Share | None = Field(
        None, description="the share of the sessions that audit_judge judges: 10%"
    )
    audit_labels: HomePath | None = Field(None, description="labels of people who audited a share")
    audit_seed: int | None = Field(
        None,
        ge=0,
        lt=2**36,
        description="draws the same sessions in every run, for compare; else the answers draw them",
    )
