"""`answer=logprob`, as a user runs it: options compared by what a server says of their tokens."""

import json
import re
from dataclasses import replace

import pytest

from alps.tasks.personamem.release import open_personamem
from tests import endtoend
from tests.echoing import by_escapes, by_number, completed, echo, expected, of_vocabulary, silent
from tests.endtoend import one_line
from tests.few import few
from tests.loopback import Answer, serve
from tests.persona_runs import PUBLISHED, published, rows, run, served

PROBE = "One, two, three."


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two personas, one of them Chinese: every character of hers is several bytes."""
    folder = tmp_path_factory.mktemp("made")
    for language in ("en", "zh"):
        words = ("data", "personas", f"out={language}", "n=1", f"language={language}")
        assert endtoend.run(folder, *words).returncode == 0
    return folder


def compare(alps, *words, answer=echo, code=0):
    """Compare the options of a few questions; what was asked is returned, too."""
    limit = () if any(word.startswith("limit=") for word in words) else ("limit=3",)
    asked = ("answer=logprob", "memory=last:4", "concurrency=4", *limit, *words)
    return served(alps, *asked, answer=answer, code=code)


STYLES = {
    "tokens that are text": {},
    "no offsets": {"offsets": False},
    "no offsets, bytes by escapes": {"offsets": False, "name": by_escapes},
    "no offsets, bytes by number": {"offsets": False, "name": by_number},
    "nothing for parts of characters": {"offsets": "drifting", "name": silent},
    "offsets that drift": {"offsets": "drifting", "begin": True},
    "tokens that are no text, with offsets": {"name": of_vocabulary},
    "only the prompt": {"generated": False},
}


@pytest.mark.parametrize(
    ("language", "style"),
    few(
        {"English": ("en", {}), **{name: ("zh", style) for name, style in STYLES.items()}},
        plain={"English", "no offsets, bytes by number", "offsets that drift"},
    ),
)
def test_the_option_with_the_highest_mean_of_its_own_tokens_is_chosen(
    alps, tmp_path, made, language, style
):
    questions = {question.id: question for question in open_personamem(made / language).read()}
    data = f"data={made / language}"
    _, server = compare(alps, data, answer=lambda body: echo(body, **style))
    asked = [body["prompt"] for body in server.requests if body["prompt"] != PROBE]
    for row in rows(tmp_path / "run"):
        options = [f" {option}" for option in questions[row["benchmark_id"]].options]
        prompts = [next(text for text in asked if text.endswith(option)) for option in options]
        planted = [expected(*pair) for pair in zip(prompts, options, strict=True)]
        answer = row["prediction"]
        assert [(one["tokens"], one["sum"]) for one in answer["logprobs"]] == [
            (tokens, pytest.approx(total, abs=1e-5)) for tokens, total in planted
        ]
        means = [total / tokens for tokens, total in planted]
        sums = [total for _, total in planted]
        assert answer["choice"] == "abcd"[means.index(max(means))]
        assert answer["choice_by_sum"] == "abcd"[sums.index(max(sums))]
        first, second = sorted(means, reverse=True)[:2]
        assert answer["margin"] == pytest.approx(first - second, abs=1e-5)


def test_a_question_is_four_calls_that_begin_alike_the_first_alone(alps, tmp_path):
    under_way, server_of = {}, []

    def slowly(body):
        under_way[body["prompt"]] = server_of[0].under_way
        return replace(echo(body), delay=0.1)

    with serve(slowly) as server:
        server_of.append(server)
        model = ("model=openai/scripted", f"api_base={server.url}")
        run(alps, *model, "answer=logprob", "limit=1", "max_context_tokens=2000")
    assert server.paths == ["/v1/completions"] * 5
    probe, first, *others = [body["prompt"] for body in server.requests]
    assert probe == PROBE
    assert under_way[first] == 1
    assert max(under_way[prompt] for prompt in others) > 1
    options = [prompt.rpartition("\n\nAssistant: ") for prompt in (first, *others)]
    assert len({prefix for prefix, _, _ in options}) == 1
    assert len(options[0][0]) > 5_000
    assert len({option for _, _, option in options}) == 4
    assert {body["max_tokens"] for body in server.requests} == {1}
    assert all(body["echo"] and body["logprobs"] == 1 for body in server.requests)


def told(tokens, logprobs, offsets, **more):
    """Return what a server tells of tokens that it does not echo."""
    parts = {"tokens": tokens, "token_logprobs": logprobs, "text_offset": offsets}
    return {**parts, "top_logprobs": None, **more}


def only_what_it_wrote(body):
    top = [{" and": -0.5}]
    return completed(body, told([" and"], [-0.5], [len(body["prompt"])], top_logprobs=top))


def nothing_but_null(body):
    tokens = ["One,", " two,", " three.", " and"]
    return completed(body, told(tokens, [None] * 4, [0, 4, 9, 16]))


def another_text(body):
    return completed(body, told(["a", "b", "c"], [None, -1.0, -1.0], [7, 8, 9]))


NO_MATCH = "neither its tokens nor its offsets match the prompt"
NO_MORE = "it returns no log-probabilities of the prompt's tokens"
BROKEN = {"tokens": [7], "token_logprobs": "x"}
SILENT = {
    "no log-probabilities": (lambda body: completed(body, None), NO_MORE),
    "only what it wrote": (only_what_it_wrote, NO_MATCH),
    "nothing but null": (nothing_but_null, "it returns no log-probability of some tokens"),
    "no tokens": (lambda body: completed(body, BROKEN), "it returns no log-p"),
    "another text": (another_text, NO_MATCH),
    "no echo": (lambda body: Answer(status=400, error="Only no echo is supported"), "Only no echo"),
    "no model": (lambda body: Answer(status=404), "the endpoint has no such model"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("answer", "why"), SILENT.values(), ids=SILENT)
def test_a_server_that_does_not_echo_is_refused_before_anything_long_is_asked(alps, answer, why):
    done, server = served(alps, "answer=logprob", "limit=3", answer=answer, code=2)
    assert why in one_line(done)
    assert [body["prompt"] for body in server.requests] == [PROBE]


def test_a_record_whose_tokens_are_not_told_is_unscored(alps, tmp_path):
    def once_silent(body):
        return echo(body) if body["prompt"] == PROBE else nothing_but_null(body)

    compare(alps, answer=once_silent, code=1)
    assert {row["outcome"] for row in rows(tmp_path / "run")} == {"transport"}


LEGACY = "model=openai/davinci-002"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("model=floor/longest",), "model=floor/longest: this system returns no log-probabilities"),
        (("model=openai/gpt-4.1",), "model 'openai/gpt-4.1': it has only a chat endpoint"),
        (("model=anthropic/claude-sonnet-4-5",), "it has only a chat endpoint"),
        ((LEGACY, "temperature=0"), "temperature=0.0 would change nothing"),
        ((LEGACY, "orders=4"), "orders=4 would change nothing"),
        ((LEGACY, "task=extraction"), "logprob: only task personamem uses"),
    ],
    ids=["a floor", "a chat model", "one of another provider", "sampling", "orders", "a task"],
)
def test_what_cannot_be_compared_is_one_line(alps, monkeypatch, words, why):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    task = () if any(word.startswith("task=") for word in words) else ("task=personamem",)
    assert why in one_line(alps("run", *task, "answer=logprob", *words))


def test_a_dry_run_counts_every_call_and_a_second_run_pays_for_none(alps, tmp_path):
    with serve(echo) as server:
        asked = ("answer=logprob", "memory=last:4", "limit=5")
        # More connections at once than it takes would be tried again, and counted.
        model = ("model=openai/scripted", f"api_base={server.url}", "concurrency=4")
        dry = run(alps, *asked, *model, "dry_run=yes")
        assert re.search(r"answers +21 ", dry.stdout), dry.stdout
        assert server.requests == []
        run(alps, *asked, *model, out="first")
        run(alps, *asked, *model, out="second")
        assert len(server.requests) == 21
    assert len(rows(tmp_path / "first", "calls")) == 21
    assert rows(tmp_path / "first") == rows(tmp_path / "second")


def test_the_budget_holds(alps, tmp_path):
    done, _ = compare(alps, "max_total_tokens=1000", "limit=20", code=3)
    assert "budget" in done.stdout + done.stderr
    used = sum(row["prompt_tokens"] + 1 for row in rows(tmp_path / "run", "calls"))
    assert 0 < used < 3_000
    assert {row["outcome"] for row in rows(tmp_path / "run")} >= {"budget"}


def test_a_server_of_ones_own_is_asked_by_completion_whatever_its_model_is_called(alps):
    with serve(echo) as server:
        model = ("model=openai/gpt-4o", f"api_base={server.url}")
        run(alps, *model, "answer=logprob", "memory=none", "limit=1")
    assert set(server.paths) == {"/v1/completions"}
    assert {body["model"] for body in server.requests} == {"gpt-4o"}


@pytest.mark.release
def test_a_choice_that_was_changed_is_asked_for_again(alps, tmp_path):
    with serve(echo) as server:
        words = ("answer=logprob", "memory=none", "limit=3")
        model = ("model=openai/scripted", f"api_base={server.url}")
        run(alps, *words, *model)
        path = tmp_path / "run" / "predictions.jsonl"
        before = path.read_bytes()
        path.write_bytes(re.sub(rb'"choice": ?"[a-d]"', b'"choice": "d"', before))
        assert path.read_bytes() != before
        run(alps, *words, *model)
    assert path.read_bytes() == before


def test_a_tie_is_shared(alps, tmp_path):
    def alike(body):
        answer = json.loads(echo(body).body)
        values = answer["choices"][0]["logprobs"]["token_logprobs"]
        answer["choices"][0]["logprobs"]["token_logprobs"] = [None] + [-1.0] * (len(values) - 1)
        return Answer(body=json.dumps(answer))

    compare(alps, answer=alike)
    for row in rows(tmp_path / "run"):
        assert row["prediction"]["tied"] == ["a", "b", "c", "d"]
        assert row["prediction"]["margin"] == 0
    assert {row["scores"]["accuracy"] for row in rows(tmp_path / "run", "scores")} == {0.25}


@pytest.mark.release
@published
def test_every_question_whose_history_is_published_is_compared(alps, tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", "off")
    words = ("answer=logprob", f"data={PUBLISHED}", "limit=17")
    _, server = served(alps, *words, answer=lambda body: echo(body, width=15))
    asked = [body["prompt"] for body in server.requests]
    questions = {question.id: question for question in open_personamem(PUBLISHED).read()}
    assert len(asked) == 1 + 4 * 17
    for row in rows(tmp_path / "run"):
        question = questions[row["benchmark_id"]]
        ends = [f"{question.message}\n\nAssistant: {text}" for text in question.options]
        for end, text, told in zip(
            ends, question.options, row["prediction"]["logprobs"], strict=True
        ):
            # Some questions are asked again at a later place of the same history.
            planted = [expected(one, f" {text}", 15) for one in asked if one.endswith(end)]
            assert (told["tokens"], pytest.approx(told["sum"], abs=1e-5)) in planted
