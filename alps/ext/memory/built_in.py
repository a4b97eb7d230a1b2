"""Bundled memory systems, by the name that `memory=` gives, and the options that each takes.

Those of this module keep texts of sessions, found by a retriever. The texts are whole turns, or
what users say of themselves, found by the patterns of the embedded extractor, or what a model once
extracted, looked up by the text of a session. The memories of another user tell what as many true
but foreign memories are worth to a reader.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError, closest
from alps.ext.memory.protocol import Hit, MemorySystem, Opening, Session, Settled, SpokenTurn
from alps.ext.memory.store import cut, recall_of, sessions_after
from alps.folders import typed_path
from alps.jsonl import Row, dump, scan
from alps.schema import read_memories
from alps.slips import refuse_form_of
from alps.systems.embedded import RETRIEVERS, Ranker, imported
from alps.systems.rules import find_statements
from alps.tasks import Task
from alps.tasks.by_memory import PLACEBO, Context, History

Extract = Callable[[Session], Iterable[SpokenTurn]]
_REMEMBER = re.compile(r"(?i)\b(?:please )?remember (?:that )?[^.!?\n]{3,300}")
# The rules read what users say of themselves, by design.
RULES_SETTINGS: Mapping[str, Any] = {"extractor": "rules", "declares": ["both roles are ingested"]}
_NAMES = ("records.jsonl", "predictions.jsonl")
_RETRIEVER = "bm25"
RECORDED = "recorded:"
RULES = "rules"
MODELS: Mapping[str, str] = {"files": "notes:Files", "llm": "extractor:LlmMemory"}
"""Memory systems that ask the models of the run, by module and class."""
PRODUCTS: Mapping[str, str] = {"mem0": "products:Mem0", "langmem": "products:LangMem"}
"""Memory systems that others make, each behind an extra of its name, by module and class."""
_CLASSES: Mapping[str, str] = {"notes": "notes:Notes", **MODELS, **PRODUCTS}
BOXED = (*RETRIEVERS, RULES, f"{RECORDED}FILE", *_CLASSES)
"""Their names, as lists show them."""
_TAKES: Mapping[str, tuple[str, ...]] = {
    RULES: ("retriever",),
    RECORDED: ("retriever", "dialogues"),
    **dict.fromkeys(_CLASSES, ()),
}


def whole_turns(session: Session) -> Iterable[SpokenTurn]:
    """Return the turns of user and assistant, each with who said it.

    System turns are left out: in PersonaMem they repeat a biography in every session.
    """
    for turn in session.turns:
        if turn.role != "system":
            yield SpokenTurn(turn.role, f"{turn.role}: {turn.text}", turn.at)


class Turns:
    """Stores the texts that `extract` returns for a session, by default its turns, and ranks them.

    `retriever` is the name of who ranks; `settings` say in the manifest what is kept.
    """

    def __init__(
        self,
        retriever: str,
        extract: Extract = whole_turns,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._ranker: Ranker = imported(RETRIEVERS[retriever])()
        self._extract = extract
        self.settings = {**self._ranker.settings, **(settings or {})}
        self._kept: dict[str, list[Hit]] = defaultdict(list)

    def open(self, opening: Opening) -> None:
        """Begin with nothing."""
        self._kept.clear()

    def ingest(self, user: str, session: Session) -> None:
        """Store the texts of a session, each under its own id; skip a known session."""
        kept = self._kept[user]
        # A run may send a session again; found twice, it would take two of the k places.
        if any(session.id in hit.sources for hit in kept):
            return
        for said in self._extract(session):
            kept.append(Hit(f"m{len(kept) + 1}", said.text, None, said.at, (session.id,)))

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: what was ingested can be found."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return the texts that the retriever ranks highest."""
        kept = self._kept[user]
        order = self._ranker.rank(query, [hit.text for hit in kept])
        return [kept[place] for place in order[:k]]

    def reset(self, user: str) -> None:
        """Forget a user."""
        self._kept.pop(user, None)

    def memories(self, user: str) -> Sequence[Hit]:
        """Return every text that is kept of a user."""
        return list(self._kept[user])

    def forget(self, user: str, what: str) -> None:
        """Forget the texts that say `what`."""
        wanted = what.casefold()
        kept = [hit for hit in self._kept[user] if wanted not in hit.text.casefold()]
        self._kept[user] = kept


