import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from alps.errors import RunFolderError, UsageError
from alps.ext.looking.distributions import BarPart, stacked
from alps.ext.looking.record import LIMIT, rule
from alps.ext.looking.report_page import SCRIPT, write_report
from alps.rows import Score
from alps.run.opened import AnswerKey, open_run
from alps.show import charts
from alps.show.compare import compare_runs
from alps.show.formatting import MEANINGS, number, signed
from alps.tasks import TASKS, load_task
from alps.tasks.record_parts import ScoredAnswer
from tests.endtoend import edit_json, run, task1, write_rows
from tests.few import few
from tests.pages import Page, browser, look, tab_of
from tests.report_runs import ARABIC, RECORDS, assert_is_no_markup, choose, folded

__all__ = ["browser"]  # a fixture


@pytest.fixture(scope="module")
def pages(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield {
            "samples": write_report([place / "samples-run"], place / "samples.html"),
            "hard": write_report([place / "hard-run"], place / "hard.html"),
            "both": write_report(
                [place / "samples-run", place / "hard-run", place / "samples-run"],
                place / "both.html",
            ),
        }


@pytest.fixture(params=["samples", "hard", "both"])
def page(pages, request):
    return Page(pages[request.param].read_text(encoding="utf-8"))


@pytest.fixture
def hard_page(pages):
    return Page(pages["hard"].read_text(encoding="utf-8"))


def read(out: Path) -> Page:
    return Page(out.read_text(encoding="utf-8"))


@pytest.mark.release
def test_the_same_run_gives_the_same_bytes_wherever_it_lies(pages, place, tmp_path):
    copy = Path(shutil.copytree(place / "hard-run", tmp_path / "elsewhere" / "hard-run"))
    probe = (
        "import sys; from pathlib import Path; "
        "from alps.ext.looking.report_page import write_report; "
        "write_report([Path(sys.argv[1])], Path(sys.argv[2]))"
    )
    again = tmp_path / "again.html"
    subprocess.run([sys.executable, "-c", probe, str(copy), str(again)], cwd=place, check=True)
    assert again.read_bytes() == pages["hard"].read_bytes()


@pytest.mark.parametrize("name", ["samples", "hard"])
def test_the_numbers_on_the_page_are_those_of_the_summary(pages, place, name):
    page, found = read(pages[name]), task1(place / f"{name}-run")
    for score in found["scores"].values():
        for key in ("value", "worst_case", "best_case"):
            if score.get(key) is not None:
                assert str(score[key]) in page.values
        if score["low"] is not None:
            assert f"[{number(score['low'])}, {number(score['high'])}]" in page.text
    for floor in found["floors"].values():
        assert str(floor["scores"]["f1"]["value"]) in page.values
        if "above" in floor:
            assert str(floor["above"]["value"]) in page.values
    for key in ("n", "scored", "unscored"):
        assert str(found[key]) in page.values


def test_every_kind_of_failure_is_counted_and_put_in_words(hard_page, place):
    found = task1(place / "hard-run")
    for kind in ("refused", "truncated", "unparsable", "invalid", "empty", "transport"):
        assert found["failed_predictions"][kind] == 1
        assert MEANINGS[kind] in hard_page.text
    assert "judge empty" in hard_page.text
    said = folded(hard_page.text)
    assert f"{found['unscored']} records unscored" in said
    assert "invalid responses, given the minimum score" in said
    bar = next(drawn for drawn in hard_page.all("svg") if drawn["class"] == "stacked")
    counts = [int(part.split()[0]) for part in str(bar["aria-label"]).split(", ")]
    assert sum(counts) == found["n"] == len(RECORDS)


def test_hostile_text_stays_text(hard_page):
    assert_is_no_markup(hard_page, SCRIPT)
    assert "<script>document.title = 'owned'</script>" in hard_page.text
    assert '<img src=x onerror="document.title=1">' in hard_page.text
    assert len(hard_page.all("script")) == 1
    assert "\u202e" not in hard_page.text


REQUESTING = {"src", "href", "xlink:href", "srcset", "data", "action", "formaction", "poster"}
REQUESTING |= {"background", "ping"}


def test_nothing_on_the_page_can_be_requested(page):
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    for tag, attributes in page.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "image"}
        for name in REQUESTING & attributes.keys():
            target = str(attributes[name])
            assert target.startswith("#")
            assert target[1:] in ids
    metas = page.all("meta")
    policies = [meta for meta in metas if meta.get("http-equiv") == "Content-Security-Policy"]
    (policy,) = (str(meta["content"]) for meta in policies)
    assert policy.startswith(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline' "
        "'sha256-"
    )


