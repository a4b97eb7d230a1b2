"""Blind filter: questions that a model answers right without the history are dropped."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alps.ext.personas.engines import UnwrittenError, chat
from alps.ext.personas.replies import BLIND
from alps.llm.client import Client
from alps.llm.types import Request
from alps.prompts import load_prompt
from alps.tasks.personamem.personas import DraftQuestion
from alps.tasks.personamem.release import LETTERS

PROMPT = load_prompt("alps.ext.personas", "prompts", "blind")
_UNHEARD = ("budget", "transport")


@dataclass(frozen=True)
class BlindFilter:
    """A model that is shown question and options alone, under the four rotations of the options.

    A question is dropped where it is right under all of them: by chance that is one in 256.
    """

    name: str
    client: Client
    api_base: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    async def kept(self, asked: Sequence[DraftQuestion], *, about: str) -> list[DraftQuestion]:
        """Return the questions that the model can't answer blind, in their order.

        Raises:
            UnwrittenError: If the model can't be asked.
        """
        guessed = await asyncio.gather(*(self._guessed(one, about) for one in asked))
        return [one for one, right in zip(asked, guessed, strict=True) if not right]

    async def _guessed(self, asked: DraftQuestion, about: str) -> bool:
        """Tell whether the model is right under every rotation; it stops at the first miss."""
        for shift in range(len(LETTERS)):
            rotated = (*asked.options[shift:], *asked.options[:shift])
            options = dict(zip(LETTERS, rotated, strict=True))
            payload = {"message": asked.question, "options": options}
            request = Request(
                model=self.name,
                messages=chat(PROMPT, payload),
                answer=BLIND,
                sampling=self.sampling,
                api_base=self.api_base,
                purpose="judge",
                about=about,
            )
            reply = await self.client.complete(request)
            if reply.outcome in _UNHEARD:
                raise UnwrittenError(reply.outcome, f"{about}, filter: {reply.error}")
            # No letter is no right answer: the question stays.
            if reply.value != LETTERS[(asked.gold - shift) % len(LETTERS)]:
                return False
        return True
