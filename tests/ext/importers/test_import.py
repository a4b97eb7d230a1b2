"""Imported results of others: read, recomputed, doubted, and judged again."""

import gzip
import json
import shlex

import pytest

from alps.ext.importers import FILE_FORMATS
from alps.ext.importers.answered import PROMPT, ImportedQuestion, tracks
from alps.ext.importers.figures import token_f1
from alps.ext.importers.settings import FORMS
from alps.tasks import TaskOptions
from tests.endtoend import one_line, rows, run, write_rows
from tests.ext.importers.foreign import (
    LEAK,
    amb,
    by_conversation,
    halumem,
    locomo,
    mem0_row,
    omnimemeval,
    v3,
    write,
)
from tests.loopback import serve
from tests.tracks import alps_here, met, payload_of


def imported(folder, form, *words, out="out"):
    done = run(folder, "import", form, *words, f"out={out}", COLUMNS="120")
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / out / "summary.json").read_text(encoding="utf-8"))
    return done.stdout, summary, rows(folder / out / "answers.jsonl")


def score_of(summary, category="", part="", system=None):
    for figure in summary["figures"]:
        same = (figure["part"], figure["category"]) == (part, category)
        if same and system in (None, figure["system"]):
            return figure["score"]
    raise AssertionError(f"no figure on {part} {category}")


def test_mem0s_evaluation_is_recomputed_by_category_with_baselines(tmp_path):
    write(tmp_path / "mem.json", by_conversation(mem0_row))
    shown, summary, answers = imported(tmp_path, "mem0", "mem.json")
    assert len(answers) == 8
    assert {answer["category"] for answer in answers} == {
        *("multi-hop", "single-hop", "temporal", "open-domain")
    }
    overall = score_of(summary)
    assert (overall["value"], overall["n"]) == (0.75, 8)
    assert score_of(summary, "single-hop")["value"] == 0
    by_name = {baseline["name"]: baseline for baseline in summary["baselines"]}
    assert by_name["always refuses"]["f1"] == 0
    assert 0 < by_name["commonest gold"]["f1"] <= 1
    assert by_name["repeats question"]["f1"] < summary["figures"][0]["f1"]["value"]
    assert "always refuses" in shown
    assert "mem: 2 of 282 questions on multi-hop" in shown


def test_locomos_own_file_names_its_system_and_its_traps(tmp_path):
    write(tmp_path / "results.json", locomo())
    _, summary, answers = imported(tmp_path, "locomo", "results.json")
    assert {answer["system"] for answer in answers} == {"results"}
    assert score_of(summary)["value"] == pytest.approx(0.8)
    refused = summary["baselines"][0]
    assert (refused["name"], refused["score"]) == ("always refuses", 0.2)
    assert {answer["conversation"] for answer in answers} == {"talk-0", "talk-1"}


def test_longmemeval_takes_types_and_gold_from_the_questions(tmp_path):
    labels = {"q1": True, "q2": False, "q3_abs": True}
    lines = []
    for name, label in labels.items():
        judged = {"model": "gpt-9", "label": label}
        lines.append({"question_id": name, "hypothesis": "Ferry", "autoeval_label": judged})
    write_rows(tmp_path / "hyp.jsonl.eval-results-gpt-9", lines)
    kinds = {"q1": "multi-session", "q2": "knowledge-update", "q3_abs": "multi-session"}
    questions = []
    for name, kind in kinds.items():
        own = {"question_id": name, "question_type": kind, "question": "How?", "answer": "Ferry"}
        questions.append(own)
    write(tmp_path / "questions.json", questions)
    words = ("hyp.jsonl.eval-results-gpt-9", "data=questions.json")
    shown, summary, answers = imported(tmp_path, "longmemeval", *words)
    assert score_of(summary, "multi-session")["value"] == 1
    assert [answer["abstains"] for answer in answers] == [False, False, True]
    assert "hyp: 2 of 133 questions on multi-session" in shown
    _, summary, answers = imported(tmp_path, "longmemeval", words[0], out="bare")
    assert {answer["category"] for answer in answers} == {"unknown type"}
    assert score_of(summary)["value"] == pytest.approx(2 / 3)


def test_halumem_has_three_parts_and_what_nobody_judged_is_unscored(tmp_path):
    write(tmp_path / "memos_eval_stat_result.json", halumem())
    _, summary, answers = imported(tmp_path, "halumem", "memos_eval_stat_result.json")
    overall = score_of(summary, part="question answering")
    assert (overall["value"], overall["n"]) == (0.5, 2)
    assert summary["figures"][0]["unscored"] == 1
    assert score_of(summary, part="memory updating")["value"] == 0.5
    recall = score_of(summary, part="memory extraction (recall)")
    assert (recall["value"], recall["n"]) == (0.5, 2)
    assert len(answers) == 7
    assert "memos_eval_stat_result: 3 questions, but HaluMem has 3,467" in summary["flags"]


