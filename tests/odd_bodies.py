"""Answers with status 200 whose body is not what anybody would expect, one field at a time."""

import json
from collections.abc import Iterator
from typing import Any

TEXT = '{"hobbies": ["chess", "tea"]}'
WHOLE: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "tiny",
    "system_fingerprint": "fp_1",
    "service_tier": "default",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": TEXT,
                "refusal": None,
                "tool_calls": None,
                "function_call": None,
                "reasoning_content": None,
                "reasoning": None,
                "annotations": [],
                "audio": None,
                "images": None,
                "thinking_blocks": None,
                "provider_specific_fields": None,
            },
        }
    ],
    "usage": {
        "prompt_tokens": 12,
        "completion_tokens": 5,
        "total_tokens": 17,
        "cost": 0.1,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
}
MARK = "@odd@"
ODD = (
    *("null", "true", "-1", "1e999", "NaN", '"x"', '"\\ud83d"', "[]", "{}", "[null]"),
    *('[{"type": "text", "text": "Yes."}]', '{"message": "No.", "code": 7}'),
    *("1" * 4_299, "9" * 4_400, "[" * 20_000 + "]" * 20_000),
)
"""JSON values, as text: numbers may be larger than Python reads, and lists deeper."""


def paths(node: Any = WHOLE, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value of a body, the body itself among them."""
    yield path
    children = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, child in children:
        yield from paths(child, (*path, key))


def replaced(path: tuple[Any, ...], value: str, whole: dict[str, Any] = WHOLE) -> str:
    """Return a body with another value at `path`."""
    if not path:
        return value
    body = json.loads(json.dumps(whole))
    node = body
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = MARK
    return json.dumps(body).replace(json.dumps(MARK), value)


def without(path: tuple[Any, ...], whole: dict[str, Any] = WHOLE) -> str:
    """Return a body without the value at `path`."""
    body = json.loads(json.dumps(whole))
    node = body
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return json.dumps(body)
