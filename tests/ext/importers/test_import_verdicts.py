"""Verdicts in imported files under names that their format does not know: none is dropped."""

import json
from typing import Any

import pytest

from tests.tracks import Ran, alps_here

Row = dict[str, Any]
RIGHT = (True, False, True, True)
"""Whether each invented answer is right."""


def asked(number: int) -> Row:
    return {"question": f"Where does visitor {number} row?", "category": 1 + number}


def graded(number: int, **fields: Any) -> Row:
    """A row as OmniMemEval and others have it: `answer` is the system's."""
    return {**asked(number), "answer": f"On lake {number}", "golden_answer": "Lake", **fields}


def mem0(number: int, **fields: Any) -> Row:
    """A row of Mem0: `answer` is the gold."""
    return {**asked(number), "answer": "Lake", "response": f"On lake {number}", **fields}


def hypothesis(number: int, **fields: Any) -> Row:
    return {"question_id": f"q{number}", "hypothesis": f"On lake {number}", **fields}


def halumem(number: int, **fields: Any) -> Row:
    own = {"uuid": "u1", "question": f"Where {number}?", "answer": "Lake"}
    return {**own, "system_response": "On the lake", **fields}


ROWS = {
    "omnimemeval": (graded, lambda rows: {"user_1": rows[:2], "user_2": rows[2:]}),
    "mem0": (mem0, lambda rows: {"0": rows[:2], "1": rows[2:]}),
    "longmemeval": (hypothesis, lambda rows: rows),
    "halumem": (halumem, lambda rows: {"question_answering_records": rows}),
    "locomo": (
        lambda number, **fields: {
            **asked(number),
            "answer": "Lake",
            "gpt_prediction": "On it",
            **fields,
        },
        lambda rows: [{"sample_id": "talk", "qa": rows}],
    ),
}


def written(tmp_path, form: str, *rows: Row) -> None:
    row, whole = ROWS[form]
    content = whole([row(number, **fields) for number, fields in enumerate(rows)])
    (tmp_path / "mine.json").write_text(json.dumps(content), encoding="utf-8")


def imported(tmp_path, form: str, *words: str) -> Ran:
    return alps_here("import", form, tmp_path / "mine.json", *words, f"out={tmp_path / 'out'}")


def scores(tmp_path) -> list[float | None]:
    lines = (tmp_path / "out" / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["score"] for line in lines]


def each(make) -> list[Row]:
    return [make(right) for right in RIGHT]


VERDICTS = {
    "true or false": ("grade", each(lambda right: {"grade": right})),
    "0 or 1": ("score", each(lambda right: {"score": int(right)})),
    "a half": ("mark", [{"mark": mark} for mark in (1, 0.5, 0, 1)]),
    "a word": ("judge_label", each(lambda right: {"judge_label": "CORRECT" if right else "WRONG"})),
    "numbers as text": ("correct", each(lambda right: {"correct": str(int(right))})),
    "within an object": (
        "evaluation.is_correct",
        each(lambda right: {"evaluation": {"is_correct": right, "reason": "It says so."}}),
    ),
    "named draws": ("judgments", each(lambda right: {"judgments": {"a": right, "b": right}})),
    "a list of draws": ("runs", each(lambda right: {"runs": [right, right, right]})),
    "a name that says nothing": ("x", each(lambda right: {"x": right})),
    "all of them right": ("passed", [{"passed": True}] * 4),
    "one that the judge failed on": (
        "label",
        [{"label": "correct"}, {"label": ""}, {"label": None}, {"label": "wrong"}],
    ),
}
EXPECTED = {
    "a half": [1, 0.5, 0, 1],
    "all of them right": [1, 1, 1, 1],
    "one that the judge failed on": [1, None, None, 0],
}


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("case", VERDICTS)
def test_a_field_that_looks_like_a_verdict_is_asked_about_and_then_read(tmp_path, form, case):
    name, fields = VERDICTS[case]
    written(tmp_path, form, *fields)
    line = imported(tmp_path, form).one_line
    assert f"add verdict={name}, or verdict=none" in line
    assert not (tmp_path / "out").exists()
    done = imported(tmp_path, form, f"verdict={name}")
    assert done.code == 0, done.err
    assert scores(tmp_path) == EXPECTED.get(case, [int(right) for right in RIGHT])


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([{}] * 4, id="nothing"),
        pytest.param([{"token_f1": mark} for mark in (0, 1, 0, 1)], id="token F1"),
        pytest.param([{"memories": ["Rows"], "hits": n} for n in range(4)], id="counts"),
        pytest.param([{"version": 1, "cached": False}] * 4, id="the same in all rows"),
        pytest.param([{"comment": text} for text in ("Yes, it", "no", "a", "b")], id="texts"),
    ],
)
def test_answers_that_nobody_judged_are_imported_as_such(tmp_path, fields):
    written(tmp_path, "mem0", *fields)
    done = imported(tmp_path, "mem0")
    assert done.code == 0, done.err
    assert scores(tmp_path) == [None] * 4