def test_beam_finds_the_answers_beside_their_verdicts(tmp_path):
    for place, mark in (("1", 0.5), ("2", 1)):
        folder = tmp_path / "results" / "100K" / place
        judged = {"abstention": [{"llm_judge_score": 1}], "summarization": []}
        judged["summarization"].append({"llm_judge_score": mark, "llm_judge_responses": []})
        write(folder / "evaluation-rag.json", judged)
        asked = {"question": f"What of hut {place}?", "llm_response": "Shut"}
        full = {**asked, "question": "Sum it up.", "ideal_response": "It is shut"}
        write(folder / "rag.json", {"abstention": [asked], "summarization": [full]})
    files = [f"results/100K/{place}/evaluation-rag.json" for place in ("1", "2")]
    _, summary, answers = imported(tmp_path, "beam", *files)
    assert score_of(summary, "summarization")["value"] == 0.75
    assert {answer["conversation"] for answer in answers} == {"100K/1", "100K/2"}
    assert {answer["system"] for answer in answers} == {"rag"}
    assert [answer["answer"] for answer in answers] == ["Shut"] * 4
    assert summary["flags"] == ["rag: 2 chats without exactly 20 questions: 100K/1, 100K/2"]


def test_omnimemeval_gives_the_share_of_the_judges_draws(tmp_path):
    write(tmp_path / "a_locomo_judged.json", omnimemeval())
    _, summary, _ = imported(tmp_path, "omnimemeval", "a_locomo_judged.json")
    assert score_of(summary)["value"] == pytest.approx(7 / 8)
    single = {name: graded[0] for name, graded in omnimemeval().items()}
    write(tmp_path / "b_lme_judged.json", single)
    _, summary, _ = imported(tmp_path, "omnimemeval", "b_lme_judged.json", out="lme")
    assert score_of(summary)["n"] == 2


def test_amb_is_read_packed_and_its_own_accuracy_is_checked(tmp_path):
    packed = gzip.compress(json.dumps(amb(0.75)).encode())
    (tmp_path / "s.json.gz").write_bytes(packed)
    _, summary, answers = imported(tmp_path, "amb", "s.json.gz")
    assert summary["flags"] == []
    assert {answer["system"] for answer in answers} == {"diary"}
    assert {answer["conversation"] for answer in answers} == {"0", "1"}
    write(tmp_path / "wrong.json", amb(0.9))
    shown, _, _ = imported(tmp_path, "amb", "wrong.json", out="wrong")
    assert "wrong.json: the stated accuracy is 90.00%, but the rows give 75.00%" in shown


def test_amb_and_locomo_call_a_category_by_one_name(tmp_path):
    # The Agent Memory Benchmark has other words for the numbers of LoCoMo's categories.
    write(tmp_path / "amb.json", amb(0.75, "locomo"))
    write(tmp_path / "mem0.json", by_conversation(mem0_row))
    _, _, theirs = imported(tmp_path, "amb", "amb.json")
    _, _, ours = imported(tmp_path, "mem0", "mem0.json", out="mem0")
    assert {row["question"]: row["category"] for row in theirs} == {
        row["question"]: row["category"] for row in ours
    }


@pytest.mark.release
def test_a_log_of_inspect_goes_out_and_comes_back(tmp_path):
    pytest.importorskip("inspect_ai", reason="pip install 'alps-eval[inspect]'")
    words = ("task=extraction", "model=rules", "data=samples", "limit=3", "out=run")
    assert run(tmp_path, "run", *words).returncode == 0
    assert run(tmp_path, "export", "run", "format=inspect", "out=logs").returncode == 0
    (log,) = (tmp_path / "logs").iterdir()
    _, summary, answers = imported(tmp_path, "inspect", f"logs/{log.name}")
    scores = [row["scores"]["f1"] for row in rows(tmp_path / "run" / "scores.jsonl")]
    assert [answer["score"] for answer in answers] == scores
    assert score_of(summary)["n"] == 3
    assert answers[0]["conversation"].startswith("alps_s_")


def whole_locomo(right):
    """Return a file of all 1,540 questions of which so many are right in each category."""
    rows_of = {}
    for category, (n, good) in right.items():
        for number in range(n):
            asked = f"Question {number} of {category}?"
            row = mem0_row(asked, "So", "So", int(number < good), category)
            rows_of.setdefault(str(number % 10), []).append(row)
    return rows_of


