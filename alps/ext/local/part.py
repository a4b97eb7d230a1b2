"""The part of a model on one's own machine in a run."""

from collections.abc import Mapping
from importlib.metadata import distributions

from alps.errors import UsageError
from alps.ext.local import SERVED
from alps.ext.local.server import ENVIRONMENT, model_file
from alps.extension import is_served
from alps.run.parts import RunPart
from alps.run.source import RunData


class Part(RunPart):
    """Files and servers of a run's local models."""

    def check(self, data: RunData, *, generate: bool, keys: bool) -> None:
        """Refuse settings that a chat server does not support."""
        if generate and is_served(self.settings.model) and self.settings.answer == "logprob":
            why = "it has only a chat endpoint, which returns no log-probabilities of a given text"
            raise UsageError(f"answer=logprob: model={self.settings.model}: {why}")

    def versions(self) -> Mapping[str, str]:
        """Return the version of the server, and the hashes of the files of the models."""
        place = ENVIRONMENT.folder.glob("lib/python*/site-packages")
        versions = {}
        for found in distributions(name="xllamacpp", path=[str(folder) for folder in place]):
            versions["xllamacpp"] = found.version
        for name in {str(getattr(self.settings, key)) for key in SERVED}:
            if is_served(name):
                file = model_file(name)
                versions[file.path.name] = f"sha256:{file.sha256()}"
        return versions
