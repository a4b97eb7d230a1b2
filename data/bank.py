"""Memories that pools of distractors are drawn from: a bank beside the queries, and generated ones.

Nobody wrote generated memories one by one: a seed fills the slots of a few dozen frames. They keep
to matters that no query of our samples asks about (hobby gear, errands, small plans), so that none
of them is a second right answer. How large their share among the distractors is stands in every run
that uses them.
"""

import random
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from alps.data.release import Row, read_rows
from alps.errors import DataError

_FIELDS = ("memory_id", "session_id", "value", "label")


@dataclass(frozen=True)
class BankMemory:
    """One memory of somebody; `generated` ones were not written by hand."""

    memory_id: str
    session_id: str | None
    value: str
    label: str
    generated: bool = False


def read_bank(path: Path) -> tuple[BankMemory, ...]:
    """Read a bank: one object a line with `memory_id`, `session_id`, `value` and `label`.

    Raises:
        DataError: If a line is no such object, or an id stands twice; names the file, the line and
            the field.
    """
    found: dict[str, BankMemory] = {}
    for line, row in read_rows(path):
        memory = _memory(row, path, line)
        if memory.memory_id in found:
            raise DataError(
                f"'{memory.memory_id}' stands twice", path=path, line=line, field="memory_id"
            )
        found[memory.memory_id] = memory
    return tuple(found.values())


def _memory(row: Row, path: Path, line: int) -> BankMemory:
    for name in _FIELDS:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise DataError("must be a non-empty text", path=path, line=line, field=name)
    return BankMemory(*(row[name] for name in _FIELDS))


def _fillings(listed: str) -> tuple[str, ...]:
    return tuple(filling.strip() for filling in listed.split(","))


_TOWNS = _fillings(
    "Perugia, Tampere, Durban, Quito, Leipzig, Osaka, Bergen, Adelaide, Sibiu, Cusco"
)
_MONTHS = _fillings("January, March, April, June, July, September, October, December")
_SUBJECTS = _fillings(
    "bookkeeping, screen printing, soil science, sign painting, web design, beekeeping, upholstery"
)
_GEAR = _fillings(
    "a table saw, a kayak, a film camera, a loom, a telescope, a drum kit, a label printer, a kiln"
)
_STYLES = _fillings(
    "ska, fado, drone metal, chamber jazz, bluegrass, trip hop, choral mass settings, afrobeat"
)
_DISHES = _fillings(
    "pierogi, ceviche, dal, ramen, moussaka, pho, goulash, tagine, gnocchi, bibimbap"
)
_GAMES = _fillings("backgammon, go, darts, bridge, petanque, mahjong, table football, shogi")
_AUTHORS = _fillings("Lispector, Lem, Achebe, Jansson, Sebald, Munro, Mahfouz, Szymborska")
_KIN = _fillings(
    "a cousin, an uncle, a godmother, a stepbrother, a great-aunt, a niece, a former flatmate"
)
_TRADES = _fillings(
    "a plumber, a notary, a beekeeper, a stonemason, an optician, a tailor, a cartographer"
)
_HABITS = _fillings(
    "before breakfast, on the tram, every second evening, only on Sundays, during lunch breaks"
)
_REASONS = _fillings(
    "as a favour, out of curiosity, for a bet, to save money, because a friend insisted"
)

_FRAMES: tuple[tuple[str, str, tuple[tuple[str, ...], ...]], ...] = (
    ("Possessions/Important_Items", "Bought {} second-hand in {}", (_GEAR, _TOWNS)),
    ("Possessions/Important_Items", "Lent {} to {} and wants it back", (_GEAR, _KIN)),
    ("Possessions/Important_Items", "Repaired {} {}", (_GEAR, _REASONS)),
    ("Preferences/Shopping", "Compares prices for {} every {}", (_GEAR, _MONTHS)),
    ("Personal_Background/Education", "Took an evening class in {} in {}", (_SUBJECTS, _TOWNS)),
    ("Personal_Background/Education", "Teaches {} to {} {}", (_SUBJECTS, _KIN, _REASONS)),
    ("Thoughts/Goals/Short_Term", "Wants to finish a course in {} by {}", (_SUBJECTS, _MONTHS)),
    ("Thoughts/Curiosity", "Looks up the history of {} {}", (_SUBJECTS, _HABITS)),
    ("Personal_Background/Occupation", "Used to assist {} in {}", (_TRADES, _TOWNS)),
    ("Social_Relationships/Colleagues", "Was recommended to {} by {}", (_TRADES, _KIN)),
    ("Social_Relationships/Family", "Has {} who works as {} in {}", (_KIN, _TRADES, _TOWNS)),
    ("Social_Relationships/Friends", "Plays {} with {} {}", (_GAMES, _KIN, _HABITS)),
    (
        "Preferences/Entertainment",
        "Organises a {} evening in {} each {}",
        (_GAMES, _TOWNS, _MONTHS),
    ),
    (
        "Thoughts/Opinions/Negative",
        "Finds {} overrated, apart from tournaments in {}",
        (_GAMES, _TOWNS),
    ),
    ("Preferences/Music", "Listens to {} {}", (_STYLES, _HABITS)),
    ("Preferences/Music", "Went to a {} festival in {} {}", (_STYLES, _TOWNS, _REASONS)),
    ("Thoughts/Opinions/Positive", "Thinks that {} is best heard live in {}", (_STYLES, _TOWNS)),
    ("Preferences/Food", "Learned to cook {} from {}", (_DISHES, _KIN)),
    ("Preferences/Food", "Orders {} whenever the family is in {}", (_DISHES, _TOWNS)),
    ("Plans/Commitments", "Promised {} a pot of {} in {}", (_KIN, _DISHES, _MONTHS)),
    ("Preferences/Reading", "Reads {} {}", (_AUTHORS, _HABITS)),
    ("Preferences/Reading", "Gave up on {} half-way, {}", (_AUTHORS, _REASONS)),
    ("States_Experiences/Past_Experience", "Saw a play after {} in {}", (_AUTHORS, _TOWNS)),
    ("Plans/Schedule", "Has an appointment with {} in {} in {}", (_TRADES, _TOWNS, _MONTHS)),
    ("Plans/Schedule", "Visits {} in {} every {}", (_KIN, _TOWNS, _MONTHS)),
    ("Thoughts/Goals/Long_Term", "Dreams of opening a shop for {} in {}", (_SUBJECTS, _TOWNS)),
)


def generated_memories(count: int, seed: int) -> list[BankMemory]:
    """Return `count` distinct generated memories.

    The first of them are the same for every larger count.

    Raises:
        ValueError: If there are not so many.
    """
    everything = [
        (label, frame.format(*filling))
        for label, frame, slots in _FRAMES
        for filling in product(*slots)
    ]
    if count > len(everything):
        raise ValueError(f"at most {len(everything)} memories can be generated, not {count}")
    drawing = random.Random(f"generated memories {seed}")
    drawing.shuffle(everything)
    return [
        BankMemory(f"gen{number:04}", f"gen_s_{number:04}", value, label, generated=True)
        for number, (label, value) in enumerate(everything[:count], start=1)
    ]
