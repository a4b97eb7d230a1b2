"""Histogram of the scores of single records, which a mean hides."""

from collections.abc import Sequence

from markupsafe import Markup

from alps.show.svg import Area, Axis, centred, drawing, element, number_on_axis, short, title

_AREA = Area(12.0, 22.0, 416.0, 150.0)
_BINS = 10
_GAP = 2.0
_FEWEST_VALUES = 3


def histogram(values: Sequence[float], *, axis: Axis, name: str, style: str) -> Markup:
    """Draw how many records have which score; nothing where scores are 0 or 1 alone.

    Args:
        values: The score of each record.
        axis: From the lowest to the highest score; it is cut into ten bins of one width.
        name: What is scored.
        style: The colour in the style sheet.
    """
    # Of scores that are 0 or 1 the mean says all.
    if len(set(values)) < _FEWEST_VALUES:
        return Markup()
    counts = [0] * _BINS
    for value in values:
        counts[min(_BINS - 1, int(axis.at(value) * _BINS))] += 1
    width, bottom = _AREA.width / _BINS, _AREA.top + _AREA.height
    parts = []
    for n, count in enumerate(counts):
        if not count:
            continue
        height = _AREA.height * count / max(counts)
        left, top = _AREA.left + n * width, bottom - height
        size = {"width": short(width - _GAP), "height": short(height)}
        place = {"x": short(left + _GAP / 2), "y": short(top)}
        parts.append(element("rect", "bar", title(f"{count:,}"), **place, **size))
        parts.append(centred(f"{count:,}", short(left + width / 2), short(top - 6), "count"))
    ends = f"M{short(_AREA.left)} {short(bottom)}H{short(_AREA.left + _AREA.width)}"
    parts.append(element("path", "rail", d=ends))
    for tick in axis.ticks:
        x, _ = _AREA.at(axis.at(tick), 0)
        parts.append(centred(number_on_axis(tick), x, short(bottom + 16)))
    centre = short(_AREA.left + _AREA.width / 2)
    parts.append(centred(f"{name} of a record", centre, short(bottom + 38), "name"))
    label = f"How many records have which {name}, in ten bins: {', '.join(map(str, counts))}."
    extent = {"width": 440.0, "height": bottom + 46}
    return drawing(parts, style=f"curve histogram {style}", label=label, **extent)
