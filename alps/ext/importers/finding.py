"""Rows of any project in a JSON file, found with what stands among them and is none.

A row has a question or an id, and an answer or a mark. Beside such rows a system may have failed:
what has no answer is a row, too, where it has a question, or the gold that the others have.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from alps.errors import DataError
from alps.ext.importers.reading import read_tree
from alps.ext.importers.verdicts import MOST
from alps.show.formatting import counted

QUESTIONS = ("question", "query", "question_input", "question_text", "user_query", "q")
GOLDS = (
    *("golden_answer", "gold_answer", "gold", "ground_truth", "groundtruth", "expected_answer"),
    *("expected", "expect", "reference_answer", "reference", "correct_answer", "original_answer"),
)
SAID = (
    *("response", "ai_response", "prediction", "predicted", "predicted_answer", "hypothesis"),
    *("generated_answer", "system_response", "system_answer", "model_answer", "model_response"),
    *("llm_response", "llm_output", "model_output", "reply", "pred", "agent_answer"),
)
EITHER = "answer"
AMBIGUOUS = "`answer` is ambiguous (gold or system); rename it golden_answer or response"
IDS = ("question_id", "query_id", "id", "question_index", "question_idx")
HISTORIES = ("sample_id", "conversation_id", "conv_id", "item_id", "user_id", "uuid")
NO_CONVERSATION = ""
# What rows have that say of an id whether it was answered right, and nothing else.
_BARE = ("passed", "correct", "is_correct", "success")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
_DEEPEST = 9
_NOT_NAMED = "without a question or id"
_NAMED = "with an id, but neither a question nor a gold"


@dataclass(frozen=True)
class Entry:
    """An entry of a list, or of an object that holds rows.

    Attributes:
        within: The list, as a dotted path; empty for the file as a whole.
        place: The number, from 1, or the key, under which it stands there.
        conversation: That of its list; empty where nothing names one.
        content: What stands there.
        fault: Why it is no row; empty for a row.
    """

    within: str
    place: int | str
    conversation: str
    content: Any
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.within}, entry {self.place}" if self.within else f"entry {self.place}"

    @property
    def listed_in(self) -> str:
        """The list that may hold it twice; what has a key stands there alone."""
        return self.within if isinstance(self.place, int) else str(self)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The fields of a row by names in one style."""
        return _in_words(self.content)


@dataclass(frozen=True)
class _Look:
    """What an object has of a row; golds are the fields that hold one."""

    asks: bool
    has_id: bool
    answers: bool
    is_marked: bool
    golds: frozenset[str]

    @property
    def is_clear(self) -> bool:
        """Whether it is a row by itself."""
        return (self.asks or self.has_id) and (self.answers or self.is_marked)


@dataclass(frozen=True)
class _Group:
    """What lies side by side in a list, or in an object, by its places."""

    looks: Mapping[Any, _Look]
    is_list: bool

    @cached_property
    def clear(self) -> list[_Look]:
        """What is a row by itself."""
        return [look for look in self.looks.values() if look.is_clear]

    @cached_property
    def is_table(self) -> bool:
        """Whether all that lies here is to be a row; in an object they stand under their ids."""
        asking = sum(look.is_clear or look.asks for look in self.looks.values())
        return self.is_list or 2 <= asking >= MOST * len(self.looks)

    @cached_property
    def golds(self) -> frozenset[str]:
        """The fields with golds of rows."""
        return frozenset[str]().union(*(look.golds for look in self.clear))

    @cached_property
    def is_bare(self) -> bool:
        """Whether ids alone name the rows; where rows have more, an id may be that of a total."""
        return not self.golds and not any(look.asks for look in self.clear)

    def fault(self, place: int | str) -> str | None:
        """Say why what lies there is no row, which is empty for one; None where none is missed."""
        look = self.looks.get(place)
        if look is None or not self.clear:
            return None
        if (look.is_clear or self.is_table) and self._has_enough(look):
            return ""
        return (_NAMED if look.has_id else _NOT_NAMED) if self.is_table else None

    def _has_enough(self, look: _Look) -> bool:
        has_more = look.answers or self.is_bare or bool(look.golds & self.golds)
        return look.asks or (look.has_id and has_more)

    def is_whole(self, place: int | str) -> bool:
        """Tell whether a row holds none; one without a question may be a conversation of rows."""
        look = self.looks[place]
        return look.asks or (look.is_clear and len(self.clear) > 1)


