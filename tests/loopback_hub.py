"""A Hugging Face hub on loopback, with a CDN behind it, whose faults a test scripts.

It speaks as much of the hub's protocol as `huggingface_hub` needs to read a data set: which commit
a revision is, which files a commit has, and the files themselves, in the repository or, as LFS
objects, behind a redirect to another port.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.loopback import QuietServer, running

RELEASE = "Cosineyx/Alpsbench"
Files = dict[str, bytes]
_API = re.compile(r"/api/datasets/([^/]+/[^/]+)/(revision|tree)/([^/]+)")
_FILE = re.compile(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass(frozen=True)
class Refusal:
    """What the hub answers instead of what was asked for."""

    status: int
    code: str = ""


@dataclass
class Hub:
    """What lies on the hub, and how it behaves.

    Attributes:
        commits: By repository and commit, the files.
        branches: By repository and name, the commit.
        refuse: Says of the path of a request what is answered instead, None for nothing.
        token: What must be sent to be let in, None where nothing is needed.
        lfs: Whether files are redirected to the CDN.
        cut: How many downloads in a row end in the middle.
        requests: Method and path of every request, in their order.
    """

    commits: dict[tuple[str, str], Files] = field(default_factory=dict)
    branches: dict[tuple[str, str], str] = field(default_factory=dict)
    refuse: Callable[[str], Refusal | None] = lambda _: None
    token: str | None = None
    lfs: bool = True
    cut: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""
    cdn: str = ""

    def push(self, files: Files, *, repository: str = RELEASE, branch: str = "main") -> str:
        """Commit `files` on a branch, and return the commit."""
        digest = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[repository, digest] = dict(files)
        self.branches[repository, branch] = digest
        return digest

    def commit(self, repository: str, revision: str) -> str | None:
        """Return the commit of a branch, a tag, or the beginning of a commit's name."""
        names = [name for owner, name in self.commits if owner == repository]
        known = [name for name in names if name.startswith(revision)] if len(revision) >= 7 else []
        return self.branches.get((repository, revision)) or (known[0] if known else None)


class _Server(QuietServer):
    def __init__(self, hub: Hub, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(handler)
        self.hub = hub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _send_file(self, content: bytes, **headers: str) -> None:
        """Send a file, or the rest that is asked for, or only half of what was promised."""
        hub = self.server.hub
        start = int(re.sub(r"\D", "", self.headers.get("Range", "0").partition("-")[0]) or 0)
        rest = content[start:]
        if self.command == "HEAD" or hub.cut == 0:
            self._send(206 if start else 200, rest, **headers)
            return
        hub.cut -= 1
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2])
        self.close_connection = True


class _Cdn(_Handler):
    def do_GET(self) -> None:
        assert "Authorization" not in self.headers, "the CDN is told the key of the hub"
        digest = self.path.strip("/")
        self.server.hub.requests.append(("CDN", self.path))
        files = itertools.chain.from_iterable(map(dict.values, self.server.hub.commits.values()))
        self._send_file(next(content for content in files if _sha256(content) == digest))


class _HubHandler(_Handler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        hub.requests.append((self.command, path))
        if (refusal := hub.refuse(path)) is not None:
            self._refuse(refusal)
        elif hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self._refuse(Refusal(401, "GatedRepo"))
        elif asked := _API.match(path):
            self._tell(*asked.groups())
        elif asked := _FILE.match(path):
            self._give(*asked.groups())
        else:
            self._refuse(Refusal(404))

    def _refuse(self, refusal: Refusal) -> None:
        self._send(refusal.status, b'{"error": "scripted"}', X_Error_Code=refusal.code)

    def _tell(self, repository: str, what: str, revision: str) -> None:
        commit = self._commit(repository, revision)
        if commit is None:
            return
        if what == "revision":
            self._send_json({"id": repository, "sha": commit, "siblings": []})
        else:
            files = self.server.hub.commits[repository, commit]
            self._send_json([_listed(path, content) for path, content in files.items()])

    def _give(self, repository: str, revision: str, path: str) -> None:
        commit = self._commit(repository, revision)
        if commit is None:
            return
        content = self.server.hub.commits[repository, commit].get(path)
        if content is None:
            self._send(404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        elif self.server.hub.lfs:
            digest = _sha256(content)
            linked = {"X_Linked_Etag": f'"{digest}"', "X_Linked_Size": str(len(content))}
            linked["Location"] = f"{self.server.hub.cdn}/{digest}"
            self._send(302, X_Repo_Commit=commit, **linked)
        else:
            self._send_file(content, X_Repo_Commit=commit, ETag=f'"{_sha256(content)}"')

    def _commit(self, repository: str, revision: str) -> str | None:
        """Return the commit of a revision; where there is none, say so to the client."""
        hub = self.server.hub
        commit = hub.commit(repository, revision)
        if commit is None:
            known = any(owner == repository for owner, _ in hub.commits)
            told = (404, "RevisionNotFound") if known else (401, "RepoNotFound")
            self._refuse(Refusal(*told))
        return commit

    def _send_json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), Content_Type="application/json")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _listed(path: str, content: bytes) -> dict[str, Any]:
    digest = _sha256(content)
    return {"type": "file", "path": path, "size": len(content), "oid": digest[:40]}


def files_of(folder: Path, above: str = "dataset") -> Files:
    """Read a data set's folder as the files of a commit, which lie in a folder `above` of it."""
    found = {}
    for path in filter(Path.is_file, folder.rglob("*.jsonl")):
        found[str(PurePosixPath(above, path.relative_to(folder)))] = path.read_bytes()
    return found


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Run an empty hub and its CDN on free ports of loopback for the time of a test."""
    hub = Hub()
    with running(_Server(hub, _HubHandler)) as server, running(_Server(hub, _Cdn)) as cdn:
        # Two names, as the client takes a redirect to another port of the same host for one inside
        # the hub.
        hub.url = f"http://127.0.0.1:{server.server_port}"
        hub.cdn = f"http://localhost:{cdn.server_port}"
        yield hub
