"""The requests that a judge makes, noted in the place of being sent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from alps.judges.base import Judge
from alps.llm.recording import Recorder
from alps.llm.types import Request


def requests_of(judge: Judge, ask: Callable[[Judge], Awaitable[Any]]) -> list[Request[Any]]:
    """Return what `judge` would send where `ask` puts a question to it."""

    async def record() -> list[Request[Any]]:
        recorder = Recorder()
        await ask(judge.on(recorder))
        return recorder.requests

    return asyncio.run(record())
