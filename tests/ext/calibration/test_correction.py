import json
import shutil
from datetime import date
from pathlib import Path
from statistics import fmean

import pytest

from alps.judges.calibration_file import Calibration, CalibrationRow, bound, differing_part
from alps.judges.llm import LlmJudge
from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.packing import pack
from alps.leaderboard.verify import Options, verify
from tests.endtoend import rows, summary, write_rows
from tests.loopback import Answer, serve
from tests.submissions import forge, said
from tests.tracks import alps_here, felt, met, payload_of, target_row, write_ability

RECORDS = 20


@pytest.fixture(autouse=True)
def own_calibrations(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CALIBRATIONS", str(tmp_path / "known"))


@pytest.fixture
def run(once, tmp_path):
    """A copy of a run with twenty answers to personal queries, its data and its answers."""
    made = once[0].parent
    for name in ("data", "run"):
        shutil.copytree(made / name, tmp_path / name)
    shutil.copy(made / "answers.jsonl", tmp_path)
    return tmp_path / "run"


@pytest.fixture
def server():
    """A judge that accepts every fourth answer."""
    with serve(strict) as server:
        yield server


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """Such a run, the server of its judge, and a calibration of the judge, which nobody changes."""
    folder = tmp_path_factory.mktemp("once")
    with serve(strict) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ALPS_CACHE", str(folder / "cache"))
            patch.setenv("ALPS_CALIBRATIONS", str(folder / "known"))
            run = make_run(folder)
            calibration = calibrated(run, server)
        yield run, server, calibration


@pytest.fixture
def calibration(once, tmp_path):
    """A copy of that calibration, to be edited."""
    return Path(shutil.copytree(once[2], tmp_path / "calibration"))


def make_run(folder, ability=1, silent=(), **fields):
    """Run recorded answers; of the records whose numbers are `silent` nothing was said."""
    queries = [
        target_row(f"u{n}", queries=[f"dinner number {n}?"], **fields) for n in range(RECORDS)
    ]
    answers = [
        {"benchmark_id": f"u{n}", "answer": "" if n in silent else f"My answer has the number {n}"}
        for n in range(RECORDS)
    ]
    write_rows(folder / "answers.jsonl", answers)
    data = write_ability(folder / "data", ability, *queries)
    word = {1: "pa", 2: "pf", 5: "ei"}[ability]
    ran = alps_here(
        *(
            "run",
            "task=utilization",
            f"ability={word}",
            f"model=predictions:{folder / 'answers.jsonl'}",
        ),
        *(f"data={data}", f"out={folder / 'run'}", "max_failures=100%"),
    )
    assert ran.code == 0, ran.err
    return folder / "run"


def number_of(text):
    return int(text.rpartition("number ")[2].rstrip("?"))


def strict(body):
    """Accept every fourth answer."""
    return met("met" if number_of(payload_of(body)["response"]) % 4 == 0 else "not_met")


def label(folder, judge=lambda number, rubric: number % 2):
    """Label the drawn items as anna and ben would, who accept every second answer."""
    labels = [
        {
            "item_id": item["item_id"],
            "annotator": who,
            "label": judge(number_of(item["payload"]["response"]), item["rubric"]),
        }
        for item in rows(folder / "items.jsonl")
        for who in ("anna", "ben")
    ]
    write_rows(folder / "labels.jsonl", labels)


def under(server, name="openai/scripted-judge"):
    return f"judge={name}", f"judge_api_base={server.url}"


def calibrated(run, server, *, n=12, **options):
    """Draw labels from a run, fill them in, and calibrate the judge on them; return the
    calibration's folder.
    """
    folder = run.parent
    assert alps_here("annotate", "draw", run, f"n={n}", f"out={folder / 'labels'}").code == 0
    label(folder / "labels", **options)
    ran = alps_here(
        "calibrate", *under(server), f"labels={folder / 'labels'}", f"out={folder / 'calibration'}"
    )
    assert ran.code == 0, ran.err
    return folder / "calibration"


def score(run, server, *words, out="scored", name="openai/scripted-judge"):
    ran = alps_here(
        "score", run, *under(server, name), f"out={run.parent / out}", "baseline_records=0", *words
    )
    return ran if "Traceback" not in ran.err else pytest.fail(ran.err)


def corrected(folder, metric="pa", track="task4_ability1"):
    return summary(folder)["tracks"][track]["scores"][metric].get("corrected")


def rewrite(folder, change):
    path = folder / "calibration.json"
    row = json.loads(path.read_text())
    change(row)
    path.write_text(json.dumps(row))


def test_labels_on_a_random_sample_of_the_run_carry_the_corrected_score(run, tmp_path, server):
    calibration = calibrated(run, server, n=20)
    ran = score(run, server, f"calibration={calibration}")
    assert ran.code == 0, ran.err
    found = corrected(tmp_path / "scored")
    assert found["method"] == "ppi"
    assert found["status"] == "corrected"
    assert found["labelled"] == 20
    assert found["judged"] == 20
    assert found["value"] == pytest.approx(0.5)
    assert summary(tmp_path / "scored")["tracks"]["task4_ability1"]["scores"]["pa"][
        "value"
    ] == pytest.approx(0.25)
    (row,) = (line for line in ran.out.splitlines() if line.startswith(" corrected "))
    assert row.split()[1] == ".500"
    # Of twenty labels the judge fails its calibration.
    assert row.endswith("by 20 labels, doubtful")
    shown = alps_here("show", tmp_path / "scored").out
    table = next(line for line in shown.splitlines() if ".250 [" in line and ".500 [" in line)
    assert "persona awareness" in table
    assert "random sample" in shown
    assert max(map(len, ran.out.splitlines())) <= 80
    assert alps_here("report", tmp_path / "scored", f"out={tmp_path / 'page.html'}").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "random sample" in page
    assert f'value="{found["value"]}">.500' in page


ELSEWHERE = "calibrated at another judge_api_base"


def test_a_calibration_made_at_another_endpoint_is_doubtful_and_one_made_at_the_same_is_not(
    run, tmp_path
):
    with serve(strict) as one, serve(strict) as other:
        calibration = calibrated(run, one, n=20)
        at_the_same = score(run, one, f"calibration={calibration}")
        at_another = score(run, other, f"calibration={calibration}", out="elsewhere")
    assert ELSEWHERE not in alps_here("show", tmp_path / "scored").out
    assert at_the_same.code == 0
    assert ELSEWHERE not in corrected(tmp_path / "scored")["notes"]
    assert "labels, doubtful" in at_another.out
    assert ELSEWHERE in alps_here("show", tmp_path / "elsewhere").out
    assert ELSEWHERE in corrected(tmp_path / "elsewhere")["notes"]
    shutil.copytree(calibration, tmp_path / "known" / "of-mine")
    packed = pack(
        [tmp_path / "elsewhere"],
        SubmitterDetails(name="Mine", submitted="2026-01-31"),
        out=tmp_path / "mine",
    )
    score_of_card = packed.card.tracks["task4_ability1"].scores["pa"].corrected
    assert ELSEWHERE in score_of_card.notes
    assert packed.verification.consistent
    assert {finding.code for finding in packed.verification.findings} == {"constant"}
    forge(
        packed.folder,
        lambda card: card["tracks"]["task4_ability1"]["scores"]["pa"]["corrected"].update(
            value=0.9
        ),
    )
    found = verify(packed.folder, Options(data=str(tmp_path / "data")))
    assert said(found, "score").where == "tracks.task4_ability1.scores.pa.corrected.value"


def test_people_who_disagree_count_half(run, tmp_path, server):
    alps_here("annotate", "draw", run, "n=20", f"out={tmp_path / 'labels'}")
    split = [
        {"item_id": item["item_id"], "annotator": who, "label": label}
        for item in rows(tmp_path / "labels" / "items.jsonl")
        for who, label in (("anna", 1), ("ben", 0))
    ]
    write_rows(tmp_path / "labels" / "labels.jsonl", split)
    alps_here(
        "calibrate",
        *under(server),
        f"labels={tmp_path / 'labels'}",
        f"out={tmp_path / 'calibration'}",
    )
    score(run, server, f"calibration={tmp_path / 'calibration'}")
    assert corrected(tmp_path / "scored")["value"] == pytest.approx(0.5)
    assert corrected(tmp_path / "scored")["labelled"] == 20


def transported(run, server, change=lambda row: None):
    """Make a calibration whose labelled items are no sample of the run: 60 met, 60 not, some of
    them misjudged.
    """
    calibration = calibrated(run, server)

    def other_items(row):
        report = row["rubrics"]["pa"]
        cells = [(1, 1)] * 50 + [(1, 0)] * 10 + [(0, 1)] * 5 + [(0, 0)] * 55
        report["labelled"] = [
            [f"x{n}", None, truth, said, truth] for n, (truth, said) in enumerate(cells)
        ]
        report["sample"] = None
        change(row)

    rewrite(calibration, other_items)
    return calibration


def test_error_rates_from_other_items_are_carried_over(run, tmp_path, server):
    calibration = transported(run, server)
    ran = score(run, server, f"calibration={calibration}")
    found = corrected(tmp_path / "scored")
    assert (found["method"], found["labelled"]) == ("rogan_gladen", 120)
    assert found["value"] == pytest.approx((0.25 + 55 / 60 - 1) / (50 / 60 + 55 / 60 - 1))
    assert found["low"] < found["value"] < found["high"]
    assert found["outside"]
    assert ran.code == 0
    shown = " ".join(alps_here("show", tmp_path / "scored").out.split())
    assert "!" in shown
    assert "assumes that the judge errs as often" in shown


def test_a_judge_that_nearly_guesses_is_not_correctable(run, tmp_path, server):
    def guess(row):
        for n, item in enumerate(row["rubrics"]["pa"]["labelled"]):
            item[3] = n % 2

    calibration = transported(run, server, guess)
    ran = score(run, server, f"calibration={calibration}")
    assert ran.code == 0
    found = corrected(tmp_path / "scored")
    assert (found["status"], found["value"]) == ("not_correctable", None)
    assert "not correctable" in ran.out
    shown = " ".join(alps_here("show", tmp_path / "scored").out.split())
    assert "so the judge hardly does better than guessing" in shown


@pytest.mark.release
def test_answers_that_failed_count_as_the_worst_in_the_corrected_score_too(tmp_path, server):
    run = make_run(tmp_path, silent=(0, 10))
    calibration = calibrated(run, server, n=20)
    score(run, server, f"calibration={calibration}")
    found = corrected(tmp_path / "scored")
    assert (found["judged"], found["n"]) == (18, 20)
    assert found["value"] == pytest.approx(10 / 20)


def test_what_lies_in_the_users_folder_is_found_and_can_be_turned_off(run, tmp_path, server):
    calibrated(run, server, n=20).rename(tmp_path / "known")
    score(run, server)
    score(run, server, "calibration=off", out="raw")
    assert corrected(tmp_path / "scored")["value"] == pytest.approx(0.5)
    assert corrected(tmp_path / "raw") is None


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row["judge_fingerprint"].update(parser="0"), 'judge.parser was "0"'),
        (
            lambda row: row["judge_fingerprint"].update(decoding={"temperature": 1}),
            "judge.decoding was",
        ),
        (
            lambda row: row["rubrics"]["pa"].update(rubric_sha256="0"),
            "the text of rubric pa has changed since",
        ),
        (lambda row: row.update(expires="2020-01-01"), "it expired on 2020-01-01"),
        (lambda row: row.pop("judge_fingerprint"), "recorded verdicts"),
        (
            lambda row: row["rubrics"].update(vra=row["rubrics"].pop("pa")),
            "the calibration has no rubric pa",
        ),
    ],
    ids=["parser", "decoding", "rubric", "expired", "recorded", "another rubric"],
)
def test_a_calibration_of_anything_else_is_refused_and_the_part_is_named(
    once, calibration, tmp_path, change, said
):
    run, server, _ = once
    rewrite(calibration, change)
    asked = len(server.requests)
    assert said in score(run, server, f"calibration={calibration}", out=tmp_path / "x").one_line
    assert len(server.requests) == asked
    calibration.rename(tmp_path / "known")
    found = score(run, server, out=tmp_path / "again")
    assert found.code == 0
    assert corrected(tmp_path / "again") is None