def test_a_score_above_the_ceiling_of_wrong_golds_is_named(tmp_path):
    right = {"1": (282, 200), "2": (321, 200), "3": (96, 60), "4": (841, 807)}
    write(tmp_path / "best.json", whole_locomo(right))
    shown, summary, _ = imported(tmp_path, "mem0", "best.json", "reported=92.9%")
    flags = "\n".join(summary["flags"])
    assert "best: 95.96% on single-hop is above the ceiling of 95.72%: at least 2 answers" in flags
    assert "got credit for one of the 36 wrong golds" in flags
    assert "1,267" not in flags
    assert "the true share is between 75.84% and 88.70%" in flags
    assert "best: reported 92.9%, recomputed 82.27%" in flags
    assert "multi-hop is above" not in flags
    assert score_of(summary)["n"] == 1540
    assert "dial481/locomo-audit" in shown


def test_an_accuracy_that_n_cannot_give_is_named(tmp_path):
    write(tmp_path / "mem.json", by_conversation(mem0_row))
    shown, _, _ = imported(tmp_path, "mem0", "mem.json", "reported=74%")
    assert "mem: no number of right answers out of 8 gives 74%" in shown
    shown, _, _ = imported(tmp_path, "mem0", "mem.json", "reported=0.75", out="right")
    assert "reported" not in shown


def test_two_files_are_compared_on_the_questions_that_they_share(tmp_path):
    several = {str(number): by_conversation(mem0_row)["0"] for number in range(12)}
    write(tmp_path / "good.json", several)
    worse = {}
    for name, listed in several.items():
        # In another order, and one question short.
        worse[name] = [{**row, "llm_score": 0} for row in reversed(listed)][:3]
    write(tmp_path / "bad.json", worse)
    alike = {name: list(listed) for name, listed in several.items()}
    alike["0"] = [{**alike["0"][0], "llm_score": 0}, *alike["0"][1:], alike["0"][1]]
    write(tmp_path / "alike.json", alike)
    shown, summary, _ = imported(tmp_path, "mem0", "good.json", "bad.json", "alike.json")
    (ties,) = summary["ties"]
    assert ties["letters"] == {"good": "a", "alike": "a", "bad": "b"}
    assert {pair["n"] for pair in ties["pairs"]} == {36, 48}
    assert "bad: 13 missing questions that other systems answered" in shown
    assert "alike: repeated questions: Where did Bo" in shown


def test_imported_answers_are_judged_again_by_any_judge(tmp_path):
    write(tmp_path / "mem.json", by_conversation(mem0_row))
    # The line is one for a shell, whatever the folder is called.
    shown, _, _ = imported(tmp_path, "mem0", "mem.json", out="Ida's $HOME out")
    again = next(line for line in shown.splitlines() if line.startswith("Judge again: alps run"))
    words = shlex.split(again.removeprefix("Judge again: alps run"))[:-1]

    def judge(body):
        payload = payload_of(body)
        right = payload["memory"].lower() in payload["response"].lower()
        return met("met" if right else "not_met")

    with serve(judge) as server:
        whom = ("judge=openai/strict", f"judge_api_base={server.url}", "baseline_records=2")
        done = run(tmp_path, "run", *words, *whom, "out=again", OPENAI_API_KEY="none")
    assert done.returncode == 0, done.stderr
    track = json.loads((tmp_path / "again" / "summary.json").read_text())["tracks"]
    scores = track["imported_answers"]["scores"]
    assert (scores["correct"]["value"], scores["correct"]["n"]) == (0.5, 8)
    assert 0 < scores["token_f1"]["value"] < 1
    assert set(track["imported_answers"]["floors"]) == {"floor/refuse", "floor/repeat"}
    verdicts = rows(tmp_path / "again" / "verdicts.jsonl")
    assert {row["marks"]["met"] for row in verdicts} == {0, 1}


def test_a_question_is_asked_as_json_behind_the_instructions():
    (task,) = tracks(TaskOptions())
    sample = ImportedQuestion(
        benchmark_id="q", session_id="s", question="Wo?", category="c", gold="Da"
    )
    system, user = task.messages(sample)
    assert system == {"role": "system", "content": PROMPT.text}
    assert user == {"role": "user", "content": '{"question": "Wo?"}'}


def test_token_f1_counts_words_and_leaves_articles_out():
    assert token_f1("The blue door", "a BLUE door!") == 1
    assert token_f1("blue", "blue door") == pytest.approx(2 / 3)
    assert token_f1("", "blue") == 0


def test_the_command_lists_every_format():
    assert tuple(FORMS) == FILE_FORMATS


