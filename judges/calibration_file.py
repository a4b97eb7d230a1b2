"""What is read of a `calibration.json`: people edit such files and pass them on, so all that is
used is checked.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from alps.errors import DataError, UsageError
from alps.jsonl import parse_json

Value = int | float | str
Texts = Annotated[str, Field(max_length=2_000)]


class LabelledItem(NamedTuple):
    """An item of a calibration.

    Attributes:
        truth: What people say of it; None where they don't settle it.
        verdict: What the judge said; None where it could not be parsed.
        mean: The mean of the people's labels; on a scale of two values from 0 to 1.
    """

    item_id: Texts
    cluster: Texts | None
    truth: Value | None
    verdict: Value | None
    mean: float | None


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class ScaleRow(_Model):
    """The scale of a rubric."""

    kind: str
    values: Annotated[tuple[Value, ...], Field(min_length=2, max_length=1_000)]


class DrawnFrom(_Model):
    """What items were drawn from: the answers of one track, by their hash."""

    drawn: Annotated[int, Field(ge=0)]
    predictions: str


class Sample(_Model):
    """How the labelled items were drawn; with several tracks, `tracks` describes each of them."""

    random: bool
    drawn: Annotated[int, Field(ge=0)] = 0
    track: str | None = None
    predictions: str | None = None
    tracks: dict[str, DrawnFrom] = {}

    def of(self, track: str) -> DrawnFrom | None:
        """Return what was drawn at random from the answers of `track`; None where nothing was."""
        if not self.random:
            return None
        if self.track == track and self.predictions is not None:
            return DrawnFrom(drawn=self.drawn, predictions=self.predictions)
        return self.tracks.get(track)


def _items(rows: Any) -> Any:
    return (
        [tuple(row) if isinstance(row, list) else row for row in rows]
        if isinstance(rows, list)
        else rows
    )


class RubricRow(_Model):
    """What was found of a judge under one rubric, as far as it is used again."""

    rubric_sha256: str | None = None
    verdict: str = "?"
    scale: ScaleRow | None = None
    labelled: Annotated[tuple[LabelledItem, ...], BeforeValidator(_items)] = ()
    sample: Sample | None = None
    acceptance: dict[str, Any] | None = None
    heterogeneity: dict[str, Any] = {}

    @model_validator(mode="after")
    def _on_scale(self) -> "RubricRow":
        values = self.scale.values if self.scale is not None else ()
        numbers = [value for value in values if not isinstance(value, str)]
        low, high = (
            (0.0, 1.0)
            if len(values) == 2
            else (min(numbers, default=0.0), max(numbers, default=0.0))
        )
        for item in self.labelled:
            if item.mean is not None and not low <= item.mean <= high:
                raise ValueError(
                    f"item {item.item_id}: a mean of {item.mean:g} is not on the scale"
                )
            if not {item.truth, item.verdict} <= {*values, None}:
                raise ValueError(f"item {item.item_id}: a label or verdict is not on the scale")
        return self

    @property
    def uneven(self) -> bool:
        """Whether the judge is known to be better on some systems than on others."""
        test = self.heterogeneity.get("system")
        p = test.get("p") if isinstance(test, dict) else None
        return isinstance(p, int | float) and p < 0.01


class ServedRow(_Model):
    """A model that answered, as its provider named it."""

    model: Texts | None = None


class CalibrationRow(_Model):
    """A calibration, as far as it is used again."""

    judge: Texts
    judge_fingerprint: dict[str, Any] | None = None
    api_base: str | None = None
    made: str | None = None
    expires: str | None = None
    served: dict[str, tuple[ServedRow, ...]] = {}
    rubrics: dict[str, RubricRow]


def read_calibration_row(path: Path) -> CalibrationRow:
    """Read a `calibration.json`.

    Raises:
        UsageError: If there is no such file.
        DataError: If it can't be read, or what is used of it is not what `alps calibrate` writes:
            names the field.
    """
    if not path.is_file():
        raise UsageError(f"calibration={path}: no calibration there; alps calibrate writes one")
    try:
        row = parse_json(path.read_bytes())
    except (ValueError, RecursionError, OSError) as error:
        raise DataError("not JSON that can be read; calibrate again", path=path) from error
    if not isinstance(row, dict) or "rubrics" not in row:
        raise DataError("no rubrics in it: not a calibration; calibrate again", path=path)
    try:
        return CalibrationRow.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(
            f"{first['msg'].lower()}; calibrate again", path=path, field=_place(first["loc"])
        ) from error


def _place(loc: Sequence[object]) -> str:
    return ".".join(str(part) for part in loc)