def test_a_calibration_of_several_rubrics_is_refused_for_what_is_wrong_with_that_one(
    tmp_path, server
):
    run = make_run(tmp_path, ability=2, label="Preferences/Interaction_Preferences")
    calibration = calibrated(run, server)
    assert json.loads((calibration / "calibration.json").read_text())["rubrics"].keys() == {
        "pf_interaction"
    }
    rewrite(calibration, lambda row: row.update(expires="2020-01-01"))
    assert "it expired on 2020-01-01" in score(run, server, f"calibration={calibration}").one_line


def test_a_calibration_of_another_judge_is_refused(run, server):
    calibration = calibrated(run, server)
    refused = score(run, server, f"calibration={calibration}", name="openai/another")
    assert 'judge.judge was "openai/scripted-judge" and is now "openai/another"' in refused.one_line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no calibration at this path; create one"),
        ("{", "not valid JSON"),
        ("[]", "not a calibration"),
    ],
)
def test_what_is_no_calibration_is_one_line(run, tmp_path, text, said, server):
    if text is not None:
        (tmp_path / "calibration.json").write_text(text)
    assert said in score(run, server, f"calibration={tmp_path / 'calibration.json'}").one_line


@pytest.mark.release
def test_marks_on_a_scale_of_five_need_a_sample_of_the_run(tmp_path):
    run = make_run(tmp_path, ability=5)
    marks = {"ei_resonation": 2, "ei_expression": 3, "ei_reception": 4}
    with serve(lambda body: felt(4, 4, 4)) as server:
        calibration = calibrated(run, server, n=20, judge=lambda number, rubric: marks[rubric])
        score(run, server, f"calibration={calibration}")
        rewrite(
            calibration,
            lambda row: [report.update(sample=None) for report in row["rubrics"].values()],
        )
        score(run, server, f"calibration={calibration}", out="elsewhere")
    whole = corrected(tmp_path / "scored", "ei", "task4_ability5")
    assert (whole["method"], whole["value"]) == ("ppi", pytest.approx(3))
    assert corrected(tmp_path / "scored", "resonation", "task4_ability5")["value"] == pytest.approx(
        2
    )
    elsewhere = corrected(tmp_path / "elsewhere", "ei", "task4_ability5")
    assert "label a random sample of this run" in elsewhere["reason"]


