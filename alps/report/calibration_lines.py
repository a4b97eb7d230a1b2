"""What a calibration says beside its tables, in short lines; what is not defined is not said."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from alps.judges.calibration import RubricReport
from alps.report.formatting import (
    counted,
    interval,
    number,
    price_lines,
    served_lines,
    signed,
    spent,
)
from alps.run.calibrate import Calibrated

_VALUES = 7
_GROUPS = 4
_RATES = ("sensitivity", "specificity")


def account_of(done: Calibrated) -> Iterator[str]:
    """Yield what was asked, what it cost, what is missing, and how long the calibration holds, each
    in a sentence.
    """
    if done.left_out:
        yield f"Not rated by {done.judge}: {', '.join(done.left_out)}."
    if done.unheard:
        they_are = "it is" if done.unheard == 1 else "they are"
        yield f"{counted(done.unheard, 'item')} could not be asked about; {they_are} in no figure."
    calls = done.row.get("calls")
    if calls and (calls["http"] or calls["cached"]):
        yield spent(calls)
        yield from price_lines(calls)
        yield from served_lines(done.row)
    if "expires" in done.row:
        pinned = (
            "" if done.row["pinned"] else "; its name holds no snapshot, so it may change unseen"
        )
        if done.row["expires"] < date.today().isoformat():
            old = (
                f"Expired on {done.row['expires']}, as its oldest verdict is of {done.row['made']}"
            )
            yield f"{old}; calibrate into another folder to ask again{pinned}."
        else:
            yield f"Holds for this judge, as it is set here, until {done.row['expires']}{pinned}."


def lines_of(report: RubricReport) -> Iterator[tuple[str, str]]:
    """Yield what a line is about, and the line."""
    counts, details = report.counts, report.details
    yield "items", ", ".join(_counts(counts, details))
    if "tp" in counts:
        yield (
            "confusion",
            f"tp {counts['tp']}, fn {counts['fn']}, fp {counts['fp']}, tn {counts['tn']}",
        )
    if (found := details.get("at_threshold")) is not None:
        rates = (
            f"{name} {number(found[name]['value'])} {interval(found[name])} (n {found[name]['n']:,})"
            for name in _RATES
            if found[name]["n"]
        )
        accepted = ", ".join(str(value) for value in found["accepted"])
        yield "accepted", f"{accepted}: {', '.join(rates)}"
    for who, shares in (details.get("base_rates") or {}).items():
        if len(shares) <= _VALUES:
            given = ", ".join(f"{value} {number(share)}" for value, share in shares.items())
            yield (
                "known"
                if who == "people" and _is_known(details)
                else f"{who} say{'s' * (who == 'judge')}",
                given,
            )
    yield from _people(details)
    for name, test in (details.get("heterogeneity") or {}).items():
        yield f"by {name}", _groups(test)
    yield from _ranking(details)
    yield from _length(details)
    yield from _certainty(details)
    for name, row in (details.get("references") or {}).items():
        if "reason" in row:
            yield name, f"not told: {row['reason']}"


def _is_known(details: Mapping[str, Any]) -> bool:
    """Tell whether somebody made the items right or wrong, and no person labelled them."""
    return "acceptance" in details and not any(pair["single"] for pair in details["pairs"])


def _counts(counts: Mapping[str, int], details: Mapping[str, Any]) -> Iterator[str]:
    items = counts["n"] + counts["unparsed"] + counts["unlabelled"]
    clusters = f" (all in {details['clusters']:,} clusters)" if details["clusters"] < items else ""
    yield f"{counts['n']:,} with a label and a verdict{clusters}"
    if counts["unparsed"]:
        yield f"{counts['unparsed']:,} verdicts not parsed"
    if counts["unlabelled"]:
        yield f"{counts['unlabelled']:,} that people do not settle ({counts['unlabelled'] / items:.0%})"
    if counts.get("unheard"):
        yield f"{counts['unheard']:,} more could not be asked about"


def _people(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    aligned = details.get("aligned")
    if aligned is not None and aligned["full"]["value"] is not None:
        full, some, none = (number(aligned[name]["value"]) for name in ("full", "partial", "none"))
        yield "aligned", f"with all people {full}, with some of them {some}, with none {none}"
    test = details.get("alternative_annotator")
    if test is not None:
        told = test["omega"] is not None
        figures = (
            f"omega {number(test['omega'])}, rho {number(test['rho']['value'])} at " if told else ""
        )
        status = (
            "underpowered: too few items or people"
            if test["status"] == "underpowered"
            else test["status"]
        )
        yield "alt. annotator", f"{figures}epsilon {test['epsilon']:g}: {status}"


def _groups(test: Mapping[str, Any]) -> str:
    shares = test["agreement"]
    p = "p <.001" if test["p"] < 0.001 else f"p {number(test['p'])}"
    if len(shares) <= _GROUPS:
        return f"agreement {', '.join(f'{name} {number(share)}' for name, share in shares.items())} ({p})"
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    ends = f"from {number(shares[low])} ({low}) to {number(shares[high])} ({high})"
    return f"agreement {ends} of {len(shares)} ({p})"


def _ranking(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    ranking = details.get("system_ranking")
    if ranking is not None and ranking["spearman"] is not None:
        figures = f"Spearman {number(ranking['spearman'])}, Kendall {number(ranking['kendall'])}"
        yield "systems", f"{figures} with people's order of {ranking['n']}"


def _length(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    found = details.get("length_preference")
    if found is None or found["value"] is None:
        return
    net = f"{signed(found['value'])} {interval(found)}"
    if found["by"] == "pairs":
        judge, people = (number(found[who]["value"]) for who in ("judge", "people"))
        yield "likes longer", f"{net}, net of people (judge {judge}, people {people})"
    else:
        longer, shorter = (signed(found[half]["value"]) for half in ("longer", "shorter"))
        yield "likes longer", f"{net}, net of people (long {longer}, short {shorter})"


def _certainty(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    error = (details.get("reliability") or {}).get("calibration_error")
    if error is not None:
        yield "probability", f"off people's share by {number(error)} on average"
    found = details.get("selective")
    if found is None:
        return
    if "reason" in found:
        yield "believe it", f"never: {found['reason']}"
    else:
        kept = f"{found['kept']:,} of {found['n']:,} items, {found['disagreements']:,} of them disagree"
        promised = f"at most {number(found['bound'])} with {1 - found['failure']:.0%} certainty"
        yield "believe it", f"from confidence {number(found['confidence'])}: {kept}, {promised}"
