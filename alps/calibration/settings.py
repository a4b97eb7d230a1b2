"""The settings of `alps calibrate` and `alps labels draw`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from alps.settings import AskSettings, HomePath, Share


class DrawSettings(BaseModel):
    """What `alps labels draw` can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    out: Annotated[HomePath, Field(description="the label folder to write")]
    n: Annotated[int, Field(ge=1, description="items of each rubric")] = 100
    seed: Annotated[int, Field(ge=0, description="of the drawing")] = 0


class CalibrateSettings(AskSettings):
    """What `alps calibrate` can be told."""

    labels: Annotated[
        str, Field(description="a label folder, or stress: items whose answers are known")
    ]
    verdicts: Annotated[
        str | None, Field(description="recorded verdicts, to be used instead of asking")
    ] = None
    judge: Annotated[
        str, Field(description="lexical, a litellm model, or one among the recorded verdicts")
    ] = ""
    valid_days: Annotated[
        int, Field(ge=1, le=3650, description="for how many days the calibration counts")
    ] = 180
    gate_items: Annotated[
        int | None, Field(ge=0, description="labelled items of each class [50]")
    ] = None
    gate_rate: Annotated[
        Share | None,
        Field(
            description=(
                "sensitivity and specificity; if only an interval is below, it limits [0.75]"
            )
        ),
    ] = None
    gate_below_people: Annotated[
        float | None, Field(ge=0, description="how far kappa may be below people's [0.1]")
    ] = None
    gate_omega: Annotated[
        Share | None, Field(description="share of the people that the judge can replace [0.5]")
    ] = None
    gate_unparsed: Annotated[
        Share | None, Field(description="verdicts that can't be parsed [0.02]")
    ] = None
    gate_heterogeneity: Annotated[
        Share | None, Field(description="least p of being as good everywhere [0.01]")
    ] = None
    gate_epsilon: Annotated[
        Share | None, Field(description="of the alternative-annotator test [0.2]")
    ] = None
    gate_known_wrong: Annotated[
        Share | None, Field(description="known-wrong items that are accepted [0.1]")
    ] = None
    gate_self_flip: Annotated[
        Share | None, Field(description="verdicts that change when asked again [0.05]")
    ] = None

    def gates(self) -> dict[str, float]:
        """Return the gates that were set, by their names."""
        given = (
            (name, value) for name, value in self if name.startswith("gate_") and value is not None
        )
        return {name.removeprefix("gate_"): value for name, value in given}
