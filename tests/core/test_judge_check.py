"""Known items that an LLM judge answers before it judges, through the command and a server."""

import json
import re
import shutil
import time
from contextlib import ExitStack, contextmanager
from math import comb

import pytest

from alps.ext import calibration
from alps.ext.batches.gather import Batches
from alps.ext.batches.part import BatchJournal
from alps.judges.admission import CHECK_FILE, DRAWN, FEWEST_RIGHT, drawn_items, is_admitted, pool
from alps.judges.rubric import _OURS, RubricQuestion, broken_rule, rubric
from alps.leaderboard.packing import pack
from alps.leaderboard.site import build
from alps.leaderboard.submission import REVIEW, read_entry
from alps.leaderboard.verify import Options, verify
from alps.llm.types import JUDGE_CHECK, Request
from alps.rows import RubricCheck
from tests.conftest import ROOT
from tests.endtoend import edit_json, rows, summary
from tests.known_items import known_item, reply
from tests.loopback import Answer, serve
from tests.pages import Page
from tests.submissions import DROPPED, WHO, changed, forge, said
from tests.tracks import alps_here, payload_of, target_row, write_ability

RECORDS = 3
KEYS = {"OPENAI_API_KEY": "none", "ALPS_CACHE": "off"}
PA = ("task=utilization", "ability=pa", "data=data")
KNEW = "Items with known answers that judge openai/x got right: "
ONE_LINE = "judge openai/x got 6 of 12 known items of the rubric pa right, fewer than 10"


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "200")


def praise(body):
    """Return the reply of a judge that takes whatever it is shown for good."""
    payload = payload_of(body)
    if payload["kind"] == "match":
        shown = zip(payload["gold"], payload["predicted"], strict=False)
        pairs = [{"gold": one["id"], "predicted": two["id"]} for one, two in shown]
        return json.dumps({"pairs": [{"reason": "", "relation": "same", **pair} for pair in pairs]})
    if payload["kind"] == "support":
        supported = {"reason": "", "support": "supported"}
        return json.dumps({"items": [{"id": one["id"], **supported} for one in payload["items"]]})
    return json.dumps({"reason": "", "verdict": "met"})


class Judge:
    """A scripted judge: `knows` says how it answers a known item, and what it is asked is counted.

    Args:
        knows: From an item to whether its answer is taken for good; a text is sent as it is.
    """

    def __init__(self, knows):
        self.knows = knows
        self.known, self.verdicts = [], 0

    def __call__(self, body):
        asked = known_item(body)
        if asked is None:
            self.verdicts += 1
            return Answer(praise(body))
        item, payload = asked
        self.known.append(item.name)
        answer = self.knows(item)
        return Answer(answer if isinstance(answer, str) else reply(item, payload, good=answer))


def right(item):
    return item.good


def always_met(item):
    return True


def kites(folder):
    """Write questions about a persona, of which the model's answers take no account."""
    samples = [target_row(f"asked_{n}", value=f"Grows {n} herbs") for n in range(RECORDS)]
    return write_ability(folder / "data", 1, *samples)


@pytest.fixture
def run(tmp_path):
    """Run the command under a scripted judge, of which each has one address."""
    urls = {}
    with ExitStack() as servers:

        def run_under(judge, *words):
            if judge not in urls:
                urls[judge] = servers.enter_context(serve(judge, admitted=False)).url
            given = words if any(word.startswith("task=") for word in words) else (*PA, *words)
            by = ("judge=openai/x", f"judge_api_base={urls[judge]}", "baseline_records=1")
            return alps_here("run", "model=rules", *given, *by, "out=out")

        kites(tmp_path)
        yield run_under


@pytest.mark.parametrize("name", _OURS)
def test_every_rubric_has_known_items_that_only_a_judge_can_tell(name):
    items = pool(rubric(name))
    assert sum(item.good for item in items) >= 8
    assert sum(not item.good for item in items) >= 8
    assert "order" in {item.kind for item in items}
    # An item that an enforced rule decides would test the rule.
    questions = [item.question for item in items if isinstance(item.question, RubricQuestion)]
    assert not any(map(broken_rule, questions))


@pytest.mark.parametrize("name", _OURS)
def test_a_dozen_is_drawn_by_the_fingerprint_half_of_it_good_and_every_kind_among_it(name):
    items = pool(rubric(name))
    draws = []
    for number in range(20):
        drawn, again = (drawn_items(rubric(name), f"judge {number}") for _ in range(2))
        assert [item.name for item in drawn] == [item.name for item in again]
        assert len({item.name for item in drawn}) == DRAWN
        assert sum(item.good for item in drawn) == DRAWN / 2
        assert {item.kind for item in drawn} == {item.kind for item in items}
        draws.append(frozenset(item.name for item in drawn))
    assert len(set(draws)) > 10


