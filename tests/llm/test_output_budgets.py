"""Output budgets: what is sent, what it never cuts off, and what is said of an answer it cut."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alps.llm.cache import Cache, cache_key
from alps.llm.prices import longest_budget
from alps.llm.types import OutputBudget
from alps.llm.understanding import RAN_WILD, ran_wild
from alps.tasks import Task, load_tracks
from alps.tasks.base import TaskOptions
from alps.tasks.extraction import TASK as EXTRACTION
from alps.tasks.update import TASK as UPDATE
from tests.conftest import ROOT
from tests.desk import GOOD, HALF, JUDGED, Desk, always, chat, question
from tests.endtoend import rows, run
from tests.loopback import Answer, serve

WILD = '{"hobbies": [' + '"chess", ' * 400
FULL = ROOT.parent / "shared" / "alpsbench_full"
SAMPLE = ROOT.parent / "shared" / "alpsbench_sample"


def test_a_budget_is_of_the_form_of_the_items_and_of_what_is_shown():
    budget = OutputBudget(100, an_item=10, a_byte=0.5)
    assert (budget.tokens(), budget.tokens(items=3, size=9)) == (100, 134)
    assert budget.tokens(items=3, most=120) == 120
    shown = ({"role": "system", "content": "x" * 99}, {"role": "user", "content": "é" * 10})
    assert budget.of_messages(shown) == 110


THINKS = {"chat_template_kwargs": {"enable_thinking": True}}
NOT_THINKS = {"chat_template_kwargs": {"enable_thinking": False}}
MODELS: list[tuple[str, dict[str, Any], dict[str, Any] | None, int | None]] = [
    ("openai/gpt-4.1-mini", {}, None, 32_768),
    ("openai/mine", {}, None, 1_000_000),
    ("openai/mine", {"max_tokens": 77}, None, None),
    ("openai/mine", {"reasoning_effort": "low"}, None, None),
    ("openai/mine", {}, {"extra_body": THINKS}, None),
    ("openai/mine", {}, {"thinking": {"type": "enabled", "budget_tokens": 4096}}, None),
    ("hosted_vllm/Qwen/Qwen3-8B", {}, {"extra_body": NOT_THINKS}, 1_000_000),
    ("openai/gpt-5-mini", {}, None, None),
    ("openai/gpt-5.1", {"reasoning_effort": "none"}, None, 128_000),
    ("azure/o3", {}, None, None),
    ("gemini/gemini-2.5-flash", {}, None, None),
    ("openrouter/openai/gpt-5", {}, None, None),
    ("litellm_proxy/gpt-5", {}, None, None),
]


@pytest.mark.parametrize(("model", "sampling", "extra", "most"), MODELS)
def test_a_budget_is_at_most_what_a_model_can_answer_and_none_where_it_reasons_or_has_a_length(
    model: str, sampling: dict[str, Any], extra: dict[str, Any] | None, most: int | None
):
    assert longest_budget(model, sampling, extra) == most


def test_a_budget_is_sent_and_is_part_of_the_cache_key_as_a_given_length_is(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        bounded, given = question(server, longest=50), {"max_tokens": 7}
        desk.ask_all(bounded, question(server, longest=50, sampling=given), question(server))
        sent = [body.get("max_tokens") for body in server.requests]
    assert sorted(sent, key=str) == [50, 7, None]
    same = question(server, sampling={"max_tokens": 50})
    assert cache_key(bounded) == cache_key(same) != cache_key(question(server))


TOLD = {"prompt_tokens": 9, "completion_tokens": 50, "total_tokens": 59}
TOLD |= {"completion_tokens_details": {"reasoning_tokens": 50}}
THINKING = {
    "told in tokens": chat("", finish_reason="length", usage=TOLD),
    "beside the text": chat("", finish_reason="length", said={"reasoning_content": "Well, …"}),
    "in the text": chat("<think>Well, they", finish_reason="length"),
}


def without_a_budget(body: dict[str, Any]) -> Callable[[dict[str, Any]], Answer]:
    """Script an endpoint that answers well where no budget is sent, and else with `body`."""
    cut = Answer(body=json.dumps(body))
    return lambda asked: cut if "max_tokens" in asked else Answer(GOOD)


@pytest.mark.parametrize("thought", THINKING.values(), ids=THINKING)
def test_an_answer_cut_off_after_thought_and_all_later_have_no_budget(desk, cache, capsys, thought):
    async def one_by_one(client: Any) -> list[Any]:
        asked = [question(server, longest=50, repeat=number) for number in range(3)]
        return [await client.complete(request) for request in asked]

    with serve(without_a_budget(thought)) as server:
        got = desk.run(one_by_one, cache=cache)
        sent = [body.get("max_tokens") for body in server.requests]
    assert [completion.outcome for completion in got] == ["ok"] * 3
    assert sent == [50, None, None, None]
    assert capsys.readouterr().err.count("without an output limit") == 1


def test_half_an_answer_that_was_cut_off_after_thought_is_not_kept(desk: Desk, cache: Cache):
    half = chat(HALF, finish_reason="length", said={"reasoning_content": "Chess, tea and go."})
    with serve(without_a_budget(half)) as server:
        bounded = question(server, longest=50, structured="schema")
        assert desk.ask(bounded, cache=cache).value == ("chess", "tea")
    assert cache.get(cache_key(bounded)) is None
    whole = question(server, structured="schema")  # which was asked for without a budget
    assert cache.get(cache_key(whole)) is not None


def test_a_length_that_was_given_is_kept_to_whatever_is_thought(desk: Desk):
    with serve(always(Answer(body=json.dumps(THINKING["in the text"])))) as server:
        desk.ask(question(server, sampling={"max_tokens": 50}))
        assert {body["max_tokens"] for body in server.requests} == {50}


REFUSALS = {
    "vLLM": "This model's maximum context length is 4096 tokens. However, you requested 5000 "
    "tokens (1000 in the messages, 4000 in the completion).",
    "OpenAI": "max_tokens is too large: 4000. This model supports at most 2048 completion tokens.",
    "unknown": "Unsupported parameter: 'max_tokens' is not supported with this model.",
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_where_an_endpoint_refuses_the_budget_the_request_goes_without(desk: Desk, refusal: str):
    def script(body: dict[str, Any]) -> Answer:
        return Answer(status=400, error=refusal) if "max_tokens" in body else Answer(GOOD)

    with serve(script) as server:
        assert desk.ask(question(server, longest=4_000)).outcome == "ok"
        assert [body.get("max_tokens") for body in server.requests] == [4_000, None]
        given = question(server, sampling={"max_tokens": 4_000})
        assert desk.ask(given).outcome in ("too_long", "transport")


def test_an_answer_that_ran_wild_is_told_from_one_that_was_merely_cut_off_or_ended(desk: Desk):
    for text, wild in ((WILD, True), (HALF, False)):
        with serve(always(Answer(text, finish_reason="length"))) as server:
            used = desk.ask(question(server))
            failed = desk.ask(question(server, answer=JUDGED))
        assert (used.outcome, used.truncated, RAN_WILD in used.notes) == ("ok", True, wild)
        assert (failed.outcome, RAN_WILD in failed.notes) == ("truncated", wild)
        assert (RAN_WILD in str(failed.error)) == wild
    with serve(always(Answer(json.dumps({"hobbies": ["chess"] * 400})))) as server:
        assert RAN_WILD not in desk.ask(question(server)).notes


def test_a_run_sends_budgets_writes_them_down_and_resumes_none_begun_without(tmp_path: Path):
    words = ("run", "task=extraction", "model=openai/tiny", "limit=1", "baseline_records=0")
    words += ("judge=openai/other", "judge_check=no", "out=here")
    wild = Answer(WILD.replace("hobbies", "memory_items"), finish_reason="length")
    judged = Answer('{"pairs": []}')
    with serve(lambda body: wild if "tiny" in body["model"] else judged) as server:
        address = (f"api_base={server.url}", f"judge_api_base={server.url}")
        assert run(tmp_path, *words, *address).returncode == 0
        (asked, *_) = server.requests
        shown = len(asked["messages"][1]["content"].encode())
        assert asked["max_tokens"] == 2_048 + shown // 2
        assert run(tmp_path, *words[:-1], "max_tokens=70", "out=given", *address).returncode == 0
        assert [body for body in server.requests if body["max_tokens"] == 70]
        assert "repeated text until the cut-off" in run(tmp_path, "show", "here").stdout
        manifest = json.loads((tmp_path / "here" / "manifest.json").read_text())
        assert manifest["system"]["output_budget"] == {"task1": {"fixed": 2_048, "a_byte": 0.5}}
        assert manifest["judge"]["output_budget"]["list"] == {"fixed": 512, "an_item": 128}
        del manifest["system"]["output_budget"]
        (tmp_path / "here" / "manifest.json").write_text(json.dumps(manifest))
        refused = run(tmp_path, *words, *address)
    assert refused.returncode == 2
    assert "here holds another run: system.output_budget is null there" in refused.stderr


def inputs(folder: Path, track: str) -> dict[str, dict[str, Any]]:
    path = folder / "benchmark_data" / "dev" / track / "model_input.jsonl"
    return {row["benchmark_id"]: row for row in rows(path)}


def recorded() -> Iterator[tuple[Task, int, str]]:
    """Yield each recorded answer of a real model: its task, its budget, and its text."""
    known = inputs(SAMPLE, "task1") | inputs(FULL, "task1")
    files = [*FULL.glob("outputs/task1/*/records.jsonl"), SAMPLE / "recorded/task1/records.jsonl"]
    for task, shown, paths in (
        (EXTRACTION, known, files),
        (UPDATE, inputs(SAMPLE, "task2"), [SAMPLE / "recorded/task2/records.jsonl"]),
    ):
        for row in (row for path in paths for row in rows(path)):
            sample = task.read_sample(shown[row["benchmark_id"]], None)
            yield task, task.answer.within.of_messages(task.messages(sample)), text_of(row)
    (answering,) = load_tracks("utilization", TaskOptions(ability="pa"))
    for path in SAMPLE.glob("recorded/task4_*/records.jsonl"):
        for row in rows(path):
            for response in row["model_output"]["responses"]:
                yield answering, answering.answer.within.tokens(), response["response"]


def text_of(row: dict[str, Any]) -> str:
    raw = row["model_output"]["raw_output"]
    return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)


def counters() -> list[Callable[[str], int]]:
    """Return what counts tokens under three vocabularies that litellm's package brings."""
    from litellm.litellm_core_utils import default_encoding  # says where they are
    from tiktoken import get_encoding
    from tokenizers import Tokenizer

    folder = Path(default_encoding.__file__).with_name("tokenizers")
    oldest = Tokenizer.from_file(str(folder / "anthropic_tokenizer.json"))
    counts: list[Callable[[str], int]] = [lambda text: len(oldest.encode(text).ids)]
    for encoding in map(get_encoding, ("cl100k_base", "o200k_base")):
        counts.append(
            lambda text, encoding=encoding: len(encoding.encode(text, disallowed_special=()))
        )
    return counts


@pytest.mark.real
@pytest.mark.skipif(not FULL.is_dir(), reason="the recorded answers are not here")
@pytest.mark.release
def test_no_recorded_answer_of_a_real_model_takes_more_than_half_of_its_budget():
    counts, answers = counters(), Counter[str]()
    least: dict[str, float] = {}
    for task, budget, text in recorded():
        most = max(count(text) for count in counts)
        answers[task.name] += 1
        least[task.name] = min(least.get(task.name, 99.0), budget / max(most, 1))
        assert not ran_wild(text)
    print(f"{dict(answers)}: the budget is at least {least} times the answer")
    assert answers == {"extraction": 4_662, "update": 86, "utilization": 133}
    assert min(least.values()) >= 2, least
