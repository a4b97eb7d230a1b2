"""Memory of notes in files that a model writes and reads through the tool `memory`.

It is the plain baseline of memories that a model keeps itself. The run's `memory_llm=` is given a
session, and edits the notes until it calls the tool no more; a search asks it which lines matter.
What is found are lines of the notes, word for word: what else the model says is not shown.

`memory=notes` is its twin that calls no tool and asks nobody: each turn is appended to a file, and
`search` greps.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import httpx

from alps.ext.memory.built_in import whole_turns
from alps.ext.memory.notes_tool import (
    COMMANDS,
    READING,
    ROOT,
    VERSION,
    Folder,
    Parts,
    Refused,
    carry_out,
    lines_of,
    listing,
    parts_of,
    tool,
)
from alps.ext.memory.protocol import Hit, MeteredEndpoint, Opening, Session, Settled
from alps.run.folder import write_json
from alps.systems.retrievers import STOP_WORDS, TOKENS_VERSION, cut

MOST_REPLIES = 30
"""Replies of the model to one session or one search; the last may call no tool."""
_WRITE = f"""\
You maintain the memory of an assistant. You keep notes about one user in Markdown files below \
{ROOT}, using the tool `memory`. The input is one conversation with the user. Update the notes \
with facts about the user, the user's preferences and plans, people in the user's life, what the \
user asked the assistant to remember, and what the assistant told or promised the user. Read \
existing files before you add to them. Correct what has changed, and delete what the user wants \
forgotten. Write one fact per line, and make sure that each line can be understood on its own. \
Copy names, numbers, codes and dates exactly. When the notes are up to date, reply without \
calling the tool."""
_READ = f"""\
You maintain the memory of an assistant. Your notes about one user are Markdown files below \
{ROOT}. The input is the user's current message. Use the tool `memory` to find the lines in these \
files that help to answer the message. Do not answer the message. Reply with the locations of \
these lines, one per line and the most helpful first, in the form {ROOT}/people.md:3. If no line \
helps, reply `none`."""
_PLACE = re.compile(
    rf"({ROOT}/[^:`*\n]+?)(?::(\d+)(?:\s*[-–]\s*(\d+))?|(?=[`*\s]*$))", re.MULTILINE
)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_STATE = "state.json"
_NOTE = re.compile(r"- \[(?P<at>[^\]]+)\] (?P<text>.+)")


