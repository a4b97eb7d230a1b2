"""A site on loopback, to look at before it is published."""

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from alps.errors import UsageError

HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Serves files alone: no lists of folders, no log, nothing kept by the browser."""

    def list_directory(self, path: Any) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


def serve(site: Path, *, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of `site` on loopback that is bound and waits for `serve_forever`.

    Args:
        site: The folder of a site.
        port: 0 for any that is free.

    Raises:
        UsageError: If there is no site, or the port is taken.
    """
    if not (site / "index.html").is_file():
        raise UsageError(f"{site}: no site there; alps leaderboard build writes one")
    try:
        return ThreadingHTTPServer((HOST, port), partial(_Handler, directory=str(site)))
    except OSError as error:
        raise UsageError(
            f"port={port}: {error.strerror or error}; choose another, or 0 for any"
        ) from error
