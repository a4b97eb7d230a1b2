"""How typed answers are asked for: the ladder of modes, and the schemas that are sent."""

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alps.errors import CredentialError
from alps.judges.llm import LlmJudge
from alps.judges.rubric import (
    BinaryReply,
    EmotionalReply,
    MatchReply,
    SupportReply,
    rating_answer,
    rubric,
)
from alps.llm.cache import Cache, cache_key
from alps.llm.client import Client
from alps.llm.replies import is_strict, schema_of
from alps.llm.structured import MODES, first_mode, next_mode, shaped
from alps.llm.types import AnswerType, Read, Request
from alps.prompts import asked_sha256
from alps.schema import MemoryList
from alps.tasks import load_tracks
from alps.tasks.base import TaskOptions
from alps.tasks.extraction import TASK, WrittenMemories
from alps.tasks.retrieval import tracks as retrieval_tracks
from tests.conftest import ROOT
from tests.desk import GOOD, QUESTION, Desk, Hobbies, always, chat, question
from tests.endtoend import rows
from tests.loopback import Answer, Script, serve
from tests.tracks import JUDGE, MODEL, alps_here, llm

BOTH = ("chess", "tea")
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


def modes_of(bodies: list[dict[str, Any]]) -> list[str]:
    return [mode_of(body) for body in bodies]


def called(body: dict[str, Any], arguments: str) -> Answer:
    """Return the answer of a model that called the tool it was given."""
    function = {"name": body["tools"][0]["function"]["name"], "arguments": arguments}
    calls = [{"id": "c1", "type": "function", "function": function}]
    reply = chat(None, finish_reason="tool_calls", said={"tool_calls": calls})
    return Answer(body=json.dumps(reply))


def taking(lowest: str, text: str = GOOD) -> Script:
    """Script an endpoint that takes no mode above `lowest`."""

    def script(body: dict[str, Any]) -> Answer:
        mode = mode_of(body)
        if MODES.index(mode) < MODES.index(lowest):
            return Answer(status=400, error=REFUSALS[mode])
        return called(body, text) if mode == "tools" else Answer(text)

    return script


@pytest.mark.few(2)
@pytest.mark.parametrize("lowest", MODES)
def test_the_ladder_goes_down_to_what_the_endpoint_takes(desk, capsys, lowest):
    tried = list(MODES[: MODES.index(lowest) + 1])
    with serve(taking(lowest)) as server:
        got = desk.ask(question(server))
        assert (got.outcome, got.value, got.strict) == ("ok", BOTH, True)
        assert modes_of(server.requests) == tried
    assert [row["structured"] for row in desk.rows] == tried
    assert [row["strict"] for row in desk.rows] == [None] * (len(tried) - 1) + [True]
    told = [line for line in capsys.readouterr().err.splitlines() if "structured=" in line]
    assert len(told) == len(tried) - 1
    assert all(f"structured={mode}" in line for mode, line in zip(MODES[1:], told, strict=False))


def test_many_requests_that_are_refused_at_once_step_down_once(desk, capsys):
    with serve(taking("tools")) as server:
        asked = [question(server, repeat=number) for number in range(8)]
        assert {completion.outcome for completion in desk.ask_all(*asked)} == {"ok"}
        assert modes_of(server.requests).count("tools") == 8
    assert capsys.readouterr().err.count("structured=tools") == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_that_is_chosen_is_the_one_that_is_sent_and_is_not_left(desk: Desk, mode: Any):
    for lowest in ("schema", "prompt"):
        with serve(taking(lowest)) as server:
            completion = desk.ask(question(server, structured=mode))
            assert modes_of(server.requests) == [mode]
        if lowest == "schema" or mode == "prompt":
            assert completion.outcome == "ok"
        else:
            assert completion.outcome == "transport"
            assert REFUSALS[mode] in str(completion.error)


