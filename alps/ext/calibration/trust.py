"""Many calibrations side by side: which judge may be trusted for which rubric, who is ahead, where.

Judges are ranked by kappa with people, and tested on the items that all of them were asked about,
with the same labels. Clusters are resampled together, and Holm corrects over the pairs of a rubric.
Their page is one self-contained HTML file without a script.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import combinations
from math import ceil, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from alps.errors import UsageError
from alps.ext.calibration import charts
from alps.ext.calibration.settings import GATES
from alps.judges.calibration_file import (
    Calibration,
    FigureRow,
    LabelledItem,
    RubricRow,
    Value,
    calibration_files,
    read_calibration,
)
from alps.judges.labels import Item, LabelSet, read_labels
from alps.show.compare import SIGNIFICANT
from alps.show.html import page_environment, refuse_other_file, write_page
from alps.show.svg import axis_labels
from alps.stats.agreement import Scale, disagreement, kappa_of, pair_features
from alps.stats.bootstrap import Floats, cluster_sums, resampled_sums
from alps.stats.paired import holm, shared_letters, t_tests

MOST = 6
"""Examples of a rubric."""
_TITLES = {
    "query": "query",
    "response": "response",
    "memory": "memory of the user",
    "gold": "gold memory",
    "predicted": "predicted memory",
}


@dataclass(frozen=True)
class Said:
    """What somebody says of an item, and whether it is what people say together."""

    name: str
    label: Value
    right: bool


@dataclass(frozen=True)
class Example:
    """An item that some judge labels otherwise than people do.

    Attributes:
        texts: Titles and texts.
        truth: What people say together.
    """

    item_id: str
    texts: tuple[tuple[str, str], ...]
    truth: Value
    people: tuple[Said, ...]
    judges: tuple[Said, ...]


def disagreements(
    calibrations: Sequence[Calibration], labels: LabelSet, rubric: str
) -> tuple[Example, ...]:
    """Return the items on which most judges differ from people, at most one a cluster.

    Only calibrations on these very labels have a say.
    """
    verdicts: dict[str, list[Said]] = {}
    for calibration in calibrations:
        row = calibration.rubrics.get(rubric)
        if row is None or calibration.row.labels != labels.sha256:
            continue
        for item in row.labelled:
            if item.truth is not None and item.verdict is not None:
                said = Said(calibration.judge, item.verdict, item.verdict == item.truth)
                verdicts.setdefault(item.item_id, []).append(said)
    known = [name for name in verdicts if name in labels.items]
    known.sort(key=lambda name: -sum(not one.right for one in verdicts[name]))
    chosen: dict[str, Example] = {}
    for name in known:
        wrong = not all(one.right for one in verdicts[name])
        cluster = labels.items[name].cluster or name
        if wrong and cluster not in chosen and len(chosen) < MOST:
            chosen[cluster] = _example(labels, name, verdicts[name])
    return tuple(chosen.values())


def _example(labels: LabelSet, name: str, verdicts: Sequence[Said]) -> Example:
    item, truth = labels.items[name], labels.truth(name)
    assert truth is not None
    people = []
    for annotator, label in labels.labels_of(name).items():
        people.append(Said(annotator, label, label == truth))
    return Example(name, tuple(_texts(item)), truth, tuple(people), tuple(verdicts))


def _texts(item: Item) -> Iterator[tuple[str, str]]:
    for name, value in item.payload.items():
        title = _TITLES.get(name, name.replace("_", " "))
        text = _text(value)
        if text:
            yield title, text


def _text(value: Any) -> str:
    """Return a part of a payload as text: a memory's value, a dialogue's turns, or a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        role = f"{value['role']}: " if isinstance(value.get("role"), str) else ""
        return role + str(value.get("value") or value.get("text") or "")
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    return ""


YES, CAVEATS, FEW, NO = "yes", "caveats", "few", "no"
FEWEST = 20
"""Items that judges must share to be told apart."""
_MOST_TIMES = 20.0
"""Times the labels that there are: beyond that nobody is told to label."""


@dataclass(frozen=True)
class Trusted:
    """The answer for one judge under one rubric.

    Attributes:
        answer: `yes`, `caveats`, `few` (labels) or `no`.
        why: Sentences without an end.
        todo: What to do, in a sentence.
        letters: Those of ties; empty where it is not ranked with the others.
    """

    judge: str
    source: str
    n: int
    kappa: FigureRow
    people: FigureRow | None
    answer: str
    why: tuple[str, ...]
    todo: str
    letters: tuple[str, ...] = ()