HALF_ROW = {"question": "Who?", "category": 1, "llm_judgments": {"judgment_1": "maybe"}}
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:ab12\nsize 12345\n"
ALIKE = {"question": "Who?", "response": "a", "prediction": "b", "gold": "c", "score": 1}
GRADES = [
    {"question": f"{n}?", "response": "a", "gold": "b", "is_correct": n, "grade": 1 - n}
    for n in (0, 1)
]
LINES = '{"question_id": "q", "hypothesis": "x"}\n{"question_id": "r"}\n'
UNASKED = [{"sample_id": "a", "qa": [{"question": "Who?", "category": 1}]}]
BROKEN = {
    "a field": ("mem0", {"0": [{"question": "Who?"}]}, "f.json, 0.0.answer: is missing"),
    "a field of another type": (
        "mem0",
        {"0": [{"question": ["Who?"], "answer": "Bo"}]},
        "f.json, 0.0.question: expected a text",
    ),
    "a score": (
        *("mem0", {"0": [mem0_row("Who?", "Bo", "Bo", 3, "1")]}),
        "f.json, 0.0.llm_score: not a score from 0 to 1",
    ),
    "no system": ("locomo", UNASKED, "f.json, 0.qa.0: no field NAME_prediction"),
    "a line": ("longmemeval", LINES, "f.json, line 2, hypothesis: is missing"),
    "no JSON": ("amb", '{\n "run_name": }', "f.json, line 2: not JSON"),
    "another list": ("beam", [], "f.json: is not an object; beam expects evaluation-NAME.json"),
    "a verdict": ("omnimemeval", {"0": [HALF_ROW]}, "judgment_1"),
    "nothing": ("omnimemeval", {}, "f.json: no answers in this file"),
    "a pointer": ("mem0", POINTER, "a Git LFS pointer to a file of 12,345 bytes"),
    "lines": ("mem0", '{"a": 1}\n{"a": 2}\n', "JSON Lines, one object per line"),
    "an answer of nobody": ("rows", [{"question": "Who?", "answer": "Bo"}], "is ambiguous"),
    "two answers": ("rows", [ALIKE], "f.json, entry 1: response and prediction have the same role"),
    "no rows": ("rows", {"memory": [{"text": "Ida rows"}]}, "no rows with a question and an"),
    "two verdicts that differ": ("rows", GRADES, "is_correct, grade look like a verdict"),
    "a torn line": ("rows", '{"question": "a", "response": "b"}\n{"question"\n', "line 2"),
}
OF_V3 = {
    "no column": ("query_id,task_type\nq,t\n", "line 1: no column user_id"),
    "an unknown task": (v3(("poetry", {}, "ok")), "line 2: unknown task 'poetry'"),
    "off its scale": (
        v3((LEAK, {"personalization_leak_rate": 7}, "ok")),
        "line 2, personalization_leak_rate: not a share from 0 to 1: 7",
    ),
    "torn metrics": (v3((LEAK, {}, "ok")).replace("{}", "{"), "line 2, metrics_json: not JSON"),
    "a short row": (v3((LEAK, {}, "ok")) + "q,1\n", "line 3: too few columns"),
}
BROKEN |= {name: ("personamem_v3", *case) for name, case in OF_V3.items()}


@pytest.mark.parametrize(("form", "content", "told"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_line_with_its_place(tmp_path, form, content, told):
    path = write(tmp_path / "f.json", content)
    assert told in alps_here("import", form, path, f"out={tmp_path / 'out'}").one_line
    assert not (tmp_path / "out").exists()


@pytest.mark.release
def test_a_file_that_is_no_log_of_inspect_is_one_line(tmp_path):
    pytest.importorskip("inspect_ai", reason="pip install 'alps-eval[inspect]'")
    (tmp_path / "f.eval").write_bytes(b"PK no archive")
    error = one_line(run(tmp_path, "import", "inspect", "f.eval", "out=out"))
    assert "f.eval: not an Inspect log" in error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("mem0", "missing.json", "out=out"), "missing.json: No such file or directory"),
        (("mem0", "out=out"), "name at least one file"),
        (("mem0", "f.json", "data=f.json", "out=out"), "mem0 files need no data file"),
        (("mem0", "f.json", "reported=best", "out=out"), "reported=best: must be a share"),
        (("mem0", "f.json", "out=."), "already exists"),
        (("mem0", "f.json", "g.json", "reported=1", "out=out"), "needs exactly one file"),
    ],
)
def test_what_cannot_be_imported_is_one_line(tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    for name in ("f.json", "g.json"):
        write(tmp_path / name, by_conversation(mem0_row))
    assert told in alps_here("import", *words).one_line
