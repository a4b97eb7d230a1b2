"""Scores of a run that a calibration of its judge corrects, and calibrations that correct none."""

import json
import math
import shutil
from datetime import date
from pathlib import Path
from statistics import NormalDist, fmean

import pytest

from alps.ext.calibration.calibration_file import Calibration, bound, differing_part
from alps.judges.llm import LlmJudge
from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.packing import pack
from alps.leaderboard.pages import FilePlace
from alps.leaderboard.pages.board_table import corrected as corrected_cell
from alps.leaderboard.verify import Options, verify
from alps.tasks import all_tracks
from tests.endtoend import rows, summary, write_rows
from tests.few import few
from tests.loopback import Answer, serve
from tests.submissions import DROPPED, changed, forge, said
from tests.tracks import alps_done, alps_here, felt, met, payload_of, target_row, write_ability

RECORDS = 20
TRACK = "task4_ability1"
ELSEWHERE = "calibrated at another judge_api_base"


@pytest.fixture(autouse=True)
def own_calibrations(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CALIBRATIONS", str(tmp_path / "known"))


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A run with twenty answers to personal queries, the server of its judge, and by the number of
    labelled answers calibrations of the judge; nobody changes them.
    """
    folder = tmp_path_factory.mktemp("once")
    with serve(strict) as server:
        known = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ALPS_CACHE", str(folder / "cache"))
            patch.setenv("ALPS_CALIBRATIONS", str(folder / "known"))
            run = make_run(folder)
            for n in (9, 12, RECORDS):
                known[n] = calibrated(run, server, n=n).rename(folder / f"calibration-{n}")
                shutil.rmtree(folder / "labels")
        yield run, server, known


@pytest.fixture
def run(once):
    return once[0]


@pytest.fixture
def server(once):
    return once[1]


@pytest.fixture
def known(once, tmp_path):
    """Copy a calibration by so many labels, and change it; return its folder."""

    def copied(n=12, change=lambda row: None):
        folder = Path(shutil.copytree(once[2][n], tmp_path / "calibration"))
        rewrite(folder, change)
        return folder

    return copied


def queries_of(**fields):
    asked = [(f"u{n}", [f"dinner number {n}?"]) for n in range(RECORDS)]
    return [target_row(name, queries=queries, **fields) for name, queries in asked]


def make_run(folder, ability=1, silent=(), **fields):
    """Run recorded answers; of the records whose numbers are `silent` nothing was said."""
    answers = []
    for n in range(RECORDS):
        said = "" if n in silent else f"My answer has the number {n}"
        answers.append({"benchmark_id": f"u{n}", "answer": said})
    path = write_rows(folder / "answers.jsonl", answers)
    data = write_ability(folder / "data", ability, *queries_of(**fields))
    word = {1: "pa", 2: "pf", 5: "ei"}[ability]
    words = ("task=utilization", f"ability={word}", f"model=predictions:{path}", f"data={data}")
    alps_done("run", *words, f"out={folder / 'run'}", "max_failures=100%")
    return folder / "run"


def number_of(text):
    return int(text.rpartition("number ")[2].rstrip("?"))


def strict(body):
    """Accept every fourth answer."""
    return met("met" if number_of(payload_of(body)["response"]) % 4 == 0 else "not_met")


def every_second(number, rubric, who):
    """Accept every second answer."""
    return number % 2


def label(folder, judge=every_second):
    """Label the drawn items as anna and ben would."""
    labels = []
    for item in rows(folder / "items.jsonl"):
        number = number_of(item["payload"]["response"])
        for who in ("anna", "ben"):
            given = {"item_id": item["item_id"], "annotator": who}
            labels.append({**given, "label": judge(number, item["rubric"], who)})
    write_rows(folder / "labels.jsonl", labels)


def under(server, name="openai/scripted-judge"):
    return f"judge={name}", f"judge_api_base={server.url}"


def calibrated(run, server, *, n=12, judge=every_second):
    """Draw labels from a run, fill them in, and calibrate the judge on them; return the
    calibration's folder.
    """
    labels, out = run.parent / "labels", run.parent / "calibration"
    assert alps_here("annotate", "draw", run, f"n={n}", f"out={labels}").code == 0
    label(labels, judge)
    alps_done("calibrate", *under(server), f"labels={labels}", f"out={out}")
    return out


def score(run, server, *words, out="scored", name="openai/scripted-judge"):
    where = (f"out={run.parent / out}", "baseline_records=0")
    ran = alps_here("score", run, *under(server, name), *where, *words)
    return ran if "Traceback" not in ran.err else pytest.fail(ran.err)


@pytest.fixture
def scored(run, server, known, tmp_path):
    """Score the run with a calibration that is changed; return what was printed, and what is
    corrected.
    """

    def go(change=lambda row: None, n=RECORDS):
        given = f"calibration={known(n, change)}"
        ran = score(run, server, given, out=tmp_path / "scored")
        assert ran.code == 0, ran.err
        return ran, corrected(tmp_path / "scored")

    return go


def corrected(folder, metric="pa", track=TRACK):
    return summary(folder)["tracks"][track]["scores"][metric].get("corrected")


def shown(folder):
    return " ".join(alps_here("show", folder).out.split())


def rewrite(folder, change):
    path = folder / "calibration.json"
    row = json.loads(path.read_text())
    change(row)
    path.write_text(json.dumps(row))


def transport(change=lambda report: None):
    """Return a change after which the labelled items are no sample of the run: 60 met, 60 not, some
    of them misjudged.
    """
    counts = {(1, 1): 50, (1, 0): 10, (0, 1): 5, (0, 0): 55}
    cells = [cell for cell, count in counts.items() for _ in range(count)]
    items = [[f"x{n}", None, truth, said, truth] for n, (truth, said) in enumerate(cells)]

    def transported(row):
        row["rubrics"]["pa"] |= {"labelled": items, "sample": None}
        change(row["rubrics"]["pa"])

    return transported


def test_labels_on_a_random_sample_of_the_run_carry_the_corrected_score(scored, tmp_path):
    ran, found = scored()
    expected = {"method": "ppi", "status": "corrected", "labelled": 20, "judged": 20}
    assert {name: found[name] for name in expected} == expected
    assert found["value"] == pytest.approx(0.5)
    judged = summary(tmp_path / "scored")["tracks"][TRACK]["scores"]["pa"]["value"]
    assert judged == pytest.approx(0.25)
    (row,) = (line for line in ran.out.splitlines() if line.startswith(" corrected "))
    assert row.split()[1] == ".500"
    # Of twenty labels the judge fails its calibration.
    assert row.endswith("by 20 labels, doubtful")
    lines = alps_here("show", tmp_path / "scored").out.splitlines()
    table = next(line for line in lines if ".250 [" in line and ".500 [" in line)
    assert "persona awareness" in table
    assert "random sample" in shown(tmp_path / "scored")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert alps_here("report", tmp_path / "scored", f"out={tmp_path / 'page.html'}").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "random sample" in page
    assert f'value="{found["value"]}">.500' in page


def test_a_calibration_of_another_endpoint_is_doubtful_and_of_the_same_is_not(
    run, server, known, tmp_path
):
    calibration = known(RECORDS)
    same, elsewhere = tmp_path / "same", tmp_path / "elsewhere"
    assert score(run, server, f"calibration={calibration}", out=same).code == 0
    with serve(strict) as other:
        at_another = score(run, other, f"calibration={calibration}", out=elsewhere)
    assert "labels, doubtful" in at_another.out
    for folder, told in ((same, False), (elsewhere, True)):
        assert (ELSEWHERE in shown(folder)) == told
        assert (ELSEWHERE in corrected(folder)["notes"]) == told
    shutil.copytree(calibration, tmp_path / "known" / "of-mine")
    mine = SubmitterDetails(name="Mine", submitted="2026-01-31")
    packed = pack([elsewhere], mine, out=tmp_path / "mine")
    assert ELSEWHERE in packed.card.tracks[TRACK].scores["pa"].corrected.notes
    assert packed.verification.consistent
    assert {finding.code for finding in packed.verification.findings} == {"constant"}
    place = f"tracks.{TRACK}.scores.pa.corrected.value"
    forge(packed.folder, changed(place, 0.9))
    found = verify(packed.folder, Options(data=str(run.parent / "data")))
    assert said(found, "score").where == place


def test_people_who_disagree_count_half(run, server, tmp_path):
    own = Path(shutil.copytree(run, tmp_path / "run"))
    calibration = calibrated(own, server, n=20, judge=lambda number, rubric, who: who == "anna")
    score(own, server, f"calibration={calibration}")
    found = corrected(tmp_path / "scored")
    assert (found["value"], found["labelled"]) == (pytest.approx(0.5), 20)


def test_error_rates_from_other_items_are_carried_over(scored, tmp_path):
    _, found = scored(transport())
    assert (found["method"], found["labelled"]) == ("rogan_gladen", 120)
    assert found["value"] == pytest.approx((0.25 + 55 / 60 - 1) / (50 / 60 + 55 / 60 - 1))
    assert found["low"] < found["value"] < found["high"]
    assert found["outside"]
    assert "!" in shown(tmp_path / "scored")
    assert "assumes that the judge errs as often" in shown(tmp_path / "scored")


def test_a_corrected_score_off_the_scale_says_so_where_it_stands(scored, tmp_path):
    def lenient(report):
        for item in report["labelled"][60:90]:
            item[3] = 1

    ran, found = scored(transport(lenient))
    assert found["impossible"]
    assert found["value"] < 0
    told = "by 120 labels: off the scale, the calibration may not fit"
    assert told in " ".join(ran.out.split())
    assert "A corrected score is off the scale" in shown(tmp_path / "scored")
    task = all_tracks()[TRACK]
    audit = FilePlace("card", "", {"scores": {}})
    for impossible in (True, False):
        place = FilePlace("card", "", {"corrected": {**found, "impossible": impossible}})
        cell = corrected_cell(place, audit, task.headline, task, drawn=False)
        assert ("off the scale, may not fit" in cell) is impossible


def test_a_judge_that_nearly_guesses_is_not_correctable(scored, tmp_path):
    def guess(report):
        for n, item in enumerate(report["labelled"]):
            item[3] = n % 2

    ran, found = scored(transport(guess))
    assert (found["status"], found["value"]) == ("not_correctable", None)
    assert "not correctable" in ran.out
    assert "so the judge hardly does better than guessing" in shown(tmp_path / "scored")


@pytest.mark.release
def test_people_s_disputes_are_carried_over_too(scored):
    disputed = []
    for n in range(40):
        disputed += [[f"x{n}", None, 1, 1, 1.0], [f"y{n}", None, 0, 0, 0.0]]
        disputed.append([f"z{n}", None, None, n % 2, 0.5])
    _, found = scored(transport(lambda report: report.update(labelled=disputed)))
    assert found["labelled"] == 120
    assert found["youden"]["value"] == pytest.approx(50 / 60 + 50 / 60 - 1)


@pytest.mark.release
def test_a_sample_of_several_tracks_is_none_of_another_run(scored):
    tracks = {TRACK: {"population": 20, "drawn": 12, "predictions": "0" * 64}}
    several = {"random": True, "drawn": 12, "track": None, "predictions": None, "tracks": tracks}
    _, found = scored(changed("rubrics.pa.sample", several), 12)
    assert found["method"] == "rogan_gladen"


@pytest.mark.release
def test_too_few_labels_on_a_sample_carry_nothing(scored):
    fifteen = changed("rubrics.pa.labelled", lambda labelled: labelled[:15])
    _, found = scored(fifteen)
    assert "5 of 20 drawn answers have no label under pa" in found["reason"]


@pytest.mark.release
def test_nine_labels_carry_nothing(scored):
    assert "only 9 labelled answers; label at least 10" in scored(n=9)[1]["reason"]


@pytest.mark.release
def test_the_same_answers_under_other_gold_are_another_population(run, server, known, tmp_path):
    data = write_ability(tmp_path / "other", 1, *queries_of(value="Keeps eels"))
    words = (f"model=predictions:{run.parent / 'answers.jsonl'}", f"data={data}")
    asked = ("task=utilization", "ability=pa", "baseline_records=0", f"out={tmp_path / 'again'}")
    alps_here("run", *asked, *words, *under(server), f"calibration={known(RECORDS)}")
    assert corrected(tmp_path / "again")["method"] == "rogan_gladen"


@pytest.mark.release
@pytest.mark.parametrize(
    ("silent", "people", "judged"),
    [((0, 10), every_second, 18), (range(0, RECORDS, 2), lambda *item: 1, 10)],
    ids=["two", "half"],
)
def test_answers_that_failed_are_the_worst_of_a_corrected_score(
    tmp_path, server, silent, people, judged
):
    run = make_run(tmp_path, silent=silent)
    calibration = calibrated(run, server, n=RECORDS, judge=people)
    score(run, server, f"calibration={calibration}")
    found = corrected(tmp_path / "scored")
    assert (found["value"], found["judged"], found["n"]) == (pytest.approx(0.5), judged, 20)
    # The share of failed answers is chance, too: it alone bounds a score of full marks above.
    if judged == 10:
        by_chance = NormalDist().inv_cdf(0.975) * math.sqrt(0.25 / (RECORDS - 1))
        assert found["high"] - 0.5 == pytest.approx(by_chance)
        assert 0.5 - found["low"] > by_chance


def test_what_lies_in_the_users_folder_is_found_and_can_be_turned_off(run, server, known, tmp_path):
    known(RECORDS).rename(tmp_path / "known")
    score(run, server, out=tmp_path / "scored")
    score(run, server, "calibration=off", out=tmp_path / "raw")
    assert corrected(tmp_path / "scored")["value"] == pytest.approx(0.5)
    assert corrected(tmp_path / "raw") is None


def to_vra(rubrics):
    return {"vra": rubrics["pa"]}


LABELLED, FILE = "rubrics.pa.labelled", "calibration.json, "
REFUSED = {
    "parser": (changed("judge_fingerprint.parser", "0"), 'judge.parser was "0"'),
    "decoding": (changed("judge_fingerprint.decoding", {"temperature": 1}), "judge.decoding was"),
    "rubric": (changed("rubrics.pa.rubric_sha256", "0"), "the text of rubric pa has changed since"),
    "expired": (changed("expires", "2020-01-01"), "it expired on 2020-01-01"),
    "recorded": (changed("judge_fingerprint", DROPPED), "recorded verdicts"),
    "another rubric": (changed("rubrics", to_vra), "the calibration has no rubric pa"),
    # Error rates of items that were made wrong on purpose are others.
    "known answers": (
        changed("rubrics.pa.acceptance", {"good": {"n": 1}}),
        "it was made on known answers, where error rates differ",
    ),
    "no day": (changed("expires", None), "its expiry, null, is not a date"),
    "a word for a day": (changed("expires", "never"), "is not a date"),
    "a number for a day": (changed("expires", 7), FILE + "expires"),
    "another form of day": (changed("expires", "31.12.2099"), "is not a date"),
    "a short item": (changed(LABELLED, [["x"]]), FILE + LABELLED),
    "a mean off the scale": (changed(LABELLED, [["x", None, 1, 1, 7]]), FILE + "rubrics.pa"),
    "a truth off the scale": (changed(LABELLED, [["x", None, 3, 1, 1]]), FILE + "rubrics.pa"),
    "a word for a sample": (changed("rubrics.pa.sample", "yes"), FILE + "rubrics.pa.sample"),
    "null": (lambda row: row["rubrics"]["pa"].update(scale=None, labelled=None), FILE + LABELLED),
    "no rubrics": (changed("rubrics", []), FILE + "rubrics"),
}
DAILY = {"parser", "another rubric", "known answers", "no day", "a number for a day"}
DAILY |= {"a short item", "no rubrics"}


@pytest.mark.parametrize(("change", "said"), few(REFUSED, DAILY))
def test_a_calibration_that_fits_not_or_was_edited_is_refused_where_given_and_else_left_out(
    run, server, known, tmp_path, change, said
):
    """Given, the part is named, and the judge is asked nothing; found, the run goes on without."""
    calibration, asked = known(change=change), len(server.requests)
    refused = score(run, server, f"calibration={calibration}", out=tmp_path / "x").one_line
    assert said in refused
    assert len(server.requests) == asked
    (tmp_path / "known").mkdir()
    calibration.rename(tmp_path / "known" / "x")
    (tmp_path / "known" / "folder.json").mkdir()
    ran = score(run, server, out=tmp_path / "again")
    assert ran.code == 0
    assert corrected(tmp_path / "again") is None
    assert "Calibration not used" in ran.out


def test_a_calibration_of_several_rubrics_is_refused_for_what_is_wrong_with_one(tmp_path, server):
    run = make_run(tmp_path, ability=2, label="Preferences/Interaction_Preferences")
    calibration = calibrated(run, server)
    row = json.loads((calibration / "calibration.json").read_text())
    assert row["rubrics"].keys() == {"pf_interaction"}
    rewrite(calibration, changed("expires", "2020-01-01"))
    assert "it expired on 2020-01-01" in score(run, server, f"calibration={calibration}").one_line


def test_a_calibration_of_another_judge_or_for_no_means_is_refused(run, server, known, tmp_path):
    given = f"calibration={known()}"
    refused = score(run, server, given, name="openai/another", out=tmp_path / "x").one_line
    assert 'judge.judge was "openai/scripted-judge" and is now "openai/another"' in refused
    assert "; set judge=openai/scripted-judge, or calibrate again" in refused
    words = ("task=extraction", "model=rules", "limit=1", f"out={tmp_path / 'x'}")
    refused = alps_here("run", *words, given).one_line
    assert "a calibration cannot correct F1; use audit_labels=DIR" in refused


NONE = {None: "no calibration at this path; create one", "{": "not valid JSON"}
NONE |= {"[]": "not a calibration"}


@pytest.mark.parametrize(("text", "said"), NONE.items())
def test_what_is_no_calibration_is_one_line(run, server, tmp_path, text, said):
    path = tmp_path / "calibration.json"
    if text is not None:
        path.write_text(text)
    assert said in score(run, server, f"calibration={path}", out=tmp_path / "x").one_line


def test_a_folder_of_calibrations_that_is_a_file_is_refused(run, server, tmp_path, monkeypatch):
    (tmp_path / "known.json").write_text("{}")
    monkeypatch.setenv("ALPS_CALIBRATIONS", str(tmp_path / "known.json"))
    refused = score(run, server, out=tmp_path / "x").one_line
    assert "known.json: this is a file; name the folder that has your calibrations" in refused


@pytest.mark.release
def test_marks_on_a_scale_of_five_need_a_sample_of_the_run(tmp_path):
    run = make_run(tmp_path, ability=5)
    marks = {"ei_resonation": 2, "ei_expression": 3, "ei_reception": 4}

    def unsampled(row):
        for report in row["rubrics"].values():
            report["sample"] = None

    def found(folder, metric="ei"):
        return corrected(tmp_path / folder, metric, "task4_ability5")

    with serve(lambda body: felt(4, 4, 4)) as server:
        calibration = calibrated(run, server, n=20, judge=lambda number, rubric, who: marks[rubric])
        score(run, server, f"calibration={calibration}")
        rewrite(calibration, unsampled)
        score(run, server, f"calibration={calibration}", out="elsewhere")
    assert (found("scored")["method"], found("scored")["value"]) == ("ppi", pytest.approx(3))
    assert found("scored", "resonation")["value"] == pytest.approx(2)
    assert "label a random sample of this run" in found("elsewhere")["reason"]


@pytest.mark.release
def test_labels_that_are_all_the_least_of_five_are_no_share_and_leave_no_interval(tmp_path):
    run = make_run(tmp_path, ability=5)
    with serve(lambda body: felt(4, 4, 4)) as server:
        calibration = calibrated(run, server, judge=lambda *item: 1)
        score(run, server, f"calibration={calibration}")
    found = corrected(tmp_path / "scored", "ei", "task4_ability5")
    assert (found["value"], found["low"], found["high"], found["outside"]) == (1, None, None, False)
    assert any("all labels agree" in note for note in found["notes"])


@pytest.mark.release
def test_an_answer_that_the_judge_could_not_rate_is_of_the_population_and_pulls_no_score(tmp_path):
    def mute_on_odd(body):
        return Answer("?") if number_of(payload_of(body)["response"]) % 2 else met("met")

    run = make_run(tmp_path)
    with serve(mute_on_odd) as server:
        calibration = calibrated(run, server, n=11)
        score(run, server, f"calibration={calibration}", "max_failures=1")
    found = corrected(tmp_path / "scored")
    # What the judge could rate it rated alike: only what people say counts.
    assert (found["labelled"], found["judged"]) == (11, 20)
    labels = [row["label"] for row in rows(tmp_path / "labels" / "labels.jsonl")]
    assert found["value"] == pytest.approx(fmean(labels))


@pytest.mark.release
def test_what_is_doubtful_is_said_and_the_sample_comes_first(once, known, run, server, tmp_path):
    rates = known(change=transport(lambda report: report.update(verdict="fail")))
    (tmp_path / "known").mkdir()
    rates.rename(tmp_path / "known" / "a")
    assert "labels, doubtful" in score(run, server, out=tmp_path / "rates").out
    doubt = "Doubtful: the judge failed its calibration under pa."
    assert doubt in shown(tmp_path / "rates")
    shutil.copytree(once[2][12], tmp_path / "known" / "b")
    score(run, server, out=tmp_path / "scored")
    found = corrected(tmp_path / "scored")
    assert (found["method"], found["calibration"].keys()) == ("ppi", {"b"})


@pytest.mark.parametrize("drawn", [True, False], ids=["sample", "rates"])
def test_of_calibrations_made_on_one_day_the_one_with_most_labels_counts(
    known, run, server, tmp_path, drawn
):
    whole = (lambda row: None) if drawn else transport()

    def begun(row):
        whole(row)
        pa = row["rubrics"]["pa"]
        bare = [[name, session, None, said, None] for name, session, _, said, _ in pa["labelled"]]
        pa["labelled"] = bare[:-5] + pa["labelled"][-5:]

    (tmp_path / "known").mkdir()
    for name, change in (("a", begun), ("b", whole)):
        known(RECORDS, change).rename(tmp_path / "known" / name)
    score(run, server, out=tmp_path / "scored")
    found = corrected(tmp_path / "scored")
    assert (found["status"], found["calibration"].keys()) == ("corrected", {"b"})


def test_labels_of_people_who_agree_by_chance_make_a_score_doubtful(scored):
    ran, found = scored(changed("rubrics.pa.people_kappa", {"value": -0.8}))
    assert "under pa, people agree with each other no better than by chance" in found["notes"]
    assert "labels, doubtful" in ran.out


@pytest.mark.parametrize(("day", "why"), [(11, None), (12, "it expired on 2026-01-11")])
def test_a_calibration_holds_until_the_last_of_its_days_and_no_longer(day, why):
    judge = LlmJudge("openai/x", client=None)
    made = {"judge": "openai/x", "rubrics": {"pa": {}}}
    row = bound(made, judge, today=date(2026, 1, 1), days=10, api_base=None, own=())
    calibration = Calibration.model_validate(row)
    assert differing_part(calibration, judge, "pa", today=date(2026, 1, day)) == why
