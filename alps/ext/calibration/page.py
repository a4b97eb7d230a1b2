"""The page of a calibration: one self-contained HTML file that needs no network and no script.

What a calibration does not say is left out: a figure without a value, a chart without its rows.
Nothing is computed here but shares of counts that stand beside them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from markupsafe import Markup, escape

from alps.errors import UsageError
from alps.ext.calibration import charts
from alps.ext.calibration.charts import JUDGE, PEOPLE
from alps.ext.calibration.examples import Example
from alps.ext.calibration.label_rows import is_number
from alps.ext.calibration.short import Short, headline_of, short_of
from alps.ext.calibration.table import SAID, TITLES
from alps.show.charts import share_label
from alps.show.formatting import visible
from alps.show.html import page_environment, write_page
from alps.show.svg import Axis, axis_labels, percent

TEMPLATES = Path(__file__).with_name("templates")

Json = Mapping[str, Any]
Score = dict[str, Any]

_SHA256 = re.compile("[0-9a-f]{64}")
# Signs, so that the verdict does not hang on its colour, and words.
VERDICTS = {
    "pass": ("✓", SAID["pass"]),
    "limits": ("!", SAID["limits"]),
    "fail": ("✕", SAID["fail"]),
}

# Titles that have more room on a page than in a terminal.
_TITLES = TITLES | {
    "kappa": "kappa with people",
    "ppv": "positive predictive value",
    "npv": "negative predictive value",
    "ac2": "  AC2 (near misses count in part)",
    "pabak": "PABAK",
    "spearman": "Spearman correlation",
}
_RATES = (
    *("sensitivity", "sensitivity_unclustered", "sensitivity_unparsed_wrong"),
    *("specificity", "specificity_unclustered", "specificity_unparsed_wrong"),
    *("ppv", "npv", "agreement"),
)
_CHANCE = (
    *("kappa", "people_kappa", "ac1", "ac2", "pabak", "alpha_people", "alpha_with_judge"),
    *("spearman", "kendall"),
)
_TILES = ("sensitivity", "specificity", "kappa", "people_kappa", "mae", "bias")
_ALONE = {
    "full": "judge agrees with all people",
    "partial": "judge agrees with some people",
    "none": "judge agrees with nobody",
    "everyone": "a person agrees with the others",
    "judge": "judge agrees with the others",
    "rho": "fits as well as a person (rho)",
}
_PEOPLES = frozenset({"people_kappa", "alpha_people", "everyone", "people"})
_LENGTH = {
    "length_preference": "judge minus people",
    "judge": " judge prefers the longer answer",
    "people": " people prefer the longer answer",
    "longer": " judge minus people, longer half",
    "shorter": " judge minus people, shorter half",
}
# What a dot of the reliability diagram needs; and what judges are compared in, as far as they fit.
_OF_BIN = ("judge", "people", "n", "low", "high")
_COMPARED = ("kappa", "sensitivity", "specificity", "agreement", "mae")


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its drawing; without a score a heading.

    `sub` is one that belongs to the one above it.
    """

    title: str
    score: Score | None
    chart: Markup
    sub: bool = False
    strong: bool = False


@dataclass(frozen=True)
class Group:
    """Figures on one axis.

    `test` is the p of their being equal; `band` where a figure to compare with begins, lies and
    ends, in percent.
    """

    title: str
    axis: Markup
    rows: list[DrawnFigure]
    test: float | None = None
    band: tuple[str, str, str] | None = None


def write_calibration_page(
    calibration: Mapping[str, Any],
    path: Path,
    *,
    examples: Mapping[str, Sequence[Example]] = MappingProxyType({}),
) -> Path:
    """Write the page of what `calibration.json` holds; the same calibration gives the same bytes.

    Every key but the counts and the verdict of a rubric may be absent. `examples` are items on
    which the judge differs from people, by rubric.

    Raises:
        UsageError: If `path` is a folder, or the calibration is of no rubric.
        RunFolderError: If the page can't be written.
    """
    if path.is_dir():
        example = path / "calibration.html"
        raise UsageError(f"{path}: this is a folder; name a file, such as {example}")
    return write_page(_render(calibration, examples), path)


