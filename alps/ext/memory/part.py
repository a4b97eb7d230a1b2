"""The memory's part in a run: before the reader; its models, its admission, and what it took.

A run of a memory system that fails a check has no scores. `alps doctor` checks one without a run.
Bundled embedders, by the name in `memory_embedder=`, send no requests.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from alps.embeddings import E5, EMBEDDERS, MINILM
from alps.errors import UsageError
from alps.event_loop import run_loop
from alps.ext.memory import ANSWERS, FILE
from alps.ext.memory.built_in import needed_models
from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.journal import AnswerLog, answers_of, checks_in, phases_of, stored_by
from alps.ext.memory.reader import EmbeddedMemory, open_embedded, through
from alps.ext.memory.resolve import (
    SPOKEN,
    MemoryOptions,
    adapter_versions,
    check_memory,
    open_memory,
)
from alps.ext.memory.settings import DoctorKeys, MemoryKeys, MemoryModels
from alps.ext.memory.store import Store
from alps.extension import sender_of
from alps.keys import passed
from alps.llm.ledger import Ledger
from alps.llm.secrets import redact
from alps.rows import Check, Summary
from alps.run.estimate import Stage
from alps.run.parts import Course, Estimated, RunPart
from alps.run.services import Services, UsedModel, check_models, close_connections
from alps.run.session import RunSession
from alps.run.source import RunData
from alps.settings import RunSettings, as_typed
from alps.show.formatting import counted
from alps.systems.resolve import RECORDED
from alps.systems.retrievers import terms
from alps.tasks import Task
from alps.tasks.by_memory import FULL
from alps.waiting import tell

if TYPE_CHECKING:
    from rich.console import Console

    from alps.ext.memory.proxy import Behind
    from alps.llm.client import Client
    from alps.show.table import Table

_OF_PACKAGES: Mapping[str, str] = {"minilm": "minilm", "local": "e5"}
"""Embedders that an extra brings, by the name of that."""
IN_THE_BOX = ("hash", *_OF_PACKAGES)
"""Embedders that nobody is asked for."""
DIMENSIONS = 512


def asked_models(settings: MemoryModels) -> list[UsedModel]:
    """Return every model that is asked for a memory."""
    asked, embedder = [], settings.memory_embedder
    if (llm := settings.memory_llm) is not None:
        asked.append(UsedModel("memory_llm", llm, settings.memory_llm_api_base, {}, None))
    if embedder is not None and embedder not in IN_THE_BOX:
        api_base = settings.memory_embedder_api_base
        asked.append(UsedModel("memory_embedder", embedder, api_base, {}, None))
    return asked


def memory_models(
    settings: MemoryModels, client: "Callable[[str | None, str], Client] | None"
) -> "tuple[Behind | None, Behind | None]":
    """Return the models behind the LLM and the embedder of a memory system.

    `client` returns who asks a model at an endpoint; None where no model is to be asked.
    """
    if settings.memory_llm is None and settings.memory_embedder is None:
        return None, None
    from alps.ext.memory.proxy import Behind

    behind = {}
    if client is not None:
        for one in asked_models(settings):
            behind[one.key] = Behind(one.name, client(one.api_base, one.name), one.api_base)
    embedder = behind.get("memory_embedder")
    if settings.memory_embedder in IN_THE_BOX:
        embedder = Behind(settings.memory_embedder, embed=_EMBED[settings.memory_embedder])
    return behind.get("memory_llm"), embedder


def require_memory_models(settings: MemoryModels, memory: str) -> None:
    """Refuse a run of a memory system in the box without the models that it asks.

    Raises:
        UsageError: Names the keys that are not given.
    """
    if lacking := [key for key in needed_models(memory) if getattr(settings, key) is None]:
        keyless = "; memory=notes keeps notes without a model" if memory == "files" else ""
        raise UsageError(f"memory={memory}: set {'= and '.join(lacking)}={keyless}")


def check_memory_models(settings: MemoryModels, memory: str) -> None:
    """Refuse models without use, and an embedder whose extra is not installed.

    Raises:
        UsageError: Names the key.
    """
    for key in MemoryModels.model_fields:
        if getattr(settings, key) is not None and open_embedded(memory) is not None:
            why = f"memory={memory} is not a memory system; leave {key}= out"
            raise UsageError(f"{key}= would change nothing: {why}")
    for of in ("memory_llm", "memory_embedder"):
        name = getattr(settings, of)
        if getattr(settings, f"{of}_api_base") is not None and (name in (None, *IN_THE_BOX)):
            why = f"{of}={redact(str(name))}" if name else f"{of}= is missing"
            fix = f"leave {of}_api_base= out"
            raise UsageError(f"{of}_api_base= would change nothing: {why}; {fix}")
    embedder_versions(settings)


def embedder_versions(settings: MemoryModels) -> dict[str, str]:
    """Return the package of an embedder in the box, and its version.

    Raises:
        UsageError: If it is not installed.
    """
    extra = _OF_PACKAGES.get(str(settings.memory_embedder))
    if extra is None:
        return {}
    package, _, version = EMBEDDERS[extra].version().partition(" ")
    return {package: version}


def hashed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return a unit vector per text: its stemmed words, each added at a place of its hash.

    The same for the same text on every machine; words that mean the same are as far apart as any.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(n_features=DIMENSIONS, analyzer=terms)
    vectors = np.asarray(vectorizer.transform(texts).toarray(), dtype=np.float32)
    # A text without words would be at no angle to any other.
    vectors[~vectors.any(axis=1), 0] = 1.0
    return vectors


_EMBED: Mapping[str, Callable[[Sequence[str]], NDArray[np.float32]]] = {
    "hash": hashed,
    "minilm": MINILM.embed,
    # What a system asks about and what it keeps come alike: the model's authors give texts that
    # are compared with each other the prefix of queries.
    "local": partial(E5.embed, queries=True),
}


class MemoryRunPart(RunPart):
    """The memory of one run."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self.keys = MemoryKeys.of(settings)
        self.memory: EmbeddedMemory | None = None
        self._log: AnswerLog | None = None
        self._checks: list[Check] = []

    def refuse(self) -> None:
        """Refuse several sizes of answers that were given at one."""
        sizes = self.keys.max_context_tokens
        if isinstance(sizes, tuple) and self.settings.model.startswith(RECORDED):
            why = "the recorded answers belong to one context size; set only this size"
            raise UsageError(f"max_context_tokens={as_typed(sizes)}: {why}")

    def uses(self, key: str) -> bool:
        """Tell whether a memory that is a program gets the variables of `env=`."""
        return key == "env" and self.keys.memory.startswith(SPOKEN)

    def check(self, data: RunData, *, generate: bool, keys: bool) -> None:
        """Refuse an unknown memory, and models of it that cannot be called."""
        if generate:
            check_memory(self.keys.memory, memory_options(self.keys, None))
            require_memory_models(self.keys, self.keys.memory)
            check_memory_models(self.keys, self.keys.memory)
            check_models(self.asked(), IN_THE_BOX, keys=keys)

    def asked(self) -> Sequence[UsedModel]:
        """Return the models that the memory is given."""
        return asked_models(self.keys)

    def open(self, services: Services, data: RunData, folder: Path | None) -> Services:
        """Put the memory before the systems; it is opened with the models that it is given."""
        clients = services.clients
        models = memory_models(self.keys, None if clients is None else clients.of)
        options = memory_options(self.keys, folder, *models)
        self.memory = memory = _memory(self.keys, data, options)
        if memory is None:
            return services
        self._log = None if folder is None else AnswerLog(folder / ANSWERS)
        rows, most = [], self.keys.most_context
        for track, systems in zip(data.tracks, services.systems, strict=True):
            asked = (through(memory, one, track.task, most, self._log) for one in systems)
            rows.append(tuple(asked))
        return replace(services, systems=tuple(rows))

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the packages of the memory."""
        return adapter_versions(self.keys.memory) | embedder_versions(self.keys)

    async def before(self, course: Course) -> None:
        """Check the memory system before the run."""
        self._checks += await admitted(self.memory, "before")
        # After admission, which opens the system: only then is it known what it can.
        check_estimable(self.memory, course.session.data.tasks)

    async def after(self, course: Course) -> None:
        """Check the memory system after the run."""
        self._checks += await admitted(self.memory, "after")

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add the checks, and how long the phases took."""
        folder = course.session.folder
        found: dict[str, Any] = {}
        if (folder / FILE).exists():
            # A merged run checked nothing itself; its shards did.
            found = {"admission": self._checks or checks_in(folder)}
            found |= {"phases": phases_of(folder), "answers": answers_of(folder)}
            found["bytes_per_1000_turns"] = stored_by(folder)
        return summary.model_copy(update=found)

    def stages(self, session: RunSession, estimated: Estimated) -> Sequence[Stage]:
        """Name the models that the memory calls; the number of calls is unknown."""
        stages = []
        for one in asked_models(self.keys):
            stages.append(Stage(one.key.replace("_", " "), redact(one.name), unknown=True))
        return stages

    async def aclose(self) -> None:
        """Close the memory system and the log of what the reader was shown."""
        if isinstance(self.memory, Store):
            await self.memory.aclose()
        if self._log is not None:
            self._log.close()


