"""Utilization under a judge that rates nothing: no figure stands in for a rubric, and everything
says so.
"""

import pytest

from alps.tasks import load_tracks
from tests.core.test_utilization import failed, heard, run, samples, score
from tests.loopback import Answer, serve
from tests.tracks import alps_here, between, met, scores_of, target_row, track_of, write_ability

PA, *_ = load_tracks("utilization")


@pytest.mark.parametrize(
    ("ability", "number"), [("pa", 1), ("pf", 2), ("vra", 3), ("cf", 4), ("ei", 5)]
)
def test_a_judge_that_rates_nothing_leaves_everything_unscored_with_the_reason(
    tmp_path, ability, number
):
    write_ability(tmp_path / "data", number, target_row("u1"))
    ran = run(tmp_path, tmp_path / "data", f"ability={ability}", "model=rules")
    track = track_of(tmp_path / "out", f"task4_ability{number}")
    assert ran.code == 0
    assert (track["n"], track["scored"], track["unscored"]) == (1, 0, 1)
    assert ability in track["scores"]
    assert "grounding" not in track["scores"]
    assert all((found["value"], found["n"]) == (None, 0) for found in track["scores"].values())
    reason = "judge lexical cannot rate answers by a rubric"
    assert {found["unscored"] for found in track["scores"].values()} == {reason}
    assert scores_of(tmp_path / "out")["u1"]["scores"] == {}
    assert f"no score, {reason}\nrules on " in ran.out.replace("a\nrubric", "a rubric")
    assert "Utilization needs an LLM judge: alps score RUN judge=PROVIDER/MODEL\n" in ran.out
    assert "best baseline" not in ran.out
    assert "Trivial baselines" not in alps_here("show", str(tmp_path / "out")).out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_what_a_judge_could_not_rate_is_listed_shown_reported_and_judged_later(tmp_path):
    write_ability(tmp_path / "data", 1, target_row("u1"))
    run(tmp_path, tmp_path / "data", "ability=pa", "model=rules")
    assert "1 unscored" in alps_here("ls", str(tmp_path)).out
    shown = alps_here("show", str(tmp_path / "out"), "u1").out
    assert "unrated: answered, but the judge cannot rate answers: unscored" in shown
    assert "failed" not in shown
    assert alps_here("report", str(tmp_path / "out"), f"out={tmp_path / 'page.html'}").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Utilization needs an LLM judge" in page
    assert "answered, but the judge cannot rate answers: unscored" in page
    with serve(between(lambda _: Answer("Unasked."), lambda _: met())) as server:
        judge = ("judge=openai/judge", f"judge_api_base={server.url}")
        again = alps_here("score", str(tmp_path / "out"), *judge, f"out={tmp_path / 'again'}")
    assert again.code == 0
    assert track_of(tmp_path / "again", "task4_ability1")["scores"]["pa"]["value"] == 1.0


def test_runs_that_nobody_rated_are_not_compared_and_the_reason_is_one_line(tmp_path):
    write_ability(tmp_path / "data", 1, target_row("u1"))
    for name in ("rules", "floor/refusal", "floor/parrot"):
        run(tmp_path, tmp_path / "data", "ability=pa", f"model={name}", out=name.replace("/", "-"))
    folders = [str(tmp_path / name) for name in ("rules", "floor-refusal", "floor-parrot")]
    for those in (folders[:2], folders):
        ran = alps_here("compare", *those)
        assert ran.code == 2
        assert "nothing to compare: judge lexical cannot rate answers by a rubric" in " ".join(
            ran.err.split()
        )


def test_how_many_of_the_memorys_words_an_answer_names_is_told_and_no_score():
    (sample,) = samples(PA)
    words = sample.gold.memory
    row = score(PA, sample, heard(words), {"outcome": "ok"})
    assert (dict(row.scores), row.details["grounding"]) == ({}, 1.0)
    (bare,) = samples(PA, *target_row("u1", value="Likes it"))
    for prediction, verdict in ((heard("Sure."), {"outcome": "ok"}), (failed(), None)):
        assert "grounding" not in score(PA, bare, prediction, verdict).details
