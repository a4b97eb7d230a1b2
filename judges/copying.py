"""Copies: how much of a response the dialogue says already, and of a memory the response."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from alps.judges.base import Dialogue
from alps.similarity import features
from alps.text import fold, letters

# A response of which so much is copied from the dialogue says nothing of its own.
COPIED = 0.9
# A response of so many words, so much of them the dialogue's, is copied in whatever order they
# stand. Of the recorded answers of real models with 20 words or more the highest share is .88.
FROM_THE_DIALOGUE, _FEWEST_WORDS = 0.95, 30

_SENTENCE = re.compile(r"[.!?。！？…\n]+")
_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[.!?。！？…;:,，；：\n]+")
_SHORTEST_PARROT = 60
# Letters, chosen on the 133 recorded answers of real models and on their dialogues: every parrot
# that says all user turns is found, plain, with commas, with «You said:» or in look-alikes, and 90
# % of those with seven prefixes in turn. Of the real answers one comes near the limit (.85, a line
# of code that the user had pasted); the next has .37.
_SHORTEST_COPY, _SHORTEST_PART, _SHORTEST_OWN, _PIECES_OF_A_LIST = 16, 6, 30, 3


def is_copied(response: str, dialogue: Dialogue) -> bool:
    """Tell whether a response says nothing but what the dialogue has said."""
    return (
        copied_share(response, dialogue) >= COPIED
        or _word_share(response, dialogue) >= FROM_THE_DIALOGUE
    )


def copied_share(response: str, dialogue: Dialogue) -> float:
    """Return how much of `response` is copied from `dialogue`, in [0, 1], in letters.

    Letters are compared as they look (`alps.text.letters`): case, signs, spaces, invisible marks
    and look-alikes change nothing. What stands between copied pieces counts once however often it
    is said, and not at all if it is short and the pieces are many. A response in which fewer than
    60 letters are copied counts as 0.
    """
    folded = zip(letters(response), _sources(_texts(dialogue)), strict=True)
    return max(_share(stream, source) for stream, source in folded)


def _word_share(response: str, dialogue: Dialogue) -> float:
    """Return the share of a long response's words that the dialogue has; 0 for a short one."""
    words = _WORD.findall(fold(response))
    if len(words) < _FEWEST_WORDS:
        return 0.0
    said: set[str] = set()
    for turn in dialogue:
        said.update(_WORD.findall(fold(turn.text)))
    return sum(word in said for word in words) / len(words)


def own_text(response: str, dialogue: Dialogue) -> str:
    """Return the sentences of `response` not copied from `dialogue`, joined by spaces."""
    sentences = list(filter(None, map(str.strip, _SENTENCE.split(response))))
    folded = zip(*map(letters, sentences), strict=True)
    copied: set[int] = set()
    for streams, source in zip(folded, _sources(_texts(dialogue)), strict=False):
        pieces = _copied_pieces(streams, source)
        for n, stream in enumerate(streams):
            if sum(_covered(stream, pieces, source)) >= COPIED * len(stream) > 0:
                copied.add(n)
    return " ".join(text for n, text in enumerate(sentences) if n not in copied)


def grounding(response: str, memory: str, dialogue: Dialogue) -> float | None:
    """Return the weighted share of a memory's content words in an answer, in [0, 1].

    Only the answer's own sentences count. None where the memory has no content words.
    """
    # Words, not meaning: an answer can use a memory without its words, and name it without using
    # it. So this stands next to a rubric's verdict, never in its place.
    wanted = features(memory).content
    if not wanted:
        return None
    # What is copied from the dialogue does not count: repeating everything is using nothing.
    said = features(own_text(response, dialogue)).content
    return sum(weight for piece, weight in wanted.items() if piece in said) / sum(wanted.values())


def _texts(dialogue: Dialogue) -> tuple[str, ...]:
    return tuple(turn.text for turn in dialogue)


class _Source(NamedTuple):
    """What can be copied, in letters: the turns of a dialogue, and its short sentences."""

    turns: tuple[str, ...]
    parts: frozenset[str]


@lru_cache(maxsize=256)
def _sources(texts: tuple[str, ...]) -> tuple[_Source, ...]:
    """Return what can be copied of a dialogue, for each folding of `letters`."""
    turns, parts = (list(map(letters, one)) for one in (texts, _PART.split("\n".join(texts))))
    return tuple(_source(turns, parts, folding) for folding in (0, 1))


def _source(
    turns: Sequence[tuple[str, str]], parts: Sequence[tuple[str, str]], folding: int
) -> _Source:
    texts = {part[folding] for part in parts}
    # What can be copied and is too short to hold a piece.
    short = {text for text in texts if _SHORTEST_PART <= len(text) < _SHORTEST_COPY}
    return _Source(tuple(turn[folding] for turn in turns), frozenset(short))


def _share(stream: str, source: _Source) -> float:
    covered = _covered(stream, _copied_pieces([stream], source), source)
    copied = sum(covered)
    # A short recall may use the user's words.
    if copied < _SHORTEST_PARROT:
        return 0.0
    own = list(_uncovered(stream, covered))
    is_list = len(own) >= _PIECES_OF_A_LIST
    counted = copied
    for run in set(own):
        # Short pieces between many copied ones are prefixes, such as «You said:».
        if len(run) >= _SHORTEST_OWN or not is_list:
            counted += len(run)
    return copied / counted


def _copied_pieces(streams: Iterable[str], source: _Source) -> set[str]:
    """Return the pieces of `_SHORTEST_COPY` letters that both `streams` and `source` have."""
    # Wherever a piece begins, it holds one whole block of a turn that is cut into blocks of half
    # its size. So only an eighth of the places of a long dialogue is looked at.
    block = _SHORTEST_COPY // 2
    pieces: set[str] = set()
    blocks: set[str] = set()
    for stream in streams:
        pieces |= _pieces(stream, _SHORTEST_COPY)
        blocks |= _pieces(stream, block)
    copied: set[str] = set()
    for turn in source.turns:
        for place in range(0, len(turn) - block + 1, block):
            if turn[place : place + block] in blocks:
                around = turn[max(0, place - block) : place + _SHORTEST_COPY]
                copied |= pieces & _pieces(around, _SHORTEST_COPY)
    return copied


def _pieces(stream: str, size: int) -> set[str]:
    return {stream[start : start + size] for start in range(len(stream) - size + 1)}


def _covered(stream: str, pieces: set[str], source: _Source) -> bytearray:
    """Return 1 for each letter of `stream` that is part of something copied, else 0."""
    covered, size = bytearray(len(stream)), _SHORTEST_COPY
    for start in range(len(stream) - size + 1):
        if stream[start : start + size] in pieces:
            covered[start : start + size] = b"\x01" * size
    for part in source.parts:
        start = stream.find(part)
        while start >= 0:
            covered[start : start + len(part)] = b"\x01" * len(part)
            start = stream.find(part, start + len(part))
    return covered


def _uncovered(stream: str, covered: bytearray) -> Iterator[str]:
    """Yield the runs of letters that are not covered."""
    for is_copied, run in groupby(range(len(stream)), key=covered.__getitem__):
        if not is_copied:
            yield "".join(stream[place] for place in run)