def test_two_fields_are_both_named_and_one_of_them_or_none_is_taken(tmp_path):
    written(tmp_path, "mem0", *each(lambda right: {"grade": right, "passed": not right}))
    line = imported(tmp_path, "mem0").one_line
    assert "the fields grade, passed look like one" in line
    done = imported(tmp_path, "mem0", "verdict=none")
    assert (done.code, scores(tmp_path)) == (0, [None] * 4)


def test_shares_between_marks_are_verdicts_where_they_are_called_so(tmp_path):
    marks = (0.35, 0.7, 0.9, 0.1)
    written(tmp_path, "mem0", *[{"score": mark} for mark in marks])
    assert "add verdict=score, or verdict=none" in imported(tmp_path, "mem0").one_line
    assert imported(tmp_path, "mem0", "verdict=score").code == 0
    assert scores(tmp_path) == list(marks)


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("verdict=grades", "has no such field that is not read; these look like one: grade"),
        ("verdict=note", 'answer 1: "fine by me" is no verdict'),
    ],
)
def test_a_field_that_is_no_verdict_is_refused(tmp_path, word, named):
    written(tmp_path, "mem0", *each(lambda right: {"grade": right, "note": "fine by me"}))
    assert named in imported(tmp_path, "mem0", word).one_line


ERRORS = (
    "Error code: 401 - {'error': {'message': 'Incorrect API key provided'}}",
    "API error: 401 Unauthorized",
    "LLM judge failed: rate limit",
    "Request timed out.",
    "openai.AuthenticationError: Error code: 401",
)


@pytest.mark.parametrize("error", ERRORS)
def test_a_judgement_that_is_an_error_of_the_judge_has_no_score(tmp_path, error):
    failed = {"llm_score": 1, "judge_reason": error}
    written(tmp_path, "mem0", *[failed] * 4)
    done = imported(tmp_path, "mem0")
    assert done.code == 0, done.err
    assert scores(tmp_path) == [None] * 4
    said = " ".join(done.out.split())
    assert "4 judgements are errors of the judge, and unscored" in said
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert {figure["score"]["value"] for figure in summary["figures"]} == {None}


@pytest.mark.parametrize(
    "reason",
    [
        "The answer repeats the error of the user.",
        "Failed to name the lake.",
        "Error in the date, which is no part of the question.",
        "Correct.",
        "",
    ],
)
def test_a_reason_that_speaks_of_the_answer_is_no_error_of_the_judge(tmp_path, reason):
    written(tmp_path, "mem0", *[{"llm_score": 1, "judge_reason": reason}] * 4)
    assert imported(tmp_path, "mem0").code == 0
    assert scores(tmp_path) == [1] * 4


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:ab12\nsize 12345\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param(POINTER, "a Git LFS pointer to a file of 12,345 bytes", id="pointer"),
        pytest.param('{"a": 1}\n{"a": 2}\n', "JSON Lines, one object a line", id="lines"),
    ],
)
def test_a_file_of_another_kind_is_called_what_it_is(tmp_path, text, named):
    (tmp_path / "mine.json").write_text(text, encoding="utf-8")
    assert named in imported(tmp_path, "mem0").one_line