@pytest.mark.release
def test_labels_that_are_all_the_least_of_a_scale_of_five_are_no_share_and_leave_no_interval(
    tmp_path,
):
    run = make_run(tmp_path, ability=5)
    with serve(lambda body: felt(4, 4, 4)) as server:
        calibration = calibrated(run, server, judge=lambda number, rubric: 1)
        score(run, server, f"calibration={calibration}")
    found = corrected(tmp_path / "scored", "ei", "task4_ability5")
    assert (found["value"], found["low"], found["high"], found["outside"]) == (1, None, None, False)
    assert any("all labels agree" in note for note in found["notes"])


def test_a_calibration_for_scores_that_are_no_means_of_marks_is_refused(run, tmp_path, server):
    calibration = calibrated(run, server)
    ran = alps_here(
        *(
            "run",
            "task=extraction",
            "model=rules",
            "limit=1",
            f"out={tmp_path / 'x'}",
            f"calibration={calibration}",
        )
    )
    assert "a calibration cannot correct F1; use audit_labels=DIR" in ran.one_line


@pytest.mark.release
def test_an_answer_that_the_judge_could_not_rate_is_of_the_population_and_pulls_no_score(
    run, tmp_path
):
    def mute_on_odd(body):
        return Answer("?") if number_of(payload_of(body)["response"]) % 2 else met("met")

    with serve(mute_on_odd) as server:
        calibration = calibrated(run, server, n=11)
        score(run, server, f"calibration={calibration}", "max_failures=1")
    found = corrected(tmp_path / "scored")
    # What the judge could rate it rated alike: only what people say counts.
    assert (found["labelled"], found["judged"]) == (11, 20)
    assert found["value"] == pytest.approx(
        fmean(row["label"] for row in rows(tmp_path / "labels" / "labels.jsonl"))
    )


