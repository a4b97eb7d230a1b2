"""Modes in which a typed answer is asked for: a ladder.

From the one that binds a model most to its prompt alone:

| mode | what is sent |
|---|---|
| `schema` | `response_format` with the JSON schema, `strict` |
| `tools` | one tool with the schema as its parameters, `strict`, which the model is made to call |
| `json` | `response_format` for any JSON object; the schema stands in the prompt |
| `prompt` | nothing; the schema stands in the prompt |

Lengths of texts and lists stand in the schema of a prompt, and in one that is sent to a server of
one's own; where that refuses them, they are left out. Providers refuse them with a 400.

instructor's handlers shape the request, once a provider, mode and schema, and validate the reply;
litellm says which modes a model takes. Where the endpoint itself refuses one, its first error steps
down for the rest of the run.
"""

import functools
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace, new_class
from typing import Any, TypeVar

from pydantic import BaseModel

from alps.extension import is_served
from alps.llm.prices import entry_of
from alps.llm.replies import is_strict, name_of, schema_of, too_much
from alps.llm.types import Reply, Request, Structured, TransportError
from alps.llm.understanding import part_thought
from alps.llm.wire import libraries
from alps.prompts import load_prompt

T = TypeVar("T")

MODES: tuple[Structured, ...] = ("schema", "tools", "json", "prompt")
BY_PROMPT = load_prompt("alps.llm", "prompts", "schema")

# The parameters of providers that a mode must become: litellm leaves out what some of them don't
# take.
_SENT_AS = {
    "tools": {"tools"},
    "json": {"response_format", "response_mime_type", "format", "output_format", "json_mode"},
}
_PROBE: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
_PROBE["additionalProperties"] = False
_OF_SHAPE = re.compile(
    r"response[\s_-]?(?:format|schema|json[\s_-]?schema|mime[\s_-]?type)|json[\s_-]?(?:schema"
    r"|object|mode|output)|structured[\s_-]?(?:output|response)|guided[\s_-]?(?:json|decoding)"
    r"|grammar|output[\s_-]?(?:format|config)|input[\s_-]?schema|invalid schema|\bstrict\b"
    r"|tool[\s_-]?(?:choice|use|call)|\btools?\b|function[\s_-]?call|max(?:Length|Items)\b"
    r"|enum[\s_-]?values?",
    re.IGNORECASE,
)
# How servers say that a schema may have no lengths or so many ids, or a grammar not such long ones
_OF_LENGTHS = re.compile(
    r"max_?(?:length|items)|repetition|grammar|enum[\s_-]?value", re.IGNORECASE
)
# How servers say that an answer may not be so long, or not beside so long a prompt
_OF_LENGTH = re.compile(
    r"max[\s_-]?(?:(?:completion|new|output)[\s_-]?)?tokens|in the completion", re.IGNORECASE
)
# What is wrong with this request or its answer alone: its length, or an answer that the model did
# not bring about.
_OF_ONE_REQUEST = re.compile(
    r"context[\s_-]?(?:length|window)|too (?:long|large)|maximum.{0,20}tokens|reduce the length|"
    r"fail\w*[\s_-]+(?:to[\s_-]+)?(?:generat|call|valid)|(?:generation|validate|use)_failed",
    re.IGNORECASE,
)


