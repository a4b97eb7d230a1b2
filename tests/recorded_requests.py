"""The requests that a judge makes, noted in the place of being sent."""

import asyncio
from typing import Any

from alps.judges.base import Judge, Question
from alps.llm.types import Recorder, Request


def requests_of(judge: Judge, question: Question[Any]) -> list[Request[Any]]:
    """Return what `judge` would send to answer a question."""

    async def record() -> list[Request[Any]]:
        recorder = Recorder()
        await judge.on(recorder).answer(question, about="b1")
        return recorder.requests

    return asyncio.run(record())
