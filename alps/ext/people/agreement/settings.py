"""Settings of `alps annotate agreement`."""

from pydantic import Field

from alps.keys import AskSettings
from alps.values import Format, HomePath


class AgreementSettings(AskSettings):
    """What `alps annotate agreement` can be told beside the labels."""

    rule: str = Field(
        "publishers",
        description="what matches memories: publishers, lexical, minilm, or a litellm model",
    )
    draft: HomePath | None = Field(
        None,
        description="what both people started from: a release, or a file as theirs; off: none [the "
        "release beside them]",
    )
    judge: str = Field("", description="not here: write rule=")
    seed: int = Field(0, ge=0, description="of resampling the items of a label folder")
    out: HomePath | None = Field(None, description="the file that is written")
    format: Format = Field("table", description="table or json")
