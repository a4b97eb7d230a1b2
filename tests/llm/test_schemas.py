"""The schemas that are sent: within what providers take, and without what was written for
developers.
"""

import importlib.util
import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alps.judges.llm import LlmJudge
from alps.judges.rubric import BinaryReply, EmotionalReply, MatchReply, rating_answer, rubric
from alps.llm.schemas import is_strict, schema_of
from alps.prompts import asked_sha256
from alps.schema import MemoryList
from alps.tasks.extraction import TASK
from tests.conftest import ROOT

FILE = ROOT / "bench" / "schemas.py"
spec = importlib.util.spec_from_file_location("bench_of_schemas", FILE)
assert spec is not None
assert spec.loader is not None
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)
SENT = {model.__name__: model for model in bench.sent_models()}


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


@pytest.mark.parametrize("model", SENT.values(), ids=SENT)
def test_every_schema_lies_in_the_strict_subset(model):
    assert is_strict(model)
    assert bench.violations(json.loads(schema_of(model))) == []


@pytest.mark.parametrize("model", SENT.values(), ids=SENT)
def test_no_docstring_is_sent(model):
    text = schema_of(model)
    for line in filter(None, (line.strip() for line in (model.__doc__ or "").splitlines())):
        assert line not in text
    assert len(text) < 0.75 * len(json.dumps(model.model_json_schema()))


def test_a_model_writes_its_reason_before_its_verdict():
    for model in (BinaryReply, EmotionalReply):
        assert next(iter(json.loads(schema_of(model))["properties"])) == "reason"
    assert (
        next(iter(json.loads(schema_of(MatchReply))["$defs"]["JudgedPair"]["properties"]))
        == "reason"
    )


def test_a_schema_of_somebody_else_is_made_strict():
    sent = json.loads(schema_of(Own))
    assert (is_strict(Own), bench.violations(sent)) == (True, [])
    assert sent["description"] == "What is known."
    assert sent["required"] == ["count", "kind", "inner", "one"]
    assert sent["properties"]["one"] == {"$ref": "#/$defs/Inner"}
    assert sent["$defs"]["Inner"]["properties"] == {
        "when": {"type": "string", "description": "a day"}
    }
    assert "For developers." not in schema_of(Own)


@pytest.mark.parametrize("model", [Open, Anything])
def test_a_schema_with_an_open_part_is_not_called_strict(model):
    assert not is_strict(model)
    assert bench.violations(json.loads(schema_of(model)))


@pytest.mark.parametrize(
    "model",
    [
        MemoryList,
        type("Long", (BaseModel,), {"__annotations__": {f"f{n}": str for n in range(5_001)}}),
    ],
)
def test_the_checker_finds_what_pydantic_writes(model):
    schema = model.model_json_schema()
    assert bench.violations(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": [],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {}},
            "required": ["a"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {"type": "string", "minLength": 1}},
            "required": ["a"],
            "additionalProperties": False,
        },
    ],
)
def test_the_checker_finds_what_leaves_the_subset(schema):
    assert bench.violations(schema)


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("model", SENT.values(), ids=SENT)
def test_every_schema_compiles_in_the_grammar_engines_of_vllm(engine, model):
    compile_ = bench.engines().get(engine)
    if compile_ is None:
        pytest.skip(f"{engine} is not installed (pip install {engine})")
    assert compile_(schema_of(model)) is None


def test_a_schema_is_part_of_the_hash_of_its_prompt_and_its_rubric():
    judge = LlmJudge("openai/any", client=None)  # type: ignore[arg-type]  # only its fingerprint is looked at
    told = judge.fingerprint_for([rubric("matching")])["rubrics"]
    assert told == {rubric("matching").id: asked_sha256(rubric("matching"), schema_of(MatchReply))}
    assert TASK.prompt_sha256 == asked_sha256(TASK.prompt, schema_of(MemoryList))
    assert (
        len(
            {
                asked_sha256(TASK.prompt, schema)
                for schema in (None, schema_of(MemoryList), schema_of(Own))
            }
        )
        == 3
    )


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