def statements(session: Session) -> Iterable[SpokenTurn]:
    """Return statements of a user about themselves, and what they ask to remember.

    A session in which nobody replies is a list of notes: its turns are kept as they are.
    """
    # Retrieval feeds its candidates so; patterns would drop those that are no statement.
    if all(turn.role == "user" for turn in session.turns):
        yield from session.turns
        return
    for found in find_statements([(turn.role, turn.text) for turn in session.turns]):
        yield SpokenTurn("user", found.value, session.turns[found.turn].at)
    for turn in session.turns:
        for asked in _REMEMBER.finditer(turn.text) if turn.role == "user" else ():
            yield SpokenTurn("user", asked[0], turn.at)


class Recorded:
    """Recorded memories of each dialogue.

    A session that is none of them is kept turn by turn, and one of which the model made nothing
    that can be read is a failure to ingest it.

    Args:
        records: A file of extractions by `benchmark_id`: the authors' records of a model's output,
            rows of the release's form, or `predictions.jsonl` of a run; or a folder with such one.
        dialogues: The input rows of extraction in the release layout, which have the dialogues.

    Raises:
        UsageError: If a file is not there, or they have no record in common.
        DataError: If a row can't be read.
    """

    def __init__(self, records: Path, dialogues: Path) -> None:
        file = _file(records)
        extracted = _by_id(file)
        if not dialogues.is_file():
            raise UsageError(f"memory.dialogues={dialogues}: no such file")
        self._texts: dict[str, Sequence[str] | None] = {}
        for row in _rows(dialogues):
            name, turns = row.get("benchmark_id"), _turns(row)
            # By the id: some of the authors' responses, joined by position, belong to others.
            if name in extracted and turns is not None:
                self._texts[_hashed(turns)] = extracted[name]
        if not self._texts:
            raise UsageError(f"memory.dialogues={dialogues}: it has no dialogue of {file}")
        digest = sha256(dump({"of": sorted(self._texts)}) + file.read_bytes()).hexdigest()
        self.settings: Mapping[str, Any] = {"extractions": digest, "n": len(self._texts)}

    def __call__(self, session: Session) -> Iterable[SpokenTurn]:
        """Return what was extracted from a session.

        Raises:
            ValueError: If the model's reply could not be parsed.
        """
        # By the text: a system is given no id of the data to look a session up by.
        key = _hashed([(turn.role, turn.text) for turn in session.turns])
        if key not in self._texts:
            return list(whole_turns(session))
        texts = self._texts[key]
        # An empty list would make a model that failed look like one that found nothing to keep.
        if texts is None:
            raise ValueError("the model's reply could not be parsed")
        return [SpokenTurn("user", text, session.started_at) for text in texts]


def _file(path: Path) -> Path:
    known = [path / name for name in _NAMES] if path.is_dir() else [path]
    found = next((file for file in known if file.is_file()), None)
    if found is None:
        why = f"no such file, and no folder with {' or '.join(_NAMES)}"
        raise UsageError(f"memory=recorded:{path}: {why}")
    return found


def _rows(path: Path) -> Iterable[Row]:
    refuse_form_of(path)
    for line, (_, _, row) in enumerate(scan(path), start=1):
        if row is None:
            raise DataError("not a JSON object", path=path, line=line)
        yield row


def _by_id(file: Path) -> dict[str, Sequence[str] | None]:
    """Return the values that were extracted by the ids of records; None where nothing was read."""
    extracted: dict[str, Sequence[str] | None] = {}
    for row in _rows(file):
        output = row.get("model_output") or row.get("prediction") or row
        try:
            # As `predictions:` has it: of an output that is not there nothing was extracted.
            heard = output.get("raw_output", True) or output.get("memory_items")
            read = read_memories(output["memory_items"]) if heard else None
        except (LookupError, AttributeError, ValueError):
            read = None
        values = None if read is None else [memory.value for memory in read.memories]
        extracted[str(row.get("benchmark_id"))] = values
    return extracted


def _turns(row: Row) -> list[tuple[str, str]] | None:
    try:
        return [(turn["role"], turn["text"]) for turn in row["input"]["dialogue"]]
    except (LookupError, TypeError):
        return None


def _hashed(turns: Sequence[tuple[str, str]]) -> str:
    return sha256(dump({"turns": [list(turn) for turn in turns]})).hexdigest()


