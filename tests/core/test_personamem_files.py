"""PersonaMem's files as a user has them: published, generated, of the second version, on the hub,
and broken.
"""

import json
from random import Random

import pytest

from alps.errors import DataError, UsageError
from alps.tasks.personamem.histories import open_histories
from alps.tasks.personamem.persona_timeline import EVIDENCE, outline, words_of
from alps.tasks.personamem.personas import write_set
from alps.tasks.personamem.release import open_personamem, read_questions
from tests import endtoend
from tests.endtoend import one_line
from tests.loopback import Answer
from tests.loopback_hub import serve_hub
from tests.persona_runs import (
    PUBLISHED,
    asked_of,
    figures,
    published,
    read_table,
    rows,
    run,
    served,
    summary,
    write_table,
)

QUESTIONS, HISTORIES = "questions_32k.csv", "shared_contexts_32k.jsonl"


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("personas")
    write_set(folder, personas=3, size="32k", seed=1)
    return folder


@published
def test_every_published_question_is_read_and_its_slice_is_exact():
    opened = open_personamem(PUBLISHED)
    questions = list(opened.read())
    letters = ["abcd"[question.gold] for question in questions]
    assert len(questions) == 589
    assert [letters.count(letter) for letter in "abcd"] == [143, 146, 158, 142]
    asked = [question for question in questions if opened.holds(question)]
    lengths = [sum(len(turn.text) for turn in opened.history(one)) for one in asked]
    assert len(asked) == 17
    assert lengths == [question.letters for question in asked]


def test_slices_of_one_history_are_exact_in_whatever_order_they_are_read(made):
    first, *_, last = open_personamem(made).read()
    histories = open_histories(made / HISTORIES)
    whole = {}
    for line in (made / HISTORIES).read_bytes().splitlines():
        for name, messages in json.loads(line).items():
            whole[name] = [(message["role"], message["content"]) for message in messages]
    reads = [(first, 5, 0), (first, 90, 0), (last, 40, 0), (first, 90, 60), (first, 7, 0)]
    reads += [(first, 0, 0), (first, len(whole[first.history]), 0)]
    for question, end, start in reads:
        turns = histories.read(question.history, end, start)
        assert [(turn.role, turn.text) for turn in turns] == whole[question.history][start:end]
    assert list(histories._last) == [first.history]  # of a million tokens one is enough


def test_a_topic_that_is_new_to_a_user_is_none_of_the_users_own():
    for language in ("en", "zh"):
        words = words_of(language)
        drawn = outline(words, Random(0))
        own = [topic.title for topic in drawn.topics]
        titles = [entry["title"] for entry in words["topics"].values()]
        assert sorted([*own, *drawn.elsewhere]) == sorted(titles)


def test_a_history_with_letters_of_several_bytes_is_cut_at_the_right_byte(tmp_path):
    messages = [{"role": "user", "content": "猫在🐈 ünter"}, {"role": "user", "content": "zwei"}]
    path = tmp_path / HISTORIES
    path.write_text(json.dumps({"é": messages}, ensure_ascii=False) + "\n", encoding="utf-8")
    histories = open_histories(path)
    assert histories.read("é", 1)[0].text == "猫在🐈 ünter"
    assert histories.read("é", 2)[1].text == "zwei"


