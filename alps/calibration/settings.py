"""The settings of `alps calibrate` and `alps labels draw`."""

from pydantic import Field

from alps.settings import AskSettings, FrozenSettings, HomePath, Share


class DrawSettings(FrozenSettings):
    """What `alps labels draw` can be told."""

    out: HomePath = Field(description="the label folder to write")
    n: int = Field(100, ge=1, description="items of each rubric")
    seed: int = Field(0, ge=0, description="of the drawing")


class CalibrateSettings(AskSettings):
    """What `alps calibrate` can be told."""

    labels: str = Field(description="a label folder, or stress: items whose answers are known")
    verdicts: str | None = Field(
        None, description="recorded verdicts, to be used instead of asking"
    )
    judge: str = Field(
        "", description="lexical, a litellm model, or one among the recorded verdicts"
    )
    valid_days: int = Field(
        180, ge=1, le=3650, description="for how many days the calibration counts"
    )
    gate_items: int | None = Field(None, ge=0, description="labelled items of each class [50]")
    gate_rate: Share | None = Field(
        None,
        description="sensitivity and specificity; if only an interval is below, it limits [0.75]",
    )
    gate_below_people: float | None = Field(
        None, ge=0, description="how far kappa may be below people's [0.1]"
    )
    gate_omega: Share | None = Field(
        None, description="share of the people that the judge can replace [0.5]"
    )
    gate_unparsed: Share | None = Field(None, description="verdicts that can't be parsed [0.02]")
    gate_heterogeneity: Share | None = Field(
        None, description="least p of being as good everywhere [0.01]"
    )
    gate_epsilon: Share | None = Field(None, description="of the alternative-annotator test [0.2]")
    gate_known_wrong: Share | None = Field(
        None, description="known-wrong items that are accepted [0.1]"
    )
    gate_self_flip: Share | None = Field(
        None, description="verdicts that change when asked again [0.05]"
    )

    def gates(self) -> dict[str, float]:
        """Return the gates that were set, by their names."""
        gates = {}
        for name, value in self:
            if name.startswith("gate_") and value is not None:
                gates[name.removeprefix("gate_")] = value
        return gates