@dataclass(frozen=True)
class RubricTrust:
    """The judges under one rubric, the best first; `shared` items of those that are ranked."""

    rubric: str
    judges: tuple[Trusted, ...]
    shared: int


def trust(calibrations: Sequence[Calibration], *, today: date) -> list[RubricTrust]:
    """Return, rubric by rubric, which judges may be trusted, the best first."""
    names: dict[str, None] = {}
    for calibration in calibrations:
        names |= dict.fromkeys(calibration.rubrics)
    return [_of_rubric(name, calibrations, today) for name in names]


def _of_rubric(name: str, calibrations: Sequence[Calibration], today: date) -> RubricTrust:
    having = [one for one in calibrations if name in one.rubrics]
    having.sort(key=lambda one: -_kappa(one.rubrics[name]))
    rows = [one.rubrics[name] for one in having]
    judges = [_answer(one, row, today) for one, row in zip(having, rows, strict=True)]
    letters, shared = _ties(having, name)
    ranked = []
    for place, judge in enumerate(judges):
        ranked.append(replace(judge, letters=letters.get(place, ())))
    return RubricTrust(name, tuple(ranked), shared)


def _kappa(row: RubricRow) -> float:
    value = None if row.kappa is None else row.kappa.value
    return -2.0 if value is None else value


def _answer(calibration: Calibration, row: RubricRow, today: date) -> Trusted:
    answer, why, todo = _told(calibration, row, today)
    kappa = row.kappa or FigureRow(value=None)
    on = calibration.row.rests_on
    source = calibration.path.name if on is None else f"{on.source}: {on.what}"
    source = calibration.path.parent.name if source == "calibration.json" else source
    return Trusted(calibration.judge, source, row.n, kappa, row.people_kappa, answer, why, todo)


def _told(
    calibration: Calibration, row: RubricRow, today: date
) -> tuple[str, tuple[str, ...], str]:
    """Return the answer, why, and what to do."""
    again = "Calibrate it again: alps calibrate judge=… labels=…"
    expires = calibration.row.expires
    if expires is not None and expires < today.isoformat():
        return NO, (f"it expired on {expires}",), again
    if row.acceptance is not None:
        why = "its items were made right or wrong on purpose, and no person labelled them"
        return NO, (why,), "Have people label answers of a run: alps annotate draw RUN n=…"
    reasons = row.reasons
    if calibration.row.judge_fingerprint is None:
        reasons = (*reasons, "verdicts were recorded: a judge that is asked today is another one")
    more = _labels_needed(row)
    if row.verdict == "fail" and not (more and _may_pass(row)):
        other = "Take another judge, or have a better one or people audit it: audit_judge="
        return NO, reasons, other
    if more:
        return FEW, reasons, f"Label about {more:,} more items: alps annotate draw RUN n=…"
    if row.verdict == "pass" and not reasons:
        return YES, ("every gate is reached",), "Use it: runs are corrected by this calibration."
    return CAVEATS, reasons, "Use it where these caveats do not touch what you compare."


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


def _ties(having: Sequence[Calibration], name: str) -> tuple[dict[int, tuple[str, ...]], int]:
    """Return the letters of the judges that share items with the first that has any."""
    labelled = [_by_item(one.rubrics[name]) for one in having]
    same: list[int] = []
    common: dict[str, LabelledItem] = {}
    for place, items in enumerate(labelled):
        if not items or having[place].rubrics[name].scale is None:
            continue
        left = {key: item for key, item in (common or items).items() if key in items}
        alike = not same or having[place].row.labels == having[same[0]].row.labels
        if alike and len(left) >= FEWEST:
            same.append(place)
            common = left
    scale = having[same[0]].rubrics[name].scale if same else None
    if len(same) < 2 or scale is None:
        return {}, len(common)
    of_scale = Scale(scale.kind, scale.values)  # type: ignore[arg-type]
    columns = []
    for place in same:
        columns.append([labelled[place][key].verdict for key in common])
    truth = [item.truth for item in common.values()]
    clusters = [item.cluster or key for key, item in common.items()]
    different = _told_apart(truth, columns, clusters, of_scale)
    letters = shared_letters(len(same), different)
    return dict(zip(same, letters, strict=True)), len(common)


def _by_item(row: RubricRow) -> Mapping[str, LabelledItem]:
    settled = {}
    for item in row.labelled:
        if item.truth is not None and item.verdict is not None:
            settled[item.item_id] = item
    return settled