@pytest.mark.parametrize(
    ("right_answers", "n", "admitted"),
    [(12, 12, True), (10, 12, True), (9, 12, False), (6, 12, False), (10, 10, True), (9, 9, False)],
)
def test_a_judge_is_admitted_from_ten_of_twelve_on(right_answers, n, admitted):
    assert is_admitted(RubricCheck(right=right_answers, n=n)) is admitted


@pytest.mark.parametrize(
    ("accuracy", "admitted"), [(0.5, "1.9 %"), (0.8, "55.8 %"), (0.9, "88.9 %"), (0.95, "98.0 %")]
)
def test_the_documentation_says_how_often_a_judge_is_admitted(accuracy, admitted):
    ways = range(FEWEST_RIGHT, DRAWN + 1)
    share = sum(comb(DRAWN, k) * accuracy**k * (1 - accuracy) ** (DRAWN - k) for k in ways)
    assert f"{100 * share:.1f} %" == admitted
    page = (ROOT / "docs" / "judges.md").read_text(encoding="utf-8")
    figure = f"{accuracy:.2f}".removeprefix("0")
    assert f"{admitted} at {figure}" in " ".join(page.split())


def test_a_judge_that_says_nothing_of_known_items_is_paid_for_no_verdict(run, tmp_path):
    judge = Judge(lambda item: "I would rather not say.")
    ran = run(judge)
    found = summary(tmp_path / "out")
    assert ran.code == 1
    assert judge.verdicts == 0
    assert len(set(judge.known)) == DRAWN
    score = found["tracks"]["task4_ability1"]["scores"]["pa"]
    assert (score["value"], score["n"]) == (None, 0)
    assert "known items of the rubric pa right, fewer than 10" in score["unscored"]
    assert found["judge_check"]["pa"]["right"] < FEWEST_RIGHT
    assert "alps score RUN" not in ran.out


def test_one_line_says_which_rubric_and_the_way_on_which_asks_a_refused_judge_after_all(
    run, tmp_path
):
    judge = Judge(always_met)
    ran = run(judge)
    assert (ran.code, judge.verdicts, len(set(judge.known))) == (1, 0, DRAWN)
    assert "alps score RUN" not in ran.out
    way = "(to show them with a mark, set judge_check=no)"
    assert f"no score, {ONE_LINE}, so alps withholds its scores {way}" in " ".join(ran.out.split())
    assert "judged by openai/x (known items 6/12)" in ran.out
    assert "People can check" not in ran.out
    assert "First error" not in ran.out  # it would be the same reason
    shown = alps_here("show", "out").out
    means = f"No score (–): {ONE_LINE}, so alps withholds its scores"
    assert means in " ".join(shown.split())
    assert f"{KNEW}pa 6/12 (not admitted)." in shown
    again = run(judge, "judge_check=no")
    assert again.code == 0
    assert summary(tmp_path / "out")["tracks"]["task4_ability1"]["scores"]["pa"]["value"] == 1
    assert len(judge.known) == DRAWN
    # What is known of a judge is said, though it was set aside.
    assert summary(tmp_path / "out")["judge_check"] == {}
    for text in (again.out, alps_here("show", "out").out):
        assert "judged by openai/x (known items 6/12, not admitted)" in text
        assert "not checked" not in text


@pytest.mark.release
def test_a_log_says_how_far_the_check_is(run, monkeypatch):
    # A small model on this machine takes minutes for it, in which no record is finished.
    monkeypatch.setenv("ALPS_PROGRESS", "0.05")

    def slowly(item):
        time.sleep(0.1)
        return item.good

    lines = run(Judge(slowly), "concurrency=1").err.splitlines()
    stages = [line for line in lines if "judge check" in line]
    assert stages
    for line in stages:
        assert re.search(r"0/3 .* judge check \d+/12", line), line
    assert "judge check" not in lines[-1]


def test_nobody_is_sent_to_the_command_of_a_deleted_extension(run, monkeypatch):
    monkeypatch.setattr(calibration, "has_command", lambda word: word != "annotate")
    assert "People can check" not in run(Judge(right)).out