def memory_options(
    settings: MemoryKeys,
    folder: Path | None,
    llm: "Behind | None" = None,
    embedder: "Behind | None" = None,
) -> MemoryOptions:
    """Return the options of a run's memory; `folder` is the run folder."""
    return MemoryOptions(
        k=settings.k,
        timeout=settings.timeout,
        seed=settings.seed,
        folder=folder,
        options=settings.memory_options or {},
        env=settings.passed,
        llm=llm,
        embedder=embedder,
    )


def _memory(settings: MemoryKeys, data: RunData, options: MemoryOptions) -> EmbeddedMemory | None:
    """Return the memory of a run; None where every history is shown as it is."""
    if settings.memory == FULL and settings.max_context_tokens is None:
        return None
    # Recorded answers were given long ago: no memory has a part in them any more.
    if settings.model.startswith(RECORDED):
        return None

    def samples() -> Iterator[tuple[Task, Any]]:
        for track in data.tracks:
            for sample in track.samples():
                if data.sessions is None or sample.session_id in data.sessions:
                    yield track.task, sample

    return open_memory(settings.memory, options, samples)


async def admitted(memory: EmbeddedMemory | None, when: Literal["before", "after"]) -> list[Check]:
    """Check the memory system of a run; nothing where it has none.

    Raises:
        UsageError: If a check failed, or none could be made; names the first.
    """
    if not isinstance(memory, Store):
        return []
    tell("checking the memory system", announced=True)
    try:
        checks = await memory.admit(when)
    except MemoryFailed as failure:
        why = f"{failure}; to resume the run, repeat the command"
        raise UsageError(f"memory={memory.name} was not checked {when} the run: {why}") from failure
    failed = [check for check in checks if not check.passed]
    if failed:
        first = failed[0]
        more = counted(len(failed) - 1, "more failed check")
        others = f" (and {more})" if len(failed) > 1 else ""
        raise UsageError(
            f"memory={memory.name}: not admitted {when} the run, so alps gives no scores: "
            f"{first.name}: {first.fault}{others}; all checks: alps doctor memory={memory.name}"
        )
    return checks