class Placebo:
    """Shows the turns of another user that fit a query best, as many as a memory system would.

    The other is the next one in the order of the data, after the last the first.
    """

    name = PLACEBO

    def __init__(
        self,
        samples: Callable[[], Iterable[tuple[Task, Any]]],
        *,
        k: int,
    ) -> None:
        self._samples, self._k = samples, k
        self._turns = Turns(_RETRIEVER)
        self.settings: Mapping[str, Any] = {**self._turns.settings, "name": PLACEBO, "k": k}
        self._others: dict[str, str] | None = None

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return what another user said.

        Raises:
            UsageError: If the data have one user alone.
        """
        recall = recall_of(task)
        if self._others is None:
            self._others = self._read()
        other, query = self._others[str(sample.session_id)], recall.place(sample).query
        hits = self._turns.search(other, query, self._k, "")
        return cut(hits, max_tokens, dated=recall.dated)

    def _read(self) -> dict[str, str]:
        """Keep what each user said; return for each user another one."""
        longest: dict[str, History] = {}
        for task, sample in self._samples():
            if task.by_memory.recall is None:
                continue
            user, history = str(sample.session_id), task.by_memory.recall.history(sample)
            # Samples of one user reach differently far; the longest history has all of the others.
            if user not in longest or len(history.turns) > len(longest[user].turns):
                longest[user] = history
        for user, history in longest.items():
            for session in sessions_after(history, 0):
                self._turns.ingest(user, session)
        users = list(longest)
        if len(users) == 1:
            raise UsageError(
                f"memory={PLACEBO}: it shows the history of another user, "
                "but the data has only one user"
            )
        # In the order of the data: without a draw the row is the same in every run.
        return dict(zip(users, [*users[1:], *users[:1]], strict=True))


def is_boxed(name: str) -> bool:
    """Tell whether a memory system in the box is called `name`."""
    return name in RETRIEVERS or _kind(name) in _TAKES


def asks_models(name: str) -> bool:
    """Tell whether a memory system in the box is called `name` that asks the run's models."""
    return name in MODELS or name in PRODUCTS


def needed_models(name: str) -> tuple[str, ...]:
    """Return the keys of the models without which a memory system in the box can't begin."""
    # Its search is the model's own reading, so it embeds nothing.
    if name == "files":
        return ("memory_llm",)
    return ("memory_llm", "memory_embedder") if asks_models(name) else ()


def _kind(name: str) -> str:
    return RECORDED if name.startswith(RECORDED) else name


def check_boxed(name: str, options: Mapping[str, str]) -> None:
    """Refuse options that the memory system `name` does not take.

    Raises:
        UsageError: If there is such an option, or one is missing.
    """
    takes = _TAKES.get(_kind(name), ())
    for key, value in options.items():
        if key not in takes:
            known = f"known: {', '.join(f'memory.{one}=' for one in takes) or 'none'}"
            raise UsageError(f"memory.{key}={value}: not an option of memory={name}; {known}")
    retriever = options.get("retriever", _RETRIEVER)
    if retriever not in RETRIEVERS:
        known = ", ".join(RETRIEVERS)
        hint = closest(retriever, RETRIEVERS)
        raise UsageError(f"memory.retriever={retriever}: unknown{hint} (known: {known})")
    if _kind(name) == RECORDED:
        _check_files(name, options)


def _check_files(name: str, options: Mapping[str, str]) -> None:
    if name == RECORDED:
        raise UsageError(f"memory={name} names no file; write {RECORDED}FILE")
    if not typed_path(name.removeprefix(RECORDED)).exists():
        raise UsageError(f"memory={name}: no such file")
    if "dialogues" not in options:
        wanted = "memory.dialogues=FILE (model_input.jsonl of the recorded dialogues)"
        raise UsageError(f"memory={name}: also set {wanted}")


def open_boxed(name: str, options: Mapping[str, str]) -> MemorySystem:
    """Return the memory system in the box that is called `name`.

    Raises:
        UsageError: If it does not take the options, a file is not there, or it needs an extra that
            is not installed.
        DataError: If a file can't be read.
    """
    check_boxed(name, options)
    if name in RETRIEVERS:
        return Turns(name)
    retriever = options.get("retriever", _RETRIEVER)
    if name == RULES:
        return Turns(retriever, statements, RULES_SETTINGS)
    if name in _CLASSES:
        module, _, kind = _CLASSES[name].partition(":")
        system: MemorySystem = getattr(import_module(f"alps.ext.memory.{module}"), kind)()
        return system
    records = typed_path(name.removeprefix(RECORDED))
    extract = Recorded(records, typed_path(options["dialogues"]))
    return Turns(retriever, extract, extract.settings)