def test_a_judge_that_tells_them_apart_judges_and_its_share_is_next_to_its_scores(run, tmp_path):
    judge = Judge(right)
    ran = run(judge)
    assert ran.code == 0
    assert "People can check" in ran.out
    assert len(judge.known) == DRAWN
    assert judge.verdicts == RECORDS + 3  # of trivial baselines, on one record
    assert summary(tmp_path / "out")["judge_check"] == {"pa": {"right": 12, "n": 12}}
    shutil.copytree("out", "copy")
    for words in (("ls", "."), ("compare", "out", "copy")):
        assert "judged by openai/x (known items 12/12)" in alps_here(*words).out, words
    assert alps_here("export", "out", "format=csv", "out=csv").code == 0
    assert "known items 12/12" in (tmp_path / "csv" / "scores.csv").read_text(encoding="utf-8")
    assert alps_here("report", "out", "out=page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "openai/x (known items 12/12)" in page
    assert f"{KNEW}pa 12/12." in page
    # Older runs have no check.
    edit_json(tmp_path / "out" / "summary.json", lambda found: found.pop("judge_check"))
    assert "openai/x (not checked)" in alps_here("show", "out").out


def test_one_rubric_of_two_leaves_the_other_its_scores(run, tmp_path):
    folder = tmp_path / "data" / "both"
    general = target_row("asked_g", value="Likes tea")
    manner = target_row("asked_m", value="Wants short answers", label="Interaction")
    write_ability(folder, 2, general, manner)
    judge = Judge(lambda item: item.good or item.name.startswith("pf_general"))
    words = ("task=utilization", "ability=pf", f"data={folder}")
    run(judge, *words)
    found = summary(tmp_path / "out")
    scores = found["tracks"]["task4_ability2"]["scores"]
    assert scores["pf_interaction"]["value"] is not None
    assert scores["pf_general"]["value"] is scores["pf"]["value"] is None
    assert "of the rubric pf_general right" in scores["pf"]["unscored"]
    rights = {name: one["right"] for name, one in found["judge_check"].items()}
    assert rights == {"pf_general": 6, "pf_interaction": 12}


@pytest.mark.few(1)
@pytest.mark.parametrize("obeys", [True, False], ids=["pairs all", "pairs none"])
def test_a_judge_that_pairs_everything_or_nothing_gives_no_f1_nor_breakdowns(run, tmp_path, obeys):
    judge = Judge(lambda item: obeys if "matching" in item.name else item.good)
    ran = run(judge, "task=extraction", "limit=4", "repeats=2")
    found = summary(tmp_path / "out")["tracks"]["task1"]
    assert ran.code == 1
    assert {score["value"] for score in found["scores"].values()} == {None}
    assert {one["value"] for floor in found["floors"].values() for one in floor["scores"].values()}
    assert "matching right, fewer than 10" in found["scores"]["f1"]["unscored"]


def test_unchecked_scores_are_marked_wherever_they_are_shown(run, tmp_path):
    judge = Judge(always_met)
    ran = run(judge, "judge_check=no")
    assert (ran.code, judge.known) == (0, [])
    assert summary(tmp_path / "out")["judge_check"] == {}
    marked = ran.out, alps_here("show", "out").out
    alps_here("report", "out", "out=page.html")
    for text in (*marked, (tmp_path / "page.html").read_text(encoding="utf-8")):
        assert "openai/x (not checked)" in text
    for text in marked[1:]:
        assert "Judge openai/x was not checked on items with known answers" in text


@pytest.mark.few(1)
@pytest.mark.parametrize("lost", [0, 5])
def test_a_resumed_run_asks_no_item_again_that_was_answered(run, tmp_path, lost):
    judge = Judge(right)
    run(judge)
    path = tmp_path / "out" / CHECK_FILE
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[: DRAWN - lost]))
    judge.known.clear()
    assert run(judge).code == 0
    assert len(judge.known) == lost
    assert path.read_bytes() == whole


def test_another_run_of_the_same_judge_finds_the_answers_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path / "cache"))
    judge = Judge(right)
    kites(tmp_path)
    with serve(judge, admitted=False) as server:
        words = ("task=utilization", "ability=pa", "data=data", "model=rules", "judge=openai/x")
        for out in ("one", "two"):
            alps_here("run", *words, f"judge_api_base={server.url}", f"out={out}")
    assert len(judge.known) == DRAWN
    assert (tmp_path / "one" / CHECK_FILE).read_bytes() == (
        tmp_path / "two" / CHECK_FILE
    ).read_bytes()


