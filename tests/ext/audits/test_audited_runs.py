"""Runs that a cheap judge judges whole, and a better one in part."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from alps.ext.audits.corrections import powered_difference, ppi
from alps.ext.audits.draws import answer_seed
from alps.ext.audits.intervals import clopper_pearson
from alps.ext.audits.records import Pairs, corrected_score
from alps.tasks import all_tracks
from tests.endtoend import edit_json, files_of, rows, summary, write_rows
from tests.few import few
from tests.loopback import Answer, serve
from tests.stories import generous
from tests.tracks import alps_done, alps_here, met, payload_of
from tests.visitors import write_visitors

AUDITOR = "openai/auditor"
RUN = ("run", "task=extraction", "model=rules", "data=samples", "out=audited")


@pytest.fixture(scope="module")
def server():
    with serve(generous) as served:
        yield served


@pytest.fixture
def here(tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return tmp_path


def audit(server, share):
    return (f"audit_judge={AUDITOR}", f"audit_judge_api_base={server.url}", f"audit={share}")


@pytest.fixture(scope="module")
def made(tmp_path_factory, server):
    """A run of our samples that was audited once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OPENAI_API_KEY", "none")
        done = alps_here(*RUN, *audit(server, "80%"))
    assert done.code == 0, done.err
    return folder / "audited"


@pytest.fixture
def audited(here, made):
    """A copy of that run, in the working folder."""
    return Path(shutil.copytree(made, here / "audited"))


def f1_of(path):
    return {row["benchmark_id"]: row["scores"]["f1"] for row in rows(path)}


def audited_scores(folder):
    return summary(folder)["audit"]["tracks"]["task1"]["scores"]


def test_the_summary_and_the_page_hold_what_an_audit_corrects_finds_and_costs(audited):
    cheap, dear = f1_of(audited / "scores.jsonl"), f1_of(audited / "audit/scores.jsonl")
    assert (len(cheap), len(dear)) == (26, 21)
    known, others = sorted(dear), sorted(set(cheap) - set(dear))
    columns = [np.array([side[name] for name in known]) for side in (dear, cheap)]
    by_hand = ppi(*columns, np.array([cheap[name] for name in others]))
    scores = audited_scores(audited)
    score = scores["f1"]
    assert score["value"] == pytest.approx(by_hand.value, abs=1e-12)
    assert score["low"] < score["value"] < score["high"]
    assert (score["audited"], score["n"]) == (21, 26)
    assert score["cheap"]["value"] == pytest.approx(np.mean(list(cheap.values())))
    # Micro figures are ratios of sums; fields are scored for matches alone.
    assert set(scores) == {"f1", "precision", "recall", "recall_direct", "recall_indirect"}
    whole = summary(audited)
    assert whole["calls"]["http"] == 0
    assert whole["audit"]["calls"]["http"] == len(rows(audited / "audit/calls.jsonl")) > 0
    assert rows(audited / "calls.jsonl") == []
    track = whole["audit"]["tracks"]["task1"]
    slices = track["slices"]["input length"].values()
    assert [one["n"] for one in slices] == [9, 8, 9]
    assert all(one["value"] is None for one in slices)
    few = [f"{n} records, and at least 20 are needed" for n in (9, 8, 9)]
    assert [one["reason"] for one in slices] == few  # which no further audit would change
    assert sum(one["audited"] for one in slices) == 21
    by = {row["by"] for row in track["bent"]}
    assert by >= {"input length", "answer length", "position in the data"}
    assert all(row["p"] <= row["p_holm"] <= 1 for row in track["bent"])
    assert alps_here("report", "audited", "out=page.html").code == 0
    page = (audited.parent / "page.html").read_text(encoding="utf-8")
    assert "Corrected with audits by openai/auditor" in page
    assert f"{score['value']:.3f}".lstrip("0") in page


def test_the_same_command_asks_nothing_again_and_another_share_only_what_is_new(audited, server):
    before, asked = files_of(audited), len(server.requests)
    assert alps_here(*RUN, *audit(server, "80%")).code == 0
    assert (files_of(audited), len(server.requests)) == (before, asked)
    verdicts = rows(audited / "audit/verdicts.jsonl")
    assert alps_here("score", "audited", *audit(server, "100%")).code == 0
    assert len(server.requests) > asked
    more = rows(audited / "audit/verdicts.jsonl")
    assert [row for row in verdicts if row not in more] == []
    # Everything is audited: the corrected score is the audit judge's own.
    dear = f1_of(audited / "audit/scores.jsonl")
    asked, whole = len(server.requests), audited_scores(audited)
    assert whole["f1"]["value"] == pytest.approx(np.mean(list(dear.values())))
    # A smaller share keeps what was paid for.
    assert alps_here("score", "audited", *audit(server, "80%")).code == 0
    assert audited_scores(audited)["f1"]["audited"] == 21
    assert alps_here("score", "audited", *audit(server, "100%")).code == 0
    assert (len(server.requests), audited_scores(audited)) == (asked, whole)


