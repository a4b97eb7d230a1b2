"""The page of a calibration: one self-contained HTML file that needs no network and no script.

What a calibration does not say is left out: a figure without a value, a chart without its rows.
Nothing is computed here but shares of counts that stand beside them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from alps.errors import UsageError
from alps.report import calibration_charts as charts
from alps.report.calibration_charts import JUDGE, PEOPLE, Axis
from alps.report.charts import percent
from alps.report.formatting import interval, number, visible
from alps.report.html import page_environment, write_page

Json = Mapping[str, Any]
Score = dict[str, Any]

_SHA256 = re.compile("[0-9a-f]{64}")
VERDICTS = {"pass": ("✓", "pass"), "limits": ("!", "passes with caveats"), "fail": ("✕", "fail")}
MOST_PAIRS, MOST_OPEN = 40, 3
"""Pairs of raters that are drawn; rubrics up to which nothing is folded away."""

_RATES = {
    "sensitivity": "sensitivity",
    "sensitivity_unclustered": " as if items were independent",
    "sensitivity_unparsed_wrong": " unparsed counted as wrong",
    "specificity": "specificity",
    "specificity_unclustered": " as if items were independent",
    "specificity_unparsed_wrong": " unparsed counted as wrong",
    "ppv": "positive predictive value",
    "npv": "negative predictive value",
    "agreement": "agreement",
}
_CHANCE = {
    "kappa": "kappa with people",
    "people_kappa": " people with each other",
    "ac1": "AC1",
    "ac2": " AC2, where near misses count in part",
    "pabak": "PABAK",
    "alpha_people": "alpha of the people",
    "alpha_with_judge": " with the judge among them",
    "spearman": "Spearman correlation",
    "kendall": "Kendall tau-b",
}
_DISTANCES = {"mae": "mean absolute error", "bias": "bias (judge minus people)"}
_ALONE = {
    "full": "agrees with all people of an item",
    "partial": "agrees with some of them",
    "none": "agrees with none of them",
    "everyone": "people agree with the others",
    "judge": "the judge in a person's place",
    "rho": "fits as well as a person (rho)",
}
_PEOPLES = frozenset({"people_kappa", "alpha_people", "everyone", "people"})
_INDICES = {"prevalence_index": "prevalence index", "bias_index": "bias index"}
_LENGTH = {
    "length_preference": "the judge's, net of people's own",
    "judge": " the judge prefers the longer one",
    "people": " people prefer the longer one",
    "longer": " judge minus people, longer half",
    "shorter": " judge minus people, shorter half",
}
_TILES = {
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "kappa": "kappa with people",
    "people_kappa": "people with each other",
    "mae": "mean absolute error",
    "bias": "bias",
}


@dataclass(frozen=True)
class FigureRow:
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
    rows: list[FigureRow]
    test: float | None = None
    band: tuple[str, str, str] | None = None


def write_calibration_page(calibration: Mapping[str, Any], path: Path) -> Path:
    """Write the page of a calibration; the same calibration gives the same bytes.

    Args:
        calibration: What `calibration.json` holds. Every key but the counts and the verdict of a
            rubric may be absent.
        path: The HTML file.

    Raises:
        UsageError: If `path` is a folder, or the calibration is of no rubric.
        RunFolderError: If the page can't be written.
    """
    if path.is_dir():
        raise UsageError(
            f"{path}: a folder is there; name a file, such as {path / 'calibration.html'}"
        )
    return write_page(render(calibration), path)


def render(calibration: Mapping[str, Any]) -> str:
    """Return the page of a calibration.

    Raises:
        UsageError: If the calibration is of no rubric.
    """
    if not calibration.get("rubrics"):
        raise UsageError("a calibration of no rubric: nothing to show")
    calibration = _finite(calibration)
    judge, held = visible(str(calibration.get("judge") or "judge")), calibration["rubrics"]
    kappas = [
        _score(found.get(name)) for found in held.values() for name in ("kappa", "people_kappa")
    ]
    axis = charts.axis_for(filter(None, kappas))
    rubrics = [
        _view(place, str(name), held[name], judge, axis) for place, name in enumerate(held, 1)
    ]
    verdicts = [rubric["verdict"] for rubric in rubrics]
    page: str = _template().render(
        calibration=calibration,
        judge=judge,
        derived=(derived := all(found.get("labelled") == [] for found in held.values())),
        against="known answers" if derived else "people",
        facts=_facts(calibration),
        rubrics=rubrics,
        verdicts=VERDICTS,
        tally=[(verdict, verdicts.count(verdict)) for verdict in VERDICTS if verdict in verdicts],
        rates=any("sensitivity" in rubric["scores"] for rubric in rubrics),
        overview_axis=charts.axis_labels(axis),
        MOST_OPEN=MOST_OPEN,
        rate_axis=charts.axis_labels(Axis()),
        words={name for rubric in rubrics for name in (*rubric["scores"], *rubric["found"])},
    )
    return page.lstrip()


@cache
def _template() -> Any:
    environment = page_environment()
    environment.filters.update(
        number=number, interval=interval, share=charts.share, p_value=charts.p_value, parted=_parted
    )
    return environment.get_template("calibration.html")


def _view(place: int, name: str, found: Json, judge: str, axis: Axis) -> dict[str, Any]:
    """Return what the template shows of one rubric; what is empty is left out."""
    scores = _scores_in(found)
    rates = {**_scores_in(found.get("at_threshold")), **scores}
    forest, more = _forest(found, scores, judge)
    columns, references = _references(found, scores, judge)
    kappa, people = scores.get("kappa", {"value": None}), scores.get("people_kappa")
    return {
        "name": visible(name),
        "anchor": f"rubric-{place}",
        "found": found,
        "scores": rates,
        "verdict": str(found.get("verdict", "?")),
        "reasons": [str(reason) for reason in found.get("reasons") or ()],
        "labels": [visible(str(value)) for value in _dict(found.get("scale")).get("values") or ()],
        "overview": charts.interval_dot(
            kappa, name=f"{visible(name)}, kappa", axis=axis, beside=people
        ),
        "tiles": [(title, rates[key]) for key, title in _TILES.items() if key in rates],
        "groups": _groups(found, scores),
        "shares": _shares(_dict(found.get("base_rates"))),
        "confusion": _confusion(_dict(found.get("confusion"))),
        "reliability": _reliability(found),
        "calibration_error": _score(_dict(found.get("reliability")).get("calibration_error")),
        "forest": forest,
        "more_pairs": more,
        "references": references,
        "reference_columns": columns,
        "heterogeneity": _heterogeneity(_dict(found.get("heterogeneity"))),
        "ranking": _scores_in(found.get("system_ranking")),
        "acceptance": _acceptance(_dict(found.get("acceptance"))),
    }


def _score(value: Any) -> Score | None:
    """Return a figure with its interval, or None where it has no value.

    A bare number is a figure without one.
    """
    if not isinstance(value, Mapping):
        value = {"value": value} if _is_number(value) and not isinstance(value, int) else {}
    if not _is_number(value.get("value")):
        return None
    held = (
        all(_is_number(value.get(end)) for end in ("low", "high")) and value["low"] != value["high"]
    )
    ends = {end: value[end] if held else None for end in ("low", "high")}
    return {"value": value["value"], "n": value.get("n"), **ends}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: Any) -> Any:
    """Return plain data with None for what is not a number, or infinite: nothing of it is ever
    shown.
    """
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _dict(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _facts(calibration: Json) -> list[tuple[str, str]]:
    """Return what the judge was, as far as the calibration says."""
    found = _dict(calibration.get("judge_fingerprint"))
    return [
        (str(name), _said(value)) for name, value in found.items() if value not in (None, {}, [])
    ]


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(part)}" for name, part in value.items())
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return value[:12]  # as hashes stand everywhere
    return ", ".join(map(_said, value)) if isinstance(value, list) else str(value)


def _row(
    name: str, score: Score, axis: Axis, *, kind: str = JUDGE, strong: bool = False
) -> FigureRow:
    chart = charts.interval_dot(score, name=name.strip(), axis=axis, kind=kind)
    return FigureRow(name.strip(), score, chart, sub=name.startswith(" "), strong=strong)


def _group(
    title: str, found: Mapping[str, Score], names: Mapping[str, str], *, around_zero: bool = False
) -> Group:
    scores = {name: found[name] for name in names if name in found}
    axis = (
        charts.axis_around_zero(scores.values())
        if around_zero
        else charts.axis_for(scores.values())
    )
    kinds = {name: PEOPLE if name in _PEOPLES else JUDGE for name in scores}
    return Group(
        title,
        charts.axis_labels(axis),
        [_row(names[n], scores[n], axis, kind=kinds[n]) for n in scores],
    )


def _groups(found: Json, scores: Mapping[str, Score]) -> list[Group]:
    """Lay out the key figures, each group on an axis of its own."""
    alone = {**_scores_in(found.get("aligned")), **_scores_in(found.get("leave_one_out"))}
    alone |= (
        {"rho": rho}
        if (rho := _score(_dict(found.get("alternative_annotator")).get("rho")))
        else {}
    )
    length = {name: score for name, score in scores.items() if name == "length_preference"}
    length |= _scores_in(found.get("length_preference"))
    threshold = _dict(found.get("at_threshold"))
    accepted = " or ".join(visible(str(value)) for value in threshold.get("accepted") or ())
    groups = [
        _group("Against what people say", scores, _RATES),
        _group(f"Where {accepted} is accepted", _scores_in(threshold), _RATES),
        _group("Beyond chance", scores, _CHANCE),
        _group("Distance on the scale", scores, _DISTANCES, around_zero=True),
        _group("As one of the people", alone, _ALONE),
        _group("Asked again", scores, {"self_agreement": "agreement with itself"}),
        _group("Preference for longer answers", length, _LENGTH, around_zero=True),
        _group("Prevalence and bias", scores, _INDICES, around_zero=True),
    ]
    return [group for group in groups if group.rows]


def _scores_in(found: Any) -> dict[str, Score]:
    return {
        str(name): score
        for name, value in _dict(found).items()
        if (score := _score(value)) is not None
    }


def _parted(name: str) -> Markup:
    """Let a long name break where its parts end."""
    return Markup(
        re.sub("([/_.:-])(?=.)", r"\1<wbr>", str(escape(name)))
    )  # what comes in between is escaped


def _shares(rates: Json) -> list[tuple[str, float, float, Markup]]:
    people, judge = _dict(rates.get("people")), _dict(rates.get("judge"))
    both = [(visible(name), people[name], judge[name]) for name in people if name in judge]
    return [
        (name, one, other, charts.twin_bars(one, other, name=name)) for name, one, other in both
    ]


def _confusion(found: Json) -> Markup:
    values, counts = found.get("values") or (), found.get("counts") or ()
    if not values or len(counts) != len(values) or any(len(row) != len(values) for row in counts):
        return Markup()
    return charts.confusion_map([visible(str(value)) for value in values], counts)


def _reliability(found: Json) -> Markup:
    held = _dict(found.get("reliability"))
    bins = [
        {**one, **{end: one[end] if _is_number(one.get(end)) else None for end in ("low", "high")}}
        for one in held.get("bins") or ()
        if all(_is_number(one.get(key)) for key in ("judge", "people", "n"))
    ]
    values = [
        visible(v) if isinstance(v, str) else v
        for v in _dict(found.get("scale")).get("values") or ()
    ]
    plane = charts.plane_of(str(held.get("by")), values, bins)
    return Markup() if plane is None else charts.reliability_diagram(bins, plane)


def _forest(found: Json, scores: Mapping[str, Score], judge: str) -> tuple[Group | None, int]:
    """Lay out the agreement of raters two by two, and say how many pairs are not shown."""
    held = [
        (
            bool(pair.get("judge")),
            f"{visible(str(pair.get('one')))} – {visible(str(pair.get('other')))}",
            score,
        )
        for pair in found.get("pairs") or ()
        if (score := _score(pair.get("kappa"))) is not None
    ]
    if not held:
        return None, 0
    ceiling, kappa = scores.get("people_kappa"), scores.get("kappa")
    axis = charts.axis_for(
        [*(score for *_, score in held), *(one for one in (ceiling, kappa) if one)]
    )
    rows = [
        _row(name, score, axis, kind=kind)
        for by_judge, kind in ((False, PEOPLE), (True, JUDGE))
        for name, score in [(name, score) for one, name, score in held if one == by_judge][
            :MOST_PAIRS
        ]
    ]
    more = len(held) - len(rows)
    if kappa is not None:
        rows.append(_row(f"{judge} – what people say together", kappa, axis, strong=True))
    band = None
    if ceiling is not None and ceiling["low"] is not None:
        low, level, high = (percent(axis.at(ceiling[end])) for end in ("low", "value", "high"))
        band = (low, level, high)
    return Group("", charts.axis_labels(axis), rows, band=band), more


def _references(
    found: Json, scores: Mapping[str, Score], judge: str
) -> tuple[list[tuple[str, Markup]], list[dict[str, Any]]]:
    """Set reference judges beside the judge, figure by figure on the same axes."""
    held = {visible(str(name)): _dict(one) for name, one in _dict(found.get("references")).items()}
    if not held:
        return [], []
    figures = {name: {"n": one.get("n"), **_scores_in(one)} for name, one in held.items()}
    names = ("kappa", "sensitivity", "specificity", "agreement", "mae")
    columns = [name for name in names if any(name in figures[one] for one in figures)]
    everyone: list[tuple[str, dict[str, Any]]] = [
        (judge, {"n": found.get("n"), **scores}),
        *figures.items(),
    ]
    axes: dict[str, Axis] = {}
    for name in columns:
        drawn = [one[name] for _, one in everyone if name in one]
        reach = Axis(0.0, charts.axis_around_zero(drawn).highest)
        axes[name] = reach if name == "mae" else charts.axis_for(drawn)
    rows = []
    for name, one in everyone:
        kind = PEOPLE if name == "people" else JUDGE
        cells = [
            (
                one[column],
                charts.interval_dot(
                    one[column], name=f"{name}, {column}", axis=axes[column], kind=kind
                ),
            )
            if column in one
            else None
            for column in columns
        ]
        reason = str(held.get(name, {}).get("reason") or "")
        rows.append({"name": name, "n": one["n"], "cells": cells, "reason": reason})
    return [(name, charts.axis_labels(axes[name])) for name in columns], rows


def _heterogeneity(found: Json) -> list[Group]:
    """Lay out the agreement of each group, and where there are any, its sensitivity and
    specificity.
    """
    groups = []
    for name, test in ((str(name), _dict(test)) for name, test in found.items()):
        rows = [
            _row(visible(group), score, Axis())
            for group, score in _scores_in(test.get("agreement")).items()
        ]
        rates = {
            visible(str(group)): _scores_in(one) for group, one in _dict(test.get("rates")).items()
        }
        for rate in ("sensitivity", "specificity"):
            held = [
                _row(f" {group}", one[rate], Axis()) for group, one in rates.items() if rate in one
            ]
            rows += [FigureRow(rate, None, Markup()), *held] if held else []
        if rows:
            p = test["p"] if _is_number(test.get("p")) else None
            groups.append(Group(visible(name), charts.axis_labels(Axis()), rows, p))
    return groups


def _acceptance(found: Json) -> list[dict[str, Any]]:
    """Lay out the kinds of a stress set; whole numbers are counts, others shares of n."""
    rows = []
    for name, one in found.items():
        n, accepted, right, silent = (
            _dict(one).get(key) for key in ("n", "accepted", "right", "unparsed")
        )
        if not _is_number(n) or not _is_number(accepted) or not (n or silent):
            continue
        score = (
            _score({**one, "value": accepted / n if isinstance(accepted, int) else accepted})
            if n
            else None
        )
        kind = visible(str(name)).replace("_", " ")
        held = (right / n if isinstance(right, int) else right) if n and _is_number(right) else None
        chart = (
            charts.interval_dot(score, name=f"{kind}: accepted", axis=Axis()) if score else Markup()
        )
        rows.append(
            {
                "kind": kind,
                "n": n,
                "accepted": score,
                "right": held,
                "chart": chart,
                "unparsed": silent,
            }
        )
    return rows
