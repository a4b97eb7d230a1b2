"""PersonaMem's files as a user has them: published ones, generated ones, and broken ones."""

import csv
import json

import pytest

from alps.errors import DataError, UsageError
from alps.tasks.personamem.histories import open_histories
from alps.tasks.personamem.persona_timeline import EVIDENCE
from alps.tasks.personamem.personas import write_set
from alps.tasks.personamem.release import open_personamem, read_questions
from tests.few import few
from tests.persona_runs import PUBLISHED, published


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("personas")
    write_set(folder, personas=3, size="32k", seed=1)
    return folder


@published
def test_every_published_question_is_read():
    questions = list(read_questions(PUBLISHED / "questions_32k.csv"))
    letters = ["abcd"[question.gold] for question in questions]
    assert len(questions) == 589
    assert [letters.count(letter) for letter in "abcd"] == [143, 146, 158, 142]


@published
def test_the_slice_of_a_published_question_is_exact():
    opened = open_personamem(PUBLISHED)
    asked = [question for question in opened.read() if opened.holds(question)]
    lengths = [sum(len(turn.text) for turn in opened.history(one)) for one in asked]
    assert len(asked) == 17
    assert lengths == [question.letters for question in asked]


def test_a_slice_is_read_without_what_follows(made):
    opened = open_personamem(made)
    first = next(opened.read())
    path = made / "shared_contexts_32k.jsonl"
    whole = json.loads(path.read_bytes().splitlines()[0])[first.history]
    for end in (0, 1, 7, len(whole)):
        turns = open_histories(path).read(first.history, end)
        assert [(turn.role, turn.text) for turn in turns] == [
            (message["role"], message["content"]) for message in whole[:end]
        ]


def test_slices_of_one_history_are_exact_in_whatever_order_they_are_read(made):
    opened = open_personamem(made)
    first, *_, last = opened.read()
    histories = open_histories(made / "shared_contexts_32k.jsonl")
    whole = {name: opened.whole_history(name) for name in (first.history, last.history)}
    reads = [(first, 5, 0), (first, 90, 0), (last, 40, 0), (first, 90, 60), (first, 7, 0)]
    for question, end, start in reads:
        name = question.history
        assert histories.read(name, end, start) == whole[name][start:end]


def test_a_history_with_letters_of_several_bytes_is_cut_at_the_right_byte(tmp_path):
    messages = [{"role": "user", "content": "猫在🐈 ünter"}, {"role": "user", "content": "zwei"}]
    path = tmp_path / "shared_contexts_32k.jsonl"
    path.write_text(json.dumps({"é": messages}, ensure_ascii=False) + "\n", encoding="utf-8")
    histories = open_histories(path)
    assert histories.read("é", 1)[0].text == "猫在🐈 ünter"
    assert histories.read("é", 2)[1].text == "zwei"


def test_the_kept_index_is_not_that_of_a_changed_file(tmp_path):
    path = tmp_path / "shared_contexts_32k.jsonl"
    path.write_text('{"x": [{"role": "user", "content": "one"}]}\n')
    assert open_histories(path).read("x", 1)[0].text == "one"
    path.write_text('{"x": [{"role": "user", "content": "a longer one"}]}\n')
    assert open_histories(path).read("x", 1)[0].text == "a longer one"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]\n", "line 1: not a history (expected '{' at character 1)"),
        ('{"x": [{"role": "user"}]}\n', "line 1: not a history (x[0].content: expected a string)"),
        ('{"x": []}\n{"x": []}\n', "line 2: not a history (history 'x' appears twice)"),
        ('{"x": [{"role": "user", "content": "cut', "line 1: not a history"),
    ],
)
def test_a_broken_history_is_one_line(tmp_path, text, said):
    path = tmp_path / "shared_contexts_32k.jsonl"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        open_histories(path).read("x", 1)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def rewritten(made, tmp_path, column, value):
    with (made / "questions_32k.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[2][column] = value
    path = tmp_path / "questions_32k.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("correct_answer", "(e)", "'(e)' is not one of the letters (a) to (d)"),
        ("all_options", "['(a) one']", "expected a list of four texts"),
        ("all_options", "[" * 5000, "expected a list of four texts"),
        ("end_index_in_shared_context", "-1", "is not a whole number"),
        ("end_index_in_shared_context", "nan", "is not a whole number"),
        ("distance_to_ref_in_tokens", "soon", "is not a whole number"),
        ("user_question_or_message", " ", "empty"),
    ],
)
def test_a_broken_cell_is_named_by_file_line_and_column(made, tmp_path, column, value, said):
    path = rewritten(made, tmp_path, column, value)
    with pytest.raises(DataError) as raised:
        list(read_questions(path))
    assert str(raised.value).startswith(f"{path}, line 4, {column}: ")
    assert said in str(raised.value)


