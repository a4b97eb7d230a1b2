"""Tools of an MCP server over its stdin and stdout, called as a memory system.

The Model Context Protocol is JSON-RPC 2.0 a line: `initialize`, `tools/list`, `tools/call`. The
tools have the names of the protocol's methods and their arguments: `ingest(user, session)`,
`search(user, query, k, at)`, `reset(user)`; all others are optional. Speaking it here, not by a
client library, keeps the process under our keeper and its environment ours.
"""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, FailFast

from alps.ext.memory.connection import METHODS, OPTIONAL, shaped
from alps.ext.memory.line_protocol import Ask, Declared, Row, declared
from alps.jsonl import parse_json
from alps.sizes import MOST_PAGES
from alps.systems.base import beginning

VERSION = "2025-06-18"
"""Of the protocol, as it is offered; servers answer with one that they speak."""
NEEDED = ("ingest", "search", "reset")


# Else millions of wrong elements would be millions of faults, each with its words.
class _Part(BaseModel):
    text: str = ""


class _Called(BaseModel):
    """What a tool returned."""

    content: Annotated[list[_Part], FailFast()] = []
    isError: bool = False


class _Tool(BaseModel):
    name: str


class _Page(BaseModel):
    tools: Annotated[list[_Tool], FailFast()] = []
    nextCursor: str | None = None


class McpTools:
    """Calls of tools."""

    def __init__(self) -> None:
        self._tools: frozenset[str] = frozenset()

    async def open(self, ask: Ask, tell: Callable[[Row], None], arguments: Row) -> Declared:
        """Shake hands, learn the tools, and call `open` where there is one."""
        client = {"name": "alps", "version": "1"}
        hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
        _result(await ask(_call("initialize", hello)))
        tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._tools = await _tools(ask)
        if missing := [name for name in NEEDED if name not in self._tools]:
            raise ValueError(f"the server has no tool '{missing[0]}'")
        has = (frozenset(OPTIONAL) & self._tools) | frozenset(METHODS)
        if "open" not in self._tools:
            return Declared(has, False)
        return declared(self.result(await ask(self.request("open", arguments))), has)

    def request(self, method: str, arguments: Row) -> Row:
        """Return the call of a tool; where there is no `settle`, nothing is to be waited for."""
        if method == "settle" and method not in self._tools:
            return _call("ping", {})
        return _call("tools/call", {"name": method, "arguments": arguments})

    def result(self, answer: Row) -> Any:
        """Return what a tool returned."""
        result = _result(answer)
        if not result:  # of a ping
            return "ready"
        called = shaped(_Called, result, "result")
        texts = [part.text for part in called.content]
        if called.isError:
            raise ValueError(f"said {' '.join(texts)}")
        structured = result.get("structuredContent")
        if isinstance(structured, dict):
            return structured.get("result") if [*structured] == ["result"] else structured
        if len(texts) > 1:  # a list comes as a text an element
            return [_read(text) for text in texts]
        return _read(texts[0]) if texts else None


async def _tools(ask: Ask) -> frozenset[str]:
    names: set[str] = set()
    cursor: Row = {}
    for _ in range(MOST_PAGES):
        answer = _result(await ask(_call("tools/list", cursor)))
        page = shaped(_Page, answer, "tools/list")
        names.update(tool.name for tool in page.tools)
        if not page.nextCursor:
            return frozenset(names)
        cursor = {"cursor": page.nextCursor}
    raise ValueError(f"tools/list: more than {MOST_PAGES} pages")


def _call(method: str, params: Row) -> Row:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _result(answer: Row) -> Row:
    error = answer.get("error")
    if error is not None:
        message = error.get("message") if isinstance(error, dict) else None
        raise ValueError(f"said {message or error}")
    result = answer.get("result")
    if not isinstance(result, dict):
        raise ValueError(f"answered without a result: {beginning(answer)}")
    return result


def _read(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text
