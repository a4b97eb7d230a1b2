"""How typed answers are asked for: the ladder of modes, over loopback."""

import ast
import json
from typing import Any

import pytest

from alps.errors import CredentialError
from alps.llm import Client
from alps.llm.cache import Cache, cache_key
from alps.llm.schemas import schema_of
from alps.llm.structured import MODES, first_mode, next_mode
from tests.conftest import ROOT
from tests.desk import GOOD, QUESTION, QUIET_LITELLM, Desk, Hobbies, always, question
from tests.endtoend import rows
from tests.loopback import Answer, Script, serve
from tests.tracks import JUDGE, MODEL, alps_here

pytestmark = QUIET_LITELLM

SENT = {
    "schema": lambda body: body.get("response_format", {}).get("type") == "json_schema",
    "tools": lambda body: "tools" in body,
    "json": lambda body: body.get("response_format", {}).get("type") == "json_object",
    "prompt": lambda body: "tools" not in body and "response_format" not in body,
}
REFUSALS = {
    "schema": "This response_format type is unavailable now",
    "tools": "registry.ollama.ai/library/tiny does not support tools",
    "json": "'response_format.type' must be 'text'",
}


def mode_of(body: dict[str, Any]) -> str:
    (mode,) = [mode for mode, is_so in SENT.items() if is_so(body)]
    return mode


def called(body: dict[str, Any], arguments: str) -> Answer:
    """Return the answer of a model that called the tool it was given."""
    name = body["tools"][0]["function"]["name"]
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    reply = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "tiny",
        "choices": [choice],
    }
    return Answer(body=json.dumps(reply))


def taking(lowest: str, text: str = GOOD) -> Script:
    """Script an endpoint that takes no mode above `lowest`."""

    def script(body: dict[str, Any]) -> Answer:
        mode = mode_of(body)
        if MODES.index(mode) < MODES.index(lowest):
            return Answer(status=400, error=REFUSALS[mode])
        return called(body, text) if mode == "tools" else Answer(text)

    return script


@pytest.mark.parametrize("lowest", MODES)
def test_the_ladder_goes_down_to_what_the_endpoint_takes(
    desk: Desk, capsys: pytest.CaptureFixture[str], lowest: str
):
    with serve(taking(lowest)) as server:
        completion = desk.ask(question(server))
        assert (completion.outcome, completion.value, completion.strict) == (
            "ok",
            ("chess", "tea"),
            True,
        )
        assert [mode_of(body) for body in server.requests] == list(MODES[: MODES.index(lowest) + 1])
    assert [row["structured"] for row in desk.rows] == list(MODES[: MODES.index(lowest) + 1])
    assert [row["strict"] for row in desk.rows] == [None] * MODES.index(lowest) + [True]
    told = [line for line in capsys.readouterr().err.splitlines() if "structured=" in line]
    assert len(told) == MODES.index(lowest)
    assert all(f"structured={mode}" in line for mode, line in zip(MODES[1:], told, strict=False))


def test_many_requests_that_are_refused_at_once_step_down_once(
    desk: Desk, capsys: pytest.CaptureFixture[str]
):
    with serve(taking("tools")) as server:
        asked = [question(server, repeat=number) for number in range(8)]
        assert {completion.outcome for completion in desk.ask_all(*asked)} == {"ok"}
        assert [mode_of(body) for body in server.requests].count("tools") == 8
    assert capsys.readouterr().err.count("structured=tools") == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_that_is_chosen_is_the_one_that_is_sent(desk: Desk, mode: Any):
    with serve(taking("schema")) as server:
        assert desk.ask(question(server, structured=mode)).outcome == "ok"
        assert [mode_of(body) for body in server.requests] == [mode]


def test_a_mode_that_is_chosen_is_not_left(desk: Desk):
    with serve(taking("prompt")) as server:
        completion = desk.ask(question(server, structured="tools"))
        assert [mode_of(body) for body in server.requests] == ["tools"]
    assert completion.outcome == "transport"
    assert "does not support tools" in str(completion.error)


@pytest.mark.parametrize(
    "error",
    [
        "maximum context length is 8192 tokens, and 59 are in the response_format schema",
        "Bad Request",
    ],
)
def test_other_errors_do_not_step_down(desk: Desk, error: str):
    with serve(always(Answer(status=400, error=error))) as server:
        assert desk.ask(question(server)).outcome != "ok"
        assert {mode_of(body) for body in server.requests} == {"schema"}