def only(change):
    """Return a change to the one rubric of a calibration."""
    return lambda row: change(row["rubrics"]["pa"])


@pytest.mark.release
def test_labels_on_a_part_of_the_sample_carry_nothing(run, tmp_path, server):
    calibration = calibrated(run, server, n=20)
    rewrite(calibration, only(lambda report: report.update(labelled=report["labelled"][:15])))
    score(run, server, f"calibration={calibration}")
    assert (
        "5 of 20 drawn answers have no label under pa" in corrected(tmp_path / "scored")["reason"]
    )


@pytest.mark.release
def test_fewer_than_ten_labels_carry_nothing(run, tmp_path, server):
    score(run, server, f"calibration={calibrated(run, server, n=9)}")
    assert "only 9 labelled answers; label at least 10" in corrected(tmp_path / "scored")["reason"]


@pytest.mark.release
def test_a_sample_of_several_tracks_is_none_of_another_run(run, tmp_path, server):
    calibration = calibrated(run, server)
    several = {"random": True, "drawn": 12, "track": None, "predictions": None}
    several["tracks"] = {"task4_ability1": {"population": 20, "drawn": 12, "predictions": "0" * 64}}
    rewrite(calibration, only(lambda report: report.update(sample=several)))
    score(run, server, f"calibration={calibration}")
    assert corrected(tmp_path / "scored")["method"] == "rogan_gladen"


