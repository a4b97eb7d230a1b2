"""Odd files of others: other versions of a format, two files of one name, damage, wrong figures."""

import gzip
import json
import subprocess
import sys
import zipfile

import pytest

from alps.errors import AlpsError, DataError, UsageError
from alps.ext.importers.settings import FORMS
from tests.conftest import ROOT
from tests.endtoend import one_line, run
from tests.ext.importers.foreign import (
    amb,
    answers_of,
    by_conversation,
    halumem,
    inspect_log,
    locomo,
    mem0_row,
    omnimemeval,
    write,
)
from tests.ext.importers.foreign import import_here as imported
from tests.few import few
from tests.tracks import alps_here

LABEL = {"model": "gpt-9", "label": True}
LONGMEMEVAL = [
    {"question_id": "q1", "hypothesis": "Ferry", "autoeval_label": LABEL},
    {"question_id": "q2_abs_1", "hypothesis": "Train", "autoeval_label": False},
]
WHOLE = {
    "mem0": by_conversation(mem0_row),
    "locomo": locomo(),
    "omnimemeval": omnimemeval(),
    "halumem": halumem(),
    "amb": amb(0.75),
    "beam": {"abstention": [{"llm_judge_score": 1}]},
    "longmemeval": LONGMEMEVAL,
}


def overall(found, part=""):
    for figure in found.figures:
        if (figure.part, figure.category) == (part, ""):
            return figure.score.value, figure.score.n, figure.unscored
    raise AssertionError(part)


