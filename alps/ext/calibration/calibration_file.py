"""Calibrations as files: which judge, rubric and span of time they count for, and what they say.

Each is bound to its judge, its rubrics and a span of time when it is made. People edit such files
and pass them on, so all that is used of one is checked. They are in the form of `calibration.json`,
and looked for in `judges/calibrations/` of the package and in the user's own folder:
`ALPS_CALIBRATIONS`, else `calibrations` among the user's data of alps.

What those that are found say of a judge of matching corrects nothing: F1 is no mean of marks, and
labels of other texts say how a judge errs there.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from alps.errors import AlpsError, DataError, UsageError, first_fault, shown
from alps.ext.calibration.settings import GATES, Gates
from alps.folders import user_folder
from alps.jsonl import parse_json
from alps.judges.base import Identified, KnownAgreement, fingerprint_id
from alps.judges.embedded import embedded_judge, is_embedded_judge
from alps.judges.rubric import MATCHING, Rubric, labelled_as
from alps.stats.bootstrap import Estimate

_NO_RUBRICS = ("payload", "support")  # texts of ours that lie among the rubrics
_OF_RUBRICS = ("id", "rubrics", "wording")
_FILE_NAME = re.compile(r"\w[\w.-]*")
_MONTH, _DAY = "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_SNAPSHOT = re.compile(
    rf"20\d\d-?{_MONTH}-?{_DAY}|[-@](?:{_MONTH}{_DAY}|2\d{_MONTH})(?!\d)|@[0-9a-f]{{7,}}"
)

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

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the scale that means are on; 0 and 1 of two values."""
        if len(self.values) == 2:
            return 0.0, 1.0
        numbers = [float(value) for value in self.values if not isinstance(value, str)]
        # Names stand one step apart, as in `LabelScale`.
        named = len(numbers) < len(self.values)
        return (0.0, len(self.values) - 1.0) if named else (min(numbers), max(numbers))


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
    if not isinstance(rows, list):
        return rows
    return [tuple(row) if isinstance(row, list) else row for row in rows]


class FigureRow(_Model):
    """A figure with its interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


class RubricRow(_Model):
    """What is known of a judge under one rubric, as far as it is used again."""

    rubric_sha256: str | None = None
    verdict: str = "?"
    scale: ScaleRow | None = None
    labelled: Annotated[tuple[LabelledItem, ...], BeforeValidator(_items)] = ()
    sample: Sample | None = None
    acceptance: dict[str, Any] | None = None
    heterogeneity: dict[str, Any] = {}
    reasons: tuple[str, ...] = ()
    n: int = 0
    tp: int = 0
    fn: int = 0
    fp: int = 0
    tn: int = 0
    kappa: FigureRow | None = None
    people_kappa: FigureRow | None = None
    sensitivity: FigureRow | None = None
    specificity: FigureRow | None = None
    self_agreement: FigureRow | None = None
    unparsed: int = 0

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the scale; both 0 where there is none."""
        return (0.0, 0.0) if self.scale is None else self.scale.ends

    @model_validator(mode="after")
    def _on_scale(self) -> "RubricRow":
        values = () if self.scale is None else self.scale.values
        low, high = self.ends
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


class RestsOn(_Model):
    """The labels that a calibration of ours rests on.

    Attributes:
        what: What was labelled, in words.
        n: Items.
        date: When the judge was asked about them.
    """

    source: Texts
    address: Texts
    licence: Texts
    what: Texts
    n: int
    date: Texts


class ServedRow(_Model):
    """A model that answered, as its provider named it."""

    model: Texts | None = None


class Calibration(_Model):
    """A calibration, as far as it is used again, and the file that it is in."""

    path: Path = Path()
    judge: Texts
    labels: str | None = None
    judge_fingerprint: dict[str, Any] | None = None
    api_base: str | None = None
    made: str | None = None
    expires: str | None = None
    served: dict[str, tuple[ServedRow, ...]] = {}
    rubrics: dict[str, RubricRow]
    gates: dict[str, float] = {}
    rests_on: RestsOn | None = None

    @property
    def changed_gates(self) -> dict[str, float]:
        """The gates that are not the default, by their names in `Gates`."""
        return {name: value for name, value in self.gates.items() if hasattr(GATES, name)}

    @property
    def all_gates(self) -> Gates:
        """The gates by which the judge was measured."""
        return replace(GATES, **self.changed_gates)  # type: ignore[arg-type]


