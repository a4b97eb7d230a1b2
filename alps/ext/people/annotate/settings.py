"""Settings of `alps annotate` and `alps annotate export`."""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, create_model

from alps.keys import FrozenSettings
from alps.values import HomePath, Share

Job = Literal["rate", "match", "gold", "queries"]
JOBS: tuple[Job, ...] = get_args(Job)


def _name(value: str) -> str:
    # It becomes part of the name of a file.
    if not value.isprintable() or not value.replace("-", "").replace("_", "").isalnum():
        raise ValueError("a name has letters, digits, - and _ alone")
    return value


PersonName = Annotated[str, Field(max_length=40), AfterValidator(_name)]


class Settings(FrozenSettings):
    """What `alps annotate` can be told, but for the two words that Python keeps for itself."""

    job: Job | None = Field(None, description="rate, match, gold or queries; of a new folder")
    split: str | None = Field(None, description="the split of from=DATA, where it has several")
    n: int = Field(100, ge=1, description="items of each rubric, or memories")
    seed: int = Field(0, ge=0, description="of the drawing and of who labels what")
    annotators: int = Field(
        2, ge=1, le=10, description="people an item, of those that people= names"
    )
    people: str | None = Field(
        None, description="all who label, as anna,ben,cleo; else whoever comes labels everything"
    )
    blind: bool = Field(True, description="show judge and draft only after one's own label")
    target: float | None = Field(
        None, gt=0, lt=0.5, description="stop at this half-width of the interval, such as .05"
    )
    audit: Share | None = Field(
        None, description="label this share of a run's sessions whole, for audit_labels=: 20%"
    )
    audit_seed: int | None = Field(
        None, ge=0, lt=2**36, description="draws these sessions; else the answers draw them"
    )
    adjudicate: bool = Field(False, description="decide what two people label differently")
    port: int = Field(0, ge=0, le=65_535, description="0 for any that is free")

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
    "from": (str | None, Field(None, description="a run, or data in the release layout")),
    "as": (PersonName, Field("me", description="the name of who labels")),
}
AnnotateSettings = create_model("AnnotateSettings", __base__=Settings, **_WORDS)


class ExportSettings(FrozenSettings):
    """What `alps annotate export` can be told."""

    out: HomePath = Field(description="the folder to write")
    labels: Literal["first", "revised"] = Field(
        "first", description="those given before anything was shown, or the last ones"
    )