def check_estimable(memory: EmbeddedMemory | None, tasks: Sequence[Task]) -> None:
    """Refuse tasks whose answer is all that a memory system holds, of one that can't list it.

    Raises:
        UsageError: If there is such a task; names those that are left.
    """
    if not isinstance(memory, Store) or not memory.cannot_list:
        return
    lost: dict[str, None] = {}
    left: dict[str, None] = {}
    for task in tasks:
        needed = task.by_memory.answers is not None and task.by_memory.answers.lists
        (lost if needed else left)[task.name] = None
    if lost:
        fix = f"; set task={','.join(left)}" if left else ""
        raise UsageError(
            f"memory={memory.name} has no method `memories`, so {' and '.join(lost)} can't be "
            f"estimated{fix}"
        )


def checks_of(settings: DoctorKeys) -> list[Check]:
    """Check the memory system of `memory=` without a run, with its models.

    Raises:
        AlpsError: If nothing is called so, it is no memory system, or a model can't be asked.
    """
    name = str(settings.memory)
    if settings.env is not None and not name.startswith(SPOKEN):
        why = "only program:CMD and mcp:CMD use env=; leave it out"
        raise UsageError(f"env={settings.env} would change nothing: {why}")
    check_memory_models(settings, name)
    check_models(asked_models(settings))
    with TemporaryDirectory() as folder, closing(Ledger(Path(folder) / "calls.jsonl")) as ledger:
        clients: list[Client] = []

        def client(api_base: str | None, model: str) -> "Client":
            from alps.llm.client import Client
            from alps.llm.types import EndpointCalls

            timeout = settings.timeout
            own = sender_of(EndpointCalls(model, api_base, timeout))
            # No kept replies: a check has to find out whether the models answer today.
            asking = Client(
                concurrency=None, ledger=ledger, cache=None, timeout=timeout, sender=own
            )
            clients.append(asking)
            return asking

        llm, embedder = memory_models(settings, client)
        options = MemoryOptions(
            k=5,
            timeout=settings.timeout,
            folder=Path(folder),
            options=settings.memory_options or {},
            env=passed(settings.env),
            llm=llm,
            embedder=embedder,
        )
        memory = open_memory(name, options, lambda: ())
        if not isinstance(memory, Store):
            raise UsageError(
                f"memory={name}: not a memory system; doctor checks only memory systems"
            )
        return run_loop(_checked(memory, clients))