DAMAGE = {
    "an empty file": (lambda _: b"", ": "),
    "a torn archive": (lambda data: gzip.compress(data)[:-20], ": a damaged gzip file"),
    "a wrong bit": (
        lambda data: gzip.compress(data)[:30] + b"\xff\xff" + gzip.compress(data)[32:],
        ": a damaged gzip file",
    ),
    "half of it": (lambda data: data[: len(data) // 2], "not JSON"),
    "a long number": (lambda _: b"1" * 5_000, "a number has thousands of digits"),
    "a number": (lambda _: b"1", "is not a"),
}


@pytest.mark.parametrize("form", WHOLE)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_one_line_that_says_what_is_read(tmp_path, form, damage):
    spoil, told = DAMAGE[damage]
    path = tmp_path / "f.json"
    path.write_bytes(spoil(json.dumps(WHOLE[form]).encode()))
    with pytest.raises(AlpsError) as raised:
        imported(tmp_path, form, path)
    assert str(path) in str(raised.value)
    assert told in str(raised.value)
    assert str(raised.value).endswith(FORMS[form])
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("form", WHOLE)
def test_a_file_of_another_format_is_one_line(tmp_path, form):
    for other in set(WHOLE) - {form}:
        path = write(tmp_path / f"{other}.json", WHOLE[other])
        with pytest.raises(DataError, match=r"is missing|is not a"):
            imported(tmp_path, form, path)
    with pytest.raises(UsageError, match="Is a directory"):
        imported(tmp_path, form, tmp_path)


def test_a_packed_file_that_unpacks_without_end_is_refused_by_its_size(tmp_path):
    path = tmp_path / "f.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (1 << 20), 9) * 200)
    assert path.stat().st_size < 1 << 20
    done = run(tmp_path, "import", "mem0", str(path), f"out={tmp_path / 'out'}")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"{path}: it is larger than 128 MB unpacked" in done.stderr


def test_pieces_of_gzip_that_follow_each_other_are_one_file(tmp_path):
    whole = json.dumps(by_conversation(mem0_row)).encode()
    path = tmp_path / "f.json.gz"
    path.write_bytes(gzip.compress(whole[:70]) + gzip.compress(whole[70:]))
    assert len(answers_of(imported(tmp_path, "mem0", path))) == 8


def test_a_key_that_stands_in_a_file_twice_is_not_lost_in_silence(tmp_path):
    one = json.dumps(by_conversation(mem0_row)["0"])
    path = tmp_path / "f.json"
    path.write_text(f'{{"0": {one}, "0": {one}}}', encoding="utf-8")
    with pytest.raises(DataError, match="the key '0' is repeated in one object"):
        imported(tmp_path, "mem0", path)


def test_texts_may_be_halves_of_characters_and_numbers_of_any_size(tmp_path):
    content = by_conversation(mem0_row)
    content["0"][0] |= {"category": "\ud800", "answer": 10**400, "bleu_score": float("nan")}
    found = imported(tmp_path, "mem0", write(tmp_path / "f.json", content))
    assert len(answers_of(found)) == 8
    content["0"][0]["answer"] = float("nan")
    with pytest.raises(DataError, match=r"0\.0\.answer"):
        imported(tmp_path / "again", "mem0", write(tmp_path / "f.json", content))


def test_versions_of_a_model_are_systems_of_their_own(tmp_path):
    paths = [
        write(tmp_path / name, by_conversation(mem0_row))
        for name in ("gpt-4.1.json", "gpt-4.5.json", "a/b/gpt-5.json", "c/b/gpt-5.json")
    ]
    found = imported(tmp_path, "mem0", *paths)
    names = [figure.system for figure in found.figures if not figure.category]
    assert names == ["gpt-4.1", "gpt-4.5", "a/b/gpt-5", "c/b/gpt-5"]
    with pytest.raises(UsageError, match="named twice"):
        imported(tmp_path / "twice", "mem0", paths[0], tmp_path / "a" / ".." / "gpt-4.1.json")


def test_two_runs_of_one_name_are_two_systems(tmp_path):
    paths = [write(tmp_path / name, amb(0.75)) for name in ("first.json", "second.json")]
    found = imported(tmp_path, "amb", *paths)
    assert {figure.system for figure in found.figures} == {"diary", "diary (second)"}
    assert found.flags == []
    assert list(found.ties[0].letters.values()) == ["a", "a"]


def test_longmemeval_is_read_as_its_script_reads_it(tmp_path):
    hypotheses = write(tmp_path / "h.json", [*LONGMEMEVAL, {**LONGMEMEVAL[0], "question_id": "x"}])
    questions = []
    for name in ("q1", "q2_abs_1"):
        asked = {"question_type": "multi-session", "question": "How?", "answer": 2}
        questions.append(json.dumps({"question_id": name, **asked}))
    (tmp_path / "q.jsonl").write_text("\n".join(questions), encoding="utf-8")
    found = imported(tmp_path, "longmemeval", hypotheses, data=str(tmp_path / "q.jsonl"))
    assert [answer["abstains"] for answer in answers_of(found)] == [False, True]
    assert overall(found) == (0.5, 2, 0)
    assert any(
        flag.startswith("h: left out 1 answer") and flag[-3:] == ": x" for flag in found.flags
    )


def test_halumem_has_the_precision_of_its_script_and_its_figures_are_checked(tmp_path):
    content = halumem()
    content["question_answering_records"][0]["result_type"] = "Other"  # no verdict of this task
    marks = ((2, "true"), (1, "True"), (None, "true"), (0, "false"))
    content["memory_accuracy_records"] = [
        {
            "uuid": "u1",
            "memory_content": "Keeps hens",
            "memory_accuracy_score": mark,
            "is_included_in_golden_memories": included,
        }
        for mark, included in marks
    ]
    content["overall_score"] = {
        "memory_accuracy": {"target_accuracy(valid)": 0.75},
        "memory_integrity": {"recall(valid)": 0.9},
    }
    found = imported(tmp_path, "halumem", write(tmp_path / "memos.json", content))
    assert overall(found, "memory extraction (precision)") == (0.75, 2, 1)
    assert overall(found, "question answering") == (0.0, 1, 2)
    (wrong,) = (flag for flag in found.flags if "memos.json" in flag)
    assert "memory_integrity, recall(valid): stated 90.00%, but the records give 50.00%" in wrong
    content["memory_accuracy_records"][0]["memory_accuracy_score"] = 3
    with pytest.raises(DataError, match=r"memory_accuracy_records\.0\.memory_accuracy_score"):
        imported(tmp_path / "3", "halumem", write(tmp_path / "memos.json", content))


def test_what_a_system_extracted_itself_is_not_lacking_elsewhere(tmp_path):
    paths = []
    for name in ("one", "two"):
        content = halumem()
        own = {"uuid": "u1", "memory_content": name, "memory_accuracy_score": 2}
        content["memory_accuracy_records"] = 2 * [{**own, "is_included_in_golden_memories": "true"}]
        paths.append(write(tmp_path / f"{name}.json", content))
    found = imported(tmp_path, "halumem", *paths)
    assert not any("missing" in flag or "repeated" in flag for flag in found.flags)
    assert "memory extraction (precision)" not in {ties.part for ties in found.ties}


def test_amb_counts_scores_as_its_runner_does(tmp_path):
    content = amb(0.5)
    for place, row in enumerate(content["results"]):
        row["score"] = 0.5 if place < 4 else None
    del content["run_name"]
    content["memory_provider"] = "bm25"  # all that older runs have
    found = imported(tmp_path, "amb", write(tmp_path / "f.json", content))
    assert overall(found) == (0.5, 4, 4)
    assert found.flags == []
    assert {figure.system for figure in found.figures} == {"bm25"}


def test_answers_that_nobody_judged_can_be_judged_here(tmp_path):
    content = by_conversation(mem0_row)
    for row in content["0"] + content["1"]:
        del row["llm_score"]
    trap = {"question": "Which submarine?", "answer": "", "response": "None", "category": 5}
    content["0"].append(trap)
    found = imported(tmp_path, "mem0", write(tmp_path / "results.json", content))
    assert overall(found) == (None, 0, 9)
    assert [one["id"] for one in answers_of(found) if one["abstains"]] == [
        answers_of(found)[4]["id"]
    ]
    assert "results: no verdict on any of 9 answers" in found.flags
    assert len(found.predictions) == 1


def test_an_answer_that_is_not_there_is_no_word(tmp_path):
    content = locomo()
    content[0]["qa"][0]["gpt-9_prediction"] = None
    found = imported(tmp_path, "locomo", write(tmp_path / "f.json", content))
    assert answers_of(found)[0]["answer"] is None


def test_verdicts_on_other_answers_than_those_beside_them_are_refused(tmp_path):
    judged = write(tmp_path / "evaluation-rag.json", {"abstention": 2 * [{"llm_judge_score": 1}]})
    write(tmp_path / "rag.json", {"abstention": [{"question": "Hut?", "llm_response": "Shut"}]})
    with pytest.raises(DataError, match=r"abstention: 2 verdicts, but 1 answer in rag\.json"):
        imported(tmp_path, "beam", judged)


def test_marks_between_right_and_wrong_give_any_accuracy(tmp_path):
    content = locomo()
    content[0]["qa"][0]["gpt-9_f1"] = 0.337
    found = imported(tmp_path, "locomo", write(tmp_path / "f.json", content), reported="73.37%")
    assert not any("no number of right" in flag or "reported" in flag for flag in found.flags)


def test_what_a_refusal_gets_is_known_of_every_benchmark_with_unanswerable_questions(tmp_path):
    content = halumem()
    questions = content["question_answering_records"]
    questions[0]["question_type"] = "Memory Boundary"
    found = imported(tmp_path / "h", "halumem", write(tmp_path / "memos.json", content))
    (refuses,) = (one for one in found.baselines if one.name == "always refuses")
    assert (refuses.part, refuses.score) == ("question answering", pytest.approx(1 / 3))
    content = amb(0.75, dataset="longmemeval")
    content["results"][0]["query_id"] = "gpt4_7c_abs"
    found = imported(tmp_path / "a", "amb", write(tmp_path / "s.json", content))
    (refuses,) = (one for one in found.baselines if one.name == "always refuses")
    assert refuses.score == 1 / 8


def test_half_marks_that_beams_script_cuts_are_told_once(tmp_path):
    halves = [{"score": 0.5}, {"score": 1}]
    paths = []
    for place in ("1", "2"):
        row = {"llm_judge_score": 0.5, "llm_judge_responses": halves}
        whole = {"llm_judge_score": 0.75, "llm_judge_responses": halves}
        content = {"summarization": [row], "event_ordering": [whole]}
        paths.append(write(tmp_path / place / "evaluation-rag.json", content))
    found = imported(tmp_path, "beam", *paths)
    (flag,) = (flag for flag in found.flags if "rag: scores" in flag)
    assert "below the judge's marks" in flag
    assert overall(found) == (0.625, 4, 0)
    odd = {"llm_judge_score": 0.5, "llm_judge_responses": [{"score": "0.5"}, None]}
    path = write(tmp_path / "3" / "evaluation-rag.json", {"summarization": [odd]})
    assert not any("scores" in flag for flag in imported(tmp_path / "o", "beam", path).flags)


@pytest.mark.release
@pytest.mark.parametrize("lies", [False, True])
def test_a_small_archive_of_inspect_that_unpacks_to_much_is_refused(tmp_path, lies):
    path = inspect_log(tmp_path / "log.eval", [("C", None)])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("samples/9_epoch_1.json", "w", force_zip64=True) as file:
            for _ in range(130):
                file.write(b" " * (1 << 20))
        if lies:
            archive.getinfo("samples/9_epoch_1.json").file_size = 10
    assert path.stat().st_size < 1 << 20
    error = one_line(run(tmp_path, "import", "inspect", path.name, "out=out"))
    assert "larger than 128 MB unpacked; unpack it: inspect log convert --to json" in error


def test_values_of_inspect_are_read_as_its_metrics_read_them(tmp_path):
    def scores(name, *values):
        path = inspect_log(tmp_path / f"{name}.json", [(value, None) for value in values])
        found = imported(tmp_path / name, "inspect", path)
        return [answer["score"] for answer in answers_of(found)], found.flags

    words = ("C", "P", "Yes", "FALSE", "0.25", True, "unclear")
    assert scores("words", *words)[0] == [1, 0.5, 1, 0, 0.25, 1, None]
    named = ({"steps": 7, "right": 1}, {"steps": 1, "right": 0}, {"steps": 0, "right": 1})
    assert scores("named", *named)[0] == [1, 0, 1]
    # Of ratings from 1 to 5 the worst ones alone would be from 0 to 1, and right.
    rated, flags = scores("rated", 1, 5, 3, 1)
    assert rated == [None] * 4
    what = "no score is between 0 and 1 for every answer"
    assert f"rated.json: {what}, so alps leaves all answers unscored" in flags


def test_epochs_of_inspect_are_no_questions_asked_twice(tmp_path):
    path = inspect_log(tmp_path / "log.eval", 4 * [("C", None)], epochs=2, planned=2, input="Who?")
    found = imported(tmp_path, "inspect", path)
    assert found.flags == []
    assert sorted(answer["repeat"] for answer in answers_of(found)) == [0, 0, 1, 1]


def test_a_log_of_inspect_that_ended_early_is_in_doubt(tmp_path):
    samples = [("C", None), (None, "the server went away")]
    path = inspect_log(tmp_path / "log.eval", samples, status="error", planned=5, input=[])
    found = imported(tmp_path, "inspect", path)
    assert overall(found) == (1.0, 1, 1)
    assert found.flags == [
        "log.eval: the evaluation did not succeed (error)",
        "log.eval: the log has 2 of 5 planned answers",
        "log.eval: 1 of 2 answers unscored because of an error",
    ]


def test_two_runs_of_omnimemeval_on_longmemeval_share_their_questions(tmp_path):
    (rows_of, _) = omnimemeval().values()
    paths = []
    for system, version in (("zep", "v1"), ("mem0", "may_2")):
        users = {f"lme_exper_user_{version}_{place}": row for place, row in enumerate(rows_of)}
        paths.append(write(tmp_path / f"{system}_lme_judged.json", users))
    found = imported(tmp_path, "omnimemeval", *paths)
    assert not any("missing" in flag for flag in found.flags)
    ((pair,),) = (ties.pairs for ties in found.ties)
    assert pair.n == len(rows_of)


def test_data_sets_of_amb_are_never_averaged_and_brackets_are_no_markup(tmp_path):
    right, wrong = amb(1.0), amb(0.0)
    for content, dataset, correct in ((right, "orrin", True), (wrong, "brall", False)):
        content |= {"dataset": dataset, "run_name": "mem0 [k=5]"}
        for row in content["results"]:
            row["correct"] = correct
        content["results"][0]["meta"]["category"] = "[/b] k"
    paths = [write(tmp_path / "a.json", right), write(tmp_path / "b.json", wrong)]
    found = imported(tmp_path, "amb", *paths)
    assert [overall(found, part)[0] for part in ("orrin", "brall")] == [1.0, 0.0]
    assert found.flags == []
    done = alps_here("import", "amb", *paths, f"out={tmp_path / 'again'}")
    assert (done.code, done.err) == (0, "")
    assert "mem0 [k=5]" in done.out
    assert "[/b] k" in done.out


WRONG = b"{}," * 1_200_000 + b"{}"
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from alps.cli import main
main()
"""


@pytest.mark.release
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")
@pytest.mark.parametrize(
    ("form", "content", "told"),
    few(
        {
            "rows": ("mem0", b'{"0": [' + WRONG + b"]}", ", 0.0.question: is missing"),
            "values": (
                "mem0",
                b'{"0": [' + b"[]," * 4_000_000 + b"[]]}",
                ": more than 4,000,000 values",
            ),
            "rows-within": (
                "halumem",
                b'{"question_answering_records": [' + WRONG + b"]}",
                ", question_answering_records.0.uuid: is missing",
            ),
        }
    ),
)
def test_a_small_file_of_millions_of_values_takes_no_gigabytes(tmp_path, form, content, told):
    path = tmp_path / "f.json.gz"
    path.write_bytes(gzip.compress(content, 9))
    assert path.stat().st_size < 1 << 20
    words = ("import", form, str(path), f"out={tmp_path / 'out'}")
    command = (sys.executable, "-c", LIMITED, *words)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"{path}{told}" in done.stderr
