"""Clients of the run's own endpoints, for the systems of other makers in this process."""

import re
from importlib import import_module
from typing import Any

import httpx

from alps.ext.memory.protocol import MeteredEndpoint, Opening

_UUID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{8}(-?)(?:[0-9a-f]{4}\1){3}[0-9a-f]{12}(?![0-9a-f])")


def both(opening: Opening) -> tuple[MeteredEndpoint, MeteredEndpoint]:
    """Return the LLM and the embedder of an opening.

    Raises:
        ValueError: If the run gives no LLM or no embedder.
    """
    if opening.llm is None or opening.embedder is None:
        raise ValueError("give memory_llm= and memory_embedder=")
    return opening.llm, opening.embedder


def openai_client(endpoint: MeteredEndpoint) -> Any:
    """Return OpenAI's client for an endpoint."""
    openai = import_module("openai")
    # What fails here was tried again by the suite; and no proxy of the environment is in between.
    return openai.OpenAI(
        base_url=endpoint.api_base,
        api_key=endpoint.api_key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


def numbering_client() -> httpx.Client:
    """Return a client that sends ids as numbers in their order, and puts them back in the answer.

    Where a system draws an id for each request and each memory, no kept reply would be found.
    """
    return httpx.Client(transport=_Numbered())


class _Numbered(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        ids: dict[bytes, bytes] = {}

        def numbered(found: re.Match[bytes]) -> bytes:
            number, dash = f"{len(ids) + 1:032x}", found[1].decode()
            parts = (number[:8], number[8:12], number[12:16], number[16:20], number[20:])
            return ids.setdefault(found[0], dash.join(parts).encode())

        sent = _UUID.sub(numbered, request.read())
        own = {number: one for one, number in ids.items()}
        headers = {**request.headers, "content-length": str(len(sent))}
        asked = httpx.Request(
            request.method,
            request.url,
            headers=headers,
            content=sent,
            extensions=request.extensions,
        )
        answer = super().handle_request(asked)
        body = _UUID.sub(lambda found: own.get(found[0], found[0]), answer.read())
        kind = {"content-type": "application/json"}
        return httpx.Response(answer.status_code, headers=kind, content=body, request=request)