class Files:
    """Notes of each user, in a folder of the user's own."""

    persistent = True

    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {"tool": VERSION, "most_replies": MOST_REPLIES}
        self._found: dict[tuple[str, str, str], list[Hit]] = {}
        # The endpoint is on this machine: no proxy of the environment is in between.
        self._client = httpx.AsyncClient(timeout=None, trust_env=False)

    def open(self, opening: Opening) -> None:
        """Go on with the notes in the folder.

        Raises:
            ValueError: If the run gives no LLM.
        """
        if opening.llm is None:
            raise ValueError("set memory_llm=; memory=notes keeps notes without a model")
        self._llm: MeteredEndpoint = opening.llm
        self._folder, self._seed = opening.folder, opening.seed
        self._found.clear()

    async def ingest(self, user: str, session: Session) -> None:
        """Have the model bring the notes up to date; a session that is known is left out.

        It edits a copy, which takes the place of the notes when all is written: a call that fails
        or is killed leaves nothing half done.
        """
        kept = _KeptNotes(self._folder / user)
        if session.id in kept.sessions:
            return
        folder = kept.copy()
        said = "\n".join(f"{turn.role}: {turn.text}" for turn in session.turns)
        given = f"{_notes(folder)}\n\nThe conversation, of {session.started_at[:16]}:\n\n{said}"
        await self._talk(_WRITE, given, folder, COMMANDS)
        kept.settle(session.id)
        self._forget_searches(user)

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: `ingest` ends when everything is written."""
        return "ready"

    async def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return the lines that the model names; the same search of the same notes asks once."""
        folder = _KeptNotes(self._folder / user).folder()
        if not folder.files():
            return []
        # Without k: asked once more for a larger k, a model may name other lines first.
        asked = user, query, at
        if asked not in self._found:
            given = f"{_notes(folder)}\n\nThe user asks, at {at[:16]}:\n\n{query}"
            reply = await self._talk(_READ, given, folder, READING)
            self._found[asked] = list(_distinct(_named(folder, reply)))
        return self._found[asked][:k]

    def memories(self, user: str) -> Sequence[Hit]:
        """Return every line of the notes."""
        folder = _KeptNotes(self._folder / user).folder()
        files = (lines_of(folder.read(parts)) for parts in folder.files())
        return list(_distinct(line for lines in files for line in lines))

    def reset(self, user: str) -> None:
        """Delete the notes of a user."""
        rmtree(self._folder / user, ignore_errors=True)
        self._forget_searches(user)

    async def close(self) -> None:
        """Close the connections to the model."""
        await self._client.aclose()

    def _forget_searches(self, user: str) -> None:
        self._found = {key: hits for key, hits in self._found.items() if key[0] != user}

    async def _talk(self, prompt: str, given: str, folder: Folder, commands: Sequence[str]) -> str:
        """Return the first reply without a call; carry out the calls of those before it."""
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": given},
        ]
        body = {"tools": [tool(commands)], "temperature": 0, "seed": self._seed}
        for left in reversed(range(MOST_REPLIES)):
            # What was found by then is of use; without a last word the whole search would be lost.
            last = {} if left else {"tool_choice": "none"}
            reply = await self._post({**body, **last, "messages": messages})
            # Some servers take no notice of `tool_choice`.
            calls = [] if not left else list(_calls(reply))
            if not calls:
                return str(reply.get("content") or "")
            said = reply.get("content")
            messages.append({"role": "assistant", "content": said, "tool_calls": calls})
            for call in calls:
                answer = carry_out(folder, **call["function"], commands=commands)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
        return ""

    async def _post(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        headers = {"Authorization": f"Bearer {self._llm.api_key}"}
        address = f"{self._llm.api_base.rstrip('/')}/chat/completions"
        asked = {"model": self._llm.model, **body}
        answer = await self._client.post(address, json=asked, headers=headers)
        answer.raise_for_status()
        message: Mapping[str, Any] = answer.json()["choices"][0]["message"]
        return message


class _KeptNotes:
    """The notes of a user on disk: a folder called after how many sessions are in it.

    `state.json` names the sessions, and so the folder that holds.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        state = place / _STATE
        self.sessions: list[str] = []
        if state.exists():
            self.sessions = json.loads(state.read_text(encoding="utf-8"))["sessions"]

    def folder(self, after: int = 0) -> Folder:
        """Return the notes, or those `after` so many more sessions."""
        return Folder(self._place / str(len(self.sessions) + after))

    def copy(self) -> Folder:
        """Return a copy of the notes that `settle` puts in their place."""
        rmtree(self._place / str(len(self.sessions) + 1), ignore_errors=True)
        before, after = self.folder(), self.folder(1)
        for parts in before.files():
            after.write(parts, before.read(parts))
        return after

    def settle(self, session: str) -> None:
        """Put the copy in the place of the notes, in one step."""
        before = self._place / str(len(self.sessions))
        # Before the old folder goes: a process killed in between finds one of both whole.
        write_json(self._place / _STATE, {"sessions": [*self.sessions, session]})
        rmtree(before, ignore_errors=True)


def _notes(folder: Folder) -> str:
    return f"Your notes:\n{listing(folder)}"


def _calls(reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the calls in a reply, in the form in which they are sent back."""
    for place, call in enumerate(reply.get("tool_calls") or ()):
        name, arguments = call["function"]["name"], call["function"].get("arguments") or "{}"
        # Some servers send an object
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function = {"name": name, "arguments": arguments}
        # Some servers leave the id out, but an answer has to name one.
        yield {"id": call.get("id") or f"call_{place}", "type": "function", "function": function}


def _named(folder: Folder, reply: str) -> Iterator[str]:
    """Yield the lines whose places a reply names, in its order; a file alone is all its lines."""
    for found in _PLACE.finditer(reply):
        path, first, last = found.groups()
        try:
            lines = lines_of(folder.read(parts_of(path.strip())))
        except Refused:
            continue
        start, end = (int(first), int(last or first)) if first else (1, len(lines))
        yield from lines[max(start - 1, 0) : end]


def _distinct(lines: Iterator[str]) -> Iterator[Hit]:
    """Yield each note once; empty lines and headings are none. Its text makes its id."""
    known = set()
    for line in lines:
        text = _BULLET.sub("", line).strip()
        if text and not text.startswith("#") and text not in known:
            known.add(text)
            # Not by its place: a line that moves down is the same memory in a later list.
            yield Hit(sha256(text.encode()).hexdigest()[:16], text)


class Notes:
    """A file for each session of a user, with a line for each turn and its time."""

    persistent = True

    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {"search": "grep", "terms": TOKENS_VERSION}

    def open(self, opening: Opening) -> None:
        """Go on with the notes in the folder."""
        self._place = opening.folder

    def ingest(self, user: str, session: Session) -> None:
        """Write down what was said; a session that is known is left out."""
        folder, file = self._folder(user), (f"{session.id}.md",)
        if file in folder.files():
            return
        lines = [f"# {session.id}"]
        for said in whole_turns(session):
            # A line a turn, as `grep` finds lines; a text with breaks would lose its rest.
            lines.append(f"- [{said.at}] {' '.join(said.text.splitlines())}")
        folder.write(file, "\n".join(lines) + "\n")

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: what was written can be found."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return the lines with most of the words of the query, of those the latest first."""
        wanted = _words(query)
        found = []
        # Latest first, and a stable sort: of equal lines the newer one says what holds now.
        for hit in reversed(self.memories(user)):
            if shared := len(wanted & _words(hit.text)):
                found.append((shared, hit))
        found.sort(key=lambda pair: -pair[0])
        return [hit for _, hit in found[:k]]

    def memories(self, user: str) -> Sequence[Hit]:
        """Return every line, the earliest first."""
        folder = self._folder(user)
        hits = (hit for parts in folder.files() for hit in _hits(folder, parts))
        return sorted(hits, key=lambda hit: str(hit.created_at))

    def forget(self, user: str, what: str) -> None:
        """Delete the lines that say `what`."""
        folder, wanted = self._folder(user), what.casefold()
        for parts in folder.files():
            lines = folder.read(parts).splitlines()
            left = [line for line in lines if wanted not in line.casefold()]
            if left != lines:
                folder.write(parts, "\n".join(left) + "\n")

    def reset(self, user: str) -> None:
        """Delete all files of a user."""
        rmtree(self._place / user, ignore_errors=True)

    def _folder(self, user: str) -> Folder:
        # No model writes here, and one real session has 272,000 characters.
        return Folder(self._place / user, bounded=False)


def _hits(folder: Folder, parts: Parts) -> Iterator[Hit]:
    session = parts[-1].removesuffix(".md")
    for number, line in enumerate(folder.read(parts).splitlines(), start=1):
        if note := _NOTE.fullmatch(line):
            yield Hit(f"{session}:{number}", note["text"], None, note["at"], (session,))


def _words(text: str) -> set[str]:
    return set(cut(text)) - STOP_WORDS
