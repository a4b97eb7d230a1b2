"""Verdicts in imported files under names that their format does not know: none is dropped."""

import itertools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from tests.endtoend import rows, summary
from tests.ext.importers.foreign import inspect_log, write
from tests.few import few
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
    write(tmp_path / "mine.json", content)


def imported(tmp_path, form: str, *words: str) -> Ran:
    return alps_here("import", form, tmp_path / "mine.json", *words, f"out={tmp_path / 'out'}")


def scores(tmp_path) -> list[float | None]:
    return [row["score"] for row in rows(tmp_path / "out" / "answers.jsonl")]


def each(make) -> list[Row]:
    return [make(right) for right in RIGHT]


def of(field: str, *values: Any) -> list[Row]:
    return [{field: value} for value in values]


class Case(NamedTuple):
    """Fields of the four answers, the one that is named, the scores, and what `verdict=` takes."""

    fields: list[Row]
    name: str
    scores: Sequence[float | None] = tuple(map(int, RIGHT))
    verdict: str = ""


VERDICTS = {
    "true or false": Case(each(lambda right: {"grade": right}), "grade"),
    "0 or 1": Case(each(lambda right: {"score": int(right)}), "score"),
    "a half": Case(of("mark", 1, 0.5, 0, 1), "mark", [1, 0.5, 0, 1]),
    "shares": Case(of("score", 0.35, 0.7, 0.9, 0.1), "score", [0.35, 0.7, 0.9, 0.1]),
    "a word": Case(of("judge_label", "CORRECT", "WRONG", "CORRECT", "CORRECT"), "judge_label"),
    "numbers as text": Case(each(lambda right: {"correct": str(int(right))}), "correct"),
    "within an object": Case(
        each(lambda right: {"evaluation": {"is_correct": right, "reason": "It says so."}}),
        "evaluation.is_correct",
    ),
    "named draws": Case(each(lambda right: {"judgments": {"a": right, "b": right}}), "judgments"),
    "a list of draws": Case(each(lambda right: {"runs": [right, right, right]}), "runs"),
    "a name that says nothing": Case(each(lambda right: {"x": right}), "x"),
    "all of them right": Case([{"passed": True}] * 4, "passed", [1] * 4),
    "one that the judge failed on": Case(
        of("label", "correct", "", None, "wrong"), "label", [1, None, None, 0]
    ),
    "one that is an error": Case(
        of("judge_label", "correct", "ERROR", "wrong", "Timed out"),
        "judge_label",
        [1, None, 0, None],
    ),
}
JUDGED = ("Correct: the answer names it", "Incorrect: it names a sea", "Correct. So", "Wrong - no")
SIMPLEQA = ("CORRECT", "INCORRECT", "NOT_ATTEMPTED", "CORRECT")
LETTERS = of("grade", "A", "B", "C", "A")
DRAWS = [[{"correct": n % 2 == 0, "reason": "So it says"}] for n in range(4)]
FENCED = [f'```json\n{{"why": "So", "ok": {n % 2}}}\n```' for n in range(4)]
DEEP = [{"b": {"c": {"verdict": word, "by": "gpt"}}} for word in ("met", "no", "met", "no")]
ODD = {
    "letters": Case(LETTERS, "grade", [1, 0, 0, 1]),
    "letters by words": Case(LETTERS, "grade", [1, 0.5, 0, 1], "grade:A=1,B=.5,C=0"),
    "words of SimpleQA": Case(of("x", *SIMPLEQA), "x", [1, 0, 0, 1]),
    "stars": Case(of("rating", 1, 5, 3, 2), "rating", [0, 1, 0.5, 0.25], "rating:1..5"),
    "stars, all equal": Case(of("stars", 5, 5, 5, 5), "stars", [1] * 4, "stars:1..5"),
    "the best is low": Case(
        of("Note_score", 1, 6, 1, 6), "Note_score", [1, 0, 1, 0], "Note_score:6..1"
    ),
    "points": Case(of("score", 90, 0, 50, 100), "score", [0.9, 0, 0.5, 1], "score:0..100"),
    "percents": Case(of("accuracy", "85%", "0%", "100 %", "5%"), "accuracy", [0.85, 0, 1, 0.05]),
    "fractions": Case(of("points", "4/5", "0/5", "5/5", "1/5"), "points", [0.8, 0, 1, 0.2]),
    "Y and N": Case(of("ok", "Y", "N", "Y", "Y"), "ok"),
    "ticks": Case(of("x", "✓", "✗", "✔️", "✅"), "x"),
    "German": Case(of("x", "richtig", "falsch", "Ja", "nein"), "x", [1, 0, 1, 0]),
    "Chinese": Case(of("x", "正确", "错误", "对", "错"), "x", [1, 0, 1, 0]),
    "opinions": Case(of("x", "good", "bad", "bad", "good"), "x", [1, 0, 0, 1], "x:good=1,bad=0"),
    "text that begins with it": Case(of("judge_output", *JUDGED), "judge_output", [1, 0, 1, 0]),
    "text with a neutral name": Case(of("x", *JUDGED), "x", [1, 0, 1, 0]),
    "JSON in text": Case(
        of("judge", *(f'{{"correct": {right}}}' for right in ("true", "false", "1", "0"))),
        "judge",
        [1, 0, 1, 0],
    ),
    "JSON in text, fenced": Case(of("judge", *FENCED), "judge.ok", [0, 1, 0, 1]),
    "a list of objects": Case(of("runs", *DRAWS), "runs.correct", [1, 0, 1, 0]),
    "the list itself": Case(of("runs", *DRAWS), "runs.correct", [1, 0, 1, 0], "runs"),
    "deep objects": Case(of("a", *DEEP), "a.b.c.verdict", [1, 0, 1, 0]),
    "marks of several criteria": Case(
        of("scores", *({"facts": 1 + n} for n in range(4))),
        "scores.facts",
        [0, 0.25, 0.5, 0.75],
        "scores.facts:1..5",
    ),
    "draws of stars": Case(
        of("ratings", [1, 5], [3], [5], [1]), "ratings", [0.5, 0.5, 1, 0], "ratings:1..5"
    ),
    "one of several kinds": Case(of("grade", True, "no", 1, "wrong"), "grade", [1, 0, 1, 0]),
}


