import copy
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from alps.errors import RunFolderError, UsageError
from alps.ext.calibration.charts import axis_for
from alps.ext.calibration.page import write_calibration_page
from alps.show.charts import share_label
from alps.show.formatting import number
from alps.show.svg import Axis
from tests.pages import Page

HOSTILE = "</svg><script>alert('x')</script>\" onload=\"x\u202e&\x1b"


def estimate(value, *, n=120, reach=0.05):
    return {"value": value, "low": value - reach, "high": value + reach, "n": n}


def estimates(n=120, **values):
    return {name: estimate(value, n=n) for name, value in values.items()}


def pair(one, other, kappa, judge=True):
    return {"one": one, "other": other, "judge": judge, "kappa": estimate(kappa)}


COUNTS = {"unparsed": 2, "unlabelled": 3, "tp": 51, "fn": 9, "fp": 6, "tn": 54}
TESTED = {"omega": 0.667, "rho": estimate(0.887), "epsilon": 0.2, "status": "passed"}
BINARY = {
    "kind": "nominal",
    "n": 120,
    **COUNTS,
    **estimates(60, sensitivity=0.851, sensitivity_unclustered=0.852, specificity=0.903),
    **estimates(ppv=0.894, agreement=0.875, kappa=0.751, people_kappa=0.812, ac1=0.753),
    **estimates(alpha_people=0.811, alpha_with_judge=0.779, self_agreement=0.957),
    "base_rates": {"people": {"0": 0.5, "1": 0.5}, "judge": {"0": 0.525, "1": 0.475}},
    "aligned": estimates(full=0.731, partial=0.157, none=0.113),
    "leave_one_out": estimates(everyone=0.866, judge=0.823),
    "alternative_annotator": TESTED,
    "heterogeneity": {
        "system": {
            "p": 0.0312,
            "agreement": {"alpha-1": 0.917, "beta-2": 0.833},
            "rates": {"alpha-1": {"sensitivity": estimate(0.932, n=30)}},
        }
    },
    "scale": {"kind": "nominal", "values": [0, 1]},
    "confusion": {"values": [0, 1], "counts": [[54, 6], [9, 51]]},
    "reliability": {
        "by": "verdict",
        "bins": [
            {"judge": 0.0, "people": 0.143, "low": 0.077, "high": 0.251, "n": 63},
            {"judge": 1.0, "people": 0.895, "low": 0.789, "high": 0.951, "n": 57},
        ],
    },
    "pairs": [
        pair("ann", "ben", 0.812, judge=False),
        *(pair("gpt-x", "ann", 0.706), pair("gpt-x", "ben", 0.688)),
    ],
    "references": {
        "always-met": {"n": 120, **estimates(kappa=0.0, agreement=0.5)},
        "longest": {"n": 0, "reason": "no item has a response"},
    },
    "length_preference": {"by": "halves", **estimate(-0.021), "longer": estimate(0.034, n=61)},
    "acceptance": {
        "reworded": {"n": 8, "accepted": 7, "right": 7, "low": 0.529, "high": 0.978},
        "injection": {"n": 9, "accepted": 1, "right": 8, "low": 0.02, "high": 0.435},
    },
    "verdict": "limits",
    "reasons": ["sensitivity: the interval begins below 0.85"],
}

FIVE = {
    "kind": "ordinal",
    "n": 50,
    "unparsed": 0,
    "unlabelled": 0,
    "kappa": estimate(0.342, n=50, reach=0.4),
    **estimates(50, mae=0.541, bias=-0.301),
    "scale": {"kind": "ordinal", "values": [1, 2, 3, 4, 5]},
    "confusion": {
        "values": [1, 2, 3, 4, 5],
        "counts": [[10 * (i == j) for j in range(5)] for i in range(5)],
    },
    "reliability": {
        "by": "verdict",
        "bins": [{"judge": 2.0, "people": 2.4, "low": None, "high": None, "n": 50}],
    },
    "verdict": "fail",
    "reasons": ["kappa is more than 0.1 below the kappa between people"],
}

BARE = {"n": 0, "unparsed": 4, "unlabelled": 1, "verdict": "fail", "reasons": ["no item has both"]}
FINGERPRINT = {"model": "gpt-x-2026-01-01", "decoding": {"temperature": 0.0}, "prompt": None}
CALLS = {"http": 123, "cached": 4, "prompt_tokens": 56_789, "completion_tokens": 1_011}
WHOLE = {
    "judge": "gpt-x",
    "fingerprint": "0123456789ab",
    "judge_fingerprint": FINGERPRINT,
    "labels": "f" * 64,
    "made": "2026-02-03",
    "expires": "2026-05-04",
    "pinned": False,
    "calls": {**CALLS, "cost": 0.1234},
    "rubrics": {"pa": BINARY, "ei": FIVE, "vra": {**BINARY, "verdict": "pass", "reasons": []}},
}
# Each by itself may be absent; a page lacks what it shows of it, and nothing else.
SHOWN = {
    "confusion": "Confusion matrix",
    "acceptance": "Stress set",
    "pairs": "Agreement between raters",
    "heterogeneity": "Differences between groups",
}
PARTS = (
    *(*SHOWN, "aligned", "alternative_annotator", "base_rates", "kappa", "kind", "people_kappa"),
    *("reasons", "references", "reliability", "scale", "sensitivity"),
)


