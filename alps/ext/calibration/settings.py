"""Settings of `alps calibrate` and `alps annotate draw`, the gates of a judge, keys of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from alps.keys import AskSettings, FrozenSettings, HomePath, Keys, Share


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
    # Below people's own kappa, which is the ceiling: on openqa_eval .735, and GPT-4 has .695.
    below_people: float = 0.10
    # The bar, and for experts the epsilon, of the test's authors (Calderon et al., 2501.10970).
    omega: float = 0.5
    unparsed: float = 0.02
    # Three groupings are tested: at .05 one in seven equally good judges would be called uneven.
    heterogeneity: float = 0.01
    epsilon: float = 0.2
    known_wrong: float = 0.10
    self_flip: float = 0.05


GATES = Gates()


def not_default(gates: Mapping[str, float]) -> str:
    """Name the gates that somebody chose, as settings; empty without any."""
    values = ", ".join(f"gate_{name}={value:g}" for name, value in gates.items())
    return f"not the default gates: {values}" if gates else ""


class CorrectionKeys(Keys):
    """Which calibrations correct the scores of a run."""

    GROUPS: ClassVar[Mapping[str, str]] = {"judge": "calibration"}

    calibration: str | None = Field(
        None, description="calibration folder that corrects scores; off: none [all that apply]"
    )


class DrawSettings(FrozenSettings):
    """Settings of `alps annotate draw`."""

    out: HomePath = Field(description="label folder to write")
    n: int = Field(100, ge=1, description="number of items per rubric")
    seed: int = Field(0, ge=0, description="seed of every random draw")


class CalibrateSettings(AskSettings):
    """Settings of `alps calibrate`."""

    labels: str = Field(
        description="label folder, or stress: items with known answers; with fit=yes: runs"
    )
    fit: bool = Field(False, description="fit a cheap judge to the verdicts of runs; out=FILE")
    verdicts: str | None = Field(
        None, description="file of recorded verdicts, used instead of judge calls"
    )
    # Recorded verdicts of one judge name it themselves.
    judge: str = Field(
        "", description="PROVIDER/MODEL, lexical, or a judge of the recorded verdicts"
    )
    details: bool = Field(False, description="yes: print all metrics, not only the verdict")
    # A provider may change the model behind a name, or retire it as gpt-4-1106-preview was.
    valid_days: int = Field(180, ge=1, le=3650, description="days until the calibration expires")
    gate_items: int = Field(
        Gates.items, ge=0, description="gate: minimum of labelled items per class"
    )
    gate_rate: Share = Field(
        Gates.rate,
        description="gate: minimum sensitivity and specificity; the judge passes with caveats if "
        "only the interval reaches below the minimum",
    )
    gate_below_people: float = Field(
        Gates.below_people,
        ge=0,
        description="gate: how far kappa may be below the kappa between people",
    )
    gate_omega: Share = Field(
        Gates.omega, description="gate: minimum share of people that the judge can replace"
    )
    gate_unparsed: Share = Field(
        Gates.unparsed, description="gate: maximum share of unparsed verdicts"
    )
    gate_heterogeneity: Share = Field(
        Gates.heterogeneity,
        description="gate: minimum p of the test that agreement is equal in all groups",
    )
    gate_epsilon: Share = Field(
        Gates.epsilon, description="margin of the alternative-annotator test"
    )
    gate_known_wrong: Share = Field(
        Gates.known_wrong, description="gate: maximum share of wrong items that the judge accepts"
    )
    gate_self_flip: Share = Field(
        Gates.self_flip, description="gate: maximum share of repeated verdicts that differ"
    )

    def gates(self) -> Gates:
        """Return the gates by which a judge is measured."""
        return Gates(**{name: getattr(self, f"gate_{name}") for name in vars(GATES)})


class TrustSettings(FrozenSettings):
    """Settings of `alps calibrate list`."""

    labels: HomePath | None = Field(None, description="label folder for examples of disagreements")
    out: HomePath = Field("calibrations.html", description="page to write")