def _told_apart(
    truth: Sequence[object],
    columns: Sequence[Sequence[object]],
    clusters: Sequence[str],
    scale: Scale,
) -> Iterator[tuple[int, int]]:
    """Yield the judges, by their places, whose kappas differ significantly."""
    weights = "unweighted" if scale.kind == "nominal" else "quadratic"
    apart, size = disagreement(scale, weights), len(scale.values)  # type: ignore[arg-type]
    values: list[float] = []
    drawn: list[Floats] = []
    count = len(set(clusters))
    for column in columns:
        features = pair_features(truth, column, scale)
        sums = cluster_sums(features, clusters)
        values.append(float(kappa_of(sums.sum(axis=0).reshape(size, size), apart)))
        drawn.append(kappa_of(resampled_sums(sums).reshape(-1, size, size), apart))
    pairs = list(combinations(range(len(columns)), 2))
    ps = []
    for one, other in pairs:
        error = float(np.nanstd(drawn[one] - drawn[other], ddof=1))
        mean = values[one] - values[other]
        p = float(t_tests(np.array(mean), np.array(error), np.array(count)))
        ps.append(p if isfinite(p) else 1.0)
    for pair, p in zip(pairs, holm(ps), strict=True):
        if p < SIGNIFICANT:
            yield pair


TEMPLATES = Path(__file__).with_name("templates")
# Signs, so that an answer does not hang on its colour; words, and the style of a badge.
ANSWERS: Mapping[str, tuple[str, str, str]] = {
    YES: ("✓", "yes", "pass"),
    CAVEATS: ("✓", "yes, with caveats", "limits"),
    FEW: ("?", "too few labels", "limits"),
    NO: ("✕", "no", "fail"),
}


@dataclass(frozen=True)
class RubricView:
    """What the page shows of a rubric; `drawn` has a drawing for each judge."""

    found: RubricTrust
    axis: Markup
    drawn: tuple[tuple[Trusted, Markup], ...]
    examples: tuple[Example, ...]


def find_calibrations(words: Sequence[str]) -> list[Calibration]:
    """Read calibrations; those that are found by themselves where none is named.

    Raises:
        UsageError: If there is none.
        DataError: If one can't be read.
    """
    paths = [Path(word).expanduser() for word in words] or calibration_files()
    if not paths:
        raise UsageError("no calibrations here; alps calibrate writes them")
    found: list[Calibration] = []
    for path in paths:
        inside = sorted(path.glob("*/calibration.json")) if path.is_dir() else []
        own = path.is_file() or (path / "calibration.json").is_file() or not inside
        found += [read_calibration(one) for one in ([path] if own else inside)]
    return found


def write_trust_page(
    calibrations: Sequence[Calibration], labels: Path | None, out: Path, *, today: date
) -> Path:
    """Write the page.

    Args:
        calibrations: Of which judges.
        labels: The label folder that examples are taken from; None for none.
        out: The file.
        today: The day that expiry is counted from.

    Raises:
        UsageError: If the labels are others than those of every calibration, or another file is
            there.
        RunFolderError: If the page can't be written.
    """
    refuse_other_file(out)
    folder = None if labels is None else read_labels(labels)
    if folder is not None and all(one.row.labels != folder.sha256 for one in calibrations):
        raise UsageError(f"labels={labels}: other labels than those of every calibration")
    views = [_view(found, calibrations, folder) for found in trust(calibrations, today=today)]
    page: str = _render(views, today, examples=folder is not None)
    return write_page(page.lstrip(), out)


def _view(
    found: RubricTrust, calibrations: Sequence[Calibration], labels: LabelSet | None
) -> RubricView:
    figures = [_figure(one.kappa) for one in found.judges if one.kappa.value is not None]
    axis = charts.axis_for(figures)
    drawn = []
    for one in found.judges:
        chart = Markup()
        if one.kappa.value is not None:
            people = None if one.people is None or one.people.value is None else _figure(one.people)
            chart = charts.interval_dot(
                _figure(one.kappa), name=f"{one.judge}, kappa", axis=axis, people=people
            )
        drawn.append((one, chart))
    examples = () if labels is None else disagreements(calibrations, labels, found.rubric)
    return RubricView(found, axis_labels(axis), tuple(drawn), examples)


def _figure(row: FigureRow) -> dict[str, float | None]:
    return {"value": row.value, "low": row.low, "high": row.high}


def _render(views: Sequence[RubricView], today: date, *, examples: bool) -> str:
    template = page_environment(TEMPLATES).get_template("trust.html")
    page: str = template.render(
        views=views,
        answers=ANSWERS,
        today=today.isoformat(),
        examples=examples,
        judges=len({one.judge for view in views for one in view.found.judges}),
    )
    return page
