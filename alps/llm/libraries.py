"""litellm and instructor, imported inside the first call: that takes seconds and 168 MB."""

import functools
import gc
import importlib
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

from alps.llm.wire import teach_clients
from alps.waiting import tell

_LOCK = threading.Lock()


def libraries() -> SimpleNamespace:
    """Return the modules `litellm` and `instructor`."""
    # Two threads that came first together taught the clients twice: no body could be read then.
    with _LOCK:
        return _libraries()


@functools.cache
def _libraries() -> SimpleNamespace:
    for name, value in list(os.environ.items()):
        if name.endswith("_API_KEY") and not value.strip():
            del os.environ[name]  # litellm takes an empty key for a key
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Else the first request to Anthropic fetches a table that lies in the package, too.
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    # litellm opens 500 connections a host; of more requests at once the rest would wait inside
    # `timeout`.
    os.environ.setdefault("AIOHTTP_CONNECTOR_LIMIT_PER_HOST", "2048")
    os.environ.setdefault("AIOHTTP_CONNECTOR_LIMIT", "4096")
    for name in ("instructor", "LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        logger.setLevel(logging.CRITICAL)
    with _no_dotenv():
        tell("loading the model client")
        litellm, instructor = _imported("litellm", "instructor")
    teach_clients()
    litellm.suppress_debug_info = True
    # Where a reply says no usage, litellm counts tokens, and would fetch the tokenizer of some
    # models for it. Only this is forbidden, and not the hub: data may be fetched after this.
    litellm.disable_hf_tokenizer_download = True
    litellm.telemetry = False
    # To clients that it replaces, as each is after an hour, litellm keeps weak references, where it
    # keeps any: one that the garbage collector takes before it is closed complains on the screen.
    with suppress(AttributeError):
        litellm.in_memory_llm_clients_cache.evicted_client_closer._owned = set()
    # litellm makes a request's coroutine in a thread; an interrupt in between leaves it unawaited.
    warnings.filterwarnings("ignore", r"coroutine '\w*Completion\w*\.", RuntimeWarning)
    # of odd replies, on the screen
    warnings.filterwarnings("ignore", r"Pydantic serializer warnings", UserWarning)
    return SimpleNamespace(litellm=litellm, instructor=instructor)


def _imported(*names: str) -> list[Any]:
    """Import libraries that make a million objects and throw none away."""
    # The garbage collector would look through them again and again, for a quarter of the time that
    # the import takes, and after it at every full collection.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _no_dotenv() -> Iterator[None]:
    """Keep libraries from reading a `.env` while they are imported.

    litellm reads one unless its mode is PRODUCTION: a file of a checkout could then send keys and
    dialogues elsewhere. python-dotenv itself is switched off, too, for versions and libraries that
    ask it in other places. Both variables are put back: a class under test may read its own file,
    and what it starts sees the user's environment.
    """
    switches = {"LITELLM_MODE": "PRODUCTION", "PYTHON_DOTENV_DISABLED": "1"}
    before = {name: os.environ.get(name) for name in switches}
    os.environ.update(switches)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
