"""Requests of somebody else that are passed on to a model as they are, and their replies."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel

from alps.jsonl import parse_json
from alps.llm.provider import read_reply
from alps.llm.structured import as_body
from alps.llm.types import Cost, Count, Reply, Request
from alps.llm.wire import Exchange, libraries

Asked = Literal["chat", "embeddings"]
LONGEST = ("max_tokens", "max_completion_tokens")
"""Fields of a chat that bound the tokens of its answer."""


@dataclass(frozen=True)
class PassedOn:
    """The form of a request whose only message is the JSON of a request, which is sent as it is.

    Attributes:
        asked: What it asks for.
        most: The most tokens of its answer; None where only the model bounds it.
    """

    asked: Asked
    most: int | None

    @classmethod
    def of(cls, asked: Asked, body: Mapping[str, Any]) -> "PassedOn":
        """Return the form of a body that was checked."""
        bounds = [body[name] for name in LONGEST if body.get(name) is not None]
        return cls(asked, max(bounds, default=None) if asked == "chat" else 0)

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells such requests apart in the cache."""
        return {"passed": self.asked}

    async def ask(
        self, request: Request[Any], message: str, options: Mapping[str, Any], exchange: Exchange
    ) -> Reply:
        """Make one request; the text of the reply is the JSON of its body, and of what it used."""
        litellm = libraries().litellm
        ask = litellm.acompletion if self.asked == "chat" else litellm.aembedding
        body = as_body({"model": request.model, **json.loads(message)}, request.model)
        response = await ask(**{**body, **options})
        reply = read_reply(response, request.model)
        used = {name: getattr(reply, name) for name in _Use.model_fields}
        text = json.dumps({"body": response.model_dump(mode="json"), "used": used})
        return replace(reply, text=text, refusal=None, thought=None)

    def check(self, text: str) -> None:
        """Refuse a text that was kept and is no such reply, in a ValueError."""
        passed_in(text)


class _Use(BaseModel):
    prompt_tokens: Count | None
    completion_tokens: Count | None
    cost: Cost | None


class PassedBody(BaseModel):
    """A reply that is passed on: the body as it came, and what it used."""

    body: dict[str, Any]
    used: _Use


def passed_in(text: str) -> PassedBody:
    """Read the text of such a reply.

    Raises:
        ValueError: If it is something else.
    """
    return PassedBody.model_validate(parse_json(text))
