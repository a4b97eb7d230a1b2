"""`alps data personas model=…`: users whose texts a model writes, and the blind filter."""

import csv
import json
import random
import threading

import pytest

from alps.show.spreadsheets import plain_cell
from alps.tasks.personamem.persona_timeline import EVIDENCE, LENGTHS, TRACK
from alps.tasks.personamem.release import open_personamem
from tests.endtoend import one_line, run, start, summary, wait_until
from tests.loopback import Answer, serve

PERSONAS = 16
ENVIRONMENT = {"OPENAI_API_KEY": "none"}
ADJECTIVES = ("amber", "brisk", "coral", "dusky", "early", "frosty", "green", "hazel", "ivory")
ADJECTIVES += ("jolly", "lunar", "misty")


class Author:
    """A model that writes what the prompts ask for; `spoil` may change a reply before it is sent.

    What it writes depends on the request alone, so that every order of requests gives the same.
    """

    def __init__(self, spoil=lambda kind, reply, first: reply, delay=0.0):
        self.spoil, self.delay = spoil, delay
        self.kinds = []
        self.lock = threading.Lock()

    def __call__(self, request):
        instructions = request["messages"][0]["content"]
        asked = json.loads(request["messages"][1]["content"])
        kinds = {"biography": "`biography`: three", "messages": "`messages`", "blind": "`options`"}
        kind = next((name for name, words in kinds.items() if words in instructions), "questions")
        with self.lock:
            first = kind not in self.kinds
            self.kinds.append(kind)
        reply = getattr(self, f"_{kind}")(asked)
        return Answer(json.dumps(self.spoil(kind, reply, first)), delay=self.delay)

    def _biography(self, asked):
        draw = random.Random(asked["name"] + asked["town"])
        topics = []
        for topic in asked["topics"]:
            noun = topic.split()[0] + draw.choice(("s", "ing", "ery"))
            topics.append({"items": [f"{adjective} {noun}" for adjective in ADJECTIVES]})
            topics[-1]["items"][0] = f"an amber kind of {noun} that is far too long for its list"
        reasons = []
        for adjective in ADJECTIVES:
            why = f"I longed for {draw.choice(('some', 'more'))} {adjective} days"
            reasons.append({"why": why, "trait": f"{adjective} days now"})
        who = f"{asked['name']}, {asked['age']}, is {asked['job']} in {asked['town']}."
        return {"biography": who, "topics": topics, "reasons": reasons}

    def _messages(self, asked):
        told = [" and then ".join(event["say"]) + "." for event in asked["events"]]
        return {"messages": [{"text": f"Well, {text}", "reply": "I see."} for text in told]}

    def _questions(self, asked):
        written = []
        for number, one in enumerate(asked["questions"]):
            also = " {elsewhere}?" if "{elsewhere}" in one["asks"] else "?"
            question = f"About {asked['topic']}, matter {number}: what now" + also
            option = f"I would say {', then '.join(one['slots'])}."
            written.append({"question": question, "option": option})
        return {"questions": written}

    def _blind(self, asked):
        return {"choice": min(asked["options"], key=asked["options"].get)}


def words(url, *more, n=2):
    return (
        *("data", "personas", "out=made", f"n={n}", "seed=3"),
        *("model=openai/author", f"api_base={url}", *more),
    )


def generate(folder, author, *, n=2):
    with serve(author) as server:
        done = run(folder, *words(server.url, n=n), **ENVIRONMENT)
        return done, server.requests