def read_calibration(path: Path) -> Calibration:
    """Read a calibration: a file, or the `calibration.json` of a folder.

    Raises:
        UsageError: If there is none.
        DataError: If it can't be read, or what is used of it is not what `alps calibrate` writes:
            names the field.
    """
    path = path / "calibration.json" if path.is_dir() else path
    if not path.is_file():
        raise UsageError(
            f"calibration={path}: no calibration at this path; create one with alps calibrate"
        )
    try:
        row = parse_json(path.read_bytes())
    except (ValueError, RecursionError, OSError) as error:
        raise DataError("not valid JSON; calibrate again", path=path) from error
    if not isinstance(row, dict) or "rubrics" not in row:
        raise DataError("not a calibration, because it has no rubrics; calibrate again", path=path)
    try:
        return Calibration.model_validate({**row, "path": path})
    except ValidationError as error:
        said, field = first_fault(error)
        raise DataError(f"{said}; calibrate again", path=path, field=field) from error


def calibration_files() -> list[Path]:
    """Return the calibrations of the user's folder, then those of the package, sorted by path."""
    shipped = Path(str(files("alps.judges"))) / "calibrations"
    return [*_files(own_calibrations()), *_files(shipped)]


def own_calibrations() -> Path:
    """Return the folder of the user's own calibrations, which may be yet to be made.

    Raises:
        UsageError: If the environment names a file.
    """
    if chosen := os.environ.get("ALPS_CALIBRATIONS"):
        folder = Path(chosen).expanduser()
        if folder.is_file():
            what = "this is a file; name the folder that has your calibrations"
            raise UsageError(f"ALPS_CALIBRATIONS={chosen}: {what}")
        return folder
    return (user_folder("data") or Path(os.devnull)) / "calibrations"


def _files(folder: Path) -> Iterable[Path]:
    if not os.path.isdir(folder) or not os.access(folder, os.R_OK | os.X_OK):
        return ()
    return sorted({*folder.glob("*.json"), *folder.glob("*/calibration.json")})


def differing_part(
    calibration: Calibration,
    judge: Identified,
    rubric: str,
    *,
    today: date,
    own: Iterable[Rubric] = (),
) -> str | None:
    """Return why a calibration can't be used for `judge` under `rubric`; None where it can."""
    known = (rubric_of(rubric, own),) if rubric in calibration.rubrics else ()
    return differs_from_run(calibration, judge.fingerprint_for(known), rubric, today=today)


