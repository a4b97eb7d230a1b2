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
from alps.ext.audits.slices import Errors, bent_by, family_of, script_of
from alps.tasks import all_tracks
from tests.endtoend import files_of, rows, summary, write_rows
from tests.few import few
from tests.loopback import Answer, serve
from tests.tracks import alps_here, met, payload_of
from tests.visitors import write_visitors

AUDITOR = "openai/auditor"
RUN = ("run", "task=extraction", "model=rules", "data=samples", "out=audited")


def generous(body):
    """Find every gold memory the same as the first prediction that shares a longer word."""
    payload = payload_of(body)
    pairs = []
    for gold in payload["gold"]:
        words = {word for word in gold["value"].lower().split() if len(word) > 4}
        for item in payload["predicted"]:
            if words & set(item["value"].lower().split()):
                names = {"gold": gold["id"], "predicted": item["id"]}
                pairs.append({"reason": "a word", **names, "relation": "same"})
                break
    return Answer(json.dumps({"pairs": pairs}))


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
    """A run of our samples that was audited once, and what the command printed."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OPENAI_API_KEY", "none")
        done = alps_here(*RUN, *audit(server, "80%"))
    assert done.code == 0, done.err
    return folder / "audited", done.out


@pytest.fixture
def audited(here, made):
    """A copy of that run, in the working folder."""
    return shutil.copytree(made[0], here / "audited"), made[1]


def audited_scores(folder):
    return summary(folder)["audit"]["tracks"]["task1"]["scores"]


@pytest.mark.release
def test_the_shown_f1_is_the_powered_one_over_the_records_of_both_judges(audited):
    folder, _ = audited
    cheap = {row["benchmark_id"]: row["scores"]["f1"] for row in rows(folder / "scores.jsonl")}
    dear = {row["benchmark_id"]: row["scores"]["f1"] for row in rows(folder / "audit/scores.jsonl")}
    assert (len(cheap), len(dear)) == (26, 21)
    known, others = sorted(dear), sorted(set(cheap) - set(dear))
    y, f = np.array([dear[name] for name in known]), np.array([cheap[name] for name in known])
    rest = np.array([cheap[name] for name in others])
    by_hand = ppi(y, f, rest)
    score = audited_scores(folder)["f1"]
    assert score["value"] == pytest.approx(by_hand.value, abs=1e-12)
    assert score["low"] < score["value"] < score["high"]
    assert (score["audited"], score["n"]) == (21, 26)
    assert score["cheap"]["value"] == pytest.approx(np.mean(list(cheap.values())))


def test_every_mean_that_both_judges_define_on_the_same_records_is_corrected(audited):
    folder, _ = audited
    # Micro figures are ratios of sums; fields are scored for matches alone.
    wanted = {"f1", "precision", "recall", "recall_direct", "recall_indirect"}
    assert set(audited_scores(folder)) == wanted


def test_what_the_audit_cost_is_counted_apart(audited, server):
    folder, _ = audited
    calls = summary(folder)
    assert calls["calls"]["http"] == 0
    assert calls["audit"]["calls"]["http"] == len(rows(folder / "audit/calls.jsonl")) > 0
    assert rows(folder / "calls.jsonl") == []


def test_the_same_command_asks_nothing_again_and_a_larger_share_only_what_is_new(audited, server):
    folder, _ = audited
    before, asked = files_of(folder), len(server.requests)
    assert alps_here(*RUN, *audit(server, "80%")).code == 0
    assert (files_of(folder), len(server.requests)) == (before, asked)
    verdicts = rows(folder / "audit/verdicts.jsonl")
    assert alps_here("score", "audited", *audit(server, "100%")).code == 0
    assert len(server.requests) > asked
    more = rows(folder / "audit/verdicts.jsonl")
    assert [row for row in verdicts if row not in more] == []
    # Everything is audited: the corrected score is the audit judge's own.
    dear = [row["scores"]["f1"] for row in rows(folder / "audit/scores.jsonl")]
    assert audited_scores(folder)["f1"]["value"] == pytest.approx(np.mean(dear))


def test_a_finished_run_is_audited_in_its_own_folder_which_stays_as_it_was(here, server, audited):
    folder, _ = audited
    assert alps_here("run", "task=extraction", "model=rules", "data=samples", "out=plain").code == 0
    before = files_of(here / "plain")
    assert "audit" not in summary(here / "plain")
    assert alps_here("score", "plain", *audit(server, "80%")).code == 0
    after = files_of(here / "plain")
    assert {name for name in before if before[name] != after[name]} == {"summary.json"}
    assert audited_scores(here / "plain")["f1"] == audited_scores(folder)["f1"]


def test_a_run_that_goes_on_keeps_its_audit(audited):
    folder, _ = audited
    before = summary(folder)
    assert alps_here(*RUN).code == 0
    assert summary(folder) == before


def test_fewer_than_twenty_audits_are_refused_with_the_share_that_is_needed(here, server):
    said = alps_here(*RUN, *audit(server, "10%")).one_line
    assert (
        "audit=10% draws 3 of 26 records of extraction; at least 20 are needed: set audit=77%"
        in said
    )
    assert not (here / "audited").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("audit=30%",), "no audit judge; add audit_judge="),
        ((f"audit_judge={AUDITOR}",), "audit= is missing; add a share, such as audit=10%"),
        (("audit_judge=lexical", "audit=90%"), "this is already the run's judge"),
        (("audit_judge=lexcal", "audit=90%"), "lexical"),
    ],
)
def test_half_an_audit_is_refused_in_one_line(here, words, said):
    assert said in alps_here(*RUN, *words).one_line
    assert not (here / "audited").exists()


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


def f1_of(path):
    return {row["benchmark_id"]: row["scores"]["f1"] for row in rows(path)}


@pytest.mark.release
def test_runs_that_share_audits_are_compared_by_them(here, server):
    for model, out in (("rules", "a"), ("oracle", "b")):
        words = ("run", "task=extraction", f"model={model}", "data=samples", f"out={out}")
        assert alps_here(*words, *audit(server, "80%"), "audit_seed=0").code == 0
    shown = alps_here("compare", "a", "b", "format=json")
    assert shown.code == 0, shown.err
    track = json.loads(shown.out)["corrected_by_audits"]["task1"]
    found = next(iter(track["metrics"]["f1"]["differences"]))
    cheap = [f1_of(here / name / "scores.jsonl") for name in "ab"]
    dear = [f1_of(here / name / "audit/scores.jsonl") for name in "ab"]
    assert set(dear[0]) == set(dear[1])
    known, others = sorted(dear[0]), sorted(set(cheap[0]) - set(dear[0]))
    y = np.array([dear[0][name] - dear[1][name] for name in known])
    f = np.array([cheap[0][name] - cheap[1][name] for name in known])
    rest = np.array([cheap[0][name] - cheap[1][name] for name in others])
    weight = ((y - y.mean()) * (f - f.mean())).mean() / (
        (1 + len(y) / len(rest)) * np.concatenate([f, rest]).var(ddof=1)
    )
    by_hand = weight * rest.mean() + (y - weight * f).mean()
    assert found["difference"]["value"] == pytest.approx(by_hand, abs=1e-12)
    assert found["p_holm"] >= found["p"] > 0
    assert found["detectable"] > 0
    few = alps_here("compare", "a", "b").out
    (row,) = (line for line in few.splitlines() if "extraction, corrected by" in line)
    assert row.split()[-1] == "26"
    whole = alps_here("compare", "a", "b", "metrics=all").out
    assert "corrected by audits: 26 shared records, 21 audited" in whole


def test_a_run_without_audits_is_compared_as_it_was_judged(audited, here):
    assert alps_here("run", "task=extraction", "model=oracle", "data=samples", "out=b").code == 0
    shown = alps_here("compare", "audited", "b")
    assert "Not corrected: runs without audits: B" in shown.out
    assert "corrected by audits" not in shown.out


def test_slices_of_too_few_audits_say_how_many_are_needed(audited):
    folder, _ = audited
    slices = summary(folder)["audit"]["tracks"]["task1"]["slices"]["input length"]
    assert [one["n"] for one in slices.values()] == [9, 8, 9]
    assert all(one["value"] is None for one in slices.values())
    assert sum(one["audited"] for one in slices.values()) == 21


def test_what_bends_the_cheap_judge_is_told_with_adjusted_p(audited):
    folder, _ = audited
    bent = summary(folder)["audit"]["tracks"]["task1"]["bent"]
    assert {row["by"] for row in bent} >= {"input length", "answer length", "position in the data"}
    assert all(row["p"] <= row["p_holm"] <= 1 for row in bent)


@pytest.mark.parametrize(
    ("text", "script"),
    [("I like tea", "Latin"), ("喜欢喝茶 OK", "CJK"), ("Люблю чай", "Cyrillic"), ("12 !", "none")],
)
def test_a_text_is_in_the_script_of_most_of_its_letters(text, script):
    assert script_of(text) == script


@pytest.mark.release
def test_an_audit_judge_that_never_answers_corrects_nothing_and_fails_the_run(here):
    with serve(lambda body: Answer("no JSON")) as broken:
        done = alps_here(*RUN, *audit(broken, "80%"), "judge_repeats=1")
    assert done.code == 1
    assert "extraction is not corrected: 16 of 21 drawn records have no audit score" in done.err
    assert summary(here / "audited")["tracks"]["task1"]["scores"]["f1"]["value"] is not None


def test_a_dry_run_refuses_what_a_run_would(here, server):
    assert (
        "at least 20 are needed" in alps_here(*RUN, "dry_run=true", *audit(server, "10%")).one_line
    )


def test_the_page_of_a_run_shows_what_audits_correct(audited):
    folder, _ = audited
    assert alps_here("report", "audited", "out=page.html").code == 0
    page = (folder.parent / "page.html").read_text(encoding="utf-8")
    assert "Corrected with audits by openai/auditor" in page
    assert f"{audited_scores(folder)['f1']['value']:.3f}".lstrip("0") in page


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("openai/gpt-4.1-mini", "gpt"),
        ("openrouter/openai/gpt-5", "gpt"),
        ("anthropic/claude-sonnet-4.5", "claude"),
        ("lexical", ""),
        ("predictions:/answers/gpt.jsonl", ""),
    ],
)
def test_models_of_one_maker_are_a_family(model, family):
    assert family_of(model) == family


def test_a_judge_that_favours_its_own_family_is_found_over_several_runs():
    draw = np.random.default_rng(0)
    runs = []
    for own in (True, False, False):
        errors = draw.normal(-0.2 * own, 0.2, 60)
        lengths = {"input length": draw.normal(size=60)}
        runs.append(Errors(errors, lengths, [f"s{n}" for n in range(60)], own))
    bent = {row.by: row for row in bent_by(runs)}
    # For one standard deviation of a share of a third: .2 times .471.
    assert bent["own family"].value == pytest.approx(-0.2 * 0.471, abs=0.03)
    assert bent["own family"].p_holm < 0.001
    assert bent["input length"].p_holm > 0.05
    assert "own family" not in {row.by for row in bent_by(runs[1:])}


def test_a_dry_run_counts_what_an_audit_would_ask(here, server):
    words = (*RUN, *audit(server, "80%"), "judge_check=no")
    asked = len(server.requests)
    said = alps_here(*words, "dry_run=true")
    assert said.code == 0, said.err
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
    cheap = [f1_of(here / name / "scores.jsonl") for name in "ab"]
    dear = [f1_of(here / name / "audit/scores.jsonl") for name in "ab"]
    asked = {}
    for row in rows(here / "data" / "dev" / "task1" / "model_input.jsonl"):
        turns = row["input"]["dialogue"]
        asked[row["benchmark_id"]] = len("\n".join("\n".join(turn.values()) for turn in turns))
    edges = np.quantile(list(asked.values()), [1 / 3, 2 / 3])
    short = [name for name in cheap[0] if asked[name] <= edges[0]]
    known = [name for name in short if name in dear[0]]
    apart = [np.array([side[0][n] - side[1][n] for n in known]) for side in (dear, cheap)]
    rest = np.array([cheap[0][n] - cheap[1][n] for n in short if n not in dear[0]])
    found = lengths["short"]
    assert (found["n"], found["audited"]) == (len(short), len(known))
    assert found["difference"]["value"] == pytest.approx(ppi(*apart, rest).value, abs=1e-9)
    assert found["p_holm"] >= found["p"]
    # All of them differ alike: there is no variance, and yet others may differ otherwise.
    assert found["difference"]["value"] == -1 < found["difference"]["high"]
    shown = alps_here("compare", "a", "b", "metrics=all").out
    assert "by input length, corrected by audits" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_smaller_share_keeps_what_was_paid_for(audited, server):
    folder, _ = audited
    assert alps_here("score", "audited", *audit(server, "100%")).code == 0
    asked, scores = len(server.requests), audited_scores(folder)
    assert alps_here("score", "audited", *audit(server, "80%")).code == 0
    assert audited_scores(folder)["f1"]["audited"] == 21
    assert alps_here("score", "audited", *audit(server, "100%")).code == 0
    assert (len(server.requests), audited_scores(folder)) == (asked, scores)


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
        done = alps_here("run", "task=extraction", model, *judge, *words)
        assert done.code == 0, done.err
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


@pytest.mark.parametrize("rate", [0.02, 0.1])
@pytest.mark.parametrize(("records", "audited"), few([(60, 30), (200, 40)]))
@pytest.mark.parametrize("errs", [0.0, 0.1])
def test_rare_positives_are_covered_and_a_perfect_judge_too(rate, records, audited, errs):
    held, draws = 0, 60
    for seed in range(draws):
        draw = np.random.default_rng([seed, records, audited])
        truth = draw.random(records) < rate
        cheap = np.where(draw.random(records) < errs, ~truth, truth) * 1.0
        known = np.arange(records) < audited
        values = np.where(known, truth, np.nan)
        score = corrected_score(Pairs(cheap, values, known, list(range(records)), (0.0, 1.0)))
        assert score.low is not None
        held += score.low <= rate <= score.high
    assert held >= 0.93 * draws


@pytest.mark.parametrize("errs", [0.0, 0.1])
def test_differences_of_rare_positives_are_covered_and_have_no_p_of_few(errs):
    held, draws, rates = 0, 60, (0.02, 0.05)
    for seed in range(draws):
        draw = np.random.default_rng(seed)
        sides = []
        for rate in rates:
            truth = draw.random(200) < rate
            cheap = np.where(draw.random(200) < errs, ~truth, truth) * 1.0
            values = np.where(np.arange(200) < 40, truth, np.nan)
            sides.append(Pairs(cheap, values, np.arange(200) < 40, list(range(200)), (0.0, 1.0)))
        found = powered_difference(*sides[0].less(sides[1]))
        assert (found.p is None) == (np.count_nonzero(sides[0].less(sides[1])[0]) < 10)
        held += found.estimate.low <= rates[0] - rates[1] <= found.estimate.high
    assert held >= 0.93 * draws
