"""What of a history fits into a budget of tokens."""

from collections.abc import Iterable, Sequence

from alps.schema import Turn
from alps.tasks.by_memory import BYTES_A_TOKEN, Context, size_of


def fitting(texts: Iterable[str], max_tokens: int) -> tuple[list[str], int]:
    """Return the first texts that fit into `max_tokens`, and how many of them are whole.

    The last one is cut to what is left, the first one too: a budget that one long text exceeds
    would be none. Each text takes a token more than its own, which separates it from the next.
    """
    kept: list[str] = []
    room = max_tokens * BYTES_A_TOKEN
    for text in texts:
        # A character that does not fit whole is left out.
        part = text.encode()[: max(0, room - BYTES_A_TOKEN)].decode(errors="ignore")
        if part == text and room >= size_of(text):
            kept.append(text)
            room -= size_of(text)
            continue
        return ([*kept, part], len(kept)) if part else (kept, len(kept))
    return kept, len(kept)


def newest(turns: Sequence[Turn], max_tokens: int | None) -> Context:
    """Return the latest turns within `max_tokens`, the earliest of them cut to its end."""
    if max_tokens is None:
        return Context(tuple(turns))
    # By bytes, as no tokenizer is right for every model; backwards, as the end is kept.
    texts, whole = fitting((turn.text[::-1] for turn in reversed(turns)), max_tokens)
    kept: list[Turn] = []
    for turn, text in zip(reversed(turns), texts, strict=False):
        kept.append(turn.model_copy(update={"text": text[::-1]}))
    return Context(tuple(reversed(kept)), left_out=len(turns) - whole)
