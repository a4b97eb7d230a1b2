"""A client at work: what it is asked in tests, and a desk that asks it and keeps its ledger."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from alps.llm.client import Client
from alps.llm.ledger import Ledger, Totals
from alps.llm.types import AnswerType, Completion, Read, Request
from tests.loopback import Answer, LoopbackServer, Script, asked_over_http

GOOD = '{"hobbies": ["chess", "tea"]}'
HALF = '{"hobbies": ["chess", "te'
OTHER_SHAPE = '{"pets": ["cat"]}'
PROSE = "They seem to enjoy chess."
QUESTION = (
    {"role": "system", "content": "List hobbies."},
    {"role": "user", "content": "Ich spiele Schach ♟."},
)


class Hobbies(BaseModel):
    model_config = ConfigDict(extra="forbid")

    hobbies: list[str]


class Habits(BaseModel):
    hobbies: list[str]
    since: str | None = None


def read_hobbies(node: object) -> Read[tuple[str, ...]]:
    hobbies = node.get("hobbies") if isinstance(node, dict) else None
    if not isinstance(hobbies, list):
        raise ValueError("no list called `hobbies` was found")
    return Read(tuple(hobbies))


EXTRACTED = AnswerType(schema=Hobbies, read=read_hobbies, partial=True)
JUDGED = AnswerType(schema=Hobbies, read=read_hobbies, partial=False)


class Desk:
    def __init__(self, folder: Path) -> None:
        self.calls = folder / "calls.jsonl"
        self.totals = Totals()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.calls.read_text(encoding="utf-8").splitlines()]

    def ask_all(self, *requests: Request[Any], **options: Any) -> list[Completion[Any]]:
        async def together(client: Client) -> list[Completion[Any]]:
            return await asyncio.gather(*(client.complete(request) for request in requests))

        return self.run(together, **options)

    def ask(self, request: Request[Any], **options: Any) -> Completion[Any]:
        (completion,) = self.ask_all(request, **options)
        return completion

    def run(self, work: Callable[[Client], Any], **options: Any) -> Any:
        ledger = Ledger(self.calls)
        self.totals = ledger.totals
        try:
            client = Client(
                ledger=ledger, **{"concurrency": 8, "cache": None, "patience": 2.0, **options}
            )
            return asked_over_http(asyncio.wait_for(work(client), 300))
        finally:
            ledger.close()


def chat(
    text: str | None = GOOD, *, finish_reason: str = "stop", said: Any = None, **more: Any
) -> dict[str, Any]:
    """Return a chat completion as OpenAI writes it; `said` are further fields of the message."""
    message = {"role": "assistant", "content": text, **(said or {})}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": "served"}
    return {**head, "choices": [choice], **more}


def question(server: LoopbackServer, **changes: Any) -> Request[Any]:
    ordinary = Request("openai/tiny", QUESTION, EXTRACTED, api_base=server.url)
    return replace(ordinary, **changes)


def always(answer: Answer) -> Script:
    return lambda _: answer


def in_turn(*answers: Answer) -> Script:
    waiting = list(answers)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]
