"""Characters that look alike.

The prototypes of UTS 39 (Unicode Security Mechanisms, 4: Confusable Detection).
"""

import unicodedata
from functools import cache


@cache
def prototypes() -> dict[str, str]:
    """Return the prototype of every confusable character; a character that is not there is its own.

    The library holds both directions of Unicode's table: a prototype lists all that look like it,
    and each of these the prototype alone. Where two list only each other, the longer one, or the
    one that sorts first, stands for both.
    """
    from confusable_homoglyphs.confusables import (
        confusables_data,
    )  # its table takes a tenth of a second to read

    def rank(text: str) -> tuple[int, int, list[int]]:
        """Order the two sides of a row of the table: the prototype is the greater one."""
        return (
            len(confusables_data.get(text, ())),
            len(text),
            [-ord(character) for character in text],
        )

    found: dict[str, str] = {}
    for source, rows in confusables_data.items():
        for row in rows:
            target = "".join(c for c in row["c"] if unicodedata.category(c) != "Cf")
            if len(source) == 1 and rank(target) > rank(source):
                found[source] = target
    decomposed = (unicodedata.normalize("NFD", target) for target in found.values())
    closed = ("".join(found.get(c, c) for c in target) for target in decomposed)
    return dict(zip(found, closed, strict=True))
