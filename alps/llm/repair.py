"""Read JSON out of what models really write.

Fences, prose around them, broken escapes, over-escaping, trailing brackets and truncation are met in practice.
`readings` yields every way to read a text, the most literal first, so that the caller takes the first that has the
shape it needs: an answer may quote some other JSON before its own.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

PARSER_VERSION = "1"
"""Counts up with every change of what is read out of a text; part of a judge's fingerprint."""

_FENCE = re.compile(r"```[ \t]*[\w-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_BAD_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\(u?)')
_LENIENT_LIMIT = 60_000
_MAX_STARTS = 20
_REFUSAL = re.compile(
    r"^\W*(?:i(?:['’]m| am) (?:very )?sorry|sorry|i apologi[sz]e|unfortunately|i can(?:no|['’])t|i won['’]t"
    r"|i(?:['’]m| am) (?:unable|not able)|抱歉|对不起|對不起|很抱歉|我无法|我不能|lo siento|no puedo"
    r"|je suis désolé|je ne peux pas|es tut mir leid|ich kann (?:das|dir|ihnen|leider)|desculpe|não posso"
    r"|извините|я не могу|عذر|آسف|מצטער)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reading:
    """One way to read a text: the parsed node, and what it took to get there."""

    node: object
    repaired: bool
    truncated: bool
    how: str


def readings(text: str) -> Iterator[Reading]:
    """Yield the ways to read JSON out of `text`, the most literal first; nothing where there is none."""
    stripped = text.strip().lstrip("\ufeff")
    node = _loads(stripped)
    if node is not None:
        yield Reading(node, repaired=False, truncated=False, how="")
        if isinstance(node, str):
            yield from (Reading(r.node, True, r.truncated, "JSON inside a JSON string") for r in readings(node))
        return
    for source, where in _sources(stripped):
        yield from _literal(source, where)
    for source, where in _sources(stripped):
        yield from _mended(source, where)


def looks_like_refusal(text: str) -> bool:
    """Tell whether a text without usable JSON declines the request."""
    return len(text) < 1_500 and _REFUSAL.match(text) is not None


def _sources(text: str) -> Iterator[tuple[str, str]]:
    for match in _FENCE.finditer(text):
        yield match.group(1).strip(), "a code fence"
    yield text, "prose around the JSON"


def _literal(source: str, where: str) -> Iterator[Reading]:
    """Decode from each opening bracket that does not lie inside something already decoded."""
    decoder, at, starts = json.JSONDecoder(strict=False), 0, 0
    while starts < _MAX_STARTS and (match := _OPENING.search(source, at)) is not None:
        starts += 1
        try:
            node, end = decoder.raw_decode(source, match.start())
        except (ValueError, RecursionError):
            at = match.end()
            continue
        if node:
            yield Reading(node, repaired=True, truncated=False, how=where)
        at = end


def _mended(source: str, where: str) -> Iterator[Reading]:
    """Mend escapes, close what was cut off, and at last let a lenient parser guess."""
    match = _OPENING.search(source)
    if match is None:
        return
    body = source[match.start() :]
    unescaped = _BAD_ESCAPE.sub(lambda m: m.group(0) if m.group(1) is None else "\\\\" + m.group(1), body)
    for candidate, how in ((unescaped, "broken escapes"), (body.replace('\\"', '"'), "escaped quotes")):
        if candidate != body:
            yield from (Reading(r.node, True, False, how) for r in _literal(candidate, where))
    closed = close_truncated(unescaped)
    if closed is not None and (node := _loads(closed)):
        yield Reading(node, repaired=True, truncated=True, how="cut off: what was complete is kept")
    guessed = closed if closed is not None else unescaped
    if len(guessed) <= _LENIENT_LIMIT and (node := _lenient(guessed)):
        yield Reading(node, repaired=True, truncated=closed is not None, how="malformed JSON")


def close_truncated(body: str) -> str | None:
    """Close JSON that breaks off, keeping only members and elements that were complete.

    A value that was cut is dropped with its key, so nothing half said is read as said. Returns None where `body` does
    not break off.
    """
    stack: list[str] = []
    end, closing = 0, ""  # the last place where the text may end, and what closes it there
    in_string = escaped = after_colon = False
    for position, char in enumerate(body):
        if in_string:
            in_string = escaped or char != '"'
            escaped = not escaped and char == "\\"
            if not in_string and (after_colon or (stack and stack[-1] == "]")):
                end, closing = position + 1, "".join(reversed(stack))
        elif char == '"':
            in_string = True
        elif char == ":":
            after_colon = True
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
            end, closing, after_colon = position + 1, "".join(reversed(stack)), False
        elif char in "}]":
            if not stack or stack.pop() != char or not stack:
                return None
            end, closing, after_colon = position + 1, "".join(reversed(stack)), False
        elif char == ",":
            end, closing, after_colon = position, "".join(reversed(stack)), False
    return body[:end] + closing if stack else None


def _loads(text: str) -> object | None:
    try:
        node: object = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return node


def _lenient(body: str) -> object | None:
    from json_repair import repair_json

    try:
        node = repair_json(body, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    return node if isinstance(node, (dict, list)) else None