def _render(calibration: Mapping[str, Any], examples: Mapping[str, Sequence[Example]]) -> str:
    if not calibration.get("rubrics"):
        raise UsageError("the calibration has no rubric")
    # Python writes NaN and Infinity, which are no figures and are never shown.
    calibration = json.loads(json.dumps(calibration), parse_constant=lambda _: None)
    judge, rows = visible(str(calibration.get("judge") or "judge")), calibration["rubrics"]
    # One axis for all rubrics, so that the overview can be read from top to bottom.
    kappas: list[Score | None] = []
    for row in rows.values():
        kappas += _score(row.get("kappa")), _score(row.get("people_kappa"))
    axis = charts.axis_for(filter(None, kappas))
    rubrics: list[dict[str, Any]] = []
    scored: set[str] = set()
    words: set[str] = set()
    tally: Counter[str] = Counter()
    for n, (name, row) in enumerate(rows.items(), 1):
        short = short_of(calibration, name)
        rubric = _view(n, name, row, judge, axis) | _first(short, row, examples.get(name, ()))
        rubrics.append(rubric)
        scored.update(rubric["scores"])
        words.update(name for name in row if "value" not in _dict(row[name]))
        tally[rubric["verdict"]] += 1
    # Items that somebody made right or wrong are not listed: their labels are no person's.
    derived = all(row.get("labelled") == [] for row in rows.values())
    page: str = _template().render(
        calibration=calibration,
        judge=judge,
        headline=visible(headline_of({**calibration, "judge": judge})),
        derived=derived,
        facts=_facts(calibration),
        rubrics=rubrics,
        verdicts=VERDICTS,
        tally=[(verdict, tally[verdict]) for verdict in VERDICTS if tally[verdict]],
        rates="sensitivity" in scored,
        overview_axis=axis_labels(axis),
        rate_axis=axis_labels(Axis()),
        # The glossary explains what is on the page, and nothing else.
        words=words | scored,
    )
    return page.lstrip()


@cache
def _template() -> Any:
    environment = page_environment(TEMPLATES)
    environment.filters.update(share=share_label, p_value=charts.p_value, parted=_parted)
    return environment.get_template("calibration.html")


def _view(n: int, name: str, row: Json, judge: str, axis: Axis) -> dict[str, Any]:
    """Return what the template shows of one rubric; what is empty is left out."""
    scores = _scores_in(row)
    rates = {**_scores_in(row.get("at_threshold")), **scores}
    columns, references = _references(row, scores, judge)
    kappa, people = scores.get("kappa", {"value": None}), scores.get("people_kappa")
    return {
        "name": visible(name),
        "anchor": f"rubric-{n}",
        "found": row,
        "scores": rates,
        "verdict": str(row.get("verdict", "?")),
        "labels": _names(_dict(row.get("scale")).get("values")),
        "overview": charts.interval_dot(
            kappa, name=f"{visible(name)}, kappa", axis=axis, people=people
        ),
        "groups": _groups(row, scores),
        "shares": _shares(_dict(row.get("base_rates"))),
        "confusion": _confusion(_dict(row.get("confusion"))),
        "reliability": _reliability(row),
        "calibration_error": _score(_dict(row.get("reliability")).get("calibration_error")),
        "forest": _forest(row, scores, judge),
        "references": references,
        "reference_columns": columns,
        "heterogeneity": _heterogeneity(_dict(row.get("heterogeneity"))),
        "ranking": _scores_in(row.get("system_ranking")),
        "acceptance": _acceptance(_dict(row.get("acceptance"))),
    }


def _first(short: Short, row: Json, examples: Sequence[Example]) -> dict[str, Any]:
    """Return what stands first of a rubric: tiles, and items on which the judge differs."""
    rates = {**_scores_in(row.get("at_threshold")), **_scores_in(row)}
    notes = {line.title: line.note for line in short.figures}
    # A tile has no room for what the bias is.
    titles = {name: _TITLES[name].strip() for name in _TILES} | {"bias": "bias"}
    tiles = [(titles[name], rates[name], notes.get(name, "")) for name in _TILES if name in rates]
    counts = _dict(row.get("confusion")).get("counts")
    differing = None
    if counts:
        differing = sum(map(sum, counts)) - sum(cells[n] for n, cells in enumerate(counts))
    return {"short": short, "tiles": tiles, "differing": differing, "examples": examples}


def _names(values: Any) -> list[str]:
    return [visible(str(value)) for value in values or ()]


def _score(value: Any) -> Score | None:
    """Return a figure with its interval, or None where it has no value.

    A bare number is a figure without one.
    """
    # A bare whole number is a count, and no figure.
    if not isinstance(value, Mapping):
        value = {"value": value} if is_number(value) and not isinstance(value, int) else {}
    if not is_number(value.get("value")):
        return None
    low, high = value.get("low"), value.get("high")
    # Where nothing differs resampling has nothing to vary: an interval without a width is none.
    if not is_number(low) or not is_number(high) or low == high:
        low = high = None
    return {"value": value["value"], "n": value.get("n"), "low": low, "high": high}


