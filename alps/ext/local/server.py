"""A llama.cpp server on loopback that ends with the run that needs it, however that ends."""

import asyncio
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import ClassVar

from alps.errors import UsageError
from alps.ext.local.files import ENVIRONMENT, SERVE, ModelFile
from alps.llm.secrets import program_environment

CONTEXT = 8192
"""Tokens of prompt and answer together; a model that knows fewer keeps to those."""
# Seconds in which a server that was told so ends by itself
_GRACE = 5.0
_SHOWN = 300


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
            raise UsageError(f"{self._file.path}: its server has ended ({self._last_words()})")
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