@pytest.mark.release
def test_the_same_answers_held_against_other_gold_are_another_population(run, tmp_path, server):
    calibration = calibrated(run, server, n=20)
    queries = [
        target_row(f"u{n}", queries=[f"dinner number {n}?"], value="Keeps eels")
        for n in range(RECORDS)
    ]
    other = write_ability(tmp_path / "other", 1, *queries)
    words = (
        f"model=predictions:{tmp_path / 'answers.jsonl'}",
        f"data={other}",
        f"out={tmp_path / 'again'}",
    )
    asked = ("run", "task=utilization", "ability=pa", "baseline_records=0")
    alps_here(*asked, *words, *under(server), f"calibration={calibration}")
    assert corrected(tmp_path / "again")["method"] == "rogan_gladen"


@pytest.mark.release
def test_the_share_of_failed_answers_widens_the_interval(tmp_path, server):
    run = make_run(tmp_path, silent=range(0, RECORDS, 2))
    calibration = calibrated(run, server, n=10, judge=lambda number, rubric: 1)
    score(run, server, f"calibration={calibration}")
    found = corrected(tmp_path / "scored")
    assert (found["value"], found["judged"], found["n"]) == (pytest.approx(0.5), 10, 20)
    assert found["low"] < 0.35


@pytest.mark.release
def test_people_s_disputes_are_carried_over_too(run, tmp_path, server):
    def disputed(row):
        row["rubrics"]["pa"]["labelled"] = [
            *(
                [[f"x{n}", None, 1, 1, 1.0] for n in range(40)]
                + [[f"y{n}", None, 0, 0, 0.0] for n in range(40)]
            ),
            *([f"z{n}", None, None, n % 2, 0.5] for n in range(40)),
        ]

    score(run, server, f"calibration={transported(run, server, disputed)}")
    found = corrected(tmp_path / "scored")
    assert found["labelled"] == 120
    assert found["youden"]["value"] == pytest.approx(50 / 60 + 50 / 60 - 1)


