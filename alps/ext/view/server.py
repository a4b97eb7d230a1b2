"""Server of the page: records are read when they are asked for, and runs may be under way."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alps.ext.view.loopback import application_of
from alps.ext.view.records import RecordLines, assets, chunk_script, index_script, page
from alps.run.opened import open_run
from alps.text import whole_number

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_SCRIPT = "text/javascript; charset=utf-8"


class _Desk:
    """The records as they were when a page last asked for its index."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._version, self._records = self._found(), self._read({})

    def _read(self, openings: Mapping[tuple[str, str], str]) -> RecordLines:
        return RecordLines([open_run(folder) for folder in self._folders], openings)

    def _found(self) -> int:
        """Return what grows with the journals of the runs."""
        sizes = 0
        for folder in self._folders:
            for journal in ("predictions.jsonl", "scores.jsonl"):
                path = folder / journal
                sizes += path.stat().st_size if path.is_file() else 0
        return sizes

    def version(self, request: "Request") -> "Response":
        """Answer with a number that changes when there is more to show."""
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(str(self._found()))

    def index(self, request: "Request") -> "Response":
        """Answer with the index, read again where the runs went on."""
        from starlette.responses import Response

        if (found := self._found()) != self._version:
            self._version, self._records = found, self._read(self._records.openings)
        return Response(index_script(self._records, self._version), media_type=_SCRIPT)

    def records(self, request: "Request") -> "Response":
        """Answer with a part of the records."""
        from starlette.responses import PlainTextResponse, Response

        number = whole_number(request.path_params["number"])
        if number is None or number >= self._records.chunks:
            return PlainTextResponse("not found", 404)
        return Response(chunk_script(self._records, number), media_type=_SCRIPT)


def application(folders: Sequence[Path], token: str) -> "Starlette":
    """Return the application that serves records of runs to holders of the token."""
    from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse
    from starlette.routing import Route

    desk = _Desk(folders)
    known = assets()

    def show(request: "Request") -> "Response":
        return HTMLResponse(page(live=True))

    def asset(request: "Request") -> "Response":
        path = known.get(request.path_params["name"])
        return PlainTextResponse("not found", 404) if path is None else FileResponse(path)

    routes = [
        Route("/", show),
        Route("/version", desk.version),
        Route("/index.js", desk.index),
        Route("/records/{number}.js", desk.records),
        Route("/{name}", asset),
    ]
    return application_of(routes, token)