def test_the_kept_index_is_not_that_of_a_changed_file(tmp_path):
    path = tmp_path / HISTORIES
    for said in ("one", "a longer one"):
        path.write_text(json.dumps({"x": [{"role": "user", "content": said}]}) + "\n")
        assert open_histories(path).read("x", 1)[0].text == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]\n", "line 1: not a history (expected '{' at character 1)"),
        ('{"x": [{"role": "user"}]}\n', "line 1: not a history (x[0].content: expected a string)"),
        ('{"x": []}\n{"x": []}\n', "line 2: not a history (history 'x' appears twice)"),
        ('{"x": [{"role": "user", "content": "cut', "line 1: not a history"),
    ],
    ids=["a list", "no content", "twice", "cut off"],
)
def test_a_broken_history_is_one_line(tmp_path, text, said):
    path = tmp_path / HISTORIES
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        open_histories(path).read("x", 1)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def rewritten(made, tmp_path, column, value):
    content = read_table(made / QUESTIONS)
    content[2][column] = value
    return write_table(tmp_path / QUESTIONS, content)


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
    for text in (json.dumps(options), repr(options)):
        path = rewritten(made, tmp_path, "all_options", text)
        assert list(read_questions(path))[2].options == ("it's", '"so"', "x", "y")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"persona_id,question_id,question_id\n", "line 1, question_id: the column appears twice"),
        (b"persona_id,question_id\n", "line 1, question_type: the column is missing"),
        (b"\xff\xfe\x00p", f"{QUESTIONS}: is UTF-16: save it as UTF-8"),
    ],
    ids=["a column twice", "columns missing", "no text"],
)
def test_a_file_without_its_columns_is_named(tmp_path, content, said):
    path = tmp_path / QUESTIONS
    path.write_bytes(content)
    with pytest.raises(DataError, match=said) as caught:
        list(read_questions(path))
    assert "\n" not in str(caught.value)


def test_a_folder_without_the_size_says_so(made):
    with pytest.raises(UsageError, match=r"no questions_1M\.csv"):
        open_personamem(made, "1M")
    with pytest.raises(UsageError, match="did you mean '32k'"):
        open_personamem(made, "32K")


# Generated files


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
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_rule_without_the_history_beats_chance_on_a_generated_set(tmp_path, seed, language):
    write_set(tmp_path, personas=30, size="32k", seed=seed, language=language)
    questions = list(read_questions(tmp_path / QUESTIONS))
    assert len(questions) == 1050

    def by_length(pick):
        return lambda question: best([len(option) for option in question.options], pick)

    def by_type(question):
        return by_length(min if question.type == "suggest_new_ideas" else max)(question)

    def by_words(question):
        words = set(question.message.lower().split())
        return best([len(words & set(option.lower().split())) for option in question.options], max)

    letters = [lambda question, place=place: [place] for place in range(4)]
    for rule in (by_length(max), by_length(min), by_type, by_words, *letters):
        picked = [(question.gold, rule(question)) for question in questions]
        share = sum((gold in places) / len(places) for gold, places in picked) / len(picked)
        assert abs(share - 0.25) <= 0.05, rule


@pytest.mark.parametrize("language", ["en", "zh"])
def test_who_reads_the_timeline_answers_every_generated_question(tmp_path, language):
    """An oracle that knows the timelines alone finds one option that fits, and it is the gold."""
    write_set(tmp_path, personas=4, size="32k", seed=5, language=language)
    timelines = {}
    for persona in rows(tmp_path, "timelines_32k"):
        timelines[str(persona["id"])] = {one["topic"]: one for one in persona["interests"]}
    for question in read_questions(tmp_path / QUESTIONS):
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


# On the hub one size is fetched, at one commit, and read as a folder is

NAME = "bowen-upenn/PersonaMem"


@pytest.fixture(scope="module")
def files(made):
    """The files of a data set with two sizes, as a commit has them."""
    content = {path.name: path.read_bytes() for path in made.iterdir()}
    small = {name: held for name, held in content.items() if "timeline" not in name}
    large = {name.replace("32k", "128k"): held for name, held in small.items()}
    return {**small, **large, "README.md": b"# PersonaMem\n"}


@pytest.fixture
def hub():
    with serve_hub() as hub:
        yield hub


def from_hub(hub, tmp_path, *words, code=0):
    place = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    done = endtoend.run(tmp_path, *words, **place)
    assert done.returncode == code, done.stderr
    return done


def fetched(hub):
    return {path.rpartition("/")[2] for _, path in hub.requests if "/resolve/" in path}


RUN = ("run", "task=personamem", "model=oracle", "out=out")