@pytest.mark.release
def test_what_is_doubtful_is_said_and_the_sample_comes_before_the_others(run, tmp_path, server):
    rates = transported(run, server, lambda row: row["rubrics"]["pa"].update(verdict="fail"))
    (tmp_path / "known").mkdir()
    rates.rename(tmp_path / "known" / "a")
    doubtful = score(run, server, out="rates")
    ran = alps_here(
        "calibrate",
        *under(server),
        f"labels={tmp_path / 'labels'}",
        f"out={tmp_path / 'known' / 'b'}",
    )
    score(run, server)
    assert ran.code == 0
    assert "labels, doubtful" in doubtful.out
    shown = alps_here("show", tmp_path / "rates").out
    assert "Doubtful: the judge failed its calibration under pa." in shown
    assert corrected(tmp_path / "scored")["method"] == "ppi"
    assert corrected(tmp_path / "scored")["calibration"].keys() == {"b"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (only(lambda report: report.update(labelled=[["x"]])), "rubrics.pa.labelled"),
        (only(lambda report: report.update(labelled=[["x", None, 1, 1, 7]])), "rubrics.pa"),
        (only(lambda report: report.update(labelled=[["x", None, 3, 1, 1]])), "rubrics.pa"),
        (only(lambda report: report.update(sample="yes")), "rubrics.pa.sample"),
        (only(lambda report: report.update(scale=None, labelled=None)), "rubrics.pa.labelled"),
        (lambda row: row.update(rubrics=[]), "rubrics"),
    ],
)
def test_a_calibration_that_was_edited_badly_is_one_line_or_left_out(
    once, calibration, tmp_path, change, field
):
    run, server, _ = once
    rewrite(calibration, change)
    refused = score(run, server, f"calibration={calibration}", out=tmp_path / "x")
    assert f"calibration.json, {field}" in refused.one_line
    (tmp_path / "known").mkdir()
    calibration.rename(tmp_path / "known" / "x")
    (tmp_path / "known" / "folder.json").mkdir()
    ran = score(run, server, out=tmp_path / "again")
    assert ran.code == 0
    assert "Calibration not used" in ran.out
    assert corrected(tmp_path / "again") is None


@pytest.mark.parametrize(("day", "why"), [(11, None), (12, "it expired on 2026-01-11")])
def test_a_calibration_holds_until_the_last_of_its_days_and_no_longer(day, why):
    judge = LlmJudge("openai/x", client=None)
    row = bound(
        {"judge": "openai/x", "rubrics": {"pa": {}}}, judge, today=date(2026, 1, 1), days=10
    )
    calibration = Calibration(CalibrationRow.model_validate(row), Path("calibration.json"))
    assert differing_part(calibration, judge, "pa", today=date(2026, 1, day)) == why


@pytest.mark.parametrize("expires", [None, "never", "31.12.2099", 7])
def test_an_expiry_that_is_no_day_is_none_that_lies_ahead(once, calibration, tmp_path, expires):
    run, server, _ = once
    rewrite(calibration, lambda row: row.update(expires=expires))
    said = score(run, server, f"calibration={calibration}", out=tmp_path / "x").one_line
    assert "is not a date" in said or "expires" in said


def test_nothing_is_corrected_by_items_made_wrong_on_purpose(once, calibration, tmp_path):
    run, server, _ = once
    rewrite(calibration, only(lambda report: report.update(acceptance={"good": {"n": 1}})))
    refused = score(run, server, f"calibration={calibration}", out=tmp_path / "x").one_line
    assert "it was made on known answers, where error rates differ" in refused
