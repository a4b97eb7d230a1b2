"""Published answers to PersonaMem: what their files may look like, and which are refused."""

import csv
import json

import pytest

from alps.tasks.personamem.personas import write_set
from alps.tasks.personamem.release import open_personamem
from tests.loopback import Answer, serve
from tests.persona_runs import PUBLISHED, published


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


def write(path, rows, header=None):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header or list(rows[0]))
        writer.writerows([list(row.values()) for row in rows])
    return path


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
        reply = f"<think>(b) or (c)?</think> <final_answer> ({letter(one)})"
        rows.append(
            {
                "score": "True",
                "persona_id": one.persona,
                "question_id": one.id,
                "user_question_or_message": one.message,
                "question_type": one.type,
                "topic": one.topic,
                "model_response": reply,
                "len_of_model_response": str(len(reply)),
                "predicted_answer": f"({letter(one)})",
                "correct_answer": f"({letter(one)})",
            }
        )
    return rows


def score(alps, made, file, *words):
    model = f"model=predictions:{file}"
    return alps("run", "task=personamem", f"data={made}", model, "out=run", *words)


def summary(folder):
    return json.loads((folder / "run" / "summary.json").read_text())["tracks"]["personamem"]


def accuracy(folder):
    return summary(folder)["scores"]["accuracy"]["value"]


@pytest.mark.parametrize("rows_of", [letters_of, replies_to])
def test_both_published_formats_are_read(alps, tmp_path, made, questions, rows_of):
    done = score(alps, made, write(tmp_path / "x.csv", rows_of(questions)))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert accuracy(tmp_path) == 1.0


@pytest.mark.parametrize("left_out", ["persona_id", "topic", "len_of_model_response", "score"])
def test_a_column_that_only_some_files_have_may_be_missing(
    alps, tmp_path, made, questions, left_out
):
    rows = [
        {name: cell for name, cell in row.items() if name != left_out}
        for row in replies_to(questions)
    ]
    done = score(alps, made, write(tmp_path / "x.csv", rows))
    assert done.returncode == 0, done.stderr
    assert accuracy(tmp_path) == 1.0


def test_a_message_that_a_file_cuts_is_that_of_the_data(alps, tmp_path, made, questions):
    rows = replies_to(questions)
    for row in rows:
        row["user_question_or_message"] = row["user_question_or_message"][:30]
    assert score(alps, made, write(tmp_path / "x.csv", rows)).returncode == 0


def test_doubled_columns_and_headers_are_named(alps, tmp_path, made, questions):
    rows = letters_of(questions)
    header = [*rows[0], "r"]
    rows = [{**row, "again": row["r"]} for row in rows]
    file = write(tmp_path / "x.csv", rows, header)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, lines[0]]))
    done = score(alps, made, file)
    assert done.returncode == 0, done.stderr
    assert "the column r stands 2 times; the first is read" in done.stderr
    assert "the header stands 1 more times within it" in done.stderr
    assert accuracy(tmp_path) == 1.0


def test_questions_without_a_row_are_named_and_unscored(alps, tmp_path, made, questions):
    done = score(alps, made, write(tmp_path / "x.csv", letters_of(questions)[3:]))
    assert "no row for 3 of 70 questions: they have no response and are unscored" in done.stderr
    found = summary(tmp_path)
    assert (found["n"], found["scored"]) == (70, 67)
    assert accuracy(tmp_path) == 1.0


def test_most_of_the_rows_missing_ends_with_1(alps, tmp_path, made, questions):
    done = score(alps, made, write(tmp_path / "x.csv", letters_of(questions)[30:]))
    assert done.returncode == 1
    assert "30 of 70 are unscored: more than max_failures=5%" in done.stderr


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("(a) or (b)", "invalid"),
        ("As an AI, I will not say.", "empty"),
        ("(e)", "empty"),
        ("", "empty"),
        (" \n", "empty"),
    ],
)
def test_a_reply_without_one_letter_is_wrong_and_refuses_no_file(
    alps, tmp_path, made, questions, reply, outcome
):
    rows = replies_to(questions)
    rows[0]["model_response"] = reply
    done = score(alps, made, write(tmp_path / "x.csv", rows))
    assert done.returncode == 0, done.stderr
    first = json.loads((tmp_path / "run" / "predictions.jsonl").read_text().splitlines()[0])
    assert (first["benchmark_id"], first["outcome"]) == (questions[0].id, outcome)
    assert summary(tmp_path)["scored"] == 70
    assert accuracy(tmp_path) == pytest.approx(69 / 70)