def data_of(folder):
    return {
        path.name: path.read_bytes()
        for path in (folder / "made").iterdir()
        if path.suffix in (".csv", ".jsonl") and path.name != "calls.jsonl"
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    done, requests = generate(folder, Author(), n=PERSONAS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{35 * PERSONAS} questions about {PERSONAS} personas: made\n"
    assert len(requests) == 11 * PERSONAS
    return folder


def test_a_written_set_is_read_and_passes_the_audit(alps, written, tmp_path):
    done = alps("run", "task=personamem", f"data={written / 'made'}", "model=oracle", "out=run")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "run")["tracks"]["personamem"]["n"] == 35 * PERSONAS
    done = alps("data", "audit", f"data={written / 'made'}")
    assert done.returncode == 0, done.stdout
    assert "\nNothing serious (1 note).\n" in done.stdout


def test_no_rule_without_the_history_beats_chance_on_a_written_set(written):
    questions = list(open_personamem(written / "made").read())

    def accuracy(pick):
        credit = 0.0
        for question in questions:
            values = [pick(option) for option in question.options]
            places = [place for place, value in enumerate(values) if value == max(values)]
            credit += (question.gold in places) / len(places)
        return credit / len(questions)

    letters = [question.gold for question in questions]
    figures = [accuracy(len), accuracy(lambda option: -len(option))]
    figures += [letters.count(place) / len(letters) for place in range(4)]
    assert all(abs(figure - 0.25) <= 0.05 for figure in figures), figures


def test_the_options_of_a_written_question_are_one_sentence_of_like_entries(written):
    for question in open_personamem(written / "made").read():
        lengths = [len(option) for option in question.options]
        assert max(lengths) <= LENGTHS * min(lengths)
        assert len(set(question.options)) == 4
        assert not any("far too long" in option for option in question.options)
    assert {question.type for question in open_personamem(written / "made").read()} == set(EVIDENCE)


def test_what_is_right_stands_in_the_history_before_the_question(written):
    opened = open_personamem(written / "made")
    lines = (written / "made" / "timelines_32k.jsonl").read_text(encoding="utf-8").splitlines()
    timelines = {str(row["id"]): row["interests"] for row in map(json.loads, lines)}
    for question in list(opened.read())[:70]:
        interest = next(
            one for one in timelines[question.persona] if one["topic"] == question.topic
        )
        said = " ".join(turn.text for turn in opened.history(question))
        gold = question.options[question.gold]
        assert all(item in said for item in (*interest["likes"], interest["tried"]))
        if question.type == TRACK:
            places = [gold.index(item) for item in interest["likes"]]
            assert places == sorted(places)
        if question.type == "recall_user_shared_facts":
            assert interest["likes"][2] in gold


def test_the_same_command_again_asks_nothing_and_writes_the_same_bytes(tmp_path):
    author = Author()
    with serve(author) as server:
        first = run(tmp_path, *words(server.url), **ENVIRONMENT)
        bytes_before, asked = data_of(tmp_path), len(server.requests)
        again = run(tmp_path, *words(server.url), **ENVIRONMENT)
        assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
        assert len(server.requests) == asked == 22
    assert data_of(tmp_path) == bytes_before
    assert len(bytes_before) == 4


@pytest.mark.release
def test_a_killed_generation_goes_on_to_the_same_bytes(tmp_path):
    folders = {name: tmp_path / name for name in ("calm", "killed")}
    for folder in folders.values():
        folder.mkdir()
    with serve(Author(delay=0.02)) as server:
        command = words(server.url, "concurrency=2")
        calm = run(folders["calm"], *command, **ENVIRONMENT)
        assert calm.returncode == 0, calm.stderr
        for count in (3, 8):
            wanted = len(server.requests) + count
            process = start(folders["killed"], *command, **ENVIRONMENT)
            wait_until(
                lambda n=wanted, p=process: len(server.requests) >= n or p.poll() is not None
            )
            process.kill()
            process.communicate()
            assert not list((folders["killed"] / "made").glob("*.csv"))
        last = run(folders["killed"], *command, **ENVIRONMENT)
    assert last.returncode == 0, last.stderr
    assert data_of(folders["killed"]) == data_of(folders["calm"])


def spoiling(wanted, change):
    """Return what changes the rows of the first reply of a kind."""

    def spoil(kind, reply, first):
        if kind == wanted and first:
            change(reply["topics" if kind == "biography" else kind])
        return reply

    return spoil


UNLIKE = [letter * 2**place for place, letter in enumerate("abcdefghijkl")]
FORMULA = '\u200b ＝HYPERLINK("https://example.org") What now?'
SPOILT = {
    "a question is asked twice": (
        "questions",
        lambda rows: rows[4].update(question=rows[1]["question"].upper()),
        "questions 5 question: asked before, word for word",
    ),
    "a question is a formula": (
        "questions",
        lambda rows: rows[1].update(question=FORMULA),
        "questions 2 question: begins with '='; expected a letter",
    ),
    "a message lacks what was to be said": (
        "messages",
        lambda rows: rows[2].update(text="I like something else now."),
        "must be in it, word for word",
    ),
    "items are unlike in length": (
        "biography",
        lambda rows: rows[1].update(items=UNLIKE),
        "make their lengths more similar",
    ),
    "a question names an option": (
        "questions",
        lambda rows: rows[3].update(question="Was it {item}?"),
        "questions 4 question: expected these slots, each once: none",
    ),
}


def test_no_cell_of_a_set_is_read_as_a_formula(tmp_path):
    done, _ = generate(tmp_path, Author(), n=2)
    assert done.returncode == 0, done.stderr
    run(tmp_path, "data", "personas", "out=whole", "n=4", **ENVIRONMENT)
    for row in (*read_rows(tmp_path / "made"), *read_rows(tmp_path / "whole")):
        assert [cell for cell in row.values() if plain_cell(cell).startswith("'")] == []


@pytest.mark.few(2)
@pytest.mark.parametrize(("kind", "change", "said"), SPOILT.values(), ids=SPOILT)
def test_a_text_that_fails_its_checks_is_asked_for_again(tmp_path, kind, change, said):
    done, requests = generate(tmp_path, Author(spoiling(kind, change)), n=1)
    assert done.returncode == 0, done.stderr
    assert len(requests) == 12
    assert sum(said in str(request["messages"][-1]["content"]) for request in requests) == 1


def test_a_persona_whose_texts_never_pass_is_left_out_and_named(tmp_path):
    def spoil(kind, reply, first):
        return {"biography": "", "topics": [], "reasons": []} if kind == "biography" else reply

    done, _ = generate(tmp_path, Author(spoil), n=1)
    assert done.returncode == 1
    assert "no persona could be written: persona 0: topics: 0 lists of items for 5" in done.stderr


@pytest.mark.release
def test_a_filter_drops_what_a_model_answers_without_the_history(tmp_path):
    with serve(Author()) as server:
        filtered = ("filter=openai/blind", f"filter_api_base={server.url}")
        done = run(tmp_path, "data", "personas", "out=made", "n=4", *filtered, **ENVIRONMENT)
    run(tmp_path, "data", "personas", "out=whole", "n=4", **ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    kept, whole = (read_rows(tmp_path / name) for name in ("made", "whole"))
    guessed = [row["question_id"] for row in whole if is_first_by_alphabet(row)]
    assert 15 < len(guessed) < 60
    whole_ids = [row["question_id"] for row in whole]
    assert [row["question_id"] for row in kept] == [one for one in whole_ids if one not in guessed]
    dropped = f"Dropped {len(guessed)} questions that openai/blind answers without history"
    assert done.stdout.splitlines()[-1] == dropped


def read_rows(folder):
    with (folder / "questions_32k.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_first_by_alphabet(row):
    options = [option[4:] for option in json.loads(row["all_options"])]
    return options.index(min(options)) == "abcd".index(row["correct_answer"][1])


@pytest.mark.release
def test_a_budget_stops_a_generation_and_a_larger_one_goes_on(tmp_path):
    with serve(Author()) as server:
        small = run(tmp_path, *words(server.url, "max_total_tokens=4000"), **ENVIRONMENT)
        assert small.returncode == 3
        assert "the budget is spent" in small.stderr
        whole = run(tmp_path, *words(server.url), **ENVIRONMENT)
    assert whole.returncode == 0, whole.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("temperature=1",), "temperature: only a model uses this setting; add model= or filter="),
        (("model=author",), "model=author"),
        (("model=openai/author", "tempreature=1"), "did you mean 'temperature'"),
    ],
)
def test_settings_that_cannot_be_used_are_one_line(alps, more, said):
    assert said in one_line(alps("data", "personas", "out=made", *more))


def test_a_folder_keeps_the_set_of_one_model(tmp_path):
    generate(tmp_path, Author(), n=1)
    done, requests = generate(tmp_path, Author(), n=2)
    assert "made with other settings or prompts; choose another out=" in one_line(done)
    assert requests == []