def find_rows(path: Path) -> tuple[list[Entry], list[str]]:
    """Return the rows of a file, and what is left out, in words.

    Raises:
        DataError: If there are none.
    """
    kept, seen, left_out = list[Entry](), dict[str, str](), dict[str, list[Entry]]()
    # The file itself may be one row.
    tree = [read_tree(path)]
    for entry in _entries(tree, "", NO_CONVERSATION, 0):
        fault = entry.fault
        if not fault:
            # Files that list rows by type may list all of them once more.
            written = json.dumps(entry.content, sort_keys=True)
            copied = seen.setdefault(written, entry.listed_in) != entry.listed_in
            fault = "listed twice" if copied else ""
        (left_out.setdefault(fault, []) if fault else kept).append(entry)
    if not kept:
        unclear = next(_unclear(tree, "", 0), None)
        if unclear is not None:
            raise DataError(f"{AMBIGUOUS}; the first is {unclear}", path=path)
        raise DataError("the file has no rows with a question and an answer", path=path)
    return kept, [_told(entries, why) for why, entries in left_out.items()]


def _told(entries: list[Entry], why: str) -> str:
    count = counted(len(entries), "entry", "entries")
    return f"left out {count} {why}, the first is {entries[0]}"


def _entries(node: Any, within: str, name: str, deep: int) -> Iterator[Entry]:
    """Yield the rows, and what stands among them and is none."""
    if deep > _DEEPEST:
        return
    group, conversations = _group(node), _conversations(node, name)
    for place, one in _inside(node).items():
        own, fault = conversations.get(place, name), group.fault(place)
        inner = []
        if fault != "" or not group.is_whole(place):
            inner = list(_entries(one, _path(node, within, place), own, deep + 1))
        yield from inner
        if fault is not None and not inner:
            yield Entry(within, place, own, one, fault)


def _inside(node: Any) -> dict[Any, Any]:
    """Return what an object holds by key, and what a list holds by number from 1."""
    if isinstance(node, dict):
        return node
    return dict(enumerate(node, start=1)) if isinstance(node, list) else {}


def _path(node: Any, within: str, place: int | str) -> str:
    return f"{within}.{place}".strip(".") if isinstance(node, dict) else within


def _conversations(node: Any, name: str) -> Mapping[Any, str]:
    """Return the names of conversations that lie in an object, by key."""
    if not isinstance(node, dict):
        return {}
    # What holds the rows of a conversation may name it; else lists side by side are one each.
    named = first_text(node, HISTORIES)
    lists = [key for key, one in node.items() if isinstance(one, list)]
    if named is None and len(lists) > 1:
        return {key: key for key in lists}
    return dict.fromkeys(node, named or name)


def _group(node: Any) -> _Group:
    is_list = isinstance(node, list)
    looks = {}
    for place, one in _inside(node).items():
        if is_list or isinstance(one, dict):
            looks[place] = _look(one)
    return _Group(looks, is_list=is_list)


def _look(node: Any) -> _Look:
    row = _in_words(node) if isinstance(node, dict) else {}
    golds = frozenset(row).intersection(GOLDS)
    said, has_either = has_any(row, SAID), EITHER in row
    return _Look(
        asks=bool(first_text(row, QUESTIONS)),
        has_id=bool(first_text(row, IDS)),
        answers=said or (has_either and bool(golds)),
        is_marked=any(isinstance(row.get(name), bool) for name in _BARE),
        golds=golds or frozenset((EITHER,) if has_either else ()),
    )


def _unclear(node: Any, within: str, deep: int) -> Iterator[Entry]:
    """Yield what asks a question and has an `answer` that may be anybody's."""
    if deep > _DEEPEST:
        return
    for place, one in _inside(node).items():
        if EITHER in _inside(one) and any(isinstance(one.get(name), str) for name in QUESTIONS):
            yield Entry(within, place, NO_CONVERSATION, one)
        yield from _unclear(one, _path(node, within, place), deep + 1)


# Few names are in a file, each as often as it has rows.
@lru_cache
def snake(name: str) -> str:
    """Return a name in small letters, with underscores for humps."""
    return _HUMP.sub("_", name).casefold()


def _in_words(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {snake(name): value for name, value in fields.items()}


def has_any(row: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Tell whether a row has one of these fields."""
    return any(name in row for name in names)


def first_text(row: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first of these fields that holds a text, or a number or list as one."""
    return next((text for name in names if (text := text_of(row.get(name))) is not None), None)


def text_of(value: object) -> str | None:
    """Return a text, number or list of texts as a text; None for what is none."""
    if isinstance(value, list):
        return "\n".join(map(str, value)) if value else None
    return None if value is None or isinstance(value, bool | dict) else str(value)
