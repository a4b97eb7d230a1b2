"""The subset of JSON Schema that OpenAI documents for strict outputs."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from alps.judges.rubric import BinaryReply, EmotionalReply, MatchReply, SupportReply
from alps.tasks import load_tracks
from alps.tasks.base import TaskOptions

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, as of February 2026.
# Keywords that a fine-tuned model refuses (bounds, patterns) are left out, and the first limit on
# depth (5) is held: proxies and older deployments have it still.
KEYWORDS = {
    *("title", "description", "type", "properties", "required", "additionalProperties", "items"),
    *("enum", "const", "anyOf", "$ref", "$defs"),
}
TYPES = {"string", "number", "boolean", "integer", "object", "array", "null"}
DEEPEST, MOST_PROPERTIES, MOST_ENUMS, MOST_CHARACTERS = 5, 5_000, 1_000, 120_000


def sent_models() -> list[type[BaseModel]]:
    """Return the response models of all tasks and judges."""
    tracks = [
        *load_tracks("all", TaskOptions(prompt="precision")),
        *load_tracks("all", TaskOptions(prompt="recall")),
    ]
    of_tasks = [track.answer.schema for track in tracks]
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
        found += [f"{where}: type {kind}" for kind in kinds if kind not in TYPES]
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
    return found + [
        f"{count} {what}, at most {most}" for what, (count, most) in counts.items() if count > most
    ]


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
    return found + [
        f"{where}: {name} is not both a property and required" for name in sorted(lacking)
    ]


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
