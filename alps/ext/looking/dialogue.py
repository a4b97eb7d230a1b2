"""Quotes of memories located in a dialogue, and excerpts that keep them in sight."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from alps.schema import Memory, Turn
from alps.similarity import features
from alps.tasks.record_parts import Dialogue

_ELLIPSIS = re.compile(r"[\[(]?(?:\.{3,}|…)[\])]?")


_SHORTEST_PART = 6  # characters of a quote that are still looked for
_ALIKE = 85.0  # of 100: a mistyped quote is still the same words
_SMALLEST_GAP = 40  # characters: leaving out fewer would save no room
_LONG_WORD = 20
_FIRST_TURNS = 2
_NEAREST_TURNS = 3


@dataclass(frozen=True)
class Span:
    """A quoted place in a turn, and the gold memories that quote it."""

    start: int
    end: int
    gold: tuple[str, ...]


@dataclass(frozen=True)
class Piece:
    """A part of an excerpt: text, quoted by `gold`, or `left_out` characters that are not shown."""

    text: str = ""
    gold: tuple[str, ...] = ()
    left_out: int = 0


@dataclass
class GoldPlaces:
    """What gold points to: places by turn, and by turn the gold memories that point there."""

    spans: dict[int, list[Span]] = field(default_factory=dict)
    pointed: dict[int, list[str]] = field(default_factory=dict)


def locate(gold: Mapping[str, Memory], dialogue: Sequence[Turn]) -> GoldPlaces:
    """Find the evidence of gold memories, by their ids, in the turns of a dialogue.

    The turn that a memory names is searched first.

    Annotators shorten and mistype quotes: the parts around an ellipsis are looked for apart, and in
    the named turn also by likeness.
    """
    evidence = GoldPlaces()
    for name, memory in gold.items():
        if memory.evidence is None:
            continue
        named = memory.evidence.utterance_index
        # Annotators count turns wrongly, even past the end: a name is where to look first.
        if named is not None and named >= len(dialogue):
            named = None
        turns = [named] if named is not None else []
        order = list(dict.fromkeys((*turns, *range(len(dialogue)))))
        for turn, start, end in _places(memory.evidence.text, dialogue, order, named):
            evidence.spans.setdefault(turn, []).append(Span(start, end, (name,)))
            turns.append(turn)
        for turn in dict.fromkeys(turns):
            evidence.pointed.setdefault(turn, []).append(name)
    evidence.spans = {turn: _merged(spans) for turn, spans in evidence.spans.items()}
    return evidence


def excerpt(text: str, spans: Sequence[Span], *, limit: int, context: int = 120) -> list[Piece]:
    """Cut the text of a turn to about `limit` characters without losing a quoted place.

    The places are in order and apart; `context` characters are kept on either side of each.
    """
    if len(text) <= limit + _SMALLEST_GAP:
        return _pieces(text, spans, 0, len(text))
    windows = [(0, _word_end(text, limit if not spans else min(limit, context)))]
    for span in spans:
        start, end = span.start - context, span.end + context
        windows.append((_word_start(text, start), _word_end(text, end)))
    pieces: list[Piece] = []
    shown = 0
    for start, end in _joined(windows, len(text)):
        if start > shown:
            pieces.append(Piece(left_out=start - shown))
        pieces += _pieces(text, spans, start, end)
        shown = end
    if shown < len(text):
        pieces.append(Piece(left_out=len(text) - shown))
    return pieces


def _places(
    quote: str, dialogue: Sequence[Turn], turns: Iterable[int], named: int | None
) -> list[tuple[int, int, int]]:
    order = list(turns)
    whole = _exact(quote, dialogue, order)
    if whole is not None:
        return [whole]
    # Annotators leave out the middle of a long quote; an ellipsis may also be the user's own.
    places = []
    for part in map(str.strip, _ELLIPSIS.split(quote)):
        if len(part) < _SHORTEST_PART:
            continue
        place = _exact(part, dialogue, order)
        if place is None and named is not None:
            place = _alike(part, dialogue[named].text, named)
        if place is not None:
            places.append(place)
    return places


def _exact(
    part: str, dialogue: Sequence[Turn], turns: Iterable[int]
) -> tuple[int, int, int] | None:
    words = part.strip(' \t\n"“”«»').split()
    if not words:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    for turn in turns:
        if match := pattern.search(dialogue[turn].text):
            return turn, match.start(), match.end()
    return None


def _alike(part: str, text: str, turn: int) -> tuple[int, int, int] | None:
    # Imported here: most records are shown without a mistyped quote.
    from rapidfuzz.fuzz import partial_ratio_alignment, ratio

    if len(part) > len(text):  # a correction of the whole turn, or of another one
        return (turn, 0, len(text)) if ratio(part, text) >= _ALIKE else None
    alignment = partial_ratio_alignment(part, text, score_cutoff=_ALIKE)
    if alignment is None:
        return None
    found = text[alignment.dest_start : alignment.dest_end]
    start = alignment.dest_start + len(found) - len(found.lstrip())
    return turn, start, start + len(found.strip())


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Join places that overlap; each keeps the names of all that quote it."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        last = merged[-1] if merged else None
        if last is not None and span.start < last.end:
            names = tuple(dict.fromkeys((*last.gold, *span.gold)))
            merged[-1] = Span(last.start, max(last.end, span.end), names)
        else:
            merged.append(span)
    return merged


def _word_start(text: str, place: int) -> int:
    """Return where the word after `place` begins, unless words are very long."""
    if place <= 0:
        return 0
    # Texts without spaces, as in Chinese, are cut where they are.
    space = text.find(" ", place, place + _LONG_WORD)
    return space + 1 if space >= 0 else place


def _word_end(text: str, place: int) -> int:
    """Return where the word before `place` ends, unless words are very long."""
    if place >= len(text):
        return len(text)
    space = text.rfind(" ", max(0, place - _LONG_WORD), place)
    return space if space >= 0 else place


def _joined(windows: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Join windows that nearly touch: leaving out a few characters would not save any room."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(windows):
        if joined and start - joined[-1][1] < _SMALLEST_GAP:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    if joined and length - joined[-1][1] < _SMALLEST_GAP:
        joined[-1] = joined[-1][0], length
    return joined


def _pieces(text: str, spans: Sequence[Span], start: int, end: int) -> list[Piece]:
    pieces: list[Piece] = []
    shown = start
    for span in spans:
        if span.end <= start or span.start >= end:
            continue
        if span.start > shown:
            pieces.append(Piece(text[shown : span.start]))
        pieces.append(Piece(text[max(span.start, start) : min(span.end, end)], span.gold))
        shown = min(span.end, end)
    if shown < end:
        pieces.append(Piece(text[shown:end]))
    return pieces


@dataclass(frozen=True)
class DialogueView:
    """A dialogue with the places that memories quote.

    `telling` are the turns that matter most, in order. Of a `folded` dialogue the terminal shows
    only them; a page never shows more.
    """

    title: str
    turns: tuple[Turn, ...]
    evidence: GoldPlaces
    telling: tuple[int, ...]
    folded: bool = False
    labels: Mapping[int, str] = field(default_factory=dict)


def dialogue_view(part: Dialogue) -> DialogueView:
    """Find the turns of a dialogue that matter most.

    They are those that its memories quote, or the user's nearest in words to the memory it is
    `about`; where there are none, the first ones.
    """
    turns, title = tuple(part.turns), part.title
    evidence = locate(part.quoted or {}, turns)
    first = range(min(_FIRST_TURNS, len(turns)))
    telling = tuple(sorted(evidence.pointed))
    if part.about is not None:
        telling = _nearest(part.about, turns)
        nearest = "turns that share the most words with the target memory"
        title = f"{title}: {nearest if telling else 'first turns'}"
        telling = telling or tuple(first)
    elif not part.folded:
        telling = telling or tuple(first)
    return DialogueView(title, turns, evidence, part.shown or telling, part.folded, part.labels)


def _nearest(memory: str, turns: Sequence[Turn]) -> tuple[int, ...]:
    """Return the turns of the user that share most with a memory, by the weight of the words."""
    wanted = features(memory).content
    shared: dict[int, float] = {}
    for place, turn in enumerate(turns):
        # Memories are the user's; what the assistant says shares their words, and tells nothing.
        if turn.role == "user":
            content = features(turn.text).content
            weight = sum(weight for word, weight in wanted.items() if word in content)
            if weight:
                shared[place] = weight
    nearest = sorted(shared, key=lambda place: -shared[place])
    return tuple(sorted(nearest[:_NEAREST_TURNS]))
