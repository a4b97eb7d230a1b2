"""Agreement of a judge of matching with people, as the calibrations that are found tell it.

It corrects nothing: F1 is no mean of marks, and labels of other texts say how a judge errs there.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from typing import Any

from alps.errors import AlpsError
from alps.ext.calibration.calibration_file import (
    Calibration,
    FigureRow,
    calibration_files,
    differing_part,
    differs_from_run,
    read_calibration,
)
from alps.judges.agreement import KnownAgreement
from alps.judges.base import fingerprint_id
from alps.judges.embedded import embedded_judge, is_embedded_judge
from alps.judges.rubric import MATCHING


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
    return f"kappa with people {_figure(row.kappa)} on {row.n:,} pairs{where}; the judge {verdict}"


def _other(calibration: Calibration, fingerprint: str, today: date) -> str | None:
    then = calibration.judge_fingerprint
    if then is not None and fingerprint_id(then) != fingerprint:
        return f"its fingerprint is {fingerprint_id(then)}, but this judge's is {fingerprint}"
    return differing_part(calibration, embedded_judge(calibration.judge), MATCHING, today=today)


def _figure(figure: FigureRow) -> str:
    def short(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}".replace("0.", ".", 1)

    return f"{short(figure.value)} [{short(figure.low)}, {short(figure.high)}]"