TOO_LONG = "maximum context length is 8192 tokens, and 59 are in the response_format schema"
FAILED = "Failed to generate JSON in response_format"
SUPPORTED = "Invalid value: 'json_schema'. Supported values are: 'json_object' and 'text'."
REFUSED: list[tuple[int, dict[str, str], bool]] = [
    (400, {"message": TOO_LONG}, False),
    (400, {"message": "Bad Request"}, False),
    (400, {"message": FAILED, "code": "json_validate_failed"}, False),
    (400, {"message": "Unsupported parameter", "param": "response_format"}, True),
    (400, {"message": "Unrecognized request argument supplied: response_format"}, True),
    (422, {"message": "body.response_format: Extra inputs are not permitted"}, True),
    (400, {"message": SUPPORTED}, True),
    (400, {"message": "Invalid schema for response_format 'Hobbies': too many levels"}, True),
    (400, {"message": "guided decoding is not available with this engine"}, True),
    (404, {"message": "No endpoints found that support structured outputs"}, True),
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("status", "error", "steps_down"), REFUSED)
def test_only_an_error_that_refuses_the_form_steps_down(desk: Desk, status, error, steps_down):
    refusal = Answer(status=status, body=json.dumps({"error": error}))
    with serve(lambda body: refusal if mode_of(body) == "schema" else called(body, GOOD)) as server:
        assert (desk.ask(question(server)).outcome == "ok") == steps_down
        modes = modes_of(server.requests)
    assert modes == ["schema", "tools"] if steps_down else set(modes) == {"schema"}


def test_a_form_that_was_taken_before_is_not_left(desk: Desk):
    answers = [Answer(GOOD), Answer(status=400, error="response_format: try again")]
    with serve(lambda _: answers.pop(0)) as server:

        async def twice(client: Client) -> list[str]:
            asked = [question(server, repeat=number) for number in range(2)]
            return [(await client.complete(request)).outcome for request in asked]

        assert desk.run(twice) == ["ok", "transport"]


def test_a_refused_key_does_not_step_down(desk: Desk):
    with serve(always(Answer(status=401, error="Invalid key for response_format"))) as server:
        with pytest.raises(CredentialError):
            desk.ask(question(server))
        assert set(modes_of(server.requests)) == {"schema"}


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


@pytest.mark.parametrize(
    ("text", "mode", "strict"),
    [
        (GOOD, None, True),
        (f"<think>Or tea alone?</think>{GOOD}", None, True),
        (f"```json\n{GOOD}\n```", None, False),
        ('{"hobbies": ["chess", "tea"], "more": 1}', None, False),
        ('{"hobbies": ["chess", "tea",]}', None, False),
        (f"Gladly: {GOOD}", "tools", False),
    ],
)
def test_what_is_valid_as_it_came_is_told_from_what_is_not(desk: Desk, text, mode, strict):
    with serve(always(Answer(text))) as server:
        completion = desk.ask(question(server, structured=mode))
    assert (completion.value, completion.strict) == (BOTH, strict)
    assert desk.rows[0]["strict"] == strict
    assert completion.repaired or mode is None


def test_a_reply_is_kept_under_the_mode_that_it_was_asked_in(desk: Desk, cache: Cache):
    with serve(taking("tools")) as server:
        assert desk.ask(question(server), cache=cache).outcome == "ok"
        keys = [cache_key(question(server, structured=mode)) for mode in MODES]
        assert [cache.get(key) is not None for key in keys] == [False, True, False, False]
        assert desk.ask(question(server), cache=cache).strict
        assert modes_of(server.requests) == ["schema", "tools", "schema"]


LADDERS = {
    "openai/gpt-4.1-mini": ["schema", "tools", "json", "prompt"],
    "openai/any-local-model": ["schema", "tools", "json", "prompt"],
    "openai/gpt-4": ["tools", "prompt"],
    "zai/glm-4.6": ["tools", "prompt"],
    "groq/llama-3.3-70b-versatile": ["tools", "json", "prompt"],
    "anthropic/claude-sonnet-4-5": ["schema", "tools", "json", "prompt"],
}


@pytest.mark.parametrize("model", LADDERS)
def test_the_ladder_begins_where_litellm_can_ask(model: str):
    said = [first_mode(model)]
    while said[-1] != "prompt":
        said.append(next_mode(model, said[-1]))
    assert said == LADDERS[model]
    assert first_mode("any/model") == "schema"  # of no provider: whoever sends it knows best


