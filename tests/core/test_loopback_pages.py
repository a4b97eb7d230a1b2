"""Pages that are served on this machine, and strangers who connect to them."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.annotate_work import NEEDED, plain_work, related_run
from tests.endtoend import environment
from tests.few import few

pytest.importorskip("starlette", reason=NEEDED)
STRANGERS = 300
ASKED = b"GET /x/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POSTED = ASKED.replace(b"GET", b"POST") + b"Origin: http://127.0.0.1\r\n"
SENT = (
    b"GET / HTTP/1.1\r\nHost: x\r\n",
    b"\0\xff no HTTP\r\n\r\n",
    b"",
    ASKED + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ASKED + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
    POSTED + b"Content-Length: 999999999\r\n\r\nitem=",
    POSTED + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\nitem=",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
)
FILES = 256
"""How many files a process may have open, as on some systems."""


class Page:
    """A page that the command serves, and the address that it printed."""

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        limited = ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh"]
        self.process = subprocess.Popen(
            [*limited, sys.executable, "-m", "alps", *words],
            cwd=folder,
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        addresses = (re.match(r"http://\S+", line) for line in self.process.stdout)
        address = next(filter(None, addresses), None)
        assert address is not None, self.process.communicate()[1]
        self.address = address[0]

    def get(self, path: str = "") -> tuple[int, bytes]:
        """Ask for a path below the token."""
        parts = urlsplit(self.address)
        connection = HTTPConnection(parts.hostname, parts.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", parts.path + path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def end(self) -> str:
        """End the command as Ctrl-C does; return what it said on stderr."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=60)[1]


@contextlib.contextmanager
def served(folder: Path, *words: str) -> Iterator[Page]:
    page = Page(folder, words)
    try:
        yield page
    finally:
        if page.process.poll() is None:
            page.process.kill()
            page.process.communicate()


@pytest.fixture(scope="module", params=few(["annotate", "view"], plain={1}))
def words(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "annotate":
        plain_work(folder / "work", 4)
        return folder, ("annotate", "work")
    related_run(folder / "run", limit=2)
    return folder, ("view", "run", "serve=yes")


@pytest.mark.skipif(os.name == "nt", reason="needs sh")
@pytest.mark.release
def test_strangers_who_send_no_request_stop_no_page_and_fill_no_terminal(words):
    folder, command = words
    with served(folder, *command) as page, contextlib.ExitStack() as stack:
        parts = urlsplit(page.address)
        for number in range(STRANGERS):
            stranger = stack.enter_context(socket.socket())
            stranger.connect((parts.hostname, parts.port))
            with contextlib.suppress(OSError):
                stranger.sendall(SENT[number % len(SENT)])
        assert page.get()[0] == 200
        said = page.end()
    lines = said.splitlines()
    assert len(lines) <= 1, said
    assert all(line.startswith("alps: closing connections without a request") for line in lines)


def test_a_long_error_is_cut_on_a_page(tmp_path):
    run = related_run(tmp_path / "run", limit=2)
    path = run / "predictions.jsonl"
    first, *others = [json.loads(line) for line in path.read_text().splitlines()]
    failed = {**first, "outcome": "transport", "error": "<html>" * 100_000, "prediction": None}
    path.write_text("".join(json.dumps(row) + "\n" for row in (failed, *others)))
    with served(tmp_path, "view", "run", "serve=yes") as page:
        status, text = page.get("records/0.js")
    assert status == 200
    assert b"(600,000 characters)" in text
    assert len(text) < 100_000


@pytest.mark.release
def test_the_token_is_another_one_at_each_start_and_no_cookie(words):
    folder, command = words
    with served(folder, *command) as page:
        port = str(urlsplit(page.address).port)
        cookies = CookieJar()
        browser = build_opener(HTTPCookieProcessor(cookies))
        assert browser.open(page.address).status == 200
        # A cookie would be sent to whoever serves another port of this machine.
        assert list(cookies) == []
        old = urlsplit(page.address).path
        page.end()
    with served(folder, *command, f"port={port}") as page:
        assert urlsplit(page.address).path != old
        assert page.get()[0] == 200
        page.address = page.address.replace(urlsplit(page.address).path, old)
        assert page.get()[0] == 403