def _dict(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _facts(calibration: Json) -> list[tuple[str, str]]:
    """Return what the judge was, as far as the calibration says."""
    parts = _dict(calibration.get("judge_fingerprint"))
    return [(str(name), _fact(part)) for name, part in parts.items() if part not in (None, {}, [])]


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(part)}" for name, part in value.items())
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return value[:12]  # as hashes are written everywhere
    return ", ".join(map(_fact, value)) if isinstance(value, list) else str(value)


def _row(
    name: str, score: Score, axis: Axis, *, kind: str = JUDGE, strong: bool = False
) -> DrawnFigure:
    chart = charts.interval_dot(score, name=name.strip(), axis=axis, kind=kind)
    return DrawnFigure(name.strip(), score, chart, sub=name.startswith(" "), strong=strong)


def _group(
    title: str,
    scores: Mapping[str, Score],
    names: Iterable[str],
    titles: Mapping[str, str] = _TITLES,
    *,
    around_zero: bool = False,
) -> Group:
    shown = {name: scores[name] for name in names if name in scores}
    axis_of = charts.axis_around_zero if around_zero else charts.axis_for
    axis = axis_of(shown.values())
    rows = []
    for name, score in shown.items():
        kind = PEOPLE if name in _PEOPLES else JUDGE
        rows.append(_row(titles[name], score, axis, kind=kind))
    return Group(title, axis_labels(axis), rows)


def _groups(row: Json, scores: Mapping[str, Score]) -> list[Group]:
    """Lay out the key figures, each group on an axis of its own."""
    alone = {**_scores_in(row.get("aligned")), **_scores_in(row.get("leave_one_out"))}
    if rho := _score(_dict(row.get("alternative_annotator")).get("rho")):
        alone["rho"] = rho
    length = _scores_in(row.get("length_preference"))
    if "length_preference" in scores:
        length["length_preference"] = scores["length_preference"]
    threshold = _dict(row.get("at_threshold"))
    accepted = " or ".join(_names(threshold.get("accepted")))
    groups = [
        _group("Against human labels", scores, _RATES),
        _group(f"If {accepted} counts as accepted", _scores_in(threshold), _RATES),
        _group("Beyond chance", scores, _CHANCE),
        _group("Error on the scale", scores, ("mae", "bias"), around_zero=True),
        _group("As an annotator", alone, _ALONE, _ALONE),
        _group("Repeated verdicts", scores, ("self_agreement",)),
        _group("Preference for longer answers", length, _LENGTH, _LENGTH, around_zero=True),
        _group("Prevalence and bias", scores, ("prevalence_index", "bias_index"), around_zero=True),
    ]
    return [group for group in groups if group.rows]


def _scores_in(row: Any) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for name, value in _dict(row).items():
        score = _score(value)
        if score is not None:
            scores[name] = score
    return scores


def _parted(name: str) -> Markup:
    """Let a long name break where its parts end."""
    escaped = str(escape(name))
    return Markup(re.sub("([/_.:-])(?=.)", r"\1<wbr>", escaped))


def _shares(rates: Json) -> list[tuple[str, float, float, Markup]]:
    people, judge = _dict(rates.get("people")), _dict(rates.get("judge"))
    shares = []
    for name in people:
        if name in judge:
            chart = charts.twin_bars(people[name], judge[name], name=visible(name))
            shares.append((visible(name), people[name], judge[name], chart))
    return shares


def _confusion(row: Json) -> Markup:
    values, counts = row.get("values") or (), row.get("counts") or ()
    if not values or {len(counts), *map(len, counts)} != {len(values)}:
        return Markup()
    return charts.confusion_map(_names(values), counts)


def _reliability(row: Json) -> Markup:
    part = _dict(row.get("reliability"))
    bins = []
    for one in part.get("bins") or ():
        shown = {name: one.get(name) for name in _OF_BIN if is_number(one.get(name))}
        if {"judge", "people", "n"} <= shown.keys():
            bins.append({"low": None, "high": None, **shown})
    values = _dict(row.get("scale")).get("values") or ()
    printable = [visible(value) if isinstance(value, str) else value for value in values]
    plane = charts.plane_of(str(part.get("by")), printable, bins)
    return Markup() if plane is None else charts.reliability_diagram(bins, plane)


