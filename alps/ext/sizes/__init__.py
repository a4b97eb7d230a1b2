"""Sizes of the context: a run at several `max_context_tokens=`, and the curve of its score."""

from typing import Any

from alps.extension import Extension

FOLDER = "contexts"
"""Where a run keeps what it was answered at smaller sizes."""


def smaller_sizes(settings: Any) -> tuple[int, ...]:
    """Return the sizes that a run is asked at besides the largest, the larger first."""
    sizes = settings.max_context_tokens
    return sizes[-2::-1] if isinstance(sizes, tuple) else ()


EXTENSION = Extension(
    "sizes",
    needs=("memory",),
    part_if=("max_context_tokens",),
    part="alps.ext.sizes.part:SizesRunPart",
    files=(FOLDER,),
    shows=lambda summary: any(track.curve for track in summary.tracks.values()),
    shown="alps.ext.sizes.tables:SizesShownPart",
)
