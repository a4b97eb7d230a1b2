"""Memory of what users say of themselves, found by the patterns of the embedded extractor."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from alps.ext.memory.protocol import Session, SpokenTurn
from alps.systems.rules import find_statements

_REMEMBER = re.compile(r"(?i)\b(?:please )?remember (?:that )?[^.!?\n]{3,300}")
SETTINGS: Mapping[str, Any] = {"extractor": "rules", "declares": ["both roles are ingested"]}


def statements(session: Session) -> Iterable[SpokenTurn]:
    """Return statements of a user about themselves, and what they ask to remember.

    A session in which nobody replies is a list of notes: its turns are kept as they are.
    """
    if all(turn.role == "user" for turn in session.turns):
        yield from session.turns
        return
    for found in find_statements([(turn.role, turn.text) for turn in session.turns]):
        yield SpokenTurn("user", found.value, session.turns[found.turn].at)
    for turn in session.turns:
        for asked in _REMEMBER.finditer(turn.text) if turn.role == "user" else ():
            yield SpokenTurn("user", asked[0], turn.at)
