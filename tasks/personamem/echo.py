"""Log-probabilities of the end of a prompt, out of completions that echo the prompt.

OpenAI's legacy completions and servers of that form (vLLM, llama-cpp-python) repeat the tokens of
the prompt, each with its log-probability, where `echo` and `logprobs` are asked for. Two things
can't be relied on: `max_tokens` of 0, which some take for «no limit», so one token is generated and
left out here; and `text_offset`, which vLLM counts with the text of a token before the prompt, as
`<|begin_of_text|>`, and with a mark for each part of a character. So the text of the tokens, read
from the end of the prompt, says where each one lies; offsets are asked where it does not spell the
prompt, and only count if they end where the prompt ends.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from alps.llm.options import sent
from alps.llm.provider import read_reply
from alps.llm.structured import as_body
from alps.llm.types import Reply, Request, TransportError
from alps.llm.wire import Exchange, libraries
from alps.sizes import LARGEST_REPLY

GENERATED = 1
"""Tokens that are asked for behind the prompt."""
# Of a reply: 4 characters are about a token, and each token about 400 bytes of JSON under vLLM
_BYTES_A_CHARACTER = 100
_Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_VALUES = TypeAdapter(Annotated[list[_Finite], Field(min_length=1)])
# How servers name bytes: `<0xE2>` (llama), `bytes:\xe2` (OpenAI)
_BYTE = re.compile(rb"<0x([0-9A-Fa-f]{2})>|\\x([0-9A-Fa-f]{2})")
_NAMED = b"bytes:"
_UNREADABLE = "\ufffd"
# Bytes of a character; all of one that has several are at 128 or above
_LONGEST, _BEYOND_ASCII = 4, 0x80


class _Logprobs(BaseModel):
    """What stands of each token in a reply; more than that is not looked at."""

    tokens: Annotated[list[str], Field(min_length=1)]
    token_logprobs: list[Annotated[float, Field(allow_inf_nan=False)] | None]
    text_offset: list[int] | None = None


class Echo:
    """Tokens of a prompt, removed from a reply's body before litellm parses the rest.

    The openai package walks through them in pure Python: 1.5 s of a processor for 50,000 tokens.

    Args:
        prompt: What is echoed.
        begins: The character from which on log-probabilities are asked for.
    """

    def __init__(self, prompt: str, begins: int) -> None:
        self._prompt, self._begins = prompt, begins
        self._heard: object = None

    @property
    def largest(self) -> int:
        """The most bytes that a body may have."""
        return LARGEST_REPLY + _BYTES_A_CHARACTER * len(self._prompt)

    def options(self, model: str) -> dict[str, Any]:
        """Return what litellm's text completion is given to have the prompt echoed."""
        if libraries().litellm.get_llm_provider(model)[1] == "openai":
            # litellm would ask a server of one's own by chat where its model is named as OpenAI's
            model = f"text-completion-openai/{model.removeprefix('openai/')}"
        return {"model": model, "prompt": self._prompt, "echo": True, "logprobs": 1}

    def take(self, body: bytes) -> bytes:
        """Keep the tokens of a body, and return it without."""
        try:
            reply = json.loads(body)
            choice = reply["choices"][0]
            self._heard = choice.pop("logprobs", None)
            choice.pop("prompt_logprobs", None)  # vLLM tells them a second time
        except (ValueError, LookupError, TypeError, AttributeError):
            return body  # no completion: litellm will say what it is
        return json.dumps(reply).encode()

    def read(self, generated: int | None) -> str:
        """Return as JSON the log-probabilities of the tokens that hold what was asked for.

        `generated` is how many tokens the server says to have answered, None where it does not.

        Raises:
            ValueError: If the reply does not tell them; one line.
        """
        try:
            heard = _Logprobs.model_validate(self._heard)
        except ValidationError as error:
            raise ValueError("it returns no log-probabilities of the prompt's tokens") from error
        tokens, values = heard.tokens, heard.token_logprobs
        last = len(tokens) - (GENERATED if generated is None else min(generated, GENERATED))
        first = _first_by_text(self._prompt, self._begins, tokens[:last])
        if first is None:
            offsets = heard.text_offset or ()
            first = _first_by_offsets(len(self._prompt), self._begins, offsets, last)
        if first is None or len(values) != len(tokens):
            what = "neither its tokens nor its offsets match the prompt"
            raise ValueError(what)
        # Nothing comes before the first token of all: its log-probability is not known.
        wanted = values[max(first, 1) : last]
        if not wanted or None in wanted:
            raise ValueError("it returns no log-probability of some tokens of the text")
        return json.dumps(wanted)