def test_one_answer_that_a_provider_could_not_constrain_does_not_step_down(desk: Desk):
    error = {
        "message": "Failed to generate JSON in response_format",
        "code": "json_validate_failed",
    }
    body = json.dumps({"error": error})
    with serve(always(Answer(status=400, body=body))) as server:
        assert desk.ask(question(server)).outcome != "ok"
        assert {mode_of(sent) for sent in server.requests} == {"schema"}


def test_a_form_that_was_taken_before_is_not_left(desk: Desk):
    answers = [Answer(GOOD), Answer(status=400, error="response_format: try again")]
    with serve(lambda _: answers.pop(0)) as server:

        async def twice(client: Client) -> list[str]:
            return [
                (await client.complete(question(server, repeat=number))).outcome
                for number in range(2)
            ]

        assert desk.run(twice) == ["ok", "transport"]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "Unsupported parameter", "param": "response_format"}),
        (400, {"message": "Unrecognized request argument supplied: response_format"}),
        (422, {"message": "body.response_format: Extra inputs are not permitted"}),
        (
            400,
            {
                "message": (
                    "Invalid value: 'json_schema'. Supported values are: 'json_object' and 'text'."
                )
            },
        ),
        (400, {"message": "Invalid schema for response_format 'Hobbies': too many levels"}),
        (400, {"message": "guided decoding is not available with this engine"}),
        (404, {"message": "No endpoints found that support structured outputs"}),
    ],
)
def test_refusals_in_other_words_step_down(desk: Desk, status: int, error: dict[str, str]):
    refusal = Answer(status=status, body=json.dumps({"error": error}))
    with serve(lambda body: refusal if mode_of(body) == "schema" else called(body, GOOD)) as server:
        assert desk.ask(question(server)).outcome == "ok"
        assert [mode_of(sent) for sent in server.requests] == ["schema", "tools"]


def test_a_refused_key_does_not_step_down(desk: Desk):
    with serve(always(Answer(status=401, error="Invalid key for response_format"))) as server:
        with pytest.raises(CredentialError):
            desk.ask(question(server))
        assert {mode_of(body) for body in server.requests} == {"schema"}


def test_a_schema_that_the_provider_is_held_to_is_strict(desk: Desk):
    with serve(taking("tools")) as server:
        desk.ask(question(server))
    first, second = server.requests
    sent, tool = first["response_format"]["json_schema"], second["tools"][0]["function"]
    assert (sent["strict"], tool["strict"]) == (True, True)
    assert sent["schema"] == json.loads(schema_of(Hobbies))
    assert tool["parameters"]["properties"] == sent["schema"]["properties"]
    assert second["tool_choice"] == {"type": "function", "function": {"name": "Hobbies"}}


@pytest.mark.parametrize("mode", ["json", "prompt"])
def test_where_no_schema_is_sent_it_stands_at_the_end_of_the_instructions(desk: Desk, mode: Any):
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server, structured=mode))
    system, user = server.requests[0]["messages"]
    assert system["content"].startswith(QUESTION[0]["content"])
    assert system["content"].endswith(schema_of(Hobbies))
    assert user == QUESTION[1]


def test_an_answer_that_is_no_call_of_the_tool_is_read_all_the_same(desk: Desk):
    with serve(always(Answer(f"Gladly: {GOOD}"))) as server:
        completion = desk.ask(question(server, structured="tools"))
    assert (completion.value, completion.strict, completion.repaired) == (
        ("chess", "tea"),
        False,
        True,
    )


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        (GOOD, True),
        (f"<think>Or tea alone?</think>{GOOD}", True),
        (f"```json\n{GOOD}\n```", False),
        ('{"hobbies": ["chess", "tea"], "more": 1}', False),
        ('{"hobbies": ["chess", "tea",]}', False),
    ],
)
def test_what_is_valid_as_it_came_is_told_from_what_is_not(desk: Desk, text: str, strict: bool):
    with serve(always(Answer(text))) as server:
        completion = desk.ask(question(server))
    assert (completion.value, completion.strict) == (("chess", "tea"), strict)
    assert desk.rows[0]["strict"] == strict