def test_replies_of_the_cache_are_counted_in_an_audit_too(here, server, monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", str(here / "cache"))
    words = (*RUN[:-1], *audit(server, "80%"))
    calls = []
    for out in ("cold", "warm", "warm"):  # the second time in a folder, nothing is asked
        alps_done(*words, f"out={out}")
        calls.append(summary(here / out)["audit"]["calls"])
    asked = sum(row["purpose"] == "judge" for row in rows(here / "cold/audit/calls.jsonl"))
    assert asked > 0
    assert [one["cached"] for one in calls] == [0, asked, asked]
    assert f": 0 calls, {asked} cached, $0.0000." in alps_here("show", "warm").out


@pytest.mark.parametrize(
    ("audited_records", "needed", "said"),
    [
        (21, None, "estimated from 21 audits, even a full audit of these records may not give"),
        (21, 24, "estimated from 21 audits, an interval of ±.03 needs audits of about 3 more rec"),
        (21, 21, "F1: an interval of ±.03 is reached."),
        (26, None, "F1: all records are audited; an interval of ±.03 needs more data."),
    ],
)
def test_how_many_audits_are_needed_is_said_as_an_estimate(audited, audited_records, needed, said):
    whole = summary(audited)
    score = whole["audit"]["tracks"]["task1"]["scores"]["f1"]
    score |= {"audited": audited_records, "needed": needed}
    (audited / "summary.json").write_text(json.dumps(whole), encoding="utf-8")
    assert said in " ".join(alps_here("show", "audited").out.split())


def test_a_finished_run_is_audited_in_its_own_folder_which_stays_as_it_was(here, server, audited):
    assert alps_here("run", "task=extraction", "model=rules", "data=samples", "out=plain").code == 0
    before = files_of(here / "plain")
    assert "audit" not in summary(here / "plain")
    assert alps_here("score", "plain", *audit(server, "80%")).code == 0
    after = files_of(here / "plain")
    assert {name for name in before if before[name] != after[name]} == {"summary.json"}
    assert audited_scores(here / "plain")["f1"] == audited_scores(audited)["f1"]
    # A run that goes on keeps its audit.
    before = summary(audited)
    assert alps_here(*RUN).code == 0
    assert summary(audited) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("audit=30%",), "no audit judge; add audit_judge="),
        ((f"audit_judge={AUDITOR}",), "audit= is missing; add a share, such as audit=10%"),
        (("audit_judge=lexical", "audit=90%"), "this is already the run's judge"),
        (("audit_judge=lexcal", "audit=90%"), "lexical"),
        (
            (f"audit_judge={AUDITOR}", "audit=10%"),
            "audit=10% draws 3 of 26 records of extraction; at least 20 are needed: set audit=77%",
        ),
    ],
)
def test_an_audit_that_is_half_or_too_small_is_refused_by_a_run_and_a_dry_run(here, words, said):
    assert said in alps_here(*RUN, *words).one_line
    assert said in alps_here(*RUN, *words, "dry_run=true").one_line
    assert not (here / "audited").exists()


def test_an_audit_of_a_finished_run_takes_no_other_folder(audited, server):
    said = alps_here("score", "audited", *audit(server, "90%"), "out=elsewhere").one_line
    assert "out=elsewhere would change nothing: an audit is stored in the audited run" in said


def test_another_judge_does_not_add_to_the_audits_of_the_first(audited, server):
    other = ("audit_judge=openai/other", *audit(server, "90%")[1:])
    said = alps_here("score", "audited", *other).one_line
    assert "holds audits by openai/auditor" in said


@pytest.mark.release
def test_an_audit_that_a_budget_stops_corrects_nothing_until_it_goes_on(here, server):
    words = (*RUN, *audit(server, "80%"), "judge_check=no")
    done = alps_here(*words, "max_total_tokens=300")
    assert done.code == 3
    score = audited_scores(here / "audited")["f1"]
    assert score["value"] is None
    assert "drawn records have no audit score" in score["reason"]
    assert "not corrected" in done.out
    assert "No corrected score" in alps_here("show", "audited").out
    assert alps_here(*words).code == 0
    assert audited_scores(here / "audited")["f1"]["value"] is not None


