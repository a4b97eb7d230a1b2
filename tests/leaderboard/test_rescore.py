"""`alps leaderboard rescore`: a submission judged again, all or a sample of it, and its review."""

import json
import shutil

import pytest

from alps.errors import BudgetError, DataError, UsageError
from alps.leaderboard.commands import rescore_command, verify_command
from alps.leaderboard.packing import pack
from alps.leaderboard.site_data import load
from alps.leaderboard.submission import read_entry
from tests.endtoend import write_rows
from tests.loopback import Answer, serve
from tests.submissions import SLUG, VISITORS, WHO, card_of, make_run, said, write_card_of
from tests.tracks import alps_here
from tests.visitors import memory_items, values_of, visitor_id, write_visitors

ENOUGH = "max_total_tokens=1000000"


def finding(count):
    """Return a judge who finds the first memories, so many of them, in every prediction."""
    pairs = []
    for n in range(1, count + 1):
        pairs.append({"reason": "x", "gold": f"g{n}", "predicted": f"p{n}", "relation": "same"})
    return lambda body: Answer(json.dumps({"pairs": pairs}))


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ALPS_CACHE", "off")


@pytest.fixture
def ours(honest, thumb, tmp_path):
    """A submission on the samples that may be spoiled, beside the run that it was packed from."""
    shutil.copytree(honest.with_name("run"), tmp_path / "run")
    return shutil.copytree(thumb, tmp_path / SLUG)


@pytest.fixture
def inflated(shelf, tmp_path):
    """A submission whose LLM judge, at the submitter's own endpoint, agreed to everything."""
    answers = []
    for n in range(VISITORS):
        items = memory_items(values_of(n)[0], "Owns three yachts")
        answers.append({"benchmark_id": visitor_id(n), "memory_items": items})
    model = f"model=predictions:{write_rows(tmp_path / 'answers.jsonl', answers)}"
    with serve(finding(2)) as server:
        judge = (*judged_at(server), "judge_max_tokens=900")
        run = make_run(tmp_path / "run", "task=extraction", model, f"data={shelf.data}", *judge)
    packed = pack([run], WHO, out=tmp_path / "subs" / SLUG)
    assert packed.card.tracks["task1"].scores["f1"].value == 1.0
    return packed.folder


def judged_at(server):
    return "judge=openai/scripted-judge", f"judge_api_base={server.url}"


def rescored(folder, server, *words):
    return rescore_command([str(folder), *judged_at(server), "out=work", *words])


def test_a_sample_is_judged_and_corrects_all_scores(ours):
    card = read_entry(ours).card
    with serve(finding(0)) as server:
        assert rescored(ours, server, "sample=80%", ENOUGH) == 0
        asked = len(server.requests)
        assert rescored(ours, server, "sample=80%", ENOUGH) == 0
        assert len(server.requests) == asked  # the same command goes on with the same sample
    track = read_entry(ours).review.tracks["task1"]
    assert (track.sample.records, track.sample.n) == (21, 26)
    assert 0 < asked <= 2 * track.sample.records  # which are related, and what is supported
    # The maintainer's judge finds less than the submitter's.
    assert track.scores["f1"].value < card.tracks["task1"].scores["f1"].value
    assert track.scores["f1"].n == card.tracks["task1"].scores["f1"].n
    assert verify_command([str(ours), "reviewed=yes"]) == 0


@pytest.mark.release
def test_the_budget_stops_a_sample_and_the_same_command_goes_on(ours):
    with serve(finding(0)) as server:
        with pytest.raises(BudgetError):
            rescored(ours, server, "sample=80%", "max_total_tokens=6000")
        # It is spent on the known items that the judge answers first.
        first, known = len(server.requests), len(server.known)
        assert not (ours / "review.json").exists()
        assert rescored(ours, server, "sample=80%", ENOUGH) == 0
        whole = len(server.requests)
    assert 0 < known < len(server.known)
    assert 0 == first < whole <= 2 * 21


@pytest.mark.release
def test_a_sample_that_is_too_small_is_refused_before_anybody_is_asked(ours):
    with serve(finding(0)) as server:
        with pytest.raises(UsageError, match=r"at least 20 are needed: set sample=\d+%"):
            rescored(ours, server, "sample=10%", ENOUGH)
        assert server.requests == []
        # Nor does it stand in the way of judging everything.
        assert rescored(ours, server, ENOUGH) == 0
    assert read_entry(ours).review.tracks["task1"].sample is None


@pytest.mark.release
def test_the_same_answers_with_new_verdicts_get_another_draw(ours, tmp_path):
    seeds, asked = [], []
    with serve(finding(0)) as server:
        cheap = ("judge=openai/cheap-judge", f"judge_api_base={server.url}", "max_failures=100%")
        assert alps_here("score", "run", *cheap, "out=other").code == 0
        for run in ("run", "other", "run"):
            shutil.rmtree(ours)
            pack([tmp_path / run], WHO, out=ours)
            before = len(server.requests)
            rescored(ours, server, "sample=80%", ENOUGH)
            seeds.append(read_entry(ours).review.tracks["task1"].sample.seed)
            asked.append(len(server.requests) - before)
    # New verdicts are judged again by a draw of their own; the ones before have theirs still.
    assert seeds[0] != seeds[1]
    assert (seeds[2], asked[2]) == (seeds[0], 0)
    assert min(asked[:2]) > 0


