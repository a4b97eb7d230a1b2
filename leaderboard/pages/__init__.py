"""Pages of the site: one concept a module, each a function from the site's content to files.

And the numbers on them, which say where they come from: every figure points into its file.
`<data value="…" data-from="FILE#POINTER">` is a number as it stands in a file, by a JSON pointer
(RFC 6901); `<data value="…" data-computed="NAME" data-args="…">` is one that a function here made
of several.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from alps.show.formatting import number, visible

_STEERING = re.compile("[\"<>&']")
# What stands where nothing is known.
NOTHING = Markup('<span class="nothing">–</span>')


# Not frozen: a site makes millions of places, and each would take three times as long.
@dataclass(slots=True)
class FilePlace:
    """A value in a file: the file's name on pages, a JSON pointer, and the value."""

    file: str
    pointer: str
    value: Any

    def __getitem__(self, key: str | int) -> "FilePlace":
        """Return the place one step further in; one that is not there holds None."""
        value, inner = self.value, None
        if isinstance(value, dict):
            inner = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
            inner = value[key]
        if isinstance(key, str) and ("/" in key or "~" in key):
            key = key.replace("~", "~0").replace("/", "~1")
        return FilePlace(self.file, f"{self.pointer}/{key}", inner)

    def __bool__(self) -> bool:
        """Tell whether something is there."""
        return self.value is not None

    def items(self) -> Iterator[tuple[str, "FilePlace"]]:
        """Yield the fields of an object with their places, in their order."""
        for key in self.value or ():
            yield key, self[key]


def figure(place: FilePlace, written: Callable[[Any], str] = number) -> Markup:
    """Return a number with its origin; a dash if there is none."""
    value, origin = place.value, f"{place.file}#{place.pointer}"
    if value is None:
        return NOTHING
    # A site has hundreds of thousands of numbers, and nothing of them to escape.
    if type(value) not in (int, float):
        markup = Markup('<data value="{}" data-from="{}">{}</data>')
        return markup.format(json.dumps(value), origin, written(value))
    if _STEERING.search(origin):
        origin = escape(origin)
    return Markup(f'<data value="{value!r}" data-from="{origin}">{written(value)}</data>')


def computed(value: float | str, name: str, *args: str, written: str | None = None) -> Markup:
    """Return a number that the function `name` made of `args`."""
    if written is None:
        written = f"{value:,}" if isinstance(value, int) else str(value)
    # As often as figures: made without `Markup.format`, which takes several times as long.
    about = escape(" ".join(args))
    attributes = f'value="{escape(value)}" data-computed="{name}" data-args="{about}"'
    return Markup(f"<data {attributes}>{escape(written)}</data>")


def whole(value: float) -> str:
    """Write a count."""
    return f"{value:,.0f}"


def money(value: float) -> str:
    """Write US dollars."""
    if not value:
        return "$0"
    return f"${value:,.2f}" if value >= 0.1 else f"${value:.4f}"


def seconds(value: float) -> str:
    """Write a duration: milliseconds below a second."""
    return f"{1000 * value:.3g} ms" if value and value < 1 else f"{value:,.1f} s"


def bounds(score: FilePlace) -> Markup:
    """Return `[low, high]` of a score; a dash where there is no interval."""
    low, high = score["low"], score["high"]
    if low.value is None or high.value is None:
        return NOTHING
    return Markup(f'<span class="interval">[{figure(low)}, {figure(high)}]</span>')


def pair(score: FilePlace) -> Markup:
    """Return a score and its interval in one cell; where there is none, why, or a dash."""
    if not score["value"]:
        reason = score["unscored"].value
        why = Markup(
            '<span class="nothing" title="{0}">n/a<span class="unseen">: {0}</span></span>'
        )
        return why.format(visible(str(reason))) if reason else NOTHING
    interval = bounds(score) if score["low"] else ""
    return Markup(f"{figure(score['value'])} {interval}")
