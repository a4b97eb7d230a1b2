"""Keys of audits: who audits a run, and which share of it."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from alps.keys import Address, HomePath, JudgingKeys, Share


class AuditKeys(JudgingKeys):
    """Who audits the verdicts of a run, and how many of them."""

    GROUPS: ClassVar[Mapping[str, str]] = {
        "judge": "audit audit_judge audit_judge_api_base audit_labels audit_seed"
    }

    audit_judge: str | None = Field(
        None, description="PROVIDER/MODEL: a better judge for a random share of the records"
    )
    audit_judge_api_base: Address = Field(None, description="base URL of audit_judge")
    audit: Share | None = Field(
        None, description="share of the sessions that audit_judge judges, such as 10%"
    )
    audit_labels: HomePath | None = Field(
        None, description="folder of human labels for a share of the records"
    )
    audit_seed: int | None = Field(
        None,
        ge=0,
        # As many as the 9 hexadecimal digits of a seed from the answers can be.
        lt=2**36,
        description="seed that draws the audited sessions; to compare runs, use the same seed "
        "[from the answers]",
    )