@pytest.mark.release
def test_a_second_judgement_by_the_same_judge_refutes_what_it_contradicts(inflated, shelf, capsys):
    with serve(finding(1)) as server:
        words = (f"data={shelf.data}", "judge_max_tokens=900", ENOUGH)
        assert rescored(inflated, server, *words) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "refuted: extraction, F1" in told
    assert "submitted 1.000, judged again 0.500" in told
    found = read_entry(inflated).review
    assert found.status == "refuted"
    assert found.tracks["task1"].scores["f1"].value == pytest.approx(0.5)
    assert said(shelf.verify(inflated, reviewed=True), "refuted").severity == "serious"
    (system,) = load(inflated.parent)
    assert system.status == "refuted"


def test_a_second_judgement_names_tokens_and_needs_a_cap(inflated, shelf, tmp_path, capsys):
    needed = r"up to 24 calls, at least [\d,]+ tokens; allow and limit these requests"
    with serve(finding(1)) as server:
        with pytest.raises(UsageError, match=needed):
            rescored(inflated, server, f"data={shelf.data}")
        assert "no request sent yet" in capsys.readouterr().out
        assert rescored(inflated, server, f"data={shelf.data}", "dry_run=yes") == 0
        assert not server.requests
    out = capsys.readouterr().out
    assert "judge" in out
    assert "up to 24" in out
    assert not (tmp_path / "work").exists()
    assert not (inflated / "review.json").exists()


REVIEW = f"leaderboard/submissions/{SLUG}/review.json"


def test_a_review_is_for_maintainers_alone(shelf, folder, tmp_path, capsys):
    words = (f"data={shelf.data}", "out=work", "note=Looked at.", "date=2026-02-01")
    assert rescore_command([str(folder), "judge=lexical", *words]) == 0
    assert "re-scored under lexical" in capsys.readouterr().out
    entry = read_entry(folder)
    assert (entry.status, entry.review.date) == ("re-scored", "2026-02-01")
    submitted, again = (one.tracks["task1"].scores["f1"] for one in (entry.card, entry.review))
    assert again.value == pytest.approx(submitted.value)
    assert entry.review.recomputed == list(entry.card.tracks)
    alone = shelf.verify(folder)
    assert said(alone, "review").severity == "note"
    assert (alone.status, alone.serious) == ("format-checked", False)
    assert shelf.verify(folder, reviewed=True).status == "re-scored"
    for change in ({"base": str(tmp_path / "work")}, {"changed": (REVIEW,)}):
        found = said(shelf.verify(folder, **change), "review")
        assert (found.severity, found.what) == ("serious", "only maintainers write this file")
    assert not shelf.verify(folder, changed=()).serious
    (folder / "review.json").unlink()
    gone = said(shelf.verify(folder, changed=(REVIEW,)), "changes")
    assert (gone.severity, gone.what) == ("serious", "only maintainers may remove a review")


def test_hidden_gold_is_judged_from_a_private_path(tmp_path):
    private = write_visitors(tmp_path / "private", VISITORS, split="test")
    public = write_visitors(
        tmp_path / "public", VISITORS, withheld=list(range(VISITORS)), split="test"
    )
    words = ("task=extraction", "model=rules", f"data={public}", "max_failures=1")
    packed = pack([make_run(tmp_path / "run", *words)], WHO, out=tmp_path / SLUG)
    track = packed.card.tracks["task1"]
    assert (track.scored, track.failed_judgements) == (0, {"no_gold": VISITORS})
    judged = rescore_command([str(packed.folder), "judge=lexical", f"data={private}", "out=work"])
    assert judged == 0
    assert read_entry(packed.folder).review.tracks["task1"].scores["f1"].n == VISITORS


def test_what_is_not_in_order_or_on_other_records_is_not_judged_again(shelf, folder, tmp_path):
    other = write_visitors(tmp_path / "other", VISITORS + 1)
    run = make_run(tmp_path / "run", "task=extraction", "model=rules", f"data={shelf.data}")
    packed = pack([run], WHO, out=tmp_path / "alone" / SLUG).folder
    lacking = "not the data of the submission: task1 lacks 1 record of the data"
    with pytest.raises(UsageError, match=lacking):
        rescore_command([str(packed), "judge=lexical", f"data={other}", "out=work"])
    assert not (packed / "review.json").exists()
    write_card_of(folder, {**card_of(folder), "name": "Other"})
    with pytest.raises(DataError, match="checksum"):
        rescore_command([str(folder), "judge=lexical", f"data={shelf.data}"])