def test_an_audit_judge_that_failed_its_check_is_marked_where_the_check_is_set_aside(here, server):
    assert alps_here(*RUN).code == 0
    score = ("score", "audited", "audit=80%", f"audit_judge={AUDITOR}")
    with serve(generous, admitted=False) as unable:
        words = (*score, f"audit_judge_api_base={unable.url}")
        assert "can't audit this run" in alps_here(*words).one_line
        done = alps_here(*words, "judge_check=no")
    known = summary(here / "audited")["audit"]["judge_check_before"]
    right = sum(share["right"] for share in known.values())
    mark = f"(known items {right}/{12 * len(known)}, not admitted)"
    told = " ".join(alps_here("show", "audited").out.split())
    assert mark in " ".join(done.out.split())
    assert mark in told
    assert f"Items with known answers that judge {AUDITOR} got right: " in told
    assert "was not checked" not in told


def test_an_audit_judge_that_nobody_checked_is_marked(here, server):
    done = alps_here(*RUN, *audit(server, "80%"), "judge_check=no")
    assert f"by {AUDITOR} (not checked)" in " ".join(done.out.split())


def test_a_missing_correction_names_its_metrics(audited):
    def spoil(found):
        found["audit"]["tracks"]["task1"]["scores"]["recall"] |= {
            "value": None,
            "low": None,
            "high": None,
            "reason": "too few",
        }

    edit_json(audited / "summary.json", spoil)
    assert "No corrected score for recall: too few." in alps_here("show", "audited").out


def difference_by_audits(here, kept=None):
    """Return the difference of the runs a and b by PPI++ on those of their records that are kept,
    how many these are, and how many are audited.
    """
    cheap = [f1_of(here / name / "scores.jsonl") for name in "ab"]
    dear = [f1_of(here / name / "audit/scores.jsonl") for name in "ab"]
    assert set(dear[0]) == set(dear[1])
    names = sorted(cheap[0] if kept is None else kept)
    known = [name for name in names if name in dear[0]]
    apart = [np.array([side[0][n] - side[1][n] for n in known]) for side in (dear, cheap)]
    rest = np.array([cheap[0][n] - cheap[1][n] for n in names if n not in dear[0]])
    return ppi(*apart, rest).value, len(names), len(known)


@pytest.mark.release
def test_runs_that_share_audits_are_compared_by_them(here, server):
    for model, out in (("rules", "a"), ("oracle", "b")):
        words = ("run", "task=extraction", f"model={model}", "data=samples", f"out={out}")
        assert alps_here(*words, *audit(server, "80%"), "audit_seed=0").code == 0
    shown = alps_done("compare", "a", "b", "format=json")
    track = json.loads(shown.out)["corrected_by_audits"]["task1"]
    found = next(iter(track["metrics"]["f1"]["differences"]))
    difference, shared, audits = difference_by_audits(here)
    assert (shared, audits) == (26, 21)
    assert found["difference"]["value"] == pytest.approx(difference, abs=1e-12)
    assert found["p_holm"] >= found["p"] > 0
    assert found["detectable"] > 0
    told = alps_here("compare", "a", "b").out
    (row,) = (line for line in told.splitlines() if "extraction, corrected by" in line)
    assert row.split()[-1] == "26"
    whole = alps_here("compare", "a", "b", "metrics=all").out
    assert "corrected by audits: 26 shared records, 21 audited" in whole


def test_a_run_without_audits_is_compared_as_it_was_judged(audited, here):
    assert alps_here("run", "task=extraction", "model=oracle", "data=samples", "out=b").code == 0
    shown = alps_here("compare", "audited", "b")
    assert "Not corrected: runs without audits: B" in shown.out
    assert "corrected by audits" not in shown.out


@pytest.mark.release
def test_an_audit_judge_that_never_answers_corrects_nothing_and_fails_the_run(here):
    with serve(lambda body: Answer("no JSON")) as broken:
        done = alps_here(*RUN, *audit(broken, "80%"), "judge_repeats=1")
    assert done.code == 1
    assert "extraction is not corrected: 16 of 21 drawn records have no audit score" in done.err
    assert summary(here / "audited")["tracks"]["task1"]["scores"]["f1"]["value"] is not None