def test_the_items_are_in_the_estimate_the_ledger_and_the_caps(run, tmp_path):
    judge = Judge(right)
    planned = run(judge, "dry_run=yes").out
    assert f"openai/x, known items {DRAWN}" in " ".join(planned.split())
    assert (judge.known, judge.verdicts) == ([], 0)
    assert run(judge, "max_total_tokens=9000").code == 3
    assert 0 < len(judge.known) < DRAWN
    assert judge.verdicts == 0
    assert run(judge).code == 0
    assert len(judge.known) == DRAWN
    purposes = [row["purpose"] for row in rows(tmp_path / "out" / "calls.jsonl")]
    assert purposes.count(JUDGE_CHECK) == DRAWN
    dry = run(judge, "dry_run=yes").out
    assert ", known items" not in dry


def test_embedded_judges_are_asked_nothing_and_told_so(tmp_path):
    kites(tmp_path)
    words = ("run", "task=utilization", "ability=pa", "data=data", "model=rules")
    line = alps_here(*words, "judge_check=no").one_line
    assert "judge_check=no would change nothing: judge= is missing, so the judge is lexical" in line
    assert alps_here(*words, "out=out").code == 0
    assert "judge_check" not in summary(tmp_path / "out")
    assert not (tmp_path / "out" / CHECK_FILE).exists()


def test_judging_again_checks_the_new_judge(tmp_path):
    kites(tmp_path)
    alps_here("run", "task=utilization", "ability=pa", "data=data", "model=rules", "out=out")
    judge = Judge(always_met)
    with serve(judge, admitted=False) as server:
        by = ("judge=openai/x", f"judge_api_base={server.url}")
        again = alps_here("score", "out", *by, "out=again")
        assert (again.code, judge.verdicts) == (1, 0)
        assert ONE_LINE in " ".join(again.out.split())
        shown = alps_here("score", "out", *by, "judge_check=no", "out=shown")
    assert (shown.code, len(judge.known)) == (0, DRAWN)
    assert "openai/x (not checked)" in shown.out