class Ladder:
    """Which mode each model of a run is asked in, by model and endpoint; it only ever goes down.

    Where a model is not asked by schema, one line says so.
    """

    def __init__(self) -> None:
        self._modes: dict[tuple[str, str | None], Structured] = {}
        self._taken: set[tuple[str, str | None, Structured | None, str]] = set()
        self._plain: set[tuple[str, str | None]] = set()
        self._thinking: set[tuple[str, str | None]] = set()

    def mode(self, model: str, api_base: str | None) -> Structured:
        """Return the mode in which a model is asked for typed answers."""
        if (model, api_base) not in self._modes:
            self._step_to(first_mode(model), model, api_base, "its provider takes no JSON schema")
        return self._modes[model, api_base]

    def resume(self, model: str, api_base: str | None, mode: Structured) -> None:
        """Begin with the mode that an earlier session of the run ended with."""
        self._modes[model, api_base] = mode

    def on_its_step(self, request: Request[T]) -> Request[T]:
        """Return `request` with the mode it is sent in; plain text has none.

        A model that thinks has no output budget: nobody knows how long it thinks.
        """
        if (request.model, request.api_base) in self._thinking:
            request = replace(request, longest=None)
        if (request.model, request.api_base) in self._plain:
            request = replace(request, plain=True)
        if request.answer is None or request.structured is not None:
            return request
        mode = self.mode(request.model, request.api_base)
        return replace(request, structured=mode, steps_down=True)

    def check(self, request: Request[Any]) -> None:
        """Raise a TransportError for a request whose mode was refused while it waited."""
        mode = self._modes.get((request.model, request.api_base))
        if request.steps_down and mode != request.structured:
            what = f"refused as {request.structured}"
            raise TransportError(what, transient=False, shape_refused=True)

    def taken(self, request: Request[Any]) -> None:
        """Record that an endpoint answered: later refusals are not about the form of requests."""
        if request.answer is not None:
            self._taken.add(_form(request))

    def otherwise(self, request: Request[T], error: TransportError) -> Request[T] | None:
        """Return the request to send in place of a refused one; None if there is none."""
        bounded = request.longest is not None and error.status in (400, 422)
        if bounded and _OF_LENGTH.search(str(error)):
            return replace(request, longest=None)
        return self._one_lower(request, str(error)) if error.shape_refused else None

    def _one_lower(self, request: Request[T], why: str) -> Request[T] | None:
        """Step down; None where the mode was chosen, is the lowest, or was taken before.

        A schema whose lengths are refused goes without them, in a mode that was chosen, too.
        """
        if _OF_LENGTHS.search(why) and not request.plain and _is_of_ones_own(request):
            self._plain.add((request.model, request.api_base))
            return replace(request, plain=True)
        lowest = request.structured in (None, MODES[-1])
        if lowest or not request.steps_down or _form(request) in self._taken:
            return None
        mode = self.mode(request.model, request.api_base)
        if mode == request.structured:  # else another request, refused before, has stepped down
            mode = next_mode(request.model, mode)
            reason = f"the endpoint refuses {request.structured}: {why}"
            self._step_to(mode, request.model, request.api_base, reason)
        return replace(request, structured=mode)

    def unbounded(self, request: Request[T]) -> Request[T]:
        """Return a request without its output budget, as others to its model are from now on."""
        asked = request.model, request.api_base
        if asked not in self._thinking:
            self._thinking.add(asked)
            why = "reasoning used up the previous limit"
            _tell(f"alps now asks {request.model} without an output limit, because {why}")
        return replace(request, longest=None)

    def _step_to(self, mode: Structured, model: str, api_base: str | None, why: str) -> None:
        self._modes[model, api_base] = mode
        if mode != MODES[0]:
            _tell(f"alps now asks {model} with structured={mode}, because {why}")


def _tell(line: str) -> None:
    print(f"alps: {line}", file=sys.stderr)


def _form(request: Request[Any]) -> tuple[str, str | None, Structured | None, str]:
    return request.model, request.api_base, request.structured, sent_schema(request) or ""


def sent_schema(request: Request[Any]) -> str | None:
    """Return the schema that is sent with a typed request, as JSON; None for plain text."""
    if request.answer is None:
        return None
    return schema_of(request.answer.schema, lengths=_takes_lengths(request))


def choices_sent(request: Request[Any]) -> Mapping[str, Sequence[str]]:
    """Return the values that fields of an answer are held to; providers are sent none."""
    # Up to a thousand ids, others for every record: a provider would compile each schema anew.
    in_prompt = request.structured in ("json", "prompt")
    if request.answer is None or in_prompt or request.plain or not _is_of_ones_own(request):
        return {}
    return request.answer.choices


