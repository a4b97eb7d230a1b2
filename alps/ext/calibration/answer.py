"""Answer to the question of a calibration: may the judge be trusted, why, and what comes next."""

from datetime import date
from math import ceil

from alps.ext.calibration.settings import GATES
from alps.judges.calibration_file import CalibrationRow, FigureRow, RubricRow
from alps.judges.rubric import MATCHING

YES, CAVEATS, FEW, NO = "yes", "caveats", "few", "no"
_MOST_TIMES = 20.0
"""Times the labels that there are: beyond that nobody is asked for more."""
_MADE = "these are known answers, not human labels"


def answer_of(
    calibration: CalibrationRow, rubric: str, today: date | None
) -> tuple[str, tuple[str, ...], str]:
    """Return the answer, why, and what to do next; without `today` it never has expired."""
    row, expires = calibration.rubrics[rubric], calibration.expires
    if today is not None and expires is not None and expires < today.isoformat():
        again = "Calibrate the judge again in another folder: out=DIR"
        return NO, (f"the calibration expired on {expires}",), again
    reasons = row.reasons
    if row.verdict == "pass" and not reasons:
        reasons = ("the judge passes every gate",)
    if row.acceptance is not None:
        job = "match" if rubric == MATCHING else "rate"
        todo = f"Measure the judge on human labels: alps annotate work job={job} from=RUN"
        return NO, (*reasons, _MADE), todo
    if calibration.judge_fingerprint is None:
        reasons = (*reasons, "the verdicts were recorded, so the model may have changed since")
    more = _labels_needed(row)
    if row.verdict == "fail" and not (more and _may_pass(row)):
        other = "Use another judge, or audit this one: audit_judge=MODEL or audit_labels=DIR"
        return NO, reasons, other
    if more:
        todo = f"Label about {more:,} more items, two people each: alps annotate work as=NAME"
        return FEW, reasons, todo
    if row.verdict == "pass" and calibration.judge_fingerprint is not None:
        return YES, reasons, "Use this judge: alps corrects its scores with this calibration."
    return CAVEATS, reasons, "Use this judge if these caveats do not affect your comparison."


def _may_pass(row: RubricRow) -> bool:
    """Tell whether a judge that failed on few items may be good enough, by its intervals."""
    if row.unparsed > GATES.unparsed * (row.n + row.unparsed):
        return False
    same = row.self_agreement
    if same is not None and same.value is not None and 1 - same.value > GATES.self_flip:
        return False
    bars = [(rate, GATES.rate) for rate in (row.sensitivity, row.specificity)]
    if row.people_kappa is not None and row.people_kappa.value is not None:
        bars.append((row.kappa, row.people_kappa.value - GATES.below_people))
    return all(_reaches(figure, bar) for figure, bar in bars)


def _reaches(figure: FigureRow | None, bar: float) -> bool:
    if figure is None or figure.value is None:
        return True
    return (figure.value if figure.high is None else figure.high) >= bar


def _labels_needed(row: RubricRow) -> int:
    """Return about how many more items would settle the rates; 0 where they are settled."""
    times = 1.0
    classes = ((row.tp + row.fn, row.sensitivity), (row.tn + row.fp, row.specificity))
    rates = [(labelled, rate) for labelled, rate in classes if labelled and rate is not None]
    if not rates and row.n:
        times = 2 * GATES.items / row.n
    for labelled, rate in rates:
        times = max(times, GATES.items / labelled, _narrower(rate))
    return ceil((min(times, _MOST_TIMES) - 1) * row.n) if times > 1 else 0


def _narrower(rate: FigureRow) -> float:
    """Return how many times the items an interval needs to end at the gate."""
    if rate.value is None or rate.low is None or rate.low >= GATES.rate:
        return 1.0
    room = rate.value - GATES.rate
    # The width of an interval falls by the root of the number of items.
    return _MOST_TIMES if room <= 0 else ((rate.value - rate.low) / room) ** 2
