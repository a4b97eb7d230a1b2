"""Published answers to PersonaMem: what their files may look like, and which are refused."""

import json

import pytest

from alps.tasks.personamem.personas import write_set
from alps.tasks.personamem.release import open_personamem
from tests.endtoend import one_line
from tests.few import few
from tests.loopback import Answer, serve
from tests.persona_runs import (
    PUBLISHED,
    figures,
    predictions_of,
    published,
    rows,
    run,
    served,
    summary,
    write_table,
)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("personas")
    write_set(folder, personas=2, size="32k", seed=3)
    return folder


@pytest.fixture(scope="module")
def questions(made):
    return list(open_personamem(made).read())


def letter(question):
    return "abcd"[question.gold]


def letters_of(questions):
    """The rows of a `pred_*.csv` in which every answer is right."""
    return [
        {"question_id": one.id, "answer": letter(one), "p": letter(one), "r": "[3 1\n 2]"}
        for one in questions
    ]


def replies_to(questions):
    """The rows of an `eval_results_*.csv` in which every answer is right."""
    rows = []
    for one in questions:
        reply, right = f"<think>(b) or (c)?</think> <final_answer> ({letter(one)})", letter(one)
        head = {"score": "True", "persona_id": one.persona, "question_id": one.id}
        asked = {"user_question_or_message": one.message, "question_type": one.type}
        said = {"model_response": reply, "len_of_model_response": str(len(reply))}
        letters = {"predicted_answer": f"({right})", "correct_answer": f"({right})"}
        rows.append({**head, **asked, "topic": one.topic, **said, **letters})
    return rows


def changed(rows, **cells):
    rows[4].update(cells)
    return rows


def without(rows, left_out):
    return [{name: cell for name, cell in row.items() if name != left_out} for row in rows]


@pytest.fixture
def score(alps, tmp_path, made):
    """Score answers, rows or bytes of a file, or a run, on the generated data."""

    def scored(answers, *words, data=made):
        file = tmp_path / "x.csv"
        if isinstance(answers, list):
            write_table(file, answers)
        elif isinstance(answers, bytes):
            file.write_bytes(answers)
        model = f"model=predictions:{file if isinstance(answers, list | bytes) else answers}"
        return alps("run", "task=personamem", f"data={data}", model, "out=run", *words)

    return scored


def accuracy(folder):
    return figures(folder / "run")["accuracy"]


def cut_messages(rows):
    key = "user_question_or_message"
    return [{**row, key: row[key][:30]} for row in rows]


READ = {
    "letters": letters_of,
    "replies": replies_to,
    "cut messages": lambda questions: cut_messages(replies_to(questions)),
    **{
        f"without {name}": lambda questions, name=name: without(replies_to(questions), name)
        for name in ("persona_id", "topic", "len_of_model_response", "score")
    },
}


@pytest.mark.few(2)
@pytest.mark.parametrize("rows_of", READ.values(), ids=READ)
def test_published_formats_are_read_and_columns_that_only_some_have_may_be_missing(
    score, tmp_path, questions, rows_of
):
    done = score(rows_of(questions))
    assert (done.returncode, done.stderr) == (0, "")
    assert accuracy(tmp_path) == 1.0


def test_doubled_columns_and_headers_are_named_and_marks_of_windows_are_read(
    score, tmp_path, questions
):
    rows = letters_of(questions)
    file = write_table(tmp_path / "y.csv", [{**row, "again": row["r"]} for row in rows])
    lines = file.read_bytes().replace(b"again", b"r", 1).splitlines(keepends=True)
    assert lines[0].endswith(b"\r\n")
    done = score(b"\xef\xbb\xbf" + b"".join([*lines, lines[0]]))
    assert done.returncode == 0, done.stderr
    assert "the column r appears 2 times; the first is read" in done.stderr
    assert "repeated header rows, left out: 1" in done.stderr
    assert accuracy(tmp_path) == 1.0


def test_questions_without_a_row_are_named_and_unscored(score, tmp_path, questions):
    done = score(letters_of(questions)[3:])
    assert "questions without a row: 3 of 70; they are unscored" in done.stderr
    found = summary(tmp_path / "run")
    assert (found["n"], found["scored"]) == (70, 67)
    assert accuracy(tmp_path) == 1.0


def test_most_of_the_rows_missing_ends_with_1(score, questions):
    done = score(letters_of(questions)[30:])
    assert done.returncode == 1
    assert "30 of 70 are unscored: more than max_failures=5%" in done.stderr


ODD_REPLIES = {
    "(a) or (b)": "invalid",
    **dict.fromkeys(("As an AI, I will not say.", "(e)", "", " \n"), "empty"),
}


def test_replies_without_one_letter_are_wrong_and_refuse_no_file(score, tmp_path, questions):
    replies = replies_to(questions)
    for row, reply in zip(replies, ODD_REPLIES, strict=False):
        row["model_response"] = reply
    done = score(replies, "max_failures=20%")
    assert done.returncode == 0, done.stderr
    found = {row["benchmark_id"]: row["outcome"] for row in rows(tmp_path / "run")}
    outcomes = ODD_REPLIES.values()
    assert [found[q.id] for q, _ in zip(questions, outcomes, strict=False)] == [*outcomes]
    assert summary(tmp_path / "run")["scored"] == 70
    assert accuracy(tmp_path) == pytest.approx(65 / 70)


