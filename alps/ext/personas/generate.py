"""Generation of a PersonaMem set: an engine's texts, the plan of `alps.data`, the blind filter.

Every reply of a model that passed its checks is in the reply cache: a command that was killed and
is given again asks for the rest and writes the same bytes.

Questions that a model answers right without the history are dropped.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alps.errors import BudgetError, RunFolderError, TooManyFailuresError, UsageError
from alps.event_loop import run_loop
from alps.ext.personas.engines import (
    BLIND,
    MATERIAL,
    TELLINGS,
    WORDINGS,
    Engine,
    Model,
    Templates,
    UnwrittenError,
    chat,
)
from alps.ext.personas.settings import PersonaSettings
from alps.jsonl import parse_json
from alps.llm.client import Client
from alps.llm.ledger import Ledger
from alps.llm.types import Request
from alps.prompts import load_prompt
from alps.run.folder import claimed_folder, write_json
from alps.run.progress import progress_line
from alps.run.services import Clients, Shared, UsedModel, capped, check_models, open_cache
from alps.tasks.personamem.persona_timeline import (
    Persona,
    PersonaMessages,
    draw_persona,
    tell,
    words_of,
)
from alps.tasks.personamem.personas import DraftQuestion, ask, seeded, set_writer, write_set
from alps.tasks.personamem.release import LETTERS

TEMPLATES = "templates"
MANIFEST = "generation.json"
_BATCH = 8
"""Personas under way at once: each holds a history in memory, of 4 MB at 1M tokens."""
PROMPT = load_prompt("alps.ext.personas", "prompts", "blind")
_UNHEARD = ("budget", "transport")


@dataclass(frozen=True)
class Generated:
    """What was written.

    Attributes:
        dropped: Questions that the filter's model answered without the history.
        left_out: Why a persona is not there: its texts failed the checks however often asked for.
    """

    questions: int
    personas: int
    dropped: int = 0
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Made:
    """One persona, ready to be written; `places` draws where its questions are asked."""

    persona: Persona
    history: PersonaMessages
    asked: Sequence[DraftQuestion]
    dropped: int
    places: random.Random


def generate(settings: PersonaSettings) -> Generated:
    """Write a set, by templates alone or with the help of models.

    Raises:
        AlpsError: If the settings, the folder or a model can't be used, or the budget is spent.
    """
    asked = _asked(settings)
    folder = Path(settings.out)
    if not asked:
        _refuse_idle(settings)
        language = settings.language
        n, size, seed = settings.n, settings.size, settings.seed
        count = write_set(folder, personas=n, size=size, seed=seed, language=language)
        return Generated(count, n)
    check_models(asked.values())
    with claimed_folder(folder) as ledger:
        row = _manifest(settings)
        # Before anything is asked: a generation that was killed goes on under the same settings
        # alone.
        _claim(folder / MANIFEST, row)
        done = run_loop(_generate(settings, folder, ledger, asked))
        figures = {"questions": done.questions, "dropped": done.dropped}
        write_json(folder / MANIFEST, {**row, **figures, "left_out": list(done.left_out)})
    return done


def _asked(settings: PersonaSettings) -> dict[str, UsedModel]:
    """Return the models that are asked, by the key that names them."""
    asked = {}
    if settings.model != TEMPLATES:
        sampling, extra = settings.sampling(), settings.request
        asked["model"] = UsedModel("model", settings.model, settings.api_base, sampling, extra)
    if settings.filter is not None:
        asked["filter"] = UsedModel("filter", settings.filter, settings.filter_api_base, {}, None)
    return asked


def _refuse_idle(settings: PersonaSettings) -> None:
    """Refuse settings of models where none is asked."""
    used = {"out", "n", "size", "language", "seed", "model"}
    idle = sorted(settings.model_fields_set - used)
    if idle:
        raise UsageError(f"{idle[0]}: only a model uses this setting; add model= or filter=")


def _manifest(settings: PersonaSettings) -> dict[str, Any]:
    prompts = (MATERIAL, TELLINGS, WORDINGS, PROMPT)
    hashes = {prompt.id: prompt.sha256 for prompt in prompts}
    return {"settings": settings.content(), "prompts": hashes}


def _claim(path: Path, row: dict[str, Any]) -> None:
    """Write what a set is made by, or check it against what is there.

    Raises:
        RunFolderError: If the folder holds a set that was made otherwise.
    """
    if path.exists():
        try:
            there = parse_json(path.read_bytes())
        except (OSError, ValueError):
            there = None
        if not isinstance(there, dict) or any(there.get(key) != row[key] for key in row):
            raise RunFolderError(
                f"{path}: made with other settings or prompts; choose another out="
            )
        return
    write_json(path, row)


async def _generate(
    settings: PersonaSettings, folder: Path, ledger: Ledger, asked: dict[str, UsedModel]
) -> Generated:
    questions = personas = dropped = 0
    left_out: list[str] = []
    async with AsyncExitStack() as stack:
        sharing = Shared(open_cache(), capped(settings, ledger.totals, asked.values()))
        opened = Clients(settings, ledger, sharing)
        stack.push_async_callback(sharing.aclose)
        stack.push_async_callback(opened.give_up)
        clients = {name: opened.of(one.api_base, one.name) for name, one in asked.items()}
        engine, blind = _engine(settings, clients), _filter(settings, clients)
        writer = stack.enter_context(set_writer(folder, settings.size))
        advance = stack.enter_context(progress_line("personas", settings.n, ledger.totals))
        for start in range(0, settings.n, _BATCH):
            numbers = range(start, min(start + _BATCH, settings.n))
            # In the order of their numbers, whichever is ready first: the same seed gives the same
            # bytes.
            batch = await asyncio.gather(
                *(_make(settings, number, engine, blind) for number in numbers)
            )
            for made in batch:
                advance(not isinstance(made, str))
                if isinstance(made, str):
                    left_out.append(made)
                    continue
                personas += 1
                dropped += made.dropped
                questions += writer.write(made.persona, made.history, made.asked, made.places)
        if not personas:
            raise TooManyFailuresError(f"no persona could be written: {left_out[0]}")
    return Generated(questions, personas, dropped, tuple(left_out))


def _engine(settings: PersonaSettings, clients: dict[str, Any]) -> Engine:
    words = words_of(settings.language)
    if "model" not in clients:
        return Templates(words)
    return Model(
        settings.model,
        clients["model"],
        words,
        settings.language,
        api_base=settings.api_base,
        sampling=settings.sampling(),
        extra=settings.request or {},
        structured=settings.structured,
    )


@dataclass(frozen=True)
class _BlindFilter:
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
        # A model that always says (a) is right in one of the four, and drops nothing.
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
            # No response says nothing about the question, and would keep it unchecked.
            if reply.outcome in _UNHEARD:
                raise UnwrittenError(reply.outcome, f"{about}, filter: {reply.error}")
            # No letter is no right answer: the question stays.
            if reply.value != LETTERS[(asked.gold - shift) % len(LETTERS)]:
                return False
        return True


def _filter(settings: PersonaSettings, clients: dict[str, Any]) -> _BlindFilter | None:
    if settings.filter is None:
        return None
    from alps.llm.preflight import default_temperature

    name, api_base = settings.filter, settings.filter_api_base
    warmth = default_temperature(name, api_base=api_base, sampling={}, extra={})
    sampling = {} if warmth is None else {"temperature": warmth}
    return _BlindFilter(name, clients["filter"], api_base=api_base, sampling=sampling)


async def _make(
    settings: PersonaSettings, number: int, engine: Engine, blind: _BlindFilter | None
) -> _Made | str:
    """Make one persona; or say why its texts could not be had.

    Raises:
        BudgetError: If the budget is spent.
        TooManyFailuresError: If a model gives no answer at all.
    """
    words = words_of(settings.language)
    rng, places = seeded(settings.seed, settings.language, settings.size, number)
    try:
        drawn = await engine.material(number, rng)
        persona = draw_persona(number, drawn, rng)
        told = await engine.tellings(persona, drawn, rng)
        worded = await engine.wordings(persona, drawn)
        history = tell(persona, told, settings.size, words, rng)
        asked = list(ask(persona, drawn, worded, rng))
        kept = asked
        if blind is not None:
            kept = await blind.kept(asked, about=f"persona {number}")
    except UnwrittenError as error:
        if error.outcome == "budget":
            what = "the budget is spent; to resume, repeat the command with a larger budget"
            raise BudgetError(what) from error
        # Texts that fail their checks cost one persona; an outage would cost all that follow.
        if error.outcome == "transport":
            what = f"{error}; to resume, repeat the same command"
            raise TooManyFailuresError(what) from error
        return str(error)
    return _Made(persona, history, kept, len(asked) - len(kept), places)
