"""Settings of `alps calibrate` and `alps annotate draw`, the gates of a judge, keys of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from alps.keys import AskSettings, FrozenSettings, Keys
from alps.values import HomePath, Share


@dataclass(frozen=True)
class Gates:
    """What a judge must reach; `gate_` and the name is the setting that says what each one is.

    Sensitivity and specificity (`rate`) and `known_wrong` limit a judge where only their intervals
    are beyond; `omega` of the alternative-annotator test stands in for a kappa that is too far
    below people's.
    """

    # Wilson's interval of a rate of .90 is [.79, .96] on 50 items, [.74, .97] on 30.
    items: int = 50
    rate: float = 0.75
    below_people: float = 0.10
    # The bar, and for experts the epsilon, of the test's authors (Calderon et al., 2501.10970).
    omega: float = 0.5
    unparsed: float = 0.02
    heterogeneity: float = 0.01
    epsilon: float = 0.2
    known_wrong: float = 0.10
    self_flip: float = 0.05


GATES = Gates()


class CorrectionKeys(Keys):
    """Which calibrations correct the scores of a run."""

    GROUPS: ClassVar[Mapping[str, str]] = {"judge": "calibration"}

    calibration: str | None = Field(
        None,
        description="calibration of the judge that corrects scores; off: none [those known]",
    )


class DrawSettings(FrozenSettings):
    """What `alps annotate draw` can be told."""

    out: HomePath = Field(description="the label folder to write")
    n: int = Field(100, ge=1, description="items of each rubric")
    seed: int = Field(0, ge=0, description="of the drawing")


class CalibrateSettings(AskSettings):
    """What `alps calibrate` can be told."""

    labels: str = Field(
        description="a label folder, or stress: items whose answers are known; of fit=yes, runs"
    )
    fit: bool = Field(False, description="fit a cheap judge to the verdicts of runs; out=FILE")
    verdicts: str | None = Field(
        None, description="recorded verdicts, to be used instead of asking"
    )
    # Recorded verdicts of one judge name it themselves.
    judge: str = Field(
        "", description="lexical, a litellm model, or one among the recorded verdicts"
    )
    valid_days: int = Field(
        180, ge=1, le=3650, description="for how many days the calibration counts"
    )
    gate_items: int = Field(Gates.items, ge=0, description="labelled items of each class")
    gate_rate: Share = Field(
        Gates.rate,
        description="sensitivity and specificity; if only an interval is below, it limits",
    )
    gate_below_people: float = Field(
        Gates.below_people, ge=0, description="how far kappa may be below people's"
    )
    gate_omega: Share = Field(
        Gates.omega, description="share of the people that the judge can replace"
    )
    gate_unparsed: Share = Field(Gates.unparsed, description="verdicts that can't be parsed")
    gate_heterogeneity: Share = Field(
        Gates.heterogeneity, description="least p of being as good everywhere"
    )
    gate_epsilon: Share = Field(Gates.epsilon, description="of the alternative-annotator test")
    gate_known_wrong: Share = Field(
        Gates.known_wrong, description="known-wrong items that are accepted"
    )
    gate_self_flip: Share = Field(
        Gates.self_flip, description="verdicts that change when asked again"
    )

    def gates(self) -> Gates:
        """Return the gates by which a judge is measured."""
        return Gates(**{name: getattr(self, f"gate_{name}") for name in vars(GATES)})


class TrustSettings(FrozenSettings):
    """What `alps calibrate list` can be told beside the calibrations."""

    labels: HomePath | None = Field(
        None, description="the label folder that examples of disagreements are taken from"
    )
    out: HomePath = Field("calibrations.html", description="the page that is written")