def _takes_lengths(request: Request[Any]) -> bool:
    in_prompt = request.structured in ("json", "prompt")
    return in_prompt or (not request.plain and _is_of_ones_own(request))


def _is_of_ones_own(request: Request[Any]) -> bool:
    """Tell whether a request goes to a server of one's own: llama.cpp, vLLM and their like."""
    named = request.model.startswith(("openai/", "hosted_vllm/"))
    if named and request.api_base is not None and entry_of(request.model) is None:
        return True
    return is_served(request.model)


@functools.cache
def first_mode(model: str) -> Structured:
    """Return the highest mode that litellm can say in the words of the model's provider."""
    litellm = libraries().litellm
    try:
        name = litellm.get_llm_provider(model)[0]
    except litellm.exceptions.BadRequestError:  # no provider: whoever sends it knows best
        return "schema"
    listed = litellm.model_cost.get(model) or litellm.model_cost.get(name)
    tools_alone = (
        listed
        and listed.get("supports_function_calling")
        and not listed.get("supports_response_schema")
    )
    if not tools_alone and _said_to(model, "schema"):
        return "schema"
    return next_mode(model, "schema")


def next_mode(model: str, mode: Structured) -> Structured:
    """Return the next mode below `mode` that litellm can say to the model's provider."""
    return next(m for m in MODES[MODES.index(mode) + 1 :] if m == MODES[-1] or _said_to(model, m))


def _said_to(model: str, mode: Structured) -> bool:
    """Tell whether litellm passes a mode on; a schema that it turns into a tool is of `tools`."""
    litellm = libraries().litellm
    try:
        name, provider, *_ = litellm.get_llm_provider(model)
    except litellm.exceptions.BadRequestError:
        return True
    asked: dict[str, Any] = {"response_format": {"type": "json_object"}}
    if mode == "schema":
        form = {"name": "reply", "schema": _PROBE}
        asked = {"response_format": {"type": "json_schema", "json_schema": form}}
    elif mode == "tools":
        tool = {"type": "function", "function": {"name": "reply", "parameters": _PROBE}}
        choice = {"type": "function", "function": {"name": "reply"}}
        asked = {"tools": [tool], "tool_choice": choice}
    try:
        sent = litellm.get_optional_params(model=name, custom_llm_provider=provider, **asked)
    except Exception:  # whatever it raises, it can't say it
        return False
    return "tools" not in sent if mode == "schema" else not _SENT_AS[mode].isdisjoint(sent)