def test_ids_are_unique_and_every_table_has_headings(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(page.all("h1")) == 1
    assert all(heading.get("scope") for heading in page.all("th"))
    assert all(drawn.get("aria-label") or "aria-hidden" in drawn for drawn in page.all("svg"))


def test_an_embedded_judge_is_marked_as_not_comparable(pages, copied_run, tmp_path):
    assert "not comparable" in read(pages["samples"]).text
    edit_json(copied_run / "summary.json", lambda summary: summary.update(comparable=True))
    assert "not comparable" not in read(write_report([copied_run], tmp_path / "out.html")).text


def test_an_unknown_cost_is_a_dash_and_never_zero(copied_run, tmp_path):
    tokens = {"prompt_tokens": 1_000_000, "completion_tokens": 9}
    calls = {"http": 12_345, "cached": 7, **tokens, "cost": None, "unpriced": 5}
    edit_json(copied_run / "summary.json", lambda summary: summary.update(calls=calls))
    page = read(write_report([copied_run], tmp_path / "out.html"))
    assert "– 5 without a price" in page.text
    assert "12,345" in page.text
    assert "$0" not in page.text


def test_bounds_are_shown_only_where_records_are_unscored(pages):
    assert "could be anywhere between" in read(pages["hard"]).text
    assert "could be anywhere between" not in read(pages["samples"]).text


def test_runs_under_different_judges_stand_apart(pages):
    page = read(pages["both"])
    sections = [section for section in page.all("section") if "id" in section]
    ids = [str(section["id"]) for section in sections]
    assert [name for name in ids if name.startswith("headline-")] == ["headline-1", "headline-2"]
    assert page.text.count("because their scores cannot be ranked together") == 1
    runs = [section["id"] for section in sections if section.get("class") == "run"]
    assert runs == ["run-a", "run-b", "run-c"]


def test_right_to_left_text_finds_its_own_direction(pages):
    text = pages["hard"].read_text(encoding="utf-8")
    places = [match.start() for match in re.finditer(ARABIC.split()[0], text)]
    assert len(places) >= 2  # in the summary of its record, and in its dialogue
    for at in places:
        # A bdi finds the direction of its text by itself.
        opened = max(text.rfind("<bdi", 0, at), text.rfind('dir="auto"', 0, at))
        closed = max(text.rfind("</bdi>", 0, at), text.rfind("</p>", 0, at))
        assert opened > closed, text[at - 80 : at]


def test_evidence_is_marked_and_long_turns_are_folded_around_it(hard_page):
    assert hard_page.all("mark")
    assert "I am allergic to cashews" in hard_page.text
    assert "more characters" in hard_page.text
    assert "11 more rows" in hard_page.text  # of the fifty inventions


def test_the_page_is_written_without_its_data(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = read(write_report([place / "hard-run"], tmp_path / "deep" / "out.html"))
    assert "data not readable, so dialogues and gold are not shown" in page.text
    assert "Runs 10 km every Sunday" in page.text


def edit_summary(change):
    return lambda run: edit_json(run / "summary.json", change)


REFUSED = {
    "unfinished": (lambda run: (run / "summary.json").unlink(), UsageError, "not finished"),
    "no baselines": (
        edit_summary(lambda summary: summary["tracks"]["task1"].pop("floors")),
        RunFolderError,
        "not a run of this alps",
    ),
    "no task": (
        edit_summary(lambda summary: summary.update(tracks={})),
        RunFolderError,
        "has no task",
    ),
}


@pytest.mark.parametrize(("change", "error", "told"), REFUSED.values(), ids=REFUSED)
def test_a_run_without_its_figures_is_refused(copied_run, tmp_path, change, error, told):
    change(copied_run)
    with pytest.raises(error, match=told):
        write_report([copied_run], tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()


def test_a_folder_no_run_and_a_full_disk_are_refused(copied_run, tmp_path):
    with pytest.raises(UsageError, match=r"this is a folder; name a file"):
        write_report([copied_run], tmp_path)
    with pytest.raises(UsageError, match="no run to report on"):
        write_report([], tmp_path / "out.html")
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="choose another out="):
        write_report([copied_run], tmp_path / "file" / "out.html")


def test_the_chosen_records_follow_the_rule(copied_run):
    run = open_run(copied_run)
    groups = load_task("extraction").shown.highlights
    chosen = {
        group.title: [key.id for key in keys]
        for group, keys in choose(groups, run.rows("scores"), run.rows("predictions"))
    }
    assert chosen["invalid responses"] == ["refused", "truncated", "unparsable", "invalid", "empty"]
    assert chosen["judging failed"] == ["unjudged"]
    assert chosen["none of many gold memories found"][0] == "script"
    assert chosen["repaired responses"] == ["mended"]
    assert chosen["best answers"][:1] == ["perfect"]
    every = [key for keys in chosen.values() for key in keys]
    assert len(every) == len(set(every)) <= LIMIT
    assert {"withheld", "unheard"}.isdisjoint(every)


def test_empty_places_are_given_out_again():
    def row(gold):
        counts = {"gold": gold, "predicted": 0, "matched": 0}
        return {"stage": "score", "outcome": "ok", "counts": counts}

    scores = {AnswerKey("task1", f"r{n}"): row(gold=1 + n % 7) for n in range(100)}
    ((group, keys),) = choose(load_task("extraction").shown.highlights, scores, {})
    assert len(keys) == LIMIT > group.quota
    assert [scores[key]["counts"]["gold"] for key in keys] == [7] * 14 + [6] * 6
    assert keys[:2] == [AnswerKey("task1", "r6"), AnswerKey("task1", "r13")]


def test_of_many_records_the_best_of_all_are_chosen():
    draw = Random(0)
    scores: dict[AnswerKey, dict[str, Any]] = {}
    for n in range(3_000):
        found = draw.randrange(4)
        values = {"f1": found / 4, "recall": found / 4, "precision": 1.0}
        row = {"outcome": "ok", "stage": "score", "scores": values}
        scores[AnswerKey("task1", f"r{n}")] = {**row, "counts": {"gold": 9, "matched": found}}
    groups = load_task("extraction").shown.highlights
    ranked = []
    for group in groups:
        ranks = {key: group.rank(ScoredAnswer("ok", row)) for key, row in scores.items()}
        own = [key for key, rank in ranks.items() if rank is not None]
        # Python's sort keeps the order of the data among equal ranks, in reverse, too.
        ranked.append(sorted(own, key=lambda key: ranks[key] or (), reverse=True))
    chosen = {group.title: keys for group, keys in choose(groups, scores, {})}
    taken: set[AnswerKey] = set()
    for group, keys in zip(groups, ranked, strict=True):
        if (first := chosen.get(group.title)) is not None:
            left = [key for key in keys if key not in taken]
            assert first == left[: len(first)]
            taken.update(first)
    assert len(chosen) > 1
    assert len(taken) == LIMIT


@pytest.mark.parametrize("task", TASKS)
def test_the_printed_rule_names_every_group_and_the_places_add_up(task):
    groups = load_task(task).shown.highlights
    assert sum(group.quota for group in groups) == LIMIT
    assert all(f"{group.title} (up to {group.quota})" in rule(groups) for group in groups)


def test_a_whisker_lies_where_its_score_is():
    score = Score(value=0.25, low=0.125, high=0.5, n=9, worst_case=0.2, best_case=0.6)
    drawn = charts.whisker(score, name="<F1>")
    assert 'cx="25%"' in drawn
    assert 'x1="12.5%" x2="50%"' in drawn
    assert "&lt;F1&gt;: .250, 95 % interval [.125, .500]" in drawn
    error = score.model_copy(update={"worst_case": 0.6, "best_case": 0.2})
    for whisker in (drawn, charts.whisker(error, name="error")):
        assert 'x="20%" y="5" width="40%"' in whisker
    assert charts.whisker(Score(value=None, low=None, high=None, n=0), name="F1") == ""


def test_the_parts_of_a_bar_fill_it():
    counts = (("a", "ok", 3), ("b", "repaired", 0), ("<c>", "unscored", 1))
    drawn = stacked([BarPart(*part) for part in counts], name="bar")
    assert 'x="0%" y="0" width="75%"' in drawn
    assert 'x="75%" y="0" width="25%"' in drawn
    assert 'aria-label="3 a, 1 &lt;c&gt;"' in drawn
    assert stacked([BarPart("a", "ok", 0)], name="bar") == ""


def test_records_at_one_place_are_one_dot_whose_area_is_their_number():
    drawn = charts.plane([], [(0.5, 0.5)] * 4 + [(1.0, 1.0)], name="plane")
    assert drawn.count('class="record-dot"') == 2
    assert 'r="10"' in drawn
    assert 'r="5"' in drawn
    assert "4 records: precision .500, recall .500" in drawn
    assert "1 record: precision 1.000, recall 1.000" in drawn


LOOKS = [("samples", 1280, "light"), ("hard", 1280, "dark"), ("both", 375, "light")]
OTHERS = itertools.product(("samples", "hard", "both"), (1280, 375), ("light", "dark"))
LOOKS += [look_ for look_ in OTHERS if look_ not in LOOKS]


@pytest.mark.parametrize(("name", "width", "scheme"), few(LOOKS, 3))
def test_a_browser_shows_it_whole_and_asks_for_nothing(browser, pages, name, width, scheme):
    look(browser, pages[name], width=width, scheme=scheme)


def test_one_run_takes_three_screens_and_a_link_unfolds_what_it_leads_to(browser, pages):
    with tab_of(browser, width=1280) as page:
        for name in ("samples", "hard"):
            page.goto(pages[name].as_uri())
            assert page.evaluate("document.documentElement.scrollHeight") <= 3 * 800
            for link in page.query_selector_all("nav.contents a"):
                assert page.query_selector(str(link.get_attribute("href"))) is not None
        page.goto(pages["both"].as_uri())
        assert page.query_selector("#run-b > details[open]") is None
        page.click("a[href='#run-b']")
        page.wait_for_selector("#run-b > details[open]")


def test_two_runs_are_printed_on_a_few_pages(browser, pages):
    with tab_of(browser) as page:
        page.goto(pages["both"].as_uri())
        assert page.query_selector("details.record") is not None
        assert len(re.findall(rb"/Type */Page\b", page.pdf())) <= 20
        assert page.query_selector("#run-b > details[open]") is not None
        assert page.query_selector("details.record[open]") is None


def test_the_first_screen_has_every_score_its_baseline_and_records_worth_reading(
    browser, pages, place
):
    found = task1(place / "samples-run")
    with tab_of(browser, width=1280) as page:
        page.goto(pages["samples"].as_uri())
        assert page.inner_text("h1") == (
            "rules: extraction, F1 .069, not above the best trivial baseline"
        )
        assert "judged by lexical, for debugging" in page.inner_text("header")
        label = str(page.get_attribute("table.scores svg.whisker[aria-label]", "aria-label"))
        best = max(floor["scores"]["f1"]["value"] for floor in found["floors"].values())
        assert label.endswith(f"best trivial baseline {number(best)}")
        assert signed(found["floors"]["floor/empty"]["above"]["value"]) in page.inner_text(
            "table.scores"
        )
        whys = [one.inner_text() for one in page.query_selector_all("ul.notable .why")]
        assert whys == ["worst", "best"]  # no call was paid for
        scores = [one.inner_text() for one in page.query_selector_all("ul.notable .number")]
        assert float(scores[0]) < float(scores[1])
        assert all(one.inner_text() for one in page.query_selector_all("ul.notable .opening"))
        # All of that is on the first screen, and each link unfolds its record.
        bottom = page.evaluate(
            "document.querySelector('nav.contents').getBoundingClientRect().bottom"
        )
        assert bottom <= 800
        for link in page.query_selector_all("ul.notable a"):
            link.click()
            page.wait_for_selector(f"{link.get_attribute('href')}[open]")
            page.evaluate("scrollTo(0, 0)")


def test_unfolding_all_leaves_records_folded(browser, pages):
    with tab_of(browser, width=1280) as page:
        page.goto(pages["hard"].as_uri())
        page.click("nav.contents button.toggle")
        assert page.query_selector("details.record[open]") is None
        assert page.query_selector("details:not(.record):not([open])") is None
        assert page.evaluate("document.documentElement.scrollHeight") <= 12 * 800
        page.click("nav.contents button.toggle")
        assert page.query_selector("details[open]") is None


def test_a_difference_on_some_of_the_records_is_marked_and_the_mark_explained(copied_run, tmp_path):
    explained = "†: Δ covers only the records with a judged baseline"
    assert "†" not in read(write_report([copied_run], tmp_path / "all.html")).text

    def judged_on_some(summary):
        floor = next(iter(summary["tracks"]["task1"]["floors"].values()))
        floor["above"]["n"] = 3

    edit_json(copied_run / "summary.json", judged_on_some)
    page = read(write_report([copied_run], tmp_path / "some.html"))
    assert page.text.count("†") == 2
    assert explained in page.text


def test_a_run_below_a_baseline_warns_on_the_first_screen(copied_run, tmp_path):
    def worse(summary):
        floor = next(iter(summary["tracks"]["task1"]["floors"].values()))
        floor["above"] = {**floor["above"], "value": -0.25, "low": -0.5, "high": -0.125}

    edit_json(copied_run / "summary.json", worse)
    page = read(write_report([copied_run], tmp_path / "below.html"))
    assert "Δ -.250 [-.500, -.125]" in page.text
    assert "below a trivial baseline" in page.text


def test_the_most_costly_record_is_named_by_what_its_answer_cost(copied_run, tmp_path):
    costs = (("perfect", 0.002), ("script", 0.03), ("script", 0.01), ("arabic", 0.001))
    calls = []
    for about, cost in costs:
        call = {"purpose": "generate", "about": about, "cost": cost, "prompt_tokens": 10}
        calls.append(call)
    # What a judge cost is no part of an answer.
    calls.append({"purpose": "judge", "about": "arabic", "cost": 9.0})
    write_rows(copied_run / "calls.jsonl", calls)
    page = read(write_report([copied_run], tmp_path / "out.html"))
    assert "most costly, $0.04 script" in folded(page.text)


def test_two_runs_begin_with_their_difference(place, monkeypatch, tmp_path):
    monkeypatch.chdir(place)
    words = ("task=extraction", "model=oracle", "data=samples", "out=oracle-run")
    finished = run(tmp_path, "run", *words)
    assert finished.returncode == 0, finished.stderr
    folders = [place / "samples-run", tmp_path / "oracle-run"]
    page = read(write_report(folders, tmp_path / "both.html"))
    (difference,) = compare_runs(folders).tracks[0].metrics[0].contrasts
    estimate = difference.difference.estimate
    # Shown of the better run, as the sentence above it.
    assert str(-estimate.value) in page.values
    said = folded(page.text)
    ends = f"[{number(-estimate.high)}, {number(-estimate.low)}]"
    assert f"{signed(-estimate.value)} {ends}" in said
    assert said.index("oracle +.931 F1 over rules") < said.index("Largest differences")
    tags = [tag for tag, _ in page.elements]
    assert tags.index("section") > tags.index("table")


def test_of_three_runs_each_is_shown_less_the_best(place, monkeypatch, tmp_path):
    monkeypatch.chdir(place)
    for model, out in (("oracle", "oracle-run"), ("floor/empty", "empty-run")):
        words = ("task=extraction", f"model={model}", "data=samples", f"out={out}")
        finished = run(tmp_path, "run", *words)
        assert finished.returncode == 0, finished.stderr
    folders = [place / "samples-run", tmp_path / "oracle-run", tmp_path / "empty-run"]
    page = read(write_report(folders, tmp_path / "three.html"))
    contrasts = compare_runs(folders).tracks[0].metrics[0].contrasts
    less_the_best = {one.first: one.difference.estimate.value for one in contrasts[:1]}
    less_the_best |= {one.second: -one.difference.estimate.value for one in contrasts[2:]}
    assert sorted(less_the_best) == ["A", "C"]
    assert all(value < 0 for value in less_the_best.values())
    assert set(map(str, less_the_best.values())) <= set(page.values)