# Every kind of verdict in one format, and one kind in every other.
ASKED = [("mem0", case) for case in (*VERDICTS, *ODD)]
ASKED += [(form, "within an object") for form in ROWS if form != "mem0"]
REST = [pair for pair in itertools.product(ROWS, VERDICTS) if pair not in ASKED]


@pytest.mark.parametrize(("form", "case"), few([*ASKED, *REST], len(ASKED)))
def test_a_field_that_looks_like_a_verdict_is_asked_about_and_then_read(tmp_path, form, case):
    fields, name, expected, verdict = (VERDICTS | ODD)[case]
    written(tmp_path, form, *fields)
    line = imported(tmp_path, form).one_line
    assert f"the field {name} looks like a verdict; add verdict={name}, or verdict=none" in line
    assert f"first values of {name}: " in line
    assert not (tmp_path / "out").exists()
    done = imported(tmp_path, form, f"verdict={verdict or name}")
    assert done.code == 0, done.err
    assert scores(tmp_path) == list(expected)


NOT_JUDGED = {
    "nothing": [{}] * 4,
    "token F1": of("token_f1", 0, 1, 0, 1),
    "counts": [{"memories": ["Rows"], "hits": n} for n in range(4)],
    "the same in all rows": [{"version": 1, "cached": False}] * 4,
    "texts": of("comment", "Yes, it", "no", "a", "b"),
}


@pytest.mark.parametrize("fields", NOT_JUDGED.values(), ids=NOT_JUDGED)
def test_answers_that_nobody_judged_are_imported_as_such(tmp_path, fields):
    written(tmp_path, "mem0", *fields)
    done = imported(tmp_path, "mem0")
    assert done.code == 0, done.err
    assert scores(tmp_path) == [None] * 4


def test_two_fields_are_both_named_and_one_of_them_or_none_is_taken(tmp_path):
    written(tmp_path, "mem0", *each(lambda right: {"grade": right, "passed": not right}))
    line = imported(tmp_path, "mem0").one_line
    assert "the fields grade, passed look like a verdict" in line
    done = imported(tmp_path, "mem0", "verdict=none")
    assert (done.code, scores(tmp_path)) == (0, [None] * 4)


GRADED = of("grade", "A", "B", "A", "B")
STARS = of("rating", 1, 5, 3, 2)
SCHOOL = of("grade", "A", "D", "F", "A")
TEXTS = of("judge", *(f"So it is, {n}" for n in range(4)))


