"""A completions endpoint on loopback that echoes log-probabilities, as different servers do.

It parts a text in its own way: so many characters a token, and every byte of a character beyond
ASCII a token of its own. How likely a token is hangs on its bytes and its place alone, so that a
test can plant and expect it.
"""

import json
import re
from zlib import crc32

from tests.loopback import Answer

BEGIN = "<|begin|>"
"""What stands before the prompt as a token of its own at servers that add one."""
GENERATED = b" and"


def tokens_of(text, width=3):
    """Part a text into tokens, as bytes."""
    return re.findall(rb"[\x00-\x7f]{1,%d}|[\x80-\xff]" % width, text.encode())


def likelihood(token, place):
    """Return the log-probability of the token at a place of a text."""
    return -(crc32(token, place) & 0xFF) / 32


def expected(prompt, option, width=3):
    """Return how many tokens of `prompt` hold a character of `option`, its end, and their sum."""
    begins, at, values = len(prompt.encode()) - len(option.encode()), 0, []
    for place, token in enumerate(tokens_of(prompt, width)):
        at += len(token)
        if at > begins:
            values.append(likelihood(token, place))
    return len(values), sum(values)


def readable(token):
    return token[0] < 0x80


def plain(token):
    """Name a token as vLLM and others do: a mark for a part of a character."""
    return token.decode() if readable(token) else "\ufffd"


def silent(token):
    """Name a token as llama-cpp-python does: nothing for a part of a character."""
    return token.decode(errors="ignore")


def by_escapes(token):
    """Name a token as OpenAI does."""
    named = "".join(f"\\x{byte:02x}" for byte in token)
    return token.decode() if readable(token) else f"bytes:{named}"


def by_number(token):
    """Name a token as Llama's own vocabulary does."""
    return token.decode() if readable(token) else "".join(f"<0x{byte:02X}>" for byte in token)


def of_vocabulary(token):
    """Name a token by its entry of a vocabulary, which is not its text."""
    return f"#{token.hex()}"


def offsets_of(tokens):
    """Return the character that each token begins in, or is a part of."""
    offsets, characters = [], 0
    for token in tokens:
        is_inside = token[0] & 0xC0 == 0x80
        offsets.append(characters - is_inside)
        characters += sum(byte & 0xC0 != 0x80 for byte in token)
    return offsets


def echo(body, name=plain, offsets=True, begin=False, generated=True, width=3):
    """Answer as a server that can: `offsets` are right, or None, or `drifting`."""
    tokens = tokens_of(body["prompt"], width)
    values = [likelihood(token, place) for place, token in enumerate(tokens)]
    tail = [GENERATED] if generated else []
    names = [name(token) for token in (*tokens, *tail)]
    values += [-0.5] * len(tail)
    if begin:
        names, values = [BEGIN, *names], [None, *values]
    else:
        values[0] = None
    logprobs = {"tokens": names, "token_logprobs": values}
    logprobs["top_logprobs"] = [None if value is None else {"x": value} for value in values]
    if offsets == "drifting":
        logprobs["text_offset"] = [sum(map(len, names[:place])) for place in range(len(names))]
    elif offsets:
        logprobs["text_offset"] = offsets_of([*tokens, *tail])
    return completed(body, logprobs, generated=len(tail))


def completed(body, logprobs, generated=1):
    """Return a completion with these log-probabilities."""
    used = {"prompt_tokens": len(body["prompt"]) // 4, "completion_tokens": generated}
    choice = {"index": 0, "text": body["prompt"], "finish_reason": "length", "logprobs": logprobs}
    row = {"id": "scripted", "object": "text_completion", "created": 0, "model": body["model"]}
    return Answer(body=json.dumps({**row, "choices": [choice], "usage": used}))
