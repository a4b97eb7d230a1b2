"""Lines of JSON by which a program is called: `{"id", "method", …}`, `{"id", "result"}`."""

from collections.abc import Callable
from typing import Any

from alps.systems.memory.connection import METHODS, OPTIONAL
from alps.systems.memory.spoken import Ask, Declared, Row


class JsonLines:
    """Requests with their arguments beside `method`; answers with a `result` or an `error`."""

    async def open(self, ask: Ask, tell: Callable[[Row], None], arguments: Row) -> Declared:
        """Open the program; it may answer with `can` and `persistent`."""
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
            raise ValueError("answered without a result")
        return answer["result"]


def declared(said: Any, has: frozenset[str]) -> Declared:
    """Read what the answer to `open` declares; `has` is known without it.

    Raises:
        ValueError: If it is not in form.
    """
    if said is None:
        return Declared(has, False)
    if not isinstance(said, dict):
        raise ValueError("expected an object with can and persistent, or null")
    more = said.get("can", [])
    if not isinstance(more, list) or not {*OPTIONAL, *METHODS}.issuperset(map(str, more)):
        raise ValueError(f"can: it takes a list of {', '.join(OPTIONAL)}")
    return Declared(has | frozenset(more), said.get("persistent") is True)