def test_options_are_read_in_both_published_formats(made, tmp_path):
    options = ["(a) it's", '(b) "so"', "(c) x", "(d) y"]
    read = []
    for text in (json.dumps(options), repr(options)):
        path = rewritten(made, tmp_path, "all_options", text)
        read.append(list(read_questions(path))[2].options)
    assert read == [("it's", '"so"', "x", "y")] * 2


@pytest.mark.parametrize("header", ["question_id,question_id", "question_id"])
def test_a_column_that_is_missing_or_doubled_is_named(tmp_path, header):
    path = tmp_path / "questions_32k.csv"
    path.write_text(f"persona_id,{header}\n")
    with pytest.raises(DataError, match="line 1"):
        list(read_questions(path))


def test_a_folder_without_the_size_says_so(made):
    with pytest.raises(UsageError, match=r"no questions_1M\.csv"):
        open_personamem(made, "1M")
    with pytest.raises(UsageError, match="did you mean '32k'"):
        open_personamem(made, "32K")


def test_the_same_seed_gives_the_same_bytes(made, tmp_path):
    write_set(tmp_path / "again", personas=3, size="32k", seed=1)
    write_set(tmp_path / "other", personas=3, size="32k", seed=2)
    for path in made.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
        assert (tmp_path / "other" / path.name).read_bytes() != path.read_bytes()


def best(values, pick):
    return [place for place, value in enumerate(values) if value == pick(values)]


@pytest.mark.few(1)
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("seed", few([0, 1, 2], plain={0}))
def test_no_rule_without_the_history_beats_chance_on_a_generated_set(tmp_path, seed, language):
    write_set(tmp_path, personas=30, size="32k", seed=seed, language=language)
    questions = list(read_questions(tmp_path / "questions_32k.csv"))

    def accuracy(rule):
        picked = [rule(question) for question in questions]
        credits = [
            (question.gold in places) / len(places)
            for question, places in zip(questions, picked, strict=True)
        ]
        return sum(credits) / len(credits)

    def by_length(pick):
        return lambda question: best([len(option) for option in question.options], pick)

    def by_type(question):
        return by_length(min if question.type == "suggest_new_ideas" else max)(question)

    def by_words(question):
        words = set(question.message.lower().split())
        return best([len(words & set(option.lower().split())) for option in question.options], max)

    rules = [by_length(max), by_length(min), by_type, by_words, *[[place] for place in range(4)]]
    figures = [accuracy(rule if callable(rule) else lambda _, r=rule: r) for rule in rules]
    assert len(questions) == 1050
    assert all(abs(figure - 0.25) <= 0.05 for figure in figures), figures


@pytest.mark.parametrize("language", ["en", "zh"])
def test_who_reads_the_timeline_answers_every_generated_question(tmp_path, language):
    """An oracle that knows the timelines alone finds one option that fits, and it is the gold."""
    write_set(tmp_path, personas=4, size="32k", seed=5, language=language)
    timelines = {}
    for line in (tmp_path / "timelines_32k.jsonl").read_text(encoding="utf-8").splitlines():
        persona = json.loads(line)
        timelines[str(persona["id"])] = {one["topic"]: one for one in persona["interests"]}
    for question in read_questions(tmp_path / "questions_32k.csv"):
        interest = timelines[question.persona][question.topic]
        fitting = [
            place
            for place, option in enumerate(question.options)
            if fits(question.type, option, interest)
        ]
        assert fitting == [question.gold], question


def fits(kind, option, interest):
    old, between, new = interest["likes"]
    if kind == "track_full_preference_evolution":
        return option.find(old) < option.find(between) < option.find(new)
    if kind == "recalling_facts_mentioned_by_the_user":
        return interest["helper"] in option
    if kind == "suggest_new_ideas":
        told = (old, between, new, interest["tried"])
        return not any(item in option for item in told)
    if kind == "recalling_the_reasons_behind_previous_updates":
        return interest["reasons"][1]["why"] in option
    if kind == "generalizing_to_new_scenarios":
        return interest["reasons"][1]["trait"] in option
    return new in option


def test_the_evidence_of_a_generated_question_stands_where_its_distance_says(made):
    opened = open_personamem(made)
    for question in opened.read():
        turns = opened.history(question)
        sizes = [len(turn.text.encode()) for turn in turns]
        places = [
            place
            for place in range(len(turns))
            if sum(sizes[place:]) // 4 == question.tokens_back and turns[place].role == "user"
        ]
        assert len(places) == 1
        if EVIDENCE[question.type] == "helper":
            name = question.options[question.gold].rstrip(".").split()[-1]
            assert name in turns[places[0]].text
