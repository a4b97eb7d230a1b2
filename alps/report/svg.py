"""SVG by hand: elements, texts and frames, with numbers that are the same on every machine."""

from collections.abc import Iterable

from markupsafe import Markup


def frame(parts: Iterable[Markup], *, style: str, label: str, height: int) -> Markup:
    """Put `parts` into a chart as wide as its place and `height` pixels high.

    `label` is for who can't see it.
    """
    opening = Markup('<svg class="{}" width="100%" height="{}" role="img" aria-label="{}">').format(
        style, height, label
    )
    return opening + joined(parts) + Markup("</svg>")


def drawing(
    parts: Iterable[Markup], *, style: str, label: str, width: float, height: float
) -> Markup:
    """Put `parts` into a chart of `width` by `height` units that is scaled to its place."""
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        style, short(width), short(height), label, joined(parts)
    )


def text(content: str, *, style: str = "", **attributes: object) -> Markup:
    """Return a text element."""
    return element("text", style, content, **attributes)


def element(tag: str, style: str, content: str | Markup = "", **attributes: object) -> Markup:
    """Return an element of the class `style`; empty attributes are left out."""
    named = {
        "class": style,
        **{name.replace("_", "-"): value for name, value in attributes.items()},
    }
    written = Markup("").join(
        Markup(' {}="{}"').format(name, value) for name, value in named.items() if value != ""
    )
    opening = Markup("<{}{}").format(Markup(tag), written)
    return opening + (Markup(">{}</{}>").format(content, Markup(tag)) if content else Markup("/>"))


def title(content: str) -> Markup:
    """Return what is told of an element when it is pointed at."""
    return Markup("<title>{}</title>").format(content)


def joined(parts: Iterable[Markup]) -> Markup:
    """Join markup."""
    return Markup("").join(parts)


def percent(share: float) -> str:
    """Return a share as a length."""
    return f"{short(100 * share)}%"


def short(value: float) -> str:
    """Return a number with two decimals at most: the same on every machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