def test_a_dry_run_counts_what_an_audit_would_ask(here, server):
    words = (*RUN, *audit(server, "80%"), "judge_check=no")
    asked = len(server.requests)
    said = alps_done(*words, "dry_run=true")
    lines = [line.partition(", audit ") for line in said.out.splitlines()]
    (line,) = (["audit", *after.split()] for _, found, after in lines if found)
    assert (len(server.requests), (here / "audited").exists()) == (asked, False)
    assert alps_here(*words).code == 0
    assert line[1:3] == ["up", "to"]
    assert int(line[3]) >= summary(here / "audited")["audit"]["calls"]["http"] > 0


def rated(body):
    """Rate as two judges do: the cheap one is content with more answers."""
    number = sum(map(ord, payload_of(body)["response"])) % 4
    return met("met" if number < (3 if body["model"].endswith("cheap") else 2) else "not_met")


def test_a_rubric_that_both_judges_rate_by_is_corrected(here):
    with serve(rated) as judges:
        words = ("task=utilization", "ability=pf", "model=floor/parrot", "data=samples", "out=pf")
        cheap = ("judge=openai/cheap", f"judge_api_base={judges.url}", "baseline_records=0")
        done = alps_here("run", *words, *cheap, *audit(judges, "90%"))
    assert done.code == 0, done.err
    score = summary(here / "pf")["audit"]["tracks"]["task4_ability2"]["scores"]["pf"]
    audits = [row["scores"]["pf"] for row in rows(here / "pf/audit/scores.jsonl")]
    assert score["cheap"]["value"] > score["value"] > 0
    assert score["value"] == pytest.approx(np.mean(audits), abs=0.1)
    assert score["audited"] == len(audits) >= 20