@pytest.mark.parametrize("knows", [right, always_met], ids=["admitted", "refused"])
def test_an_audit_judge_is_checked_too(tmp_path, knows):
    judge = Judge(knows)
    with serve(judge, admitted=False) as server:
        words = ("run", "task=extraction", "model=rules", "audit=80%", "out=out")
        by = ("audit_judge=openai/x", f"audit_judge_api_base={server.url}")
        ran = alps_here(*words, *by)
    found = summary(tmp_path / "out")
    assert len(judge.known) == 2 * DRAWN
    if knows is right:
        check = {name: one["right"] for name, one in found["audit"]["judge_check"].items()}
        assert check == {"matching": 12, "support": 12}
        alps_here("report", "out", "out=page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        for text in (alps_here("show", "out").out, page):
            assert f"{KNEW}matching 12/12, support 12/12." in " ".join(text.split())
    else:
        assert (ran.code, judge.verdicts) == (2, 0)
        refused = "alps: audit_judge=openai/x can't audit this run: "
        assert ran.err.splitlines()[-1].startswith(refused)
        assert "audit" not in found


@pytest.mark.release
def test_merged_shards_carry_the_check_of_an_undivided_run(tmp_path):
    judge = Judge(right)
    with serve(judge, admitted=False) as server:
        by = ("judge=openai/x", f"judge_api_base={server.url}", "judge_structured=json")
        words = ("run", "task=extraction", "model=rules", "limit=6", "baseline_records=0", *by)
        for out, more in (("whole", ()), ("s1", ("shard=1/2",)), ("s2", ("shard=2/2",))):
            assert alps_here(*words, f"out={out}", *more).code == 0
    asked = len(judge.known)
    assert alps_here("merge", "merged", "s1", "s2").code == 0
    assert len(judge.known) == asked
    assert (tmp_path / "merged" / CHECK_FILE).read_bytes() == (
        tmp_path / "whole" / CHECK_FILE
    ).read_bytes()
    merged, whole = summary(tmp_path / "merged"), summary(tmp_path / "whole")
    assert merged["judge_check"] == whole["judge_check"]


def test_items_wait_for_no_batch(tmp_path):
    batches = Batches(BatchJournal(tmp_path))
    asked = Request("openai/x", ({"role": "user", "content": "."},), None)
    assert batches.takes(asked, "key")
    checking = Request("openai/x", asked.messages, None, purpose=JUDGE_CHECK)
    assert not batches.takes(checking, "key")


@contextmanager
def judged_in(folder):
    """Work in a folder next to a server that knows all items; give the words that name it."""
    with pytest.MonkeyPatch.context() as patch, serve(Judge(right), admitted=False) as server:
        patch.chdir(folder)
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield lambda who: (f"{who}=openai/x", f"{who}_api_base={server.url}")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    with judged_in(folder) as by:
        words = ("task=extraction", "model=rules", *by("judge"), "baseline_records=0")
        assert alps_here("run", *words, "out=run").code == 0
    pack([folder / "run"], WHO, out=folder / "checked")
    return folder / "checked"


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A run that an LLM judge audited by the draw of a maintainer, packed."""
    folder = tmp_path_factory.mktemp("audited")
    with judged_in(folder) as by:
        assert alps_here("run", "task=extraction", "model=rules", "out=run").code == 0
        pack([folder / "run"], WHO, out=folder / "sent")
        assert alps_here("leaderboard", "verify", "sent", "record=yes").code == 0
        seed = read_entry(folder / "sent").review.audit_draw.seed
        done = alps_here("score", "run", *by("audit_judge"), f"audit_seed={seed}", "audit=90%")
        assert done.code == 0, done.err
    pack([folder / "run"], WHO, out=folder / "checked")
    shutil.copyfile(folder / "sent" / REVIEW, folder / "checked" / REVIEW)
    return folder / "checked"


def of_run(checks):
    return changed("runs.0.judge_check", checks)


def of_audit(checks):
    return changed("tracks.task1.audit.judge_check", checks)


def of_matching(**check):
    return changed("runs.0.judge_check.matching", lambda there: there | check)


ALL_OF_PA, FEW = {"pa": {"right": 12, "n": 12}}, "too few known items"
THIRTEEN = {"matching": {"right": 13, "n": 12}}
UNKNOWN = "uses rubrics without known-item checks: matching, support"
TOO_FEW = "got too few known items right, so this metric must have no score"
TOO_MANY = "13 of 12 right, but alps gives a judge 12 known items"
UNAUDITED = "audit judge openai/x was not checked on known items"
CHECKS = {
    "no check": ("packed", of_run(DROPPED), "warning", "was not checked on known items"),
    "another rubric": ("packed", of_run(ALL_OF_PA), "serious", UNKNOWN),
    "too few": ("packed", of_matching(right=6), "serious", TOO_FEW),
    "too many": ("packed", of_matching(right=13), "serious", TOO_MANY),
    "an audit by another rubric": ("audited", of_audit(ALL_OF_PA), "serious", FEW),
    "an audit with too many": ("audited", of_audit(THIRTEEN), "serious", "13 of 12 right"),
    "no audit": ("audited", of_audit(None), "warning", UNAUDITED),
}


@pytest.mark.few(3)
@pytest.mark.parametrize(("sent", "change", "severity", "words"), CHECKS.values(), ids=CHECKS)
def test_a_submission_says_how_its_judge_was_checked(
    request, tmp_path, sent, change, severity, words
):
    entry = shutil.copytree(request.getfixturevalue(sent), tmp_path / "entry")
    options = Options(reviewed=sent == "audited")
    assert "judge_check" not in {finding.code for finding in verify(entry, options).findings}
    forge(entry, change)
    finding = said(verify(entry, options), "judge_check")
    assert (finding.severity, words in finding.what) == (severity, True), finding.what


def site_of(folder, entry, change):
    """Build the boards of an entry and of one that was changed; return a reader of their pages."""
    shutil.copytree(entry, folder / "entries" / "checked")
    other = shutil.copytree(entry, folder / "entries" / "unchecked")
    forge(other, change)
    forge(other, changed("slug", "unchecked"))
    build(folder / "entries", folder / "site")
    return lambda name: Page((folder / "site" / name).read_text(encoding="utf-8")).text


def test_boards_show_the_share_or_that_the_judge_was_not_checked(packed, tmp_path):
    page = site_of(tmp_path, packed, of_run(DROPPED))
    assert "known items: matching" in page("extraction.html")
    assert "judge not checked" in page("extraction.html")
    assert "known items: matching" in page("systems/checked.html")


def test_boards_show_what_an_audit_judge_knew(audited, tmp_path):
    page = site_of(tmp_path, audited, of_audit(None))
    for name in ("extraction.html", "systems/checked.html"):
        assert "audits by openai/x; known items: matching 12 of 12" in page(name), name
    assert "audits by openai/x; judge not checked" in page("extraction.html")
