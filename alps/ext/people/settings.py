"""Settings of `alps annotate`, `alps annotate export` and `alps annotate agreement`."""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, create_model

from alps.keys import AskSettings, Format, FrozenSettings, HomePath, Share

Job = Literal["rate", "match", "gold", "queries"]
JOBS: tuple[Job, ...] = get_args(Job)


def _name(value: str) -> str:
    # It becomes part of the name of a file.
    if not value.isprintable() or not value.replace("-", "").replace("_", "").isalnum():
        raise ValueError("use only letters, digits, - and _ in names")
    return value


PersonName = Annotated[str, Field(max_length=40), AfterValidator(_name)]


class Settings(FrozenSettings):
    """Settings of `alps annotate`, except the two that are Python keywords."""

    job: Job | None = Field(None, description="rate, match, gold or queries (new folder)")
    split: str | None = Field(None, description="split of from=DATA, if the data has several")
    n: int = Field(
        100,
        ge=1,
        description="number of items per rubric (rate, match), or of memories (gold, queries)",
    )
    seed: int = Field(0, ge=0, description="seed of the draw and of the assignment")
    annotators: int = Field(2, ge=1, le=10, description="annotators per item, out of people=")
    people: str | None = Field(
        None, description="annotators, such as anna,ben,cleo [everyone labels every item]"
    )
    # Who sees a draft or a verdict first keeps most of it: of published annotations four of five
    # items are the draft's.
    blind: bool = Field(True, description="show judge and draft only after the person's own label")
    target: float | None = Field(
        None, gt=0, lt=0.5, description="stop at this half-width of the interval, such as .05"
    )
    audit: Share | None = Field(
        None, description="share of a run's sessions to label, such as 20% (for audit_labels=)"
    )
    audit_seed: int | None = Field(
        None, ge=0, lt=2**36, description="seed that draws these sessions [from the answers]"
    )
    adjudicate: bool = Field(False, description="decide items on which two people differ")
    port: int = Field(0, ge=0, le=65_535, description="port; 0: any free port")

    @property
    def source(self) -> str | None:
        """The run or the data that a new folder is made from."""
        value: str | None = getattr(self, "from")
        return value

    @property
    def person(self) -> str:
        """Who labels."""
        value: str = getattr(self, "as")
        return value


_WORDS: dict[str, Any] = {
    "from": (str | None, Field(None, description="run, or data in the release layout")),
    "as": (PersonName, Field("me", description="name of the annotator")),
}
AnnotateSettings = create_model("AnnotateSettings", __base__=Settings, **_WORDS)


class LabelExportSettings(FrozenSettings):
    """Settings of `alps annotate export`."""

    out: HomePath = Field(description="folder to write")
    # First ones by default: later labels are anchored by what was shown.
    labels: Literal["first", "revised"] = Field(
        "first",
        description="first: labels given before judge or draft was shown; revised: last labels",
    )


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