def test_a_reply_is_kept_under_the_mode_that_it_was_asked_in(desk: Desk, tmp_path):
    cache = Cache(tmp_path / "replies.sqlite")
    with serve(taking("tools")) as server:
        assert desk.ask(question(server), cache=cache).outcome == "ok"
        asked = [question(server, structured=mode) for mode in MODES]
        assert [cache.get(cache_key(request)) is not None for request in asked] == [
            False,
            True,
            False,
            False,
        ]
        assert desk.ask(question(server), cache=cache).strict
        assert [mode_of(body) for body in server.requests] == ["schema", "tools", "schema"]
    cache.close()


@pytest.mark.parametrize(
    ("model", "modes"),
    [
        ("openai/gpt-4.1-mini", ["schema", "tools", "json", "prompt"]),
        ("openai/any-local-model", ["schema", "tools", "json", "prompt"]),
        ("openai/gpt-4", ["tools", "prompt"]),
        ("zai/glm-4.6", ["tools", "prompt"]),
        ("groq/llama-3.3-70b-versatile", ["tools", "json", "prompt"]),
        ("anthropic/claude-sonnet-4-5", ["schema", "tools", "json", "prompt"]),
    ],
)
def test_the_ladder_begins_where_litellm_can_ask(model: str, modes: list[str]):
    said = [first_mode(model)]
    while said[-1] != "prompt":
        said.append(next_mode(model, said[-1]))
    assert said == modes


def test_a_run_writes_down_how_it_asked_and_a_resumed_one_goes_on_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    found = {"memory_items": [{"value": "Owns a cat"}]}

    def script(body: dict[str, Any]) -> Answer:
        is_judge = JUDGE.endswith(body["model"])
        return taking(
            "json" if is_judge else "tools", json.dumps({"pairs": []} if is_judge else found)
        )(body)

    with serve(script) as server:
        words = (
            "run",
            "task=extraction",
            f"model={MODEL}",
            f"api_base={server.url}",
            "concurrency=1",
        )
        words += (
            f"judge={JUDGE}",
            f"judge_api_base={server.url}",
            f"out={tmp_path}",
            "baseline_records=0",
            "judge_check=no",
            "limit=2",
        )
        ran = alps_here(*words)
        assert ran.code == 0, ran
        refused = sum(mode_of(body) == "schema" for body in server.requests)
        lines = (tmp_path / "predictions.jsonl").read_bytes().splitlines(keepends=True)
        (tmp_path / "predictions.jsonl").write_bytes(lines[0])
        before = len(server.requests)
        monkeypatch.setenv("ALPS_CACHE", "off")
        assert alps_here(*words).code == 0
        again = [mode_of(body) for body in server.requests[before:]]
    assert refused == 2
    assert "structured=tools" in ran.err
    assert "structured=json" in ran.err
    assert json.loads((tmp_path / "manifest.json").read_text())["structured"] == {
        "model": "tools",
        "judge": "json",
    }
    assert set(again) <= {"tools", "json"}
    assert "tools" in again
    modes = {
        (row["purpose"], row["structured"])
        for row in rows(tmp_path / "calls.jsonl")
        if row["outcome"] == "ok"
    }
    assert modes == {("generate", "tools"), ("judge", "json")}


@pytest.mark.parametrize("role", ["", "judge_"])
def test_a_mode_can_be_chosen_for_a_run(tmp_path, monkeypatch, role: str):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serve(
        lambda body: Answer(
            '{"pairs": []}' if JUDGE.endswith(body["model"]) else '{"memory_items": []}'
        )
    ) as server:
        words = (
            "run",
            "task=extraction",
            f"model={MODEL}",
            f"api_base={server.url}",
            f"{role}structured=prompt",
        )
        words += (f"judge={JUDGE}", f"judge_api_base={server.url}") if role else ()
        ran = alps_here(*words, f"out={tmp_path}", "baseline_records=0", "limit=1")
    assert ran.code == 0, ran
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["structured"]["judge" if role else "model"] == "prompt"
    assert manifest["judge"].get("structured") == ("prompt" if role else None)


def test_only_public_modules_of_instructor_are_imported():
    wrong = []
    for path in (ROOT / "alps").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{path}: {name}" for name in names if name.startswith("instructor.")]
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.startswith("instructor.")
            ):
                wrong.append(f"{path}: {node.value}")
    assert wrong == []