@pytest.mark.parametrize(
    ("data", "size", "pushed"),
    [("hub", "32k", {"repository": NAME}), ("hub:mine/own@v2", "128k", {"branch": "v2"})],
    ids=["the published one", "any other at any revision"],
)
def test_only_the_size_that_is_asked_for_is_fetched_at_one_commit(
    hub, tmp_path, files, data, size, pushed
):
    place = {"repository": "mine/own", **pushed}
    commit = hub.push(files, **place)
    from_hub(hub, tmp_path, *RUN, f"data={data}", f"size={size}")
    assert fetched(hub) == {f"questions_{size}.csv", f"shared_contexts_{size}.jsonl"}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"]["data"] == f"hub:{place['repository']}@{commit}"
    assert manifest["data"]["commit"] == commit
    assert manifest["data"]["tracks"]["personamem"]["n"] == 105


@pytest.mark.release
def test_a_run_keeps_its_commit_when_the_branch_moves(hub, tmp_path, files):
    commit = hub.push(files, repository=NAME)
    words = (*RUN, "data=hub", "size=32k")
    from_hub(hub, tmp_path, *words)
    path = tmp_path / "out" / "predictions.jsonl"
    kept = path.read_bytes()
    path.write_bytes(kept.splitlines(True)[0])
    (tmp_path / "out" / "summary.json").unlink()
    questions = b"".join(files[QUESTIONS].splitlines(True)[:-1])
    hub.push({**files, QUESTIONS: questions}, repository=NAME)
    done = from_hub(hub, tmp_path, *words)
    assert "out uses hub:bowen-upenn/PersonaMem@" in done.stderr
    assert path.read_bytes() == kept
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["data"]["commit"] == commit


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("data=hub",), "name a size with size= (32k, 128k, 1M)"),
        (("data=hub", "size=1M"), "no questions_1M.csv in it"),
        (("data=hub@nosuch", "size=32k"), f"{NAME} has no such revision"),
        (("data=hub:no/such", "size=32k"), "the data set does not exist or is private"),
    ],
    ids=["no size", "a size that is not there", "no revision", "no data set"],
)
def test_what_is_not_there_is_one_line(hub, tmp_path, files, words, said):
    hub.push(files, repository=NAME)
    assert said in one_line(from_hub(hub, tmp_path, *RUN, *words, code=2))
    assert not (tmp_path / "out").exists()


def test_the_audit_reads_it_too(hub, tmp_path, files):
    hub.push(files, repository=NAME)
    words = ("data", "audit", f"data=hub:{NAME}", "split=32k", "format=json")
    done = from_hub(hub, tmp_path, *words)
    assert json.loads(done.stdout)["tracks"] == [{"track": "32k", "rows": 105, "with_gold": 105}]
    done = from_hub(hub, tmp_path, *words[:3], code=2)
    assert "name a size with split= (32k, 128k, 1M)" in one_line(done)


# Files shaped as PersonaMem-v2's: answers without letters, and a history in a file of its own

KINDS = ("ask_to_forget", "neutral_preferences", "sensitive_info")


def history(persona):
    said = [{"role": "system", "content": f'{{"name": "Person {persona}"}}'}]
    for place in range(6):
        said.append({"role": "user", "content": f"Mend mail {place} of person {persona}."})
        said.append({"role": "assistant", "content": "Here it is."})
    return {"metadata": {"final_token_count": 300}, "chat_history": said}


def link(persona, size):
    return f"data/chat_history_{size}/chat_history_250913_persona{persona}.json"


UNREAD = ("raw_persona_file", "short_persona", "expanded_persona", "preference", "updated")
UNREAD += ("topic_preference", "conversation_scenario", "related_conversation_snippet", "prev_pref")
UNREAD += ("sensitive_info", "num_persona_relevant_tokens_32k", "num_persona_relevant_tokens_128k")
"""What the published rows have, too, and a question has not."""


