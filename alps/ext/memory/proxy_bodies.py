"""Request bodies of a memory system to a model: the parts that are forwarded.

They come from a program of somebody else's. Each field that goes on is of the type that OpenAI's
API gives it: what a provider can't read would else count as its failure.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alps.jsonl import parse_strict
from alps.llm.types import LONGEST, Passed

_CHAT = """
messages tools tool_choice parallel_tool_calls response_format temperature top_p max_tokens
max_completion_tokens stop seed n presence_penalty frequency_penalty logit_bias logprobs
top_logprobs reasoning_effort
"""
_TAKEN: Mapping[Passed, frozenset[str]] = {
    "chat": frozenset(_CHAT.split()),
    "embeddings": frozenset(("input", "dimensions")),
}
# What changes no answer, or is answered here; a body may have it and it goes no further.
_LEFT_OUT = frozenset(("model", "stream", "encoding_format", "user", "store", "metadata"))
_MOST_TOKENS = 100_000_000
"""Above it a number is no count of tokens: the longest prompt of any provider has 10 million."""


_IN_WORDS = {
    "model_type": "expected an object",
    "dict_type": "expected an object",
    "list_type": "expected a list",
    "string_type": "expected a text",
    "missing": "missing",
}


class BodyError(ValueError):
    """A body that is not passed on: names the field, and what it takes."""


_Number = Annotated[float, Field(allow_inf_nan=False)]
_Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Token = Annotated[int, Field(ge=0, lt=2**31)]


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Said(_Fields):
    """A call of a function, as a model once answered it."""

    name: str
    arguments: str


class _Call(_Fields):
    id: str | None = None
    type: Literal["function"] = "function"
    function: _Said


class _Part(_Fields):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Message(_Fields):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    function_call: _Said | None = None


class _Function(_Fields):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(_Fields):
    type: Literal["function"]
    function: _Function


class _Named(_Fields):
    name: str


class _Choice(_Fields):
    type: Literal["function"]
    function: _Named


class _Form(_Fields):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class _Chat(_Fields):
    messages: Annotated[list[_Message], Field(min_length=1)]
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | _Choice | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Form | None = None
    temperature: _Number | None = None
    top_p: _Number | None = None
    stop: str | list[str] | None = None
    seed: _Whole | None = None
    presence_penalty: _Number | None = None
    frequency_penalty: _Number | None = None
    logit_bias: dict[str, _Number] | None = None
    logprobs: bool | None = None
    top_logprobs: _Whole | None = None
    reasoning_effort: str | None = None


class _Embeddings(_Fields):
    input: str | Annotated[list[str] | list[_Token] | list[list[_Token]], Field(min_length=1)]
    dimensions: Annotated[_Whole, Field(ge=1)] | None = None


_FORMS: Mapping[Passed, type[_Fields]] = {"chat": _Chat, "embeddings": _Embeddings}


def body_of(kind: Passed, content: bytes) -> tuple[dict[str, Any], str]:
    """Return a body, and the JSON that is forwarded.

    Nothing that could send it elsewhere, or a key with it, is.

    Raises:
        BodyError: If it can't be read, or asks for something that is not passed on.
    """
    try:
        body = parse_strict(content)
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BodyError("it contains half a character (a lone surrogate)") from error
    except ValueError as error:
        raise BodyError(f"not JSON ({error})") from error
    if not isinstance(body, dict):
        raise BodyError("expected an object")
    if body.get("stream"):
        raise BodyError("stream: answers are not streamed")
    if kind == "chat":
        _check_chat(body)
    elif not isinstance(body.get("input"), list | str):
        raise BodyError("input: missing")
    passed = {}
    for name, value in body.items():
        if value is None or name in _LEFT_OUT:
            continue
        if name not in _TAKEN[kind]:
            raise BodyError(f"{name[:80]}: not supported")
        passed[name] = value
    try:
        _FORMS[kind].model_validate(passed)
    except ValidationError as error:
        raise BodyError(_first(error)) from error
    return body, json.dumps(passed, sort_keys=True)


def _check_chat(body: Mapping[str, Any]) -> None:
    """Refuse what multiplies the cost of a request beyond its text and its longest answer.

    Raises:
        BodyError: Names the field.
    """
    n = body.get("n")
    if n is not None and (n != 1 or isinstance(n, bool)):
        raise BodyError("n: one answer per request; send another request for more")
    for name in LONGEST:
        most = body.get(name)
        whole = isinstance(most, int) and not isinstance(most, bool)
        if most is not None and not (whole and 1 <= most <= _MOST_TOKENS):
            raise BodyError(f"{name}: expected a whole number from 1 to {_MOST_TOKENS:,}")
    if not isinstance(body.get("messages"), list):
        raise BodyError("messages: missing")
    for place, message in enumerate(body["messages"]):
        _check_message(message, f"messages[{place}]")
    tools = body.get("tools") or []
    if not isinstance(tools, list) or any(_kind_of(tool) != "function" for tool in tools):
        raise BodyError("tools: only functions are supported")


def _check_message(message: Any, where: str) -> None:
    """Refuse images and files, whose tokens nobody knows before they are sent."""
    if not isinstance(message, dict):
        raise BodyError(f"{where}: expected an object")
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if _kind_of(part) not in ("text", "refusal"):
                raise BodyError(f"{where}.content: only text is supported")
    elif content is not None and not isinstance(content, str):
        raise BodyError(f"{where}.content: expected a text")


def _kind_of(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _first(error: ValidationError) -> str:
    """Return what is wrong first: `messages[1].tool_calls: expected a list`."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{_place(first['loc'])}: {_IN_WORDS.get(first['type'], first['msg'])}"


def _place(parts: Sequence[int | str]) -> str:
    named = ""
    for part in parts:
        named += f"[{part}]" if isinstance(part, int) else f".{part}"
    return named.lstrip(".")