def without_rubrics(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a run's fingerprint of its judge that no rubric changes."""
    return {name: part for name, part in recorded.items() if name not in _OF_RUBRICS}


def differs_from_run(
    calibration: Calibration, recorded: Mapping[str, Any], rubric: str, *, today: date
) -> str | None:
    """Return why a calibration can't be used for a judge as a run records it; None where it can.

    A rubric is known by its text, so the user's own need not be imported.
    """
    then, now = calibration.judge_fingerprint, json.loads(json.dumps(without_rubrics(recorded)))
    if then is None:
        return "its recorded verdicts do not name the judge's prompt and settings"
    for name in sorted({*then, *now}, key=lambda name: (name != "judge", name)):
        if then.get(name) != now.get(name):
            return f"judge.{name} was {_short(then.get(name))} and is now {_short(now.get(name))}"
    of_rubric = calibration.rubrics.get(rubric)
    if of_rubric is None:
        return f"the calibration has no rubric {rubric}"
    if of_rubric.acceptance is not None:
        return "it was made on known answers, where error rates differ from those on a run"
    if of_rubric.rubric_sha256 not in ([*recorded.get("rubrics", {}).values()] or [None]):
        return f"the text of rubric {rubric} has changed since the calibration"
    return expired(calibration.expires, today)


def expired(expires: str | None, today: date) -> str | None:
    """Say that a calibration no longer counts on a day; None where it does."""
    try:
        last = date.fromisoformat(expires or "")
    except ValueError:
        return f"its expiry, {_short(expires)}, is not a date"
    return f"it expired on {last.isoformat()}" if last < today else None


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"


def rubric_of(name: str, own: Iterable[Rubric] = ()) -> Rubric:
    """Return the rubric by which a judge is asked about items labelled under `name`.

    Args:
        name: As the items are labelled.
        own: The rubrics of the user's own.

    Raises:
        UsageError: If there is none.
    """
    if (known := labelled_as(name, own)) is not None:
        return known
    if name in _NO_RUBRICS or not _FILE_NAME.fullmatch(name):
        fault = "this name is taken" if name in _NO_RUBRICS else "not a valid file name"
        raise UsageError(f"rubric {shown(name)}: {fault}; choose another name")
    raise UsageError(
        f"rubric {name}: no instructions for a judge; "
        f"write them to rubrics/{name}.md in the label folder"
    )


def bound(
    row: Mapping[str, Any],
    judge: Identified,
    *,
    today: date,
    days: int,
    api_base: str | None,
    own: Iterable[Rubric],
) -> dict[str, Any]:
    """Bind the row of a calibration to its judge, its rubrics, `own` among them, and its time.

    It counts for so many `days`: providers change models without a new name.
    """
    rubrics = {}
    for name, of_rubric in row["rubrics"].items():
        # A judge that reads no instructions has no hash of them.
        hashes = judge.fingerprint_for((rubric_of(name, own),)).get("rubrics")
        sha256 = str(next(iter(hashes.values()))) if hashes else None
        rubrics[name] = {**of_rubric, "rubric_sha256": sha256}
    # An embedded judge is pinned by its code, another one by a snapshot in its name.
    called = str(judge.fingerprint.get("judge", judge.name))
    snapshot = _SNAPSHOT.search(called) is not None and "latest" not in called
    return {
        **row,
        "fingerprint": fingerprint_id(judge.fingerprint),
        "judge_fingerprint": dict(judge.fingerprint),
        "api_base": api_base,
        "pinned": "/" not in called or snapshot,
        "made": today.isoformat(),
        "expires": (today + timedelta(days=days)).isoformat(),
        "rubrics": rubrics,
    }


class CalibratedAgreement(KnownAgreement):
    """What the calibrations say that are found."""

    def said(self, judge: str, fingerprint: str) -> Iterator[str]:
        """Yield a sentence on each calibration of an embedded judge under `matching`."""
        return sentences(judge, fingerprint, today=date.today())

    def passed(self, judge: Mapping[str, Any], rubrics: Iterable[str]) -> bool:
        """Tell whether a judge passed a calibration of each of some rubrics."""
        passed: set[str] = set()
        for calibration in _readable():
            for name, row in calibration.rubrics.items():
                why = differs_from_run(calibration, judge, name, today=date.today())
                if why is None and row.verdict in ("pass", "limits"):
                    passed.add(name)
        return passed >= (set(rubrics) or {MATCHING})


def sentences(judge: str, fingerprint: str, *, today: date) -> Iterator[str]:
    """Yield a sentence on each calibration of an embedded judge under `matching`.

    Only those that are of this fingerprint, and have not expired `today`, count.
    """
    if not is_embedded_judge(judge):
        return
    for calibration in _readable():
        if calibration.judge == judge and MATCHING in calibration.rubrics:
            sentence = _sentence(calibration, fingerprint, today)
            if sentence is not None:
                yield sentence


def _readable() -> Iterator[Calibration]:
    for path in calibration_files():
        with suppress(AlpsError):  # of any judge: those that a run needs are read again, and named
            yield read_calibration(path)


def _sentence(calibration: Calibration, fingerprint: str, today: date) -> str | None:
    row = calibration.rubrics[MATCHING]
    if row.kappa is None or row.acceptance is not None:
        return None
    reason = _other(calibration, fingerprint, today)
    if reason is not None:
        return f"{calibration.path.name} does not apply: {reason}"
    on = calibration.rests_on
    where = "" if on is None else f" ({on.source}: {on.what}; {on.licence}, {on.date})"
    verdict = {"pass": "passes", "limits": "passes with caveats"}.get(row.verdict, "fails")
    kappa = f"kappa with people {two_decimals(row.kappa)}"
    return f"{kappa} on {row.n:,} pairs{where}; the judge {verdict}"


def _other(calibration: Calibration, fingerprint: str, today: date) -> str | None:
    then = calibration.judge_fingerprint
    if then is not None and fingerprint_id(then) != fingerprint:
        return f"its fingerprint is {fingerprint_id(then)}, but this judge's is {fingerprint}"
    return differing_part(calibration, embedded_judge(calibration.judge), MATCHING, today=today)


def two_decimals(figure: FigureRow | Estimate) -> str:
    """Return a figure with its interval, as `.35 [.21, .48]`."""
    parts = [
        "–" if part is None else f"{part:.2f}".replace("0.", ".", 1)
        for part in (figure.value, figure.low, figure.high)
    ]
    return f"{parts[0]} [{parts[1]}, {parts[2]}]"