def changed(rows, **cells):
    rows[4].update(cells)
    return rows


@pytest.mark.parametrize(
    ("rows_of", "cells", "said"),
    [
        (letters_of, {"question_id": "acd74206"}, "question_id: 'acd74206' is no question of"),
        (replies_to, {"persona_id": "17"}, "persona_id: '17', but '0' in the data"),
        (replies_to, {"user_question_or_message": "Tea?"}, "user_question_or_message: 'Tea?', but"),
    ],
)
def test_a_file_of_other_data_is_refused_by_line_and_column(
    alps, tmp_path, made, questions, rows_of, cells, said
):
    done = score(alps, made, write(tmp_path / "x.csv", changed(rows_of(questions), **cells)))
    assert one_line(done)
    assert said in done.stderr
    assert "x.csv, line " in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows_of", "name"), [(letters_of, "answer"), (replies_to, "correct_answer")]
)
def test_a_file_with_another_gold_is_refused(alps, tmp_path, made, questions, rows_of, name):
    other = "b" if letter(questions[4]) == "a" else "a"
    done = score(
        alps, made, write(tmp_path / "x.csv", changed(rows_of(questions), **{name: other}))
    )
    assert one_line(done)
    assert f"{name}: '{other}', but '({letter(questions[4])})' in the data" in done.stderr


def test_a_dry_run_refuses_it_too(alps, tmp_path, made, questions):
    file = write(tmp_path / "x.csv", changed(letters_of(questions), question_id="acd74206"))
    done = score(alps, made, file, "dry_run=true")
    assert one_line(done)
    assert "(1 of 70 rows are of others; another size=?)" in done.stderr


def one_line(done):
    assert done.returncode == 2, done.stdout
    return len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "x.csv: empty; expected published answers"),
        (b"question_id,answer\n", "line 1, p, or model_response: the column is missing"),
        (b"answer,p\n", "line 1, question_id: the column is missing"),
        (b"question_id,answer,p\nx,a\n", "line 2: the row is cut off: 2 cells where the header"),
        (b"question_id,answer,p\nx,a,b,c\n", "line 2: 4 cells where the header has 3"),
        (b"question_id,p,p\nx,a,b\n", "line 2, p: two columns of this name, with different"),
        (b'question_id,p\nx,"a', "line 2: not CSV"),
        (b"question_id,p\nx\0,a\n", "line 2, question_id: 'x?' is no question of"),
        (b"question_id,p\n\xff\xfe,a\n", "not CSV ('utf-8' codec"),
        (b"question_id,p\nx," + b"a" * 10_000_001 + b"\n", "line 2: not CSV (field larger"),
        (b"question_id,p\n,a\n", "line 2, question_id: empty"),
    ],
)
def test_a_broken_file_is_one_line(alps, tmp_path, made, content, said):
    (tmp_path / "x.csv").write_bytes(content)
    done = score(alps, made, tmp_path / "x.csv")
    assert one_line(done)
    assert said in done.stderr


def test_a_question_with_two_rows_is_named(alps, tmp_path, made, questions):
    rows = letters_of(questions)
    done = score(alps, made, write(tmp_path / "x.csv", [*rows, rows[0]]))
    assert one_line(done)
    assert f"line 142, question_id: '{questions[0].id}' stands twice" in done.stderr


def test_a_folder_in_the_place_of_a_file_is_one_line(alps, tmp_path, made):
    (tmp_path / "x.csv").mkdir()
    assert one_line(score(alps, made, tmp_path / "x.csv"))
    (tmp_path / "questions_32k.csv").mkdir()
    done = alps("run", "task=personamem", "data=.", "model=oracle")
    assert one_line(done)