def test_a_run_writes_down_how_it_asked_and_a_resumed_one_goes_on_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    found = {"memory_items": [{"value": "Owns a cat"}]}

    def script(body: dict[str, Any]) -> Answer:
        is_judge = JUDGE.endswith(body["model"])
        answer = {"pairs": []} if is_judge else found
        return taking("json" if is_judge else "tools", json.dumps(answer))(body)

    with serve(script) as server:
        words = ("run", "task=extraction", *llm(server.url), "judge_check=no", "concurrency=1")
        words += ("limit=2", f"out={tmp_path}")
        ran = alps_here(*words)
        assert ran.code == 0, ran
        refused = modes_of(server.requests).count("schema")
        lines = (tmp_path / "predictions.jsonl").read_bytes().splitlines(keepends=True)
        (tmp_path / "predictions.jsonl").write_bytes(lines[0])
        before = len(server.requests)
        monkeypatch.setenv("ALPS_CACHE", "off")
        assert alps_here(*words).code == 0
        again = modes_of(server.requests[before:])
    assert refused == 2
    assert "structured=tools" in ran.err
    assert "structured=json" in ran.err
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["structured"] == {"model": "tools", "judge": "json"}
    assert set(again) <= {"tools", "json"}
    assert "tools" in again
    calls = [row for row in rows(tmp_path / "calls.jsonl") if row["outcome"] == "ok"]
    modes = {(row["purpose"], row["structured"]) for row in calls}
    assert modes == {("generate", "tools"), ("judge", "json")}


@pytest.mark.parametrize("role", ["", "judge_"])
def test_a_mode_can_be_chosen_for_a_run(tmp_path, monkeypatch, role: str):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    replies = {True: Answer('{"pairs": []}'), False: Answer('{"memory_items": []}')}
    with serve(lambda body: replies[JUDGE.endswith(body["model"])]) as server:
        words = [f"model={MODEL}", f"api_base={server.url}", f"{role}structured=prompt"]
        words += [f"judge={JUDGE}", f"judge_api_base={server.url}"] if role else []
        words += [f"out={tmp_path}", "baseline_records=0", "limit=1"]
        ran = alps_here("run", "task=extraction", *words)
    assert ran.code == 0, ran
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["structured"]["judge" if role else "model"] == "prompt"
    assert manifest["judge"].get("structured") == ("prompt" if role else None)


@pytest.mark.release
def test_only_public_modules_of_instructor_are_imported():
    wrong = []
    for path in (ROOT / "alps").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [node.value] if isinstance(node, ast.Constant) else []
            inner = [name for name in names if str(name).startswith("instructor.")]
            wrong += [f"{path}: {name}" for name in inner]
    assert wrong == []


# Schemas: within what providers take, and without what was written for developers

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, as of February 2026.
# Keywords that a fine-tuned model refuses (bounds, patterns) are left out, and the first limit on
# depth (5) is held: proxies and older deployments have it still.
KEYWORDS = {
    *("title", "description", "type", "properties", "required", "additionalProperties", "items"),
    *("enum", "const", "anyOf", "$ref", "$defs"),
}
JSON_TYPES = {"string", "number", "boolean", "integer", "object", "array", "null"}
DEEPEST, MOST_PROPERTIES, MOST_ENUMS, MOST_CHARACTERS = 5, 5_000, 1_000, 120_000


def sent_models() -> list[type[BaseModel]]:
    """Return the response models of all tasks and judges."""
    of_tasks = []
    for prompt in ("precision", "recall"):
        tracks = load_tracks("all", TaskOptions(prompt=prompt))
        of_tasks += [track.answer.schema for track in tracks]
    return list(dict.fromkeys([*of_tasks, MatchReply, SupportReply, BinaryReply, EmotionalReply]))


def violations(schema: Mapping[str, Any]) -> list[str]:
    """Return how a schema leaves OpenAI's subset, each with where; nothing where it does not."""
    found = []
    if schema.get("type") != "object" or "anyOf" in schema:
        found.append("the root is no object")
    nodes = list(_nodes(schema, "$"))
    for where, node in nodes:
        found += [f"{where}: {name} is not supported" for name in node.keys() - KEYWORDS]
        if node.get("type") == "object":
            found += _of_object(where, node)
        kinds = node.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        found += [f"{where}: type {kind}" for kind in kinds if kind not in JSON_TYPES]
        if "$ref" in node and len(node) > 1:
            found.append(f"{where}: something stands beside $ref")
        if not {"type", "$ref", "anyOf", "enum", "const"} & node.keys():
            found.append(f"{where}: anything fits")
    names = [name for _, node in nodes for name in node.get("properties", {})]
    enums = [value for _, node in nodes for value in node.get("enum", ())]
    characters = sum(len(str(text)) for text in (*names, *enums, *schema.get("$defs", {})))
    depth = _depth(schema, schema, ())
    counts = {
        "levels": (depth, DEEPEST),
        "properties": (len(names), MOST_PROPERTIES),
        "enum values": (len(enums), MOST_ENUMS),
        "characters": (characters, MOST_CHARACTERS),
    }
    beyond = [(what, *pair) for what, pair in counts.items() if pair[0] > pair[1]]
    return found + [f"{count} {what}, at most {most}" for what, count, most in beyond]


