"""Replies: their models, the JSON schema that is sent for one, and JSON read out of real text.

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

Real text has fences, prose around them, broken escapes, over-escaping, trailing brackets and
truncation. `readings` yields every way to read it, the most literal first, so that the caller takes
the first that has the shape it needs: an answer may quote some other JSON before its own. Text
inside a string is never an answer.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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

from alps.jsonl import has_more_values, is_too_deep, parse_json
from alps.sizes import LARGEST_TEXT

PARSER_VERSION = "2"
"""Counts up with every change of what is read out of a text; part of a judge's fingerprint."""

_OPENING = re.compile(r"[{\[]")
JSON_LIKE = re.compile(r"""\{\s*(?:["'\\}]|\w+"?\s*:)|\[\s*(?:["'\\{\[\]]|\Z)""")
_BAD_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\(u?)')
_LENIENT_LIMIT, _LENIENT_DEPTH = 60_000, 50
_MAX_STARTS = 200
# Far more than any task or judge asks for
_MOST_VALUES = 50_000
_TAIL = 12
_REGRET = (
    r"(?:i(?:['’]m| am) (?:very |so )?sorry|sorry|i apologi[sz]e|unfortunately)"
    r"[*_,.;:—-]*\s+(?:but\s+)?"
)
_REFUSALS = (
    rf"(?:{_REGRET})?(?:this )?(?:i|we)(?:['’]m| am|['’]re| are)?\s+"
    r"(?:can(?:no|['’]?)t|won['’]t|unable to|not able to|must decline|decline)\b"
    r"(?! wait| believe| imagine| help but| stop| thank| say| tell)",
    rf"{_REGRET}(?:i|we)\s",
    r"(?:抱歉|对不起|對不起|很抱歉)?\W*我?(?:无法|無法|不能|不可以)",
    r"(?:lo siento\W+(?:pero )?)?no (?:puedo|podemos)\b",
    r"(?:je suis désolée?\W+(?:mais )?)?je ne (?:peux|suis) pas\b",
    r"es tut mir leid\W+(?:aber )?(?:\w+ )?kann ich",
    r"(?:das |dabei )?kann ich (?:dir |ihnen )?leider",
    r"ich kann (?:dir|ihnen|das|dabei|leider)\b.{0,40}\bnicht\b",
    r"(?:desculpe\W+(?:mas )?)?(?:eu )?não posso\b",
    r"(?:извините\W+(?:но )?)?я не могу\b",
    r"(?:عذر[اًا]*\W+|آسف\w*\W+)?(?:لكن )?لا (?:يمكنني|أستطيع)",
    r"(?:מצטערת?\W+)?(?:אבל )?(?:אני )?לא (?:יכולה?|אוכל)",
)
_REFUSAL = re.compile(rf"\W*(?:{'|'.join(_REFUSALS)})", re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """One way to read a text: the parsed node, and what it took to get there.

    `literal` readings stand in the text as they are; the others had to be mended first. `gap` is
    what stands between one and the JSON before it; `behind` tells that it stands behind everything
    that is literal.
    """

    node: object
    repaired: bool
    truncated: bool
    how: str
    literal: bool = True
    gap: str = ""
    behind: bool = False


def too_much(text: str) -> str | None:
    """Say why `text` is not looked at for an answer; None where it is.

    An empty object takes three characters, and each field that it lacks a kilobyte of complaint.
    """
    if len(text) > LARGEST_TEXT:
        return f"the text has {len(text):,} characters; alps reads at most {LARGEST_TEXT:,}"
    if has_more_values(text, _MOST_VALUES):
        return f"the text has more than {_MOST_VALUES:,} JSON values"
    return None


def readings(text: str) -> Iterator[Reading]:
    """Yield the ways to read JSON out of `text`, the most literal first."""
    stripped = text.strip().lstrip("\ufeff")
    node = _loads(stripped)
    if node is not None:
        yield Reading(node, repaired=False, truncated=False, how="")
        if isinstance(node, str):
            inner = "JSON inside a JSON string"
            yield from (replace(reading, repaired=True, how=inner) for reading in readings(node))
        return
    end = 0
    for node, start, stop in _decoded(stripped):
        yield Reading(node, True, False, "text around the JSON", gap=_gap(stripped[end:start]))
        end = stop
    rest = JSON_LIKE.search(stripped, end) if end else None
    if rest is not None:
        gap = _gap(stripped[end : rest.start()])
        yield from (replace(reading, gap=gap, behind=True) for reading in _mended(stripped[end:]))
    yield from _mended(stripped)


def _gap(between: str) -> str:
    """Return what stands between two values of JSON, beyond what separates a list."""
    return between.strip(" \t\r\n,;")


def looks_like_refusal(text: str) -> bool:
    """Tell whether a text without usable JSON declines the request."""
    return len(text) < 1_500 and _REFUSAL.match(text) is not None


def _decoded(source: str) -> Iterator[tuple[object, int, int]]:
    """Decode from each opening bracket that is not inside something decoded or broken.

    Yields what was decoded, where it begins and where it ends. What stands inside broken JSON is a
    part of the answer, or a quotation in it, and never the answer.
    """
    decoder, at = json.JSONDecoder(strict=False), 0
    for _ in range(_MAX_STARTS):
        match = _OPENING.search(source, at)
        if match is None:
            return
        try:
            node, at = decoder.raw_decode(source, match.start())
            if is_too_deep(node):
                raise ValueError("nested too deeply")
        except (ValueError, RecursionError):
            if JSON_LIKE.match(source, match.start()):
                return
            at = match.end()
            continue
        if node or not source[at:].strip("` \n"):  # an empty list amid prose is punctuation
            yield node, match.start(), at


def _mended(text: str) -> Iterator[Reading]:
    """Mend escapes, close what was cut off, and at last let a lenient parser guess."""
    match = next((m for m in _OPENING.finditer(text) if JSON_LIKE.match(text, m.start())), None)
    if match is None:
        return
    body = _unfenced(text[match.start() :])
    escaped = unescape_structure(body)
    escaped = _BAD_ESCAPE.sub(
        lambda m: m.group(0) if m.group(1) is None else "\\\\" + m.group(1), escaped
    )
    closed = close_truncated(escaped)
    if closed is None:
        if escaped != body:
            for node, _, _ in _decoded(escaped):
                yield Reading(node, True, False, "broken escapes", literal=False)
    elif (node := _loads(closed)) is not None:
        yield Reading(node, True, True, "cut off: complete parts are kept", literal=False)
    cut = closed is not None
    if (node := _lenient(escaped if closed is None else closed, cut=cut)) is not None:
        yield Reading(node, True, cut, "malformed JSON", literal=False)


def _unfenced(text: str) -> str:
    """Take off a closing fence and what stands behind it on its line, the last one."""
    body = text.rstrip()
    fence = body.find("```", body.rfind("\n") + 1)
    return text if fence < 0 else text[:fence].rstrip()


def unescape_structure(body: str) -> str:
    """Take the backslashes off quotes where a string must begin or end, and nowhere else."""
    parts: list[str] = []
    at, size = 0, len(body)
    while at < size:
        if body[at] == '"':
            end = at + 1
            while end < size and body[end] != '"':
                end += 2 if body[end] == "\\" else 1
            parts.append(body[at : end + 1])
            at = end + 1
        elif body.startswith('\\"', at):
            end = body.find('\\"', at + 2)
            while end > 0 and body[end - 1] == "\\":
                end = body.find('\\"', end + 2)
            end = size if end < 0 else end
            inside = body[at + 2 : end].replace('\\\\\\"', '\\"')
            parts.append(f'"{inside}"' if end < size else f'"{inside}')
            at = end + 2
        elif body[at] == "\\":
            at += 2 if body[at + 1 : at + 2] in ("n", "r", "t") else 1
        else:
            parts.append(body[at])
            at += 1
    return "".join(parts)


def close_truncated(body: str) -> str | None:
    """Close JSON that breaks off, keeping only members and elements that were complete.

    A value that was cut is dropped with its key, so nothing half said is read as said. Returns None
    where `body` does not break off.
    """
    stack: list[str] = []
    # the last place where the text may end; no bracket opens or closes between it and the end of
    # the text
    end = 0
    in_string = escaped = after_colon = False
    for position, char in enumerate(body):
        if in_string:
            in_string = escaped or char != '"'
            escaped = not escaped and char == "\\"
            if not in_string and (after_colon or (stack and stack[-1] == "]")):
                end = position + 1
        elif char == '"':
            in_string = True
        elif char == ":":
            after_colon = True
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
            end, after_colon = position + 1, False
        elif char in "}]":
            if not stack or stack.pop() != char or not stack:
                return None
            end, after_colon = position + 1, False
        elif char == ",":
            end, after_colon = position, False
    return body[:end] + "".join(reversed(stack)) if stack else None


def _loads(text: str) -> object | None:
    try:
        node: object = parse_json(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return node


def _lenient(body: str, *, cut: bool) -> object | None:
    """Let a lenient parser guess at malformed JSON that is neither too long nor too deep for it."""
    depth = most = 0
    for char in body:
        depth += (char in "{[") - (char in "}]")
        most = max(most, depth)
    if len(body) > _LENIENT_LIMIT or most > _LENIENT_DEPTH:
        return None
    from json_repair import repair_json

    end = max(body.rfind("}"), body.rfind("]")) + 1
    try:
        node = repair_json(body[:end] if end else body, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    follows = r"\s*[\"'”’]" if cut else r"\s*[\"'”’,}\]]"
    return _said_in_full(node, body, follows) if isinstance(node, (dict, list)) and node else None


def _said_in_full(node: object, body: str, follows: str) -> object:
    """Leave out texts that `follows` does not follow in `body`: the parser closed them."""
    if isinstance(node, dict):
        kept = {key: _said_in_full(value, body, follows) for key, value in node.items()}
        return {key: value for key, value in kept.items() if value is not None or node[key] is None}
    if isinstance(node, list):
        return [value for item in node if (value := _said_in_full(item, body, follows)) is not None]
    if isinstance(node, str) and node:
        end = node[-_TAIL:]
        tails = {end, json.dumps(end, ensure_ascii=False)[1:-1], json.dumps(end)[1:-1]}
        return node if any(re.search(re.escape(tail) + follows, body) for tail in tails) else None
    return node


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