@pytest.mark.parametrize(
    ("fields", "word", "told"),
    [
        (STARS, "rating", "(3 such values: 5, 3, 2)"),
        (STARS, "rating", "write verdict=rating:1..5 (worst..best)"),
        (STARS, "rating:1..4", "answer 2: 5 is not a verdict"),
        (of("score", 90, 0, 5, 7), "score", "write verdict=score:0..90 (worst..best)"),
        (SCHOOL, "grade", "the values, write verdict=grade:A=1,D=0,…"),
        (SCHOOL, "grade:A=1,D=0", 'answer 3: "F" is not a verdict'),
        (GRADED, "grade:A=2,B=0", "'A=2' gives no score"),
        (GRADED, "grades:A=1,B=0", "has no such field, or alps already reads it"),
        (GRADED, "grades", "these fields look like verdicts: grade"),
        (TEXTS, "judge", "is not a verdict (4 such values:"),
        (of("note", *["fine by me"] * 4), "note", 'answer 1: "fine by me" is not a verdict'),
    ],
)
def test_values_that_are_no_verdict_are_named_with_how_to_give_them_a_meaning(
    tmp_path, fields, word, told
):
    written(tmp_path, "mem0", *fields)
    assert told in imported(tmp_path, "mem0", f"verdict={word}").one_line
    assert not (tmp_path / "out").exists()


def test_letters_are_said_to_be_read_as_simpleqa_has_them(tmp_path):
    written(tmp_path, "mem0", *of("grade", "A", "B", "C", "A"))
    said = " ".join(imported(tmp_path, "mem0", "verdict=grade").out.split())
    assert "grade: A means correct, B incorrect, C not attempted" in said


def ordinary(n: int) -> Row:
    """Fields that files have of searches, golds, questions and costs."""
    numbers = "num_memories search_time response_duration_ms retry_count cost importance hop"
    flags = "has_answer is_abstention is_adversarial cached truncated"
    texts = {"question_date": "May", "adversarial_answer": "In May", "eval_prompt": f"v{n}"}
    texts |= {"correct_answer": f"On lake {n}", "correct_option": "ABCA"[n], "choice": "ABCA"[n]}
    texts |= {"judge_model": "gpt-9", "grader": "gpt-9", "created_at": f"May {n}"}
    kinds = {"difficulty": ("easy", "hard"), "type": ("open", "closed"), "speaker": "AB"}
    kinds |= {"status": ("success", "failed"), "conversation_id": (0, 1)}
    return {
        **dict.fromkeys(numbers.split(), n % 2),
        **dict.fromkeys(flags.split(), n % 2 == 0),
        **texts,
        **{name: either[n % 2] for name, either in kinds.items()},
        "speaker_1_memories": [{"memory": f"m{n}", "timestamp": "May", "score": n % 2}],
        "evidence": ["D1:3"],
        "haystack_session_ids": ["a"],
        "retrieval_results": {"metrics": {"session": {"recall_any@5": n % 2, "ndcg_any": n % 2}}},
        "nlp_metrics": {"lexical": {"f1": n % 2, "bleu": 1}, "semantic": {"similarity": n % 2}},
        "usage": {"input_tokens": n % 2, "output_tokens": n},
        "response_time": n,
    }


@pytest.mark.parametrize("form", ROWS)
def test_ordinary_fields_are_no_verdicts(tmp_path, form):
    written(tmp_path, form, *map(ordinary, range(4)))
    done = imported(tmp_path, form)
    assert done.code == 0, done.err
    assert scores(tmp_path) == [None] * 4


def test_a_second_verdict_that_contradicts_the_score_is_named(tmp_path):
    contradicted = each(
        lambda right: {"llm_score": 1, "judge_label": "CORRECT" if right else "WRONG"}
    )
    written(tmp_path, "mem0", *contradicted)
    said = " ".join(imported(tmp_path, "mem0").out.split())
    assert "the field judge_label also looks like a verdict but differs from the score on 1 of" in (
        said
    )
    agreed = [{**row, "judge_label": "CORRECT"} for row in contradicted]
    written(tmp_path / "again", "mem0", *agreed)
    assert "looks like" not in imported(tmp_path / "again", "mem0").out


def test_words_that_halumem_does_not_know_are_asked_about(tmp_path):
    fields = of("result_type", "Richtig", "Falsch", "Falsch", "Richtig")
    written(tmp_path, "halumem", *fields)
    assert "add verdict=result_type, or" in imported(tmp_path, "halumem").one_line
    assert imported(tmp_path, "halumem", "verdict=result_type").code == 0
    assert scores(tmp_path) == [1, 0, 0, 1]


ERRORS = (
    "Error code: 401 - {'error': {'message': 'Incorrect API key provided'}}",
    "API error: 401 Unauthorized",
    "LLM judge failed: rate limit",
    "Request timed out.",
    "openai.AuthenticationError: Error code: 401",
    "Error code: 429 - {'error': {'code': 'rate_limit_exceeded'}}",
    "429 Too Many Requests",
    "Error 503",
    "HTTP 500: Internal Server Error",
    "RateLimitError('slow down')",
    "ReadTimeout",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "Expecting value: line 1 column 1 (char 0)",
    "Failed to parse judge output",
    "Traceback (most recent call last): File",
    "'NoneType' object is not subscriptable",
    "No response from the judge",
    "Connection refused",
    "ERROR",
)