def shaped(request: Request[Any], messages: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Return the options and messages of a typed request, as its mode has them."""
    if request.answer is None:
        return {"messages": list(messages)}
    mode = request.structured or MODES[0]
    lengths = _takes_lengths(request)
    options: dict[str, Any] = json.loads(_options(request.answer.schema, mode, lengths))
    options["messages"] = list(messages)
    for name, values in choices_sent(request).items():
        _fields(options)[name] = {"type": "string", "enum": list(values)}
    if mode in ("json", "prompt"):
        options["messages"] = _with_schema(messages, request.answer.schema)
    return options


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the schema among the options of a request."""
    if "tools" in options:
        schema = options["tools"][0]["function"]["parameters"]
    else:
        schema = options["response_format"]["json_schema"]["schema"]
    fields: dict[str, Any] = schema["properties"]
    return fields


def as_body(options: dict[str, Any], model: str) -> dict[str, Any]:
    """Return `options`, with the format of an answer moved into the body.

    The openai package walks through a schema in pure Python, again in every call, about a tenth of
    the processor time of one. Only for what speaks OpenAI's form and is not in litellm's table, as
    a server of one's own: of models listed there litellm sends some to another API, which has the
    format elsewhere.
    """
    own_server = model.startswith("openai/") and entry_of(model) is None
    if own_server and "response_format" in options:
        form = options.pop("response_format")
        options["extra_body"] = {**options.get("extra_body", {}), "response_format": form}
    return options


@functools.cache
def _options(schema: type[BaseModel], mode: Structured, lengths: bool) -> str:
    """Return what instructor adds to a request, as JSON."""
    strict = is_strict(schema)
    wanted: dict[str, Any] = {"messages": []}
    if strict and mode == "tools":
        wanted["strict"] = True
    _, options = _handlers(mode).request_handler(_sent_model(schema, lengths), wanted)
    del options["messages"]  # `You are a genius expert …`: our own prompt says the format
    if strict and mode == "schema":  # where instructor leaves it out
        options["response_format"]["json_schema"]["strict"] = True
    return json.dumps(options)


@functools.cache
def _handlers(mode: Structured) -> Any:
    """Return instructor's handlers of a mode, in OpenAI's form, which litellm translates."""
    v2 = libraries().instructor.v2
    names = {"schema": "JSON_SCHEMA", "tools": "TOOLS", "json": "JSON", "prompt": "MD_JSON"}
    return v2.mode_registry.get_handlers(v2.Provider.OPENAI, v2.Mode[names[mode]])


@functools.cache
def _sent_model(schema: type[BaseModel], lengths: bool) -> type[BaseModel]:
    """Return a response model like `schema` that gives the schema that is sent."""
    sent = json.loads(schema_of(schema, lengths=lengths))

    def model_json_schema(cls: type[BaseModel], *_: Any, **__: Any) -> dict[str, Any]:
        return dict(sent)

    own = {"__module__": schema.__module__, "model_json_schema": classmethod(model_json_schema)}
    return new_class(name_of(schema), (schema,), exec_body=lambda namespace: namespace.update(own))


def _with_schema(
    messages: Sequence[dict[str, str]], schema: type[BaseModel]
) -> list[dict[str, str]]:
    """Return the messages with the schema at the end of the first, which many records share."""
    instruction = BY_PROMPT.text.replace("{schema}", schema_of(schema, lengths=True))
    first, *others = messages
    if first["role"] != "system":
        return [{"role": "system", "content": instruction}, *messages]
    return [{**first, "content": f"{first['content']}\n\n{instruction}"}, *others]


def with_arguments(reply: Reply, response: Any) -> Reply:
    """Return a reply whose text is the arguments of the tool that was called, where one was."""
    choices = getattr(response, "choices", None)
    message = getattr(choices[0], "message", None) if choices else None
    calls = getattr(message, "tool_calls", None)
    if not isinstance(calls, list):
        return reply
    arguments = [getattr(getattr(call, "function", None), "arguments", None) for call in calls]
    texts = [text for text in arguments if isinstance(text, str)]
    return replace(reply, text="\n".join(texts)) if texts else reply


def is_valid(reply: Reply, request: Request[Any]) -> bool | None:
    """Tell whether instructor validates a reply strictly, without repair; None: plain text.

    The model's thought is no part of it. In every mode the text has to be the JSON: instructor's
    own reading of `MD_JSON` takes whatever stands between the first brace and the last.
    """
    if request.answer is None:
        return None
    if reply.finish_reason == "length" or too_much(reply.text or ""):
        return False
    message = SimpleNamespace(content=part_thought(reply.text or "", typed=True).answer)
    response = SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason="stop")])
    try:
        _handlers("schema").response_parser(
            response=response, response_model=request.answer.schema, strict=True
        )
    except ValueError:
        return False
    return True


def refuses_shape(kinds: Any, error: Any) -> bool:
    """Tell whether an error of litellm is about the form in which an answer was asked for."""
    if isinstance(error, (kinds.ContextWindowExceededError, kinds.ContentPolicyViolationError)):
        return False
    text = f"{error} {getattr(error, 'body', None) or ''}"
    if getattr(error, "status_code", None) not in (400, 404, 405, 415, 422, 501):
        return False
    return _OF_SHAPE.search(text) is not None and _OF_ONE_REQUEST.search(text) is None