def _forest(row: Json, scores: Mapping[str, Score], judge: str) -> Group | None:
    """Lay out the agreement of raters two by two, people first."""
    pairs: dict[str, list[tuple[str, Score]]] = {PEOPLE: [], JUDGE: []}
    drawn: list[Score] = []
    for pair in row.get("pairs") or ():
        score = _score(pair.get("kappa"))
        if score is not None:
            name = f"{visible(str(pair.get('one')))} – {visible(str(pair.get('other')))}"
            pairs[JUDGE if pair.get("judge") else PEOPLE].append((name, score))
            drawn.append(score)
    if not drawn:
        return None
    ceiling, kappa = scores.get("people_kappa"), scores.get("kappa")
    axis = charts.axis_for([*drawn, *filter(None, (ceiling, kappa))])
    rows = []
    for kind, of_kind in pairs.items():
        rows += [_row(name, score, axis, kind=kind) for name, score in of_kind]
    if kappa is not None:
        rows.append(_row(f"{judge} – consensus of people", kappa, axis, strong=True))
    return Group("", axis_labels(axis), rows, band=_band(ceiling, axis))


def _band(score: Score | None, axis: Axis) -> tuple[str, str, str] | None:
    """Return where the interval of a figure begins, the figure lies and the interval ends."""
    if score is None or score["low"] is None:
        return None
    low, level, high = (percent(axis.at(score[end])) for end in ("low", "value", "high"))
    return low, level, high


def _references(
    row: Json, scores: Mapping[str, Score], judge: str
) -> tuple[list[tuple[str, Markup]], list[dict[str, Any]]]:
    """Put trivial judges next to the judge, figure by figure on the same axes."""
    judges: list[tuple[str, dict[str, Any]]] = [(judge, {"n": row.get("n"), **scores})]
    known: set[str] = set()
    for name, one in _dict(row.get("references")).items():
        part, of_judge = _dict(one), _scores_in(one)
        known.update(of_judge)
        figures = {"n": part.get("n"), "reason": part.get("reason"), **of_judge}
        judges.append((visible(name), figures))
    if len(judges) == 1:
        return [], []
    rows: list[dict[str, Any]] = []
    for name, figures in judges:
        reason = str(figures.get("reason") or "")
        rows.append({"name": name, "n": figures["n"], "cells": [], "reason": reason})
    columns: list[tuple[str, Markup]] = []
    for column in _COMPARED:
        if column not in known:
            continue
        drawn = [figures[column] for _, figures in judges if column in figures]
        axis = _axis_of(column, drawn)
        columns.append((column, axis_labels(axis)))
        for (name, figures), shown in zip(judges, rows, strict=True):
            shown["cells"].append(_cell(name, column, figures.get(column), axis))
    return columns, rows


def _axis_of(figure: str, drawn: Sequence[Score]) -> Axis:
    # An error has no highest value, and none below 0.
    if figure == "mae":
        return Axis(0.0, charts.axis_around_zero(drawn).highest)
    return charts.axis_for(drawn)


def _cell(name: str, column: str, score: Score | None, axis: Axis) -> tuple[Score, Markup] | None:
    if score is None:
        return None
    kind = PEOPLE if name == "people" else JUDGE
    return score, charts.interval_dot(score, name=f"{name}, {column}", axis=axis, kind=kind)


def _heterogeneity(tests: Json) -> list[Group]:
    """Lay out the agreement of each group, and its sensitivity and specificity if there are any."""
    groups = []
    axis = Axis()
    for name, one in tests.items():
        test = _dict(one)
        agreement = _scores_in(test.get("agreement"))
        rows = [_row(visible(group), score, axis) for group, score in agreement.items()]
        for rate in ("sensitivity", "specificity"):
            of_rate = []
            for group, rates in _dict(test.get("rates")).items():
                score = _scores_in(rates).get(rate)
                if score is not None:
                    of_rate.append(_row(f" {visible(str(group))}", score, axis))
            rows += [DrawnFigure(rate, None, Markup()), *of_rate] if of_rate else []
        if rows:
            p = test["p"] if is_number(test.get("p")) else None
            groups.append(Group(visible(name), axis_labels(axis), rows, p))
    return groups


def _acceptance(kinds: Json) -> list[dict[str, Any]]:
    """Lay out the kinds of a stress set, in shares of the items with a verdict."""
    rows: list[dict[str, Any]] = []
    for name, part in kinds.items():
        n, unparsed, score, right, chart = part["n"], part.get("unparsed"), None, None, Markup()
        if not n and not unparsed:
            continue
        kind = visible(name).replace("_", " ")
        if n:
            score, right = _score({**part, "value": part["accepted"] / n}), part["right"] / n
        if score:
            chart = charts.interval_dot(score, name=f"{kind}: accepted", axis=Axis())
        row = {"kind": kind, "n": n, "accepted": score, "right": right}
        rows.append({**row, "chart": chart, "unparsed": unparsed})
    return rows