def test_judgements_that_are_errors_of_the_judge_have_no_score(tmp_path):
    written(tmp_path, "mem0", *({"llm_score": 1, "judge_reason": error} for error in ERRORS))
    done = imported(tmp_path, "mem0")
    assert done.code == 0, done.err
    missed = dict(zip(ERRORS, scores(tmp_path), strict=True))
    assert missed == dict.fromkeys(ERRORS)
    said = " ".join(done.out.split())
    assert f"{len(ERRORS)} judgements are unscored because the judge failed" in said
    figures = summary(tmp_path / "out")["figures"]
    assert {figure["score"]["value"] for figure in figures} == {None}


REASONS = [
    "The answer repeats the error of the user.",
    "Failed to name the lake.",
    "Error in the date, which is no part of the question.",
    "Correct.",
    "",
    None,
    "No response mentions the lake.",
    "429 is the number of the boat, as in the gold.",
    "Could not be read from the gold, but it is right.",
    "Time out of mind is no date.",
]


def test_reasons_that_speak_of_the_answer_are_no_errors_of_the_judge(tmp_path):
    written(tmp_path, "mem0", *({"llm_score": 1, "judge_reason": reason} for reason in REASONS))
    assert imported(tmp_path, "mem0").code == 0
    assert dict(zip(REASONS, scores(tmp_path), strict=True)) == dict.fromkeys(REASONS, 1)


FAILED = "Error code: 429 - slow down"


def amb(**fields: Any) -> Row:
    own = {"query_id": "1", "query": "Where?", "answer": "There", "gold_answers": ["Lake"]}
    row = {**own, "correct": True, **fields}
    return {"dataset": "orrin", "accuracy": 1.0, "results": [row]}


MEMORY = {"uuid": "u1", "memory_content": "Rows", "memory_type": "Event Memory"}
FAILING = {
    "mem0": {"0": [mem0(1, llm_score=1, judge_reason=FAILED)]},
    "mem0, a list": {"0": [mem0(1, llm_score=1, judge=[{"reason": "So"}, {"reason": FAILED}])]},
    "mem0, an object": {"0": [mem0(1, llm_score=1, judge={"error": FAILED})]},
    "mem0, JSON": {"0": [mem0(1, llm_score=1, judge=json.dumps({"reason": FAILED}))]},
    "mem0, a field": {"0": [mem0(1, llm_score=1, judge_error="slow down")]},
    "mem0, no label": {"0": [mem0(1, llm_score="")]},
    "longmemeval": [hypothesis(1, autoeval_label={"label": True, "reason": FAILED})],
    "longmemeval, beside": [hypothesis(1, autoeval_label=True, eval_response=FAILED)],
    "longmemeval, no label": [hypothesis(1, autoeval_label={"model": "m", "label": None})],
    "omnimemeval": {"u": [graded(1, llm_judgments={"a": True}, judge_response=FAILED)]},
    "omnimemeval, no draw": {"u": [graded(1, llm_judgments={"a": None})]},
    "halumem": {
        "question_answering_records": [halumem(1, result_type="Correct", reasoning=FAILED)],
        "memory_update_records": [{**MEMORY, "memory_update_type": "Correct", "reasoning": FAILED}],
        "memory_integrity_records": [{**MEMORY, "memory_integrity_score": 2, "reason": FAILED}],
    },
    "beam": {
        "abstention": [
            {"llm_judge_score": 1, "llm_judge_responses": [{"score": 1, "reason": FAILED}]}
        ]
    },
    "beam, no score": {"abstention": [{"llm_judge_score": None}]},
    "amb": amb(judge_reason=FAILED),
    "amb, no verdict": amb(correct=None),
    "inspect": None,
}


@pytest.mark.parametrize("case", FAILING)
def test_every_format_leaves_judgements_that_are_errors_unscored(tmp_path, case):
    if case == "inspect":
        inspect_log(tmp_path / "mine.json", [("C", None)], explanation=FAILED)
    else:
        write(tmp_path / "mine.json", FAILING[case])
    done = imported(tmp_path, case.partition(",")[0])
    assert done.code == 0, done.err
    assert set(scores(tmp_path)) == {None}
    assert "no verdict on any of" in " ".join(done.out.split())


def test_a_file_of_which_all_reasons_are_errors_is_not_asked_about(tmp_path):
    fields = [{"judge_label": "correct", "judge_score": 1, "judge_reason": FAILED}] * 4
    written(tmp_path, "mem0", *fields)
    assert imported(tmp_path, "mem0").code == 0
    assert scores(tmp_path) == [None] * 4
