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
                **dict.fromkeys(("refusal", "tool_calls", "function_call", "reasoning_content")),
                "reasoning": None,
                "annotations": [],
                **dict.fromkeys(("audio", "images", "thinking_blocks", "provider_specific_fields")),
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
    if isinstance(node, dict | list):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield from paths(child, (*path, key))


def replaced(path: tuple[Any, ...], value: str, whole: dict[str, Any] = WHOLE) -> str:
    """Return a body with another value at `path`."""
    if not path:
        return value
    body, node = _opened(path, whole)
    node[path[-1]] = MARK
    return json.dumps(body).replace(json.dumps(MARK), value)


def without(path: tuple[Any, ...], whole: dict[str, Any] = WHOLE) -> str:
    """Return a body without the value at `path`."""
    body, node = _opened(path, whole)
    del node[path[-1]]
    return json.dumps(body)


def _opened(path: tuple[Any, ...], whole: dict[str, Any]) -> tuple[Any, Any]:
    """Return a copy of a body, and what holds the value at `path` there."""
    body = node = json.loads(json.dumps(whole))
    for key in path[:-1]:
        node = node[key]
    return body, node
