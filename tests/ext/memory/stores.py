"""Runs with a memory in the process of the test, and memory systems behind the suite's store."""

import asyncio

from alps.ext.memory.built_in import Turns
from alps.ext.memory.connection import ClassConnection
from alps.ext.memory.journal import Diary
from alps.ext.memory.protocol import Opening
from alps.ext.memory.store import Store
from alps.run.source import open_data
from alps.run.start import run
from alps.settings import RunSettings, parse_settings

MADE_UP = {"task": "personamem", "size": "32k"}
"""The words of a run on questions that were made up."""


def carried_out(out, **words):
    """Run the rules on the samples, where `words` don't say otherwise."""
    given = {"model": "rules", "data": "samples", "out": str(out), **words}
    return run(parse_settings(given, RunSettings))


def faults_of(checks):
    """Return the faults of the checks that failed."""
    return [check.fault for check in checks if not check.passed]


def check_tokens(metered, script, done):
    """Hold the tokens of the requests that were metered to those that the server told."""
    for kind in ("prompt_tokens", "completion_tokens"):
        used = sum(row[kind] for row in metered if not row["cached"])
        assert used == getattr(script, kind) == getattr(done.summary.calls, kind) > 0


def pairs_of(**words):
    """Return each sample that a run would ask about, with its task."""
    tracks = open_data(parse_settings({"model": "rules", **words}, RunSettings)).tracks
    return [(track.task, sample) for track in tracks for sample in track.samples()]


def opened_in(folder, llm=None, embedder=None):
    """Return what a memory system is opened with."""
    return Opening(folder, llm, embedder, 0, {})


def store_of(system, folder, pairs, **options):
    """Return a store in front of a system that will be asked about `pairs`."""
    diary, connection = Diary(folder / "memory.jsonl"), ClassConnection(system)
    fixed = {"k": 5, "timeout": 10.0, **options}
    return Store("own", connection, opened_in(folder / "memory"), diary, lambda: pairs, **fixed)


def together(store, asked, *, at_once=True):
    """Return what coroutines about a store return, and close it."""

    async def all_of():
        try:
            if at_once:
                return await asyncio.gather(*asked)
            return [await one for one in asked]
        finally:
            await store.aclose()

    return asyncio.run(all_of())


class Watched(Turns):
    """Keeps the sessions that it is told and every call."""

    def __init__(self):
        super().__init__("bm25")
        self.told, self.calls = {}, []

    def open(self, opening):
        self.calls.append(("open",))
        super().open(opening)

    def ingest(self, user, session):
        self.calls.append(("ingest", user, session.id, len(session.turns)))
        self.told.setdefault(user, []).append(session)
        super().ingest(user, session)

    def settle(self, user, timeout):
        self.calls.append(("settle", user))
        return super().settle(user, timeout)

    def search(self, user, query, k, at):
        self.calls.append(("search", user, query))
        return super().search(user, query, k, at)
