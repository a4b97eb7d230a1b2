"""Settings of `alps annotate agreement`."""

from pydantic import Field

from alps.keys import AskSettings, Format, HomePath


class AgreementSettings(AskSettings):
    """Settings of `alps annotate agreement`."""

    rule: str = Field(
        "publishers",
        description="rule that matches memories: publishers, lexical, minilm or PROVIDER/MODEL",
    )
    draft: HomePath | None = Field(
        None,
        description="draft that both people started from: a release or a file; off: none "
        "[the release next to their files]",
    )
    judge: str = Field("", description="use rule= instead")
    seed: int = Field(0, ge=0, description="random seed for resampling the items of a label folder")
    out: HomePath | None = Field(None, description="file to write")
    format: Format = Field("table", description="table or json")