def _nodes(node: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield where, node
    for part in ("properties", "$defs"):
        for name, child in node.get(part, {}).items():
            yield from _nodes(child, f"{where}.{name}")
    for number, child in enumerate(node.get("anyOf", ())):
        yield from _nodes(child, f"{where}|{number}")
    if isinstance(node.get("items"), Mapping):
        yield from _nodes(node["items"], f"{where}[]")


def _of_object(where: str, node: Mapping[str, Any]) -> list[str]:
    found = []
    if node.get("additionalProperties") is not False:
        found.append(f"{where}: additionalProperties is not false")
    lacking = set(node.get("properties", {})) ^ set(node.get("required", ()))
    return found + [f"{where}: {name} is no property, or not required" for name in lacking]


def _depth(node: Mapping[str, Any], root: Mapping[str, Any], seen: tuple[str, ...]) -> int:
    """Return how many objects are nested in one another; one that holds itself counts once."""
    reference = node.get("$ref")
    if reference in seen:
        return 0
    if reference is not None:
        return _depth(root["$defs"][reference.rpartition("/")[2]], root, (*seen, reference))
    children = [*node.get("properties", {}).values(), *node.get("anyOf", ())]
    children += [node["items"]] if isinstance(node.get("items"), Mapping) else []
    inner = max((_depth(child, root, seen) for child in children), default=0)
    return inner + (node.get("type") == "object")


MODELS = {model.__name__: model for model in sent_models()}


class Inner(BaseModel):
    """For developers."""

    when: Annotated[str, Field(pattern=r"\d+", min_length=2, description="a day")]


class Own(BaseModel):
    """As somebody else's task may have it."""

    model_config = ConfigDict(json_schema_extra={"description": "What is known."})

    count: Annotated[int, Field(ge=0, le=9)] = 3
    kind: Literal["a", "b"] | None = None
    inner: list[Inner]
    one: Annotated[Inner, Field(description="beside a reference")]


class Open(BaseModel):
    marks: dict[str, int]


class Anything(BaseModel):
    value: Any


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_schema_lies_in_the_strict_subset_and_holds_no_docstring(model):
    text = schema_of(model)
    assert is_strict(model)
    assert violations(json.loads(text)) == []
    lines = [line.strip() for line in (model.__doc__ or "").splitlines()]
    assert [line for line in lines if line and line in text] == []
    assert len(text) < 0.75 * len(json.dumps(model.model_json_schema()))


def test_a_model_writes_its_reason_before_its_verdict():
    pair = json.loads(schema_of(MatchReply))["$defs"]["JudgedPair"]
    replies = [json.loads(schema_of(model)) for model in (BinaryReply, EmotionalReply)]
    assert {next(iter(schema["properties"])) for schema in (pair, *replies)} == {"reason"}


def test_a_schema_of_somebody_else_is_made_strict_unless_a_part_is_open():
    sent = json.loads(schema_of(Own))
    assert (is_strict(Own), violations(sent)) == (True, [])
    assert sent["description"] == "What is known."
    assert sent["required"] == ["count", "kind", "inner", "one"]
    assert sent["properties"]["one"] == {"$ref": "#/$defs/Inner"}
    when = {"type": "string", "description": "a day"}
    assert sent["$defs"]["Inner"]["properties"] == {"when": when}
    assert "For developers." not in schema_of(Own)
    for model in (Open, Anything):
        assert not is_strict(model)
        assert violations(json.loads(schema_of(model)))


LONG = type("Long", (BaseModel,), {"__annotations__": {f"f{n}": str for n in range(5_001)}})


def test_the_checker_finds_what_leaves_the_subset():
    closed, text = {"type": "object", "additionalProperties": False}, {"type": "string"}
    for schema in (
        MemoryList.model_json_schema(),
        LONG.model_json_schema(),
        {"type": "array", "items": text},
        {"type": "object", "properties": {"a": text}, "required": ["a"]},
        {**closed, "properties": {"a": text}, "required": []},
        {**closed, "properties": {"a": {}}, "required": ["a"]},
        {**closed, "properties": {"a": {**text, "minLength": 1}}, "required": ["a"]},
    ):
        assert violations(schema), schema


def test_a_schema_is_part_of_the_hash_of_its_prompt_and_its_rubric():
    judge = LlmJudge("openai/any", client=None)  # type: ignore[arg-type]  # only its fingerprint is looked at
    told = judge.fingerprint_for([rubric("matching")])["rubrics"]
    assert told == {rubric("matching").id: asked_sha256(rubric("matching"), schema_of(MatchReply))}
    asked = schema_of(WrittenMemories, lengths=True)
    assert TASK.prompt_sha256 == asked_sha256(TASK.prompt, asked)
    schemas = (None, asked, schema_of(WrittenMemories), schema_of(Own))
    assert len({asked_sha256(TASK.prompt, schema) for schema in schemas}) == 4


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("pa", {"reason": "r", "verdict": "Met"}),
        ("pa", {"verdict": "met"}),
        ("pa", {"reason": "r", "verdict": "met", "more": 1}),
        ("ei", {"resonation": 4, "expression": 4, "reception": 4}),
    ],
)
def test_what_is_forgiven_in_reading_is_not_valid_as_it_came(name, reply):
    answer = rating_answer(rubric(name).reply)
    assert set(answer.read(reply).value[0].values()) <= {1, 4}
    with pytest.raises(ValidationError):
        answer.schema.model_validate_json(json.dumps(reply), strict=True)