@pytest.mark.release
def test_differences_by_slice_are_those_of_the_records_in_them(here):
    write_visitors(here / "data", 78)
    for model, out in (("rules", "a"), ("oracle", "b")):
        words = ("run", "task=extraction", f"model={model}", "data=data", f"out={out}")
        audit = ("audit_judge=always-no", "audit=90%", "audit_seed=0")
        assert alps_here(*words, *audit).code == 0
    told = json.loads(alps_here("compare", "a", "b", "format=json").out)
    slices = told["corrected_by_audits"]["task1"]["slices"]
    lengths = {row["slice"]: row for row in slices if row["by"] == "input length"}
    assert sum(row["n"] for row in lengths.values()) == 78
    asked = {}
    for row in rows(here / "data" / "dev" / "task1" / "model_input.jsonl"):
        turns = row["input"]["dialogue"]
        asked[row["benchmark_id"]] = len("\n".join("\n".join(turn.values()) for turn in turns))
    edges = np.quantile(list(asked.values()), [1 / 3, 2 / 3])
    short = [name for name, length in asked.items() if length <= edges[0]]
    difference, shared, audits = difference_by_audits(here, short)
    found = lengths["short"]
    assert (found["n"], found["audited"]) == (shared, audits)
    assert found["difference"]["value"] == pytest.approx(difference, abs=1e-9)
    assert found["p_holm"] >= found["p"]
    # All of them differ alike: there is no variance, and yet others may differ otherwise.
    assert found["difference"]["value"] == -1 < found["difference"]["high"]
    shown = alps_here("compare", "a", "b", "metrics=all").out
    assert "by input length, corrected by audits" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_several_answers_to_a_record_are_one_audited_record():
    sessions = [n // 3 for n in range(30)]
    cheap = np.linspace(0, 1, 30)
    pairs = Pairs(cheap, cheap, np.ones(30, dtype=bool), sessions, (0.0, 1.0), sessions)
    assert pairs.why_not() == "10 audited records: at least 20 are needed; audit 10 more"
    half = pairs.where(np.arange(30) < 15)
    assert half.audited_records == 5
    nothing = np.zeros(20)
    enough = Pairs(nothing, nothing, np.ones(20, dtype=bool), list(range(20)), (0.0, 1.0))
    assert not enough.why_not()


def test_audits_that_are_all_alike_leave_room_for_what_was_not_seen():
    nothing = np.zeros(30)
    pairs = Pairs(nothing, nothing, np.ones(30, dtype=bool), list(range(30)), (0.0, 1.0))
    score = corrected_score(pairs)
    for found in (score, score.alone):
        assert (found.value, found.low) == (0.0, 0.0)
        assert found.high == pytest.approx(clopper_pearson(0, 30).high, abs=0.02)


def drawn_of(folder):
    about = json.loads((folder / "audit" / "audit.json").read_text())["tracks"]["task1"]
    return about["seed"], frozenset(about["sessions"])


def test_the_answers_draw_the_audit_and_nobody_chooses_it(here):
    """The seed of a run, its folder, spaces, case, order and ids change no draw; words do."""
    assert alps_here("run", "task=extraction", "model=rules", "out=rules").code == 0
    answers = []
    for row in rows(here / "rules/predictions.jsonl"):
        items = row["prediction"]["memory_items"]
        answers.append({"benchmark_id": row["benchmark_id"], "memory_items": items})

    def draw(name, change, *words):
        changed = [{**row, "memory_items": change(row["memory_items"])} for row in answers]
        write_rows(Path(f"{name}.jsonl"), changed)
        model = f"model=predictions:{name}.jsonl"
        judge = ("audit_judge=always-no", "audit=80%", f"out={name}")
        alps_done("run", "task=extraction", model, *judge, *words)
        return drawn_of(here / name)

    def spaced(items):
        return [{**one, "value": f" {one['value'].upper()}  "} for one in reversed(items)]

    def longer(items):
        return [{**one, "value": f"{one['value']} indeed"} for one in items]

    plain = draw("plain", list)
    assert draw("reseeded", list, "seed=7") == plain
    assert draw("spaced", spaced)[0] == plain[0]
    assert draw("longer", longer)[0] != plain[0]
    assert draw("chosen", list, "audit_seed=7")[0] == 7


SAID = "The user Nina likes 21 jazz records, and a v-neck in blue"


@pytest.mark.parametrize(
    "disguised",
    [
        SAID.translate(str.maketrans("aeocpy", "аеосру")),
        SAID.translate(str.maketrans("TNBvo", "ΤΝΒνο")),
        SAID.replace("i", "i\u0301").replace("u", "ü"),
        SAID.replace("jazz", "ja\u200bz\u2060z").replace(" ", "\u3000\u200d"),
        SAID.translate(str.maketrans("21", "٢١")),
        SAID.translate(str.maketrans("21", "²¹")),
        f"… {SAID.upper()} 👍✔!",
        "𝐓𝐡𝐞 𝗎𝗌𝖾𝗋 𝙽𝚒𝚗𝚊 likes 21 jazz records and a ｖ－ｎｅｃｋ in blue",
    ],
)
def test_what_reads_the_same_is_drawn_the_same(disguised):
    task, scores = all_tracks()["task1"], {("1:a", 0): {"scores": {"f1": 0.5}}}

    def seed(value):
        answer = {"memory_items": [{"memory_id": "m1", "value": value}]}
        return answer_seed(task, "data", {("1:a", 0): {"prediction": answer}}, scores)

    assert seed(disguised) == seed(SAID)
    assert seed(f"{SAID} indeed") != seed(SAID)


def rare(draw, rate, errs, records, audited):
    """Draw rare positives, a cheap judge who errs so often, and audits of the first records."""
    truth = draw.random(records) < rate
    cheap = np.where(draw.random(records) < errs, ~truth, truth) * 1.0
    known = np.arange(records) < audited
    return Pairs(cheap, np.where(known, truth, np.nan), known, list(range(records)), (0.0, 1.0))


@pytest.mark.parametrize("rate", [0.02, 0.1])
@pytest.mark.parametrize(("records", "audited"), few([(60, 30), (200, 40)]))
@pytest.mark.parametrize("errs", [0.0, 0.1])
def test_rare_positives_are_covered_and_a_perfect_judge_too(rate, records, audited, errs):
    held, draws = 0, 60
    for seed in range(draws):
        draw = np.random.default_rng([seed, records, audited])
        score = corrected_score(rare(draw, rate, errs, records, audited))
        assert score.low is not None
        held += score.low <= rate <= score.high
    assert held >= 0.93 * draws


@pytest.mark.parametrize("errs", [0.0, 0.1])
def test_differences_of_rare_positives_are_covered_and_have_no_p_of_few(errs):
    held, draws, rates = 0, 60, (0.02, 0.05)
    for seed in range(draws):
        draw = np.random.default_rng(seed)
        one, other = (rare(draw, rate, errs, 200, 40) for rate in rates)
        apart = one.less(other)
        found = powered_difference(*apart)
        assert (found.p is None) == (np.count_nonzero(apart[0]) < 10)
        held += found.estimate.low <= rates[0] - rates[1] <= found.estimate.high
    assert held >= 0.93 * draws