def test_a_byte_order_mark_and_line_ends_of_windows_are_read(alps, tmp_path, made, questions):
    file = write(tmp_path / "x.csv", letters_of(questions))
    assert b"\r\n" in file.read_bytes()
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert score(alps, made, file).returncode == 0
    assert accuracy(tmp_path) == 1.0


def alone(made, tmp_path):
    """A folder with the questions, and no history."""
    folder = tmp_path / "alone"
    folder.mkdir()
    content = (made / "questions_32k.csv").read_bytes()
    (folder / "questions_32k.csv").write_bytes(content)
    return folder


def test_published_answers_need_the_questions_alone(alps, tmp_path, made, questions):
    file = write(tmp_path / "x.csv", letters_of(questions))
    done = score(alps, alone(made, tmp_path), file)
    assert done.returncode == 0, done.stderr
    assert accuracy(tmp_path) == 1.0


def cut(made, tmp_path):
    """A folder in which the history of the second persona ends before its questions."""
    folder = alone(made, tmp_path)
    lines = (made / "shared_contexts_32k.jsonl").read_text().splitlines()
    name, messages = next(iter(json.loads(lines[1]).items()))
    short = json.dumps({name: messages[:10]})
    (folder / "shared_contexts_32k.jsonl").write_text(f"{lines[0]}\n{short}\n")
    return folder


@pytest.mark.parametrize("way", ["run", "dry_run=true", "program"])
@pytest.mark.parametrize(
    ("folder_of", "said"),
    [
        (alone, "line 2, shared_context_id: no history '"),
        (cut, "line 37, end_index_in_shared_context: "),
    ],
)
def test_a_history_that_is_not_there_is_named_before_the_first_call(
    alps, tmp_path, made, folder_of, said, way, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    folder = folder_of(made, tmp_path)
    with serve(lambda request: Answer('{"choice": "a"}')) as server:
        model = ("model=openai/scripted", f"api_base={server.url}")
        if way == "program":
            model = ("model=program:cat",)
        words = (way,) if way == "dry_run=true" else ()
        done = alps("run", "task=personamem", f"data={folder}", *model, "out=run", *words)
        assert server.requests == []
    assert one_line(done)
    assert f"questions_32k.csv, {said}" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_that_shows_no_history_needs_none(alps, tmp_path, made, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serve(lambda request: Answer('{"choice": "a"}')) as server:
        words = ("model=openai/scripted", f"api_base={server.url}", "memory=none", "limit=2")
        done = alps("run", "task=personamem", f"data={alone(made, tmp_path)}", *words, "out=run")
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 2


def test_a_run_on_other_users_is_refused(alps, tmp_path, made):
    write_set(tmp_path / "others", personas=1, size="32k", seed=9)
    done = alps("run", "task=personamem", "data=others", "model=floor/longest", "out=theirs")
    assert done.returncode == 0, done.stderr
    done = score(alps, made, "theirs")
    assert one_line(done)
    assert "theirs/predictions.jsonl, benchmark_id: none of its 35 ids is in" in done.stderr


def test_a_run_is_read_as_recorded_answers(alps, tmp_path, made):
    words = ("task=personamem", f"data={made}")
    done = alps("run", *words, "model=oracle", "limit=66", "out=first")
    assert done.returncode == 0, done.stderr
    done = score(alps, made, "first")
    assert accuracy(tmp_path) == pytest.approx(66 / 70)


@published
def test_published_answers_are_whole_where_a_memory_leaves_questions_out(alps, tmp_path):
    file = PUBLISHED / "predictions" / "pred_32k_rag_gpt-4o.csv"
    done = score(alps, PUBLISHED, file, "memory=oracle")
    assert done.returncode == 0, done.stderr
    assert 0 < summary(tmp_path)["n"] < 589


@published
def test_files_of_the_published_set_are_not_those_of_another(alps, made):
    file = PUBLISHED / "predictions" / "pred_32k_rag_gpt-4o.csv"
    done = score(alps, made, file)
    assert one_line(done)
    assert "line 2, question_id: " in done.stderr
    assert "589 of 589 rows are of others" in done.stderr