def second_row(persona, place):
    name = f"{persona}.{place}"
    return {
        **dict.fromkeys(UNREAD, "of no use"),
        "persona_id": str(persona),
        "chat_history_32k_link": link(persona, "32k"),
        "chat_history_128k_link": link(persona, "128k"),
        "user_query": repr({"role": "user", "content": f"What's for tea, {name}?"}),
        "correct_answer": f"Right for {name}",
        "incorrect_answers": json.dumps([f"Wrong {n} for {name}" for n in range(3)]),
        "topic_query": "Food",
        "pref_type": KINDS[place % 3],
        "who": "self" if place else "others",
        "total_tokens_in_chat_history_32k": "31855",
        "total_tokens_in_chat_history_128k": "122747.0",
        "distance_from_related_snippet_to_query_32k": "18861" if place else "0",
        "distance_from_related_snippet_to_query_128k": "",
        "num_persona_irrelevant_tokens_32k": "0",
        "num_persona_irrelevant_tokens_128k": "",
    }


ROWS = [second_row(persona, place) for place in range(6) for persona in (17, 521)]


def write_second(folder, content=ROWS, benchmark="benchmark/text/benchmark.csv"):
    """Write a folder of the second version, with the histories of both personas."""
    path = folder / benchmark
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, content)
    for size in ("32k", "128k"):
        (folder / f"data/chat_history_{size}").mkdir(parents=True, exist_ok=True)
        for persona in (17, 521):
            (folder / link(persona, size)).write_text(json.dumps(history(persona)))
    return folder


def spoil_second(folder, **cells):
    """Write such a folder with other cells in the second row."""
    first, second, *others = ROWS
    return write_second(folder, [first, {**second, **cells}, *others])


@pytest.mark.parametrize("benchmark", ["benchmark/text/benchmark.csv", "benchmark.csv"])
def test_rows_become_questions(tmp_path, benchmark):
    opened = open_personamem(write_second(tmp_path, benchmark=benchmark), "32k")
    questions = list(opened.read())
    first, last = questions[0], questions[-1]
    known = (first.persona, first.id, first.who, first.type)
    assert known == ("17", "17-0", "others", "ask_to_forget")
    assert first.message == "What's for tea, 17.0?"
    assert first.options[first.gold] == "Right for 17.0"
    assert sorted(first.options) == ["Right for 17.0", *(f"Wrong {n} for 17.0" for n in range(3))]
    assert (first.tokens, first.tokens_back, last.tokens_back) == (31855, None, 18861)
    assert len(opened.history(first)) == first.end == 13
    assert len({question.gold for question in questions}) > 1


def test_letters_do_not_depend_on_the_other_rows(tmp_path):
    every, three = write_second(tmp_path / "every"), write_second(tmp_path / "three", ROWS[:3])
    whole, part = (
        [one.options for one in open_personamem(folder, "32k").read()] for folder in (every, three)
    )
    assert part == whole[:3]


def test_a_run_has_its_types_and_whose_preference_it_is(alps, tmp_path):
    write_second(tmp_path)
    run(alps, "data=.", "size=32k", "model=oracle")
    found = figures(tmp_path / "run")
    assert found["accuracy"] == found["macro_accuracy"] == 1.0
    scores = summary(tmp_path / "run")["scores"]
    assert {kind: scores[kind]["n"] for kind in KINDS} == dict.fromkeys(KINDS, 4)
    assert "track_full_preference_evolution" not in found
    assert {row.get("who") for row in rows(tmp_path / "run", "scores")} == {"self", "others"}


@pytest.mark.few(1)
@pytest.mark.parametrize("size", ["32k", "128k"])
def test_a_model_is_shown_the_whole_history(alps, tmp_path, size):
    write_second(tmp_path)
    words = ("data=.", f"size={size}", "limit=2")
    _, server = served(alps, *words, answer=lambda request: Answer('{"choice": "a"}'))
    asked = [asked_of(request) for request in server.requests]
    assert {len(one["history"]) for one in asked} == {13}
    assert {one["message"] for one in asked} == {"What's for tea, 17.0?", "What's for tea, 521.0?"}
    assert "of no use" not in json.dumps(asked)