def page_of(calibration: dict[str, Any], folder: Path) -> tuple[Page, str]:
    text = write_calibration_page(calibration, folder / "page.html").read_text(encoding="utf-8")
    return Page(text), text


def only(rubric: dict[str, Any]) -> dict[str, Any]:
    return {"judge": "gpt-x", "rubrics": {"pa": rubric}}


def numbers_in(value: Any) -> set[float]:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return set().union(*map(numbers_in, inner))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {float(value)} if is_number else set()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return page_of(WHOLE, tmp_path_factory.mktemp("page"))


def test_every_figure_on_the_page_is_one_of_the_calibration(whole):
    given = numbers_in(WHOLE)
    assert {float(value) for value in whole[0].values if value} <= given
    accepted = {7 / 8, 1 / 9}
    apart = re.sub(r"<style>.*?</style>|<[^>]*>", " ", whole[1], flags=re.DOTALL)
    written = set(re.findall(r"(?<![\w.])-?\d?\.\d{3}(?!\d)", apart))
    assert written <= {number(one) for one in given | accepted}
    assert {".851", ".903", ".751", ".812", "-.301", ".957", ".706"} <= written


def test_every_estimate_of_a_rubric_is_on_the_page_with_its_interval_and_its_verdict(tmp_path):
    page, text = page_of(only(BINARY), tmp_path)
    for name, score in BINARY.items():
        if isinstance(score, dict) and "low" in score:
            assert str(score["value"]) in page.values, name
            assert f"[{number(score['low'])}, {number(score['high'])}]" in page.text, name
    needed = ("always-met", "no item has a response", "omega", "alpha-1", "injection", "p = .031")
    needed += ("passes with caveats", "the interval begins below 0.85")
    assert [part for part in needed if part not in page.text] == []
    assert "verdict-limits" in text
    passed, _ = page_of(only({**BINARY, "verdict": "pass", "reasons": []}), tmp_path)
    told = ["the judge passes every gate" in one.text for one in (page, passed)]
    assert told == [False, True]


def test_the_page_needs_nothing_from_elsewhere_and_no_script(whole):
    page, text = whole
    assert not {"script", "link", "img", "iframe", "object"} & {name for name, _ in page.elements}
    assert all(str(link["href"]).startswith("#") for link in page.all("a"))
    assert not re.search(r"https?:|//[a-z]|url\(|@import", text)
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert str(policy).startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "script-src" not in str(policy)


def test_every_drawing_says_what_it_shows_and_links_lead_to_the_rubrics(whole):
    page, text = whole
    opened = re.findall(r'<svg [^>]*?(aria-label="[^"]+")?>', text)
    assert len(opened) > 60
    assert all(opened)
    assert all(drawing.get("role") == "img" for drawing in page.all("svg"))
    assert "people 1, judge 0: 9 of 60 (15 %)" in text
    assert "judge 1.000, people .895 [.789, .951], n 57" in text
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {str(link["href"])[1:] for link in page.all("a")}
    assert {"rubric-1", "rubric-2", "rubric-3"} <= targets <= set(ids)


def test_what_the_judge_was_and_cost_stands_at_the_top(whole):
    facts = ("gpt-x-2026-01-01", "temperature 0.0", "valid until 2026-05-04", "not pinned")
    facts += ("56,789", "$0.1234", "1 pass, 1 passes with caveats, 1 fail")
    assert [fact for fact in facts if fact not in whole[0].text] == []
    assert "None" not in whole[0].text


def test_a_rubric_of_bare_counts_has_a_page(tmp_path):
    page, _ = page_of(only(BARE), tmp_path)
    assert "no item has both" in page.text
    assert not page.all("figure")


@pytest.mark.parametrize("name", PARTS)
def test_an_absent_part_is_left_out_and_no_more(name, tmp_path):
    without = {key: value for key, value in BINARY.items() if key != name}
    page, _ = page_of(only(without), tmp_path)
    assert not {"nan", "None", "Undefined"} & set(re.findall(r"\w+", page.text))
    left_out = [part for part, title in SHOWN.items() if title not in page.text]
    assert left_out == [part for part in SHOWN if part == name]
    band = "The band shows the kappa between people" in page.text
    assert band == (name not in ("pairs", "people_kappa"))


