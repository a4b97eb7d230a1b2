"""Lines of JSON by which a program is called: `{"id", "method", …}`, `{"id", "result"}`."""

from collections.abc import Callable
from typing import Any

from alps.ext.memory.connection import METHODS, OPTIONAL
from alps.ext.memory.line_protocol import Ask, Declared, Row
from alps.systems.base import beginning


class JsonLines:
    """Requests with their arguments beside `method`; answers with a `result` or an `error`."""

    async def open(self, ask: Ask, tell: Callable[[Row], None], arguments: Row) -> Declared:
        """Open the program; it may answer with `can`, `persistent` and `declares`."""
        said = self.result(await ask(self.request("open", arguments)))
        return declared(said, frozenset(METHODS))

    def request(self, method: str, arguments: Row) -> Row:
        """Return a request."""
        return {"method": method, **arguments}

    def result(self, answer: Row) -> Any:
        """Return the result."""
        if answer.get("error") is not None:
            raise ValueError(f"said {answer['error']}")
        if "result" not in answer:
            raise ValueError(f"answered without a result: {beginning(answer)}")
        return answer["result"]


def declared(said: Any, has: frozenset[str]) -> Declared:
    """Read what the answer to `open` declares; `has` is known without it.

    Raises:
        ValueError: If it is not in form.
    """
    if said is None:
        return Declared(has, False)
    if not isinstance(said, dict):
        expected = "expected an object with can, persistent and declares, or null"
        raise ValueError(f"{expected}, got {beginning(said)}")
    more = said.get("can", [])
    if not isinstance(more, list) or any(name not in (*OPTIONAL, *METHODS) for name in more):
        raise ValueError(f"can: must be a list of {', '.join(OPTIONAL)}")
    declares = said.get("declares")
    return Declared(has | frozenset(more), said.get("persistent") is True, declares)
