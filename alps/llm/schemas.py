"""Reply models: the JSON schema that is sent for one, and tolerant reading of a reply.

The schema holds what every provider that constrains an answer takes, and nothing else. OpenAI's
strict subset is the narrowest:
https://platform.openai.com/docs/guides/structured-outputs#supported-schemas. Bounds on numbers are
left out, since Anthropic and Bedrock refuse them with a 400; the reader checks them. So are the
lengths of texts and lists, but for a server of one's own: the grammars of llama.cpp and vLLM hold a
model to them, and end an answer that runs wild.
Docstrings are left out, since they are written for developers: a model gets a description where one
was given on purpose, with `Field(description=…)` or, for the whole reply,
`json_schema_extra={"description": …}`.

Tolerance is in the validators of a model: off where a reply is validated strictly, on where it is
read. Whether a reply was valid as it came is then known, and one model says what both take.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

_KEPT = ("type", "enum", "const", "description")
_LENGTHS = ("maxLength", "maxItems")


@cache
def schema_of(model: type[BaseModel], *, lengths: bool = False) -> str:
    """Return the schema of a response model as JSON, as sent and as in cache keys.

    Fields stand in their order, in which a model writes them: the reason before the verdict.
    `lengths` tells whether those of texts and lists stand in it.
    """
    kept = (*_KEPT, *_LENGTHS) if lengths else _KEPT
    whole = model.model_json_schema()
    definitions = {name: _sent(node, kept) for name, node in whole.get("$defs", {}).items()}
    schema = {"title": name_of(model), **_sent(whole, kept)}
    extra = model.model_config.get("json_schema_extra")
    if isinstance(extra, dict) and "description" in extra:
        schema["description"] = extra["description"]
    if definitions:
        schema["$defs"] = definitions
    return json.dumps(schema, separators=(",", ":"))


def name_of(model: type[BaseModel]) -> str:
    """Return the name of a schema that is sent: at most 64 letters, digits, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", model.__name__)[:64]


def _sent(node: Mapping[str, Any], names: Sequence[str], titled: bool = False) -> dict[str, Any]:
    """Return what is kept of a schema; that of a class, not `titled`, loses its docstring."""
    if "$ref" in node:
        return {"$ref": node["$ref"]}  # nothing may stand beside it
    if len(node.get("allOf", ())) == 1:
        return _sent(node["allOf"][0], names, titled)
    said = [name for name in names if titled or name != "description"]
    kept = {name: node[name] for name in said if name in node}
    options = node.get("anyOf", node.get("oneOf"))
    if options is not None:
        kept["anyOf"] = [_sent(option, names, True) for option in options]
    if isinstance(node.get("items"), Mapping):
        kept["items"] = _sent(node["items"], names, True)
    return kept | _members(node, names) if node.get("type") == "object" else kept


def _members(node: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return what is kept of the properties of an object: all are required, and no others taken."""
    fields = node.get("properties", {})
    properties = {name: _sent(field, names, True) for name, field in fields.items()}
    free = not properties and node.get("additionalProperties", False)
    required = list(properties)
    return {"properties": properties, "required": required, "additionalProperties": free or False}


@cache
def is_strict(model: type[BaseModel]) -> bool:
    """Tell whether a provider can hold a model to every part of its schema: none is left open."""
    schema = json.loads(schema_of(model))
    parts = [schema, *schema.get("$defs", {}).values()]
    return schema.get("type") == "object" and all(map(_is_closed, parts))


def _is_closed(node: Mapping[str, Any]) -> bool:
    if node.get("type") == "object":
        inner = node["properties"].values()
        return not node["additionalProperties"] and all(map(_is_closed, inner))
    if node.get("type") == "array":
        return "items" in node and _is_closed(node["items"])
    if "anyOf" in node:
        return all(map(_is_closed, node["anyOf"]))
    return not {"type", "$ref", "enum", "const"}.isdisjoint(node)


ModelT = TypeVar("ModelT", bound=BaseModel)
_TOLERANT = {"tolerant": True}


class ReplyModel(BaseModel):
    """A reply whose unknown keys are forgiven where it is read; missing ones are taken for null."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, node: Any, info: ValidationInfo) -> Any:
        if info.context is not _TOLERANT:
            return node
        if not isinstance(node, dict):
            refuse("expected a JSON object")
        return {name: node.get(name) for name in cls.model_fields}


def forgiving(mend: Callable[[Any], Any]) -> BeforeValidator:
    """Return the validator that mends, or refuses, a value where a reply is read tolerantly."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        return mend(value) if info.context is _TOLERANT else value

    return BeforeValidator(validate)


def refuse(message: str) -> NoReturn:
    """Refuse a value with a sentence for the model."""
    raise PydanticCustomError("reply", "{message}", {"message": message})


def read_tolerantly(model: type[ModelT], node: object) -> ModelT:
    """Read parsed JSON as `model`.

    Raises:
        ValueError: If it can't be one, with the first reason, and where.
    """
    try:
        return model.model_validate(node, context=_TOLERANT)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = " ".join(str(part + 1 if isinstance(part, int) else part) for part in first["loc"])
        complaint = first["msg"]
        if first["type"] != "reply":
            complaint = f"is {first['input']!r:.80}: {complaint}"
        raise ValueError(f"{where} {complaint}".strip()) from error
