"""Models on this machine, and the speed of one: `alps doctor` and `alps local try`."""

import asyncio
from typing import Any

import httpx
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from alps.embeddings import E5
from alps.errors import UsageError
from alps.ext.local.server import COMES_WITH, ENVIRONMENT, Server, model_file
from alps.show.formatting import visible

_ASKED = "Name the days of the week and explain their names."
_TOKENS = 32
# Seconds; a busy machine writes a token in one
_LONGEST = 120.0


def examine(settings: BaseModel, console: Console) -> None:
    """Print whether a local model is installed, as a part of `alps doctor`."""
    if settings.model_fields_set:
        return
    state = "not installed → alps local install"
    if ENVIRONMENT.is_installed:
        state = f"{COMES_WITH} in {ENVIRONMENT.folder}; alps local try measures its speed"
    console.print(Text(visible(f"model=local: {state}")), soft_wrap=True)
    state = f"not installed → {E5.installation}" if E5.missing else f"{E5.model}, {E5.version()}"
    console.print(Text(f"model=e5, memory=e5, memory_embedder=local: {state}"), soft_wrap=True)


def tried(name: str) -> list[str]:
    """Return what a model is, and how fast it answers a short question, in lines.

    Raises:
        UsageError: If nothing serves the model, or it can't be loaded.
    """
    return asyncio.run(_lines(name))


async def _lines(name: str) -> list[str]:
    file = model_file(name)
    server = Server.of(file)
    try:
        address = await server.ready()
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=_LONGEST) as client:
            props = (await client.get("/props")).json()
            about = (await client.get("/v1/models")).json()["data"][0]["meta"]
            messages = [{"role": "user", "content": _ASKED}]
            asked = {"messages": messages, "max_tokens": _TOKENS}
            timings = (await client.post("/v1/chat/completions", json=asked)).json()["timings"]
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{name}: unexpected response from its server ({error!r})") from error
    finally:
        await server.released()
    return [_what(file.path.name, props, about), _speed(timings)]


def _what(name: str, props: dict[str, Any], about: dict[str, Any]) -> str:
    millions = about["n_params"] / 1_000_000
    context = props["default_generation_settings"]["n_ctx"]
    known = f"a context of {context:,} tokens (it was trained on {about['n_ctx_train']:,})"
    return f"{name}: {millions:,.0f} million parameters, {known}, one answer at a time"


def _speed(timings: dict[str, Any]) -> str:
    reads, writes = timings["prompt_per_second"], timings["predicted_per_second"]
    return f"measured now: reads {reads:,.0f} tokens a second, writes {writes:,.0f}"