@pytest.mark.parametrize(
    ("rows_of", "cells", "said"),
    [
        (letters_of, {"question_id": "acd74206"}, "question_id: 'acd74206' is not a question of"),
        (replies_to, {"persona_id": "17"}, "persona_id: '17', but the data has '0'"),
        (replies_to, {"user_question_or_message": "Tea?"}, "message: 'Tea?', but"),
    ],
)
def test_a_file_of_other_data_is_refused_by_line_and_column(
    score, tmp_path, questions, rows_of, cells, said
):
    error = one_line(score(changed(rows_of(questions), **cells)))
    assert said in error
    assert "x.csv, line " in error
    if "question_id" in cells:
        assert "(rows with unknown ids: 1 of 70; is size= right?)" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows_of", "name"), [(letters_of, "answer"), (replies_to, "correct_answer")]
)
def test_a_file_with_another_gold_is_refused(score, questions, rows_of, name):
    right = letter(questions[4])
    other = "b" if right == "a" else "a"
    error = one_line(score(changed(rows_of(questions), **{name: other})))
    assert f"{name}: '{other}', but the data has '({right})'" in error


BROKEN = {
    b"": "x.csv: empty; expected published answers",
    b"question_id,answer\n": "line 1, p, or model_response: the column is missing",
    b"answer,p\n": "line 1, question_id: the column is missing",
    b"question_id,answer,p\nx,a\n": "line 2: the row is cut off: 2 cells where the header",
    b"question_id,answer,p\nx,a,b,c\n": "line 2: 4 cells where the header has 3",
    b"question_id,p,p\nx,a,b\n": "line 2, p: two columns of this name, with different",
    b'question_id,p\nx,"a': "line 2: not CSV",
    b"question_id,p\nx\0,a\n": "line 2, question_id: 'x?' is not a question of",
    b"question_id,p\n\xff\xfe,a\n": "not CSV ('utf-8' codec",
    b"question_id,p\nx," + b"a" * 10_000_001 + b"\n": "line 2: not CSV (field larger",
    b"question_id,p\n,a\n": "line 2, question_id: empty",
}


@pytest.mark.parametrize(
    ("content", "said"),
    few({said: (content, said) for content, said in BROKEN.items()}, plain={0, 8}),
)
def test_a_broken_file_is_one_line(score, content, said):
    assert said in one_line(score(content))


def test_a_question_with_two_rows_is_named(score, questions):
    rows = letters_of(questions)
    error = one_line(score([*rows, rows[0]]))
    assert f"line 142, question_id: '{questions[0].id}' appears twice" in error


def test_a_folder_in_the_place_of_a_file_is_one_line(alps, score, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    one_line(score("folder.csv"))
    (tmp_path / "questions_32k.csv").mkdir()
    one_line(alps("run", "task=personamem", "data=.", "model=oracle"))


def alone(made, tmp_path):
    """A folder with the questions, and no history."""
    folder = tmp_path / "alone"
    folder.mkdir()
    content = (made / "questions_32k.csv").read_bytes()
    (folder / "questions_32k.csv").write_bytes(content)
    return folder


def cut(made, tmp_path):
    """A folder in which the history of the second persona ends before its questions."""
    folder = alone(made, tmp_path)
    lines = (made / "shared_contexts_32k.jsonl").read_text().splitlines()
    name, messages = next(iter(json.loads(lines[1]).items()))
    short = json.dumps({name: messages[:10]})
    (folder / "shared_contexts_32k.jsonl").write_text(f"{lines[0]}\n{short}\n")
    return folder


@pytest.mark.parametrize(
    ("folder_of", "way", "said"),
    [
        (alone, "run", "line 2, shared_context_id: no history '"),
        (cut, "dry_run=true", "line 37, end_index_in_shared_context: "),
        (cut, "program", "line 37, end_index_in_shared_context: "),
    ],
)
def test_a_history_that_is_not_there_is_named_before_the_first_call(
    alps, tmp_path, made, folder_of, said, way
):
    folder = folder_of(made, tmp_path)
    with serve(lambda request: Answer('{"choice": "a"}')) as server:
        model = ("model=openai/scripted", f"api_base={server.url}")
        model = ("model=program:cat",) if way == "program" else model
        words = (way,) if way == "dry_run=true" else ()
        done = alps("run", "task=personamem", f"data={folder}", *model, "out=run", *words)
        assert server.requests == []
    assert f"questions_32k.csv, {said}" in one_line(done)
    assert not (tmp_path / "run").exists()


@pytest.mark.release
def test_answers_and_runs_that_show_no_history_need_none(alps, score, tmp_path, made, questions):
    folder = alone(made, tmp_path)
    done = score(letters_of(questions), data=folder)
    assert done.returncode == 0, done.stderr
    assert accuracy(tmp_path) == 1.0
    words = (f"data={folder}", "memory=none", "limit=2")
    _, server = served(alps, *words, answer=lambda request: Answer('{"choice": "a"}'), out="served")
    assert len(server.requests) == 2


def test_a_run_is_read_as_recorded_answers_and_one_on_other_users_is_refused(
    alps, score, tmp_path, made
):
    run(alps, f"data={made}", "model=oracle", "limit=66", out="first")
    score("first")
    assert accuracy(tmp_path) == pytest.approx(66 / 70)
    write_set(tmp_path / "others", personas=1, size="32k", seed=9)
    run(alps, "data=others", "model=floor/longest", out="theirs")
    error = one_line(score("theirs"))
    assert (
        "theirs/predictions.jsonl, benchmark_id: the data has none of the file's ids (35)" in error
    )


@pytest.mark.release
@published
def test_published_answers_are_whole_where_a_memory_leaves_questions_out(score, tmp_path):
    done = score(predictions_of("rag"), "memory=oracle", data=PUBLISHED)
    assert done.returncode == 0, done.stderr
    assert 0 < summary(tmp_path / "run")["n"] < 589


@published
def test_files_of_the_published_set_are_not_those_of_another(score):
    error = one_line(score(predictions_of("rag")))
    assert "line 2, question_id: " in error
    assert "rows with unknown ids: 589 of 589" in error
