"""One HTTP attempt: instructor says how a typed answer is asked for, litellm asks; no other module imports either.

Importing litellm takes seconds and 168 MB, so it happens inside the first call. Retries are the client's: litellm and
instructor are told to make exactly one request.
"""

import functools
import gc
import importlib
import json
import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from alps.errors import AlpsError, CredentialError, QuotaError, UsageError
from alps.llm.prices import has_own_price, price_of
from alps.llm.redirects import Refused, following_none, teach_clients
from alps.llm.secrets import redact
from alps.llm.types import Reply, Request, TransportError

_PLACEHOLDER_KEY = "not-needed"
_LONGEST_WAIT = 3600.0
"""Seconds; a provider that asks for more has a quota for the day."""


@functools.cache
def _libraries() -> SimpleNamespace:
    for name in [name for name, value in os.environ.items() if name.endswith("_API_KEY") and not value.strip()]:
        del os.environ[name]  # litellm takes an empty key for a key
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for name in ("instructor", "LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        logger.setLevel(logging.CRITICAL)
    with _no_dotenv():
        litellm, instructor, processing = _imported("litellm", "instructor", "instructor.processing")
    teach_clients()
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    # To clients that it replaces, as each is after an hour, litellm keeps weak references, where it keeps any: one that
    # the garbage collector takes before it is closed complains on the screen.
    with suppress(AttributeError):
        litellm.in_memory_llm_clients_cache.evicted_client_closer._owned = set()
    # litellm makes a request's coroutine in a thread; an interrupt in between leaves it unawaited.
    warnings.filterwarnings("ignore", r"coroutine '\w*Completion\w*\.", RuntimeWarning)
    return SimpleNamespace(litellm=litellm, mode=instructor.Mode.JSON_SCHEMA, shape=processing.handle_response_model)


def _imported(*names: str) -> list[Any]:
    """Import libraries that make a million objects and throw none away.

    The garbage collector would look through them again and again, for a quarter of the time that the import takes, and
    after it at every full collection.
    """
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
    """Keep libraries from reading a `.env` of the working folder, or of one above it, while they are imported.

    litellm reads one unless its mode is PRODUCTION: a file of a checkout could then send keys and dialogues elsewhere.
    python-dotenv itself is switched off, too, for versions and libraries that ask it in other places. Both variables
    are put back: a class under test may read its own file, and what it starts sees the user's environment.
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


def check_model(model: str, *, api_base: str | None) -> None:
    """Check that litellm knows where to send `model` and that its key is set, without a request.

    Raises:
        UsageError: If no provider can be told from the name.
        CredentialError: If an environment variable is missing; the message names it.
    """
    litellm = _libraries().litellm
    try:
        provider = litellm.get_llm_provider(model)[1]
    except litellm.exceptions.BadRequestError as error:
        raise UsageError(
            f"model '{model}': no provider is known by that name; write provider/model, as in openai/gpt-4.1-mini"
        ) from error
    missing = litellm.validate_environment(model)["missing_keys"]
    if missing and api_base is None:
        names = " and ".join(missing)
        raise CredentialError(f"model '{model}': set {names} in the environment (the key of {provider})")


def endpoint_from_environment(model: str) -> tuple[str, str] | None:
    """Return the variable of the environment that sends `model` elsewhere than to its provider, and the host there.

    litellm and the providers' own clients read such variables: `OPENAI_BASE_URL`, `ANTHROPIC_API_BASE` and the like.
    """
    provider = _libraries().litellm.get_llm_provider(model)[1].upper()
    names = (f"{provider}_{name}" for name in ("API_BASE", "BASE_URL", "API_BASE_URL", "ENDPOINT"))
    for name in names:
        if address := os.environ.get(name, "").strip():
            return name, redact(urlsplit(address).netloc.rpartition("@")[2] or "another address")
    return None


def model_facts(model: str) -> dict[str, Any]:
    """Return what litellm's table says of `model`: `input` and `output` in US dollars a token, `max_output_tokens`.

    What the table does not know is absent.
    """
    litellm = _libraries().litellm
    try:
        info = litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for a model that it does not know
        return {}
    names = {
        "input": "input_cost_per_token",
        "output": "output_cost_per_token",
        "max_output_tokens": "max_output_tokens",
    }
    return {short: info[name] for short, name in names.items() if info.get(name) is not None}


async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
    """Make one HTTP request and return what came back, well-formed or not.

    Raises:
        TransportError: If no answer came. Its `fatal` is what ends the run where no later call can go through either: a
            CredentialError if the key was refused, a QuotaError if the provider asks to wait for longer than an hour, a
            UsageError if the model is not there.
    """
    libraries = _libraries()
    clean = [{name: _encodable(text) for name, text in message.items()} for message in messages]
    options: dict[str, Any] = {"model": request.model, "messages": clean, **request.sampling}
    if request.api_base is not None:
        options["api_base"] = request.api_base
        if libraries.litellm.validate_environment(request.model)["missing_keys"]:
            options["api_key"] = _PLACEHOLDER_KEY
    if request.answer is not None:
        options |= json.loads(_shaped(request.answer.schema))
    with following_none() as refused:
        try:
            return _reply(await libraries.litellm.acompletion(max_retries=0, **options), request.model)
        except Exception as error:  # whatever a provider's client raises, no answer was heard
            if refused.status is not None:
                raise _redirected(refused) from error
            raise _transport_error(libraries.litellm.exceptions, error, request.model) from error


def _encodable(text: str) -> str:
    """Replace halves of characters, which real texts hold and no HTTP client can send."""
    return text.encode("utf-8", errors="replace").decode()


@functools.cache
def _shaped(schema: type[BaseModel]) -> str:
    """Return what instructor adds to a request for an answer by `schema`, as JSON.

    Its client would make the same anew for each request, and check each answer, which our own parser reads: half of the
    time that a request takes.
    """
    libraries = _libraries()
    _, options = libraries.shape(schema, mode=libraries.mode, messages=[])
    return json.dumps({name: value for name, value in options.items() if name != "messages"})


def _reply(response: Any, model: str) -> Reply:
    usage = getattr(response, "usage", None)
    used = {name: getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")}
    cost = _cost(response, model, **used)
    if not response.choices:
        return Reply(text=None, cost=cost, **used)
    choice = response.choices[0]
    extra = getattr(choice.message, "provider_specific_fields", None) or {}
    refusal = getattr(choice.message, "refusal", None) or extra.get("refusal")
    return Reply(choice.message.content, choice.finish_reason, refusal, cost=cost, **used)


def _cost(response: Any, model: str, *, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
    """Return the dollars of a reply: by the user's price file where it names the model, else by litellm's table."""
    if has_own_price(model):
        details = getattr(getattr(response, "usage", None), "prompt_tokens_details", None)
        cached = min(getattr(details, "cached_tokens", None) or 0, prompt_tokens or 0)
        return price_of(model).cost(prompt_tokens or 0, completion_tokens or 0, cached_tokens=cached)
    cost: float | None = response._hidden_params.get("response_cost")
    return cost


def _transport_error(kinds: Any, error: Any, model: str) -> TransportError:
    status, unsent = _http_status(kinds, error)
    text = str(error)
    detail = text.partition("Exception - ")[2] or text  # litellm names its classes up to three times before
    message = redact(f"{type(error).__name__}: {detail}").splitlines()[0][:300]
    retry_after = _retry_after(error)
    fatal = _fatal(kinds, error, f"model '{model}'", message, retry_after)
    transient = isinstance(
        error,
        (
            kinds.RateLimitError,
            kinds.InternalServerError,
            kinds.ServiceUnavailableError,
            kinds.BadGatewayError,
            kinds.Timeout,
            kinds.APIConnectionError,
        ),
    ) or (status is not None and (status >= 500 or status in (408, 409, 425)))
    return TransportError(
        message,
        transient=transient and fatal is None,
        status=status,
        unsent=unsent,
        retry_after=retry_after,
        refused=isinstance(error, kinds.ContentPolicyViolationError),
        fatal=fatal,
    )


def _redirected(refused: Refused) -> TransportError:
    where = redact(refused.host)[:200] or "an address that it does not name"
    message = f"HTTP {refused.status}: the endpoint redirects to {where}, which is not followed; ask that one itself"
    return TransportError(message, transient=False, status=refused.status)


def _fatal(kinds: Any, error: Any, who: str, message: str, retry_after: float | None) -> AlpsError | None:
    """Return what to end the run with, where no later call can go through either."""
    if retry_after is not None and retry_after > _LONGEST_WAIT:
        wait = f"asks to wait {retry_after / 3600:,.1f} hours"
        return QuotaError(f"{who}: the provider {wait} ({message}); the same command goes on then")
    if isinstance(error, (kinds.AuthenticationError, kinds.PermissionDeniedError)):
        return CredentialError(f"{who}: the provider refused the key ({message})")
    if isinstance(error, kinds.NotFoundError):
        return UsageError(f"{who}: the endpoint does not have it ({message})")
    return None


def _http_status(kinds: Any, error: Any) -> tuple[int | None, bool]:
    """Return the status that a server gave, None where it gave none, and whether it was never reached.

    litellm makes up a status for connections that broke.
    """
    import httpx

    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    if isinstance(error, kinds.Timeout):
        return status or 408, False
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, httpx.TransportError):
            return None, isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        cause = cause.__cause__ or cause.__context__
    return status, False


def _retry_after(error: Any) -> float | None:
    """Return the seconds that a Retry-After header asks for, given as seconds or as a date."""
    response = getattr(error, "response", None)
    for headers in (getattr(error, "litellm_response_headers", None), getattr(response, "headers", None)):
        value = (headers or {}).get("retry-after")
        if value is not None:
            return _seconds(value)
    return None


def _seconds(value: str) -> float | None:
    with suppress(ValueError):
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


async def close() -> None:
    """Close the connections that litellm keeps for later calls, and forget them; nothing where it was never loaded."""
    if "litellm" not in sys.modules:
        return
    import litellm
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    await close_litellm_async_clients()
    closer = getattr(litellm.in_memory_llm_clients_cache, "evicted_client_closer", None)
    made: set[Any] = getattr(closer, "_owned", set())
    while made:
        client = made.pop()
        with suppress(Exception):
            await getattr(client, "aclose", client.close)()
    litellm.in_memory_llm_clients_cache.flush_cache()