def refused(alps, *words, model="oracle"):
    return one_line(alps("run", "task=personamem", "data=.", f"model={model}", *words))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("incorrect_answers", '["one"]', "line 3, incorrect_answers: expected a list of three"),
        ("incorrect_answers", "", "line 3, incorrect_answers: expected a list of three"),
        ("correct_answer", " ", "line 3, correct_answer: empty"),
        ("user_query", "{'role': 'user'}", "line 3, user_query: expected a message"),
        ("pref_type", "", "line 3, pref_type: empty"),
        ("total_tokens_in_chat_history_32k", "many", "'many' is not a whole number"),
        ("chat_history_32k_link", "", "line 3, chat_history_32k_link: empty"),
    ],
)
def test_a_broken_cell_of_the_second_version_is_one_line(alps, tmp_path, column, value, said):
    spoil_second(tmp_path, **{column: value})
    assert said in refused(alps, "size=32k")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "path",
    ["data/none.json", "/etc/hostname", "../outside.json", "j" * 300],
    ids=["missing", "absolute", "outside", "too long"],
)
def test_a_history_that_is_not_in_the_folder_is_one_line(alps, tmp_path, path):
    (tmp_path.parent / "outside.json").write_text("[]")
    spoil_second(tmp_path, chat_history_32k_link=path)
    said = refused(alps, "size=32k", model="openai/scripted")
    assert f"line 3, chat_history_32k_link: no history '{path[:80]}' in the folder of data=" in said


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a history"),
        (b"\xff", "not a history"),
        (b'{"messages": []}', "chat_history: expected a list of messages"),
        (b'[{"role": "user", "content": [{"type": "image_url"}]}]', "images are not read"),
        (b'["said"]', "chat_history[0]: expected a role"),
    ],
    ids=["empty", "no text", "no chat history", "an image", "no role"],
)
def test_a_broken_history_of_the_second_version_is_one_line(alps, tmp_path, content, said):
    write_second(tmp_path)
    (tmp_path / link(17, "32k")).write_bytes(content)
    found = refused(alps, "size=32k")
    assert said in found
    assert "persona17.json" in found


def test_a_size_must_be_named_and_be_there(alps, tmp_path):
    write_second(tmp_path)
    assert "name a size with size= (found: 32k, 128k)" in refused(alps)
    assert "no questions_1M.csv in it" in refused(alps, "size=1M")


def test_the_audit_reads_the_second_version(alps, tmp_path):
    longer = ", and much more than the others say"
    write_second(
        tmp_path, [{**row, "correct_answer": row["correct_answer"] + longer} for row in ROWS]
    )
    done = alps("data", "audit", "data=.", "split=32k", "format=json")
    report = json.loads(done.stdout)
    assert report["tracks"] == [{"track": "32k", "rows": 12, "with_gold": 12}]
    assert {one["severity"] for one in report["findings"]} <= {"note", "warning"}


def test_the_hub_gives_the_histories_of_the_questions_alone(hub, tmp_path):
    folder = write_second(tmp_path / "files")
    (folder / "data/chat_history_32k/of_the_training_set.json").write_text("[]")
    hub.push(endtoend.files_of(folder), repository="bowen-upenn/PersonaMem-v2")
    words = (*RUN[:-1], "data=hub:bowen-upenn/PersonaMem-v2")
    from_hub(hub, tmp_path, *words, "size=32k", "out=out")
    histories = {link(persona, "32k").rpartition("/")[2] for persona in (17, 521)}
    assert fetched(hub) == {"benchmark.csv", *histories}
    done = from_hub(hub, tmp_path, *words, "size=1M", "out=other", code=2)
    assert "no questions_1M.csv in it" in one_line(done)