async def _checked(memory: Store, clients: "Sequence[Client]") -> list[Check]:
    try:
        return await memory.admit("before")
    except MemoryFailed as failed:
        raise UsageError(f"memory={memory.name}: {failed}") from failed
    finally:
        await memory.aclose()
        for client in clients:
            await client.aclose()
        await close_connections()


def examine_memory(settings: BaseModel, console: "Console") -> int | None:
    """Print the admission of the memory system that `memory=` names.

    Returns:
        0 where it passed, else 1; None where none is named.

    Raises:
        UsageError: If nothing is called so, or it is no memory system.
    """
    from alps.show.table import printed

    keys = DoctorKeys.of(settings)
    if keys.memory is None:
        if others := sorted(keys.model_fields_set & set(DoctorKeys.model_fields)):
            raise UsageError(f"{others[0]}= needs memory=NAME")
        return None
    checks = checks_of(keys)
    failed = sum(not check.passed for check in checks)
    console.print(*printed([_table(redact(keys.memory), checks)]))
    passed = f"{counted(len(checks) - failed, 'check')} passed"
    console.print(f"{passed}, {failed} failed: not admitted." if failed else f"{passed}: admitted.")
    return 1 if failed else 0


def _table(name: str, checks: list[Check]) -> "Table":
    from alps.show.table import Cell, Table, figures, named, row_of

    rows = []
    for check in checks:
        mark = Cell("ok", style="green") if check.passed else Cell("bad", style="bold red")
        took = Cell(f"{check.seconds:.2f}", check.seconds)
        rows.append(row_of(mark, check.name, check.fault, took))
    columns = [named(wraps="no"), named("check", "fold"), named("problem", "fold")]
    return Table(f"Admission of {name}", [*columns, *figures("s")], rows, layout="plain")
