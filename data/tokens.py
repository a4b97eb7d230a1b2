"""Tokens of a text by GPT-4o's tokenizer, in which PersonaMem's distances are counted."""

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiktoken import Encoding

ENCODING = "o200k_base"


def count_tokens(text: str) -> int:
    """Return how many tokens `text` has; what looks like a special token is text."""
    return len(_encoding().encode_ordinary(text))


@cache
def _encoding() -> "Encoding":
    # litellm brings the file along: tiktoken would fetch it. Importing litellm takes seconds.
    found = find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    bundled = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(bundled)
    try:
        import tiktoken

        return tiktoken.get_encoding(ENCODING)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