def test_figures_without_a_value_or_an_interval(tmp_path):
    nothing = {"value": None, "low": None, "high": None, "n": 0}
    broken = {"value": float("nan"), "low": 0.1, "high": float("inf"), "n": 3}
    alone = {"value": 0.432, "low": None, "high": None, "n": 1}
    found = {"kappa": nothing, "ac1": broken, "alpha_people": alone, "people_kappa": nothing}
    found["alternative_annotator"] = {"omega": float("nan"), "status": "s"}
    page, text = page_of(only({**BINARY, **found}), tmp_path)
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert "0.432" in page.values
    assert "AC1" not in page.text.split("Glossary")[1]


def test_hostile_names_stay_text(tmp_path):
    found = copy.deepcopy(BINARY)
    found["reasons"] = [HOSTILE]
    found["scale"]["values"] = found["confusion"]["values"] = ["no", HOSTILE]
    found["pairs"][0]["one"] = HOSTILE
    found["references"] = {HOSTILE: {"n": 3, "kappa": estimate(0.1), "reason": HOSTILE}}
    found["acceptance"] = {HOSTILE: {"n": 2, "accepted": 1, "right": 1}}
    found["heterogeneity"] = {HOSTILE: {"p": 0.5, "agreement": {HOSTILE: 0.5}}}
    found["base_rates"] = {side: {HOSTILE: 0.5} for side in ("people", "judge")}
    found["alternative_annotator"]["status"] = HOSTILE
    whole = dict.fromkeys(("judge", "fingerprint", "labels", "made", "expires"), HOSTILE)
    whole |= {"judge_fingerprint": {HOSTILE: HOSTILE}, "rubrics": {HOSTILE: found}}
    page, text = page_of(whole, tmp_path)
    assert not page.all("script")
    assert all("onload" not in attributes for _, attributes in page.elements)
    assert text.count("<svg") == text.count("</svg>")
    assert not {"\u202e", "\x1b"} & set(text)
    assert "alert('x')" in page.text


def test_many_rubrics_are_folded_but_all_there(tmp_path):
    many = {f"family/rubric_{n}": FIVE for n in range(21)}
    page, text = page_of({"judge": "gpt-x", "rubrics": many}, tmp_path)
    folds = page.all("details")
    assert len(folds) > 2 * 21
    assert all("open" not in fold for fold in folds)
    shown = re.findall(r"<bdi>(.*?)</bdi>", text)
    for name in many:
        assert shown.count(name.replace("/", "/<wbr>").replace("_", "_<wbr>")) == 2, name
    assert text.count("verdict-fail") == 2 * 21 + 1


def test_probabilities_are_drawn_on_their_own_axis(tmp_path):
    bins = []
    for p in range(1, 20, 2):
        share = {"judge": p / 20, "people": p / 20, "low": 0.0, "high": 1.0}
        bins.append({**share, "n": 1_000 + p})
    reliability = {"by": "probability", "bins": bins, "calibration_error": 0.0123}
    page, text = page_of(only({**BINARY, "reliability": reliability}), tmp_path)
    assert "the judge's probability" in page.text.replace("\u2019", "'")
    assert "0.0123" in page.values
    labels = re.findall(r'<text class="count" x="([\d.]+)" y="([\d.]+)"[^>]*>([\d,]+)<', text)
    counts = sorted((float(y), float(x)) for x, y, said in labels if said.startswith("1,0"))
    assert len(counts) == 10
    apart = [second[1] - first[1] for first, second in pairwise(counts) if first[0] == second[0]]
    assert min(apart) > 30


def test_where_the_page_cannot_go(tmp_path):
    folder = r"this is a folder; name a file, such as .*calibration\.html"
    with pytest.raises(UsageError, match=folder):
        write_calibration_page(WHOLE, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="choose another"):
        write_calibration_page(WHOLE, tmp_path / "file" / "page.html")
    with pytest.raises(UsageError, match="no rubric"):
        write_calibration_page({"judge": "gpt-x", "rubrics": {}}, tmp_path / "page.html")


def test_axes_hold_what_is_drawn_on_them():
    lowest = [axis_for([estimate(value)]) for value in (0.5, 0.02, -0.9)]
    assert lowest == [Axis(0.0, 1.0), Axis(-0.25, 1.0), Axis(-1.0, 1.0)]
    assert Axis().ticks == [0.0, 0.25, 0.5, 0.75, 1.0]
    shares = [share_label(part) for part in (0.0, 0.001, 0.25, 0.999, 1.0)]
    assert shares == ["0 %", "<1 %", "25 %", ">99 %", "100 %"]