def values_of(text: str) -> list[float]:
    """Read what `Echo.read` wrote.

    Raises:
        ValueError: If it is something else.
    """
    return _VALUES.validate_json(text)


@dataclass(frozen=True)
class Echoed:
    """The form of a request whose reply is the log-probabilities of the end of its message.

    Attributes:
        begins: The character of the message from which on they are asked for.
        most: The most tokens of the answer.
    """

    begins: int
    most: int = GENERATED

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells such requests apart in the cache."""
        return {"echo_from": self.begins}

    async def ask(
        self, request: Request[Any], prompt: str, options: Mapping[str, Any], exchange: Exchange
    ) -> Reply:
        """Make one request, and return the log-probabilities as JSON in the text of the reply.

        Raises:
            TransportError: If the reply does not tell them: asked again, it would not, either.
        """
        echo = Echo(prompt, self.begins)
        exchange.largest, exchange.take = echo.largest, echo.take
        asked = {**echo.options(request.model), **request.decoding, **sent(request.extra)}
        asked = {**as_body(asked, request.model), **options}
        try:
            response = await libraries().litellm.atext_completion(**asked)
            reply = read_reply(response, request.model)
        finally:
            # litellm makes a client for each completion of plain text, and closes none of them.
            if exchange.client is not None:
                await exchange.client.aclose()
        try:
            values = echo.read(reply.completion_tokens)
        except ValueError as error:
            raise TransportError(str(error), transient=False, status=200, billed=True) from error
        return replace(reply, text=values, finish_reason="stop")

    def check(self, text: str) -> None:
        """Refuse a text that was kept and is no list of log-probabilities, in a ValueError."""
        values_of(text)


def _first_by_offsets(end: int, begins: int, offsets: Sequence[int], last: int) -> int | None:
    """Return the first token that holds a character from `begins` on, as its server counts.

    None where the offsets are not those of the prompt: the first token that was generated, at the
    place `last`, must begin where the prompt ends.
    """
    ordered = list(offsets) == sorted(offsets) and list(offsets[:1]) == [0]
    if not ordered or len(offsets) <= last or offsets[last] != end:
        return None
    holding = (n for n in range(last) if offsets[n] >= begins or offsets[n + 1] > begins)
    return next(holding, None)


def _first_by_text(prompt: str, begins: int, tokens: Sequence[str]) -> int | None:
    """Return the first token that holds a character from `begins` on, spelling from the end.

    Where a character is parted among tokens, servers write a mark for each part, or nothing: such
    tokens stand for some bytes beyond ASCII, up to the next token that can be read.
    """
    text, start = prompt.encode(), len(prompt[:begins].encode())
    end = len(text)
    least = most = 0  # the bytes of tokens that can't be read, ahead of `end`
    for place in range(len(tokens) - 1, -1, -1):
        behind, readable, ahead = _parts(tokens[place])
        least, most = least + behind, most + _LONGEST * max(behind, not tokens[place])
        if not readable:
            continue
        found = _before(text, end, range(least, most + 1), readable)
        if found is None:
            return None
        token_begins, token_ends = found
        if token_ends < start or (token_ends == start and not behind):
            return place + 1 if token_ends == start else None
        if token_begins <= start:
            return place
        end, least, most = token_begins, ahead, _LONGEST * ahead
    return None


def _parts(token: str) -> tuple[int, str, int]:
    """Return the marks behind what can be read of a token, this text, and the marks ahead of it."""
    without = token.rstrip(_UNREADABLE)
    readable = without.lstrip(_UNREADABLE)
    return len(token) - len(without), readable, len(without) - len(readable)


def _before(text: bytes, end: int, skipped: range, token: str) -> tuple[int, int] | None:
    """Return where a token begins and ends that comes so many bytes beyond ASCII before `end`."""
    literal = token.encode()
    named = _BYTE.sub(_byte, literal.removeprefix(_NAMED))
    for skip in skipped:
        token_ends = end - skip
        if token_ends < 0 or (skip > skipped.start and text[token_ends] < _BEYOND_ASCII):
            return None
        for form in (literal, named):
            if text.endswith(form, 0, token_ends):
                return token_ends - len(form), token_ends
    return None


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1] or match[2], 16)])