OWN_SERVER = "http://127.0.0.1:9/v1"
BOUNDED = AnswerType(schema=WrittenMemories, read=Read, partial=True)
POOL = ("m1", "m2")
CHOSEN = replace(retrieval_tracks(TaskOptions())[0].answer, choices={"selected_memory_id": POOL})
SENT_LENGTHS = {
    # Providers refuse lengths with a 400 (OpenAI, Anthropic, Bedrock) or ignore them (Gemini).
    ("openai/gpt-4.1-mini", None): ("json", "prompt"),
    ("openai/gpt-4.1-mini", OWN_SERVER): ("json", "prompt"),
    ("anthropic/claude-sonnet-4-5", None): ("json", "prompt"),
    ("gemini/gemini-2.5-flash", None): ("json", "prompt"),
    # The grammars of llama.cpp and vLLM hold a model to them.
    ("openai/mine", OWN_SERVER): MODES,
    ("hosted_vllm/Qwen/Qwen3-8B", OWN_SERVER): MODES,
    ("local", None): MODES,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("model", "api_base"), SENT_LENGTHS)
def test_lengths_and_ids_are_sent_where_they_are_taken_and_enums_everywhere(model, api_base, mode):
    taken = mode in SENT_LENGTHS[model, api_base]
    request = Request[Any](model, QUESTION, BOUNDED, api_base=api_base, structured=mode)
    text = json.dumps(shaped(request, QUESTION))
    assert ["maxLength" in text, "maxItems" in text] == [taken, taken]
    asked = ("Constraints_and_Boundaries/Do_Not_Remember", "UNMAPPED", "short_term", "require")
    assert [word for word in asked if word not in text] == []
    assert [word for word in ("memory_id", "updated_at", "session_id") if word in text] == []
    chosen = replace(request, answer=CHOSEN)
    free = replace(request, answer=replace(CHOSEN, choices={}))
    held = taken and mode in ("schema", "tools")
    assert ('"enum": ["m1", "m2"]' in json.dumps(shaped(chosen, QUESTION))) == held
    assert (cache_key(chosen) != cache_key(free)) == held


REFUSED_PARTS = {
    "maxLength": "For 'string' type, 'maxLength' is not supported",
    '"enum": ["m1"': "schema has too many enum values",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("part", REFUSED_PARTS)
@pytest.mark.parametrize("mode", ["schema", "tools"])
def test_a_server_that_refuses_lengths_or_ids_is_asked_in_the_same_mode_without(desk, mode, part):
    found = json.dumps({"memory_items": []})
    bounded = replace(BOUNDED, choices={"memory_items": POOL})

    def script(body: dict[str, Any]) -> Answer:
        if part in json.dumps(body):
            return Answer(status=400, error=REFUSED_PARTS[part])
        return called(body, found) if mode == "tools" else Answer(found)

    with serve(script) as server:
        asked = [question(server, answer=bounded, structured=mode, repeat=n) for n in range(3)]
        for request in asked:
            assert desk.ask(request).value == {"memory_items": []}
        assert set(modes_of(server.requests)) == {mode}
        assert len(server.requests) == 6  # each desk is another run
        before = len(server.requests)
        assert {got.outcome for got in desk.ask_all(*asked)} == {"ok"}
        assert len(server.requests) - before <= 6


def test_a_schema_with_lengths_is_another_question_than_one_without():
    asked = Request("openai/mine", QUESTION, BOUNDED, api_base=OWN_SERVER, structured="schema")
    assert cache_key(asked) != cache_key(replace(asked, plain=True))
