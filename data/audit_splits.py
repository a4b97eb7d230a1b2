"""What an audit looks for between splits: sessions, dialogues and queries that stand in two of
them.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from alps.data.audit_findings import Tally
from alps.data.audit_rows import DIALOGUES, joined, queries, task_of, text_at, turns_at
from alps.data.hub import HubSplit
from alps.data.release import INPUT, Row, Split
from alps.text import fold

_SHORTEST_TEXT = 20


def track_folders(split: Split | HubSplit) -> list[tuple[str, Path]]:
    """Return the name and the folder of every track of a split.

    Raises:
        UsageError: If a split of the hub can't be fetched.
    """
    top = split.folder() if isinstance(split, HubSplit) else split.folder
    folders = {
        path.parent
        for pattern in (f"task*/{INPUT}", f"task*/*/{INPUT}")
        for path in top.glob(pattern)
    }
    named = [(folder.relative_to(top).as_posix(), folder) for folder in folders]
    return sorted(named, key=lambda pair: order_of(pair[0]))


def order_of(track: str) -> tuple[str, int, str]:
    """Return a key that sorts tracks by task, then by size of pool or number of ability."""
    return track.partition("/")[0], len(track), track


class Overlap:
    """Knows the sessions and texts of the other splits of a data set, by their digests."""

    def __init__(self, split: Split) -> None:
        self.splits: list[str] = []
        self._known: dict[bytes, tuple[str, str]] = {}
        for folder in sorted(path for path in split.folder.parent.iterdir() if path.is_dir()):
            tracks = [] if folder == split.folder else track_folders(Split(folder.name, folder))
            if tracks:
                self.splits.append(folder.name)
            for track, place in tracks:
                for _, row, _ in joined(place, Tally(track), with_gold=False):
                    for _, _, digest in _traces(row, track):
                        self._known.setdefault(digest, (folder.name, track))

    def check(self, name: str, row: Row, tally: Tally) -> None:
        """Count what a row shares with another split: `split-overlap`, serious.

        Looked at are session ids, whole dialogues, and the queries of retrieval and utilization,
        all within one task; texts are compared after folding, and those under twenty characters are
        left out.
        """
        shared: set[str] = set()
        for kind, text, digest in _traces(row, tally.track):
            if kind not in shared and (place := self._known.get(digest)) is not None:
                shared.add(kind)
                what = f"{place[0]}/{place[1]}: {text}"
                tally.find(
                    "split-overlap", "serious", f"the {kind} stands in another split", name, what
                )


def _traces(row: Row, track: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield (kind, shown text, digest) of what tells where a row comes from."""
    task = task_of(track)
    if session := text_at(row, "session_id"):
        yield "session", session, _digest(task, "session", session)
    for path in DIALOGUES:
        said = fold(" ".join(text for _, text in turns_at(row, *path)))
        if len(said) >= _SHORTEST_TEXT:
            yield "dialogue", f"«{said[:80]}»", _digest(task, "dialogue", said)
    # In extraction and update the query is the instruction, the same for everyone.
    for query in queries(row) if task in ("task3", "task4") else ():
        asked = fold(query)
        if len(asked) >= _SHORTEST_TEXT:
            yield "query", f"«{asked[:80]}»", _digest(task, "query", asked)


def _digest(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(errors="replace"), digest_size=12).digest()
