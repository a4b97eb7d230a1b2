"""The public data set on the Hugging Face hub, read through `datasets`.

Only the two files of a track are fetched; they are the release layout byte for byte, so everything after the fetch is
the same code that reads a local copy. `data=hub` takes the newest revision and `data=hub@COMMIT` a pinned one; either
way the commit that was read stands in the run's manifest.
"""

from dataclasses import dataclass
from pathlib import Path

from alps.errors import DataError, UsageError

HUB = "hub"
REPOSITORY = "Cosineyx/Alpsbench"
FOLDER = "dataset"
NEWEST = "main"
SPLITS = ("examples", "dev", "validation", "test")


@dataclass(frozen=True)
class HubSplit:
    """One split of the hub's data set, or of a copy of it under `base`."""

    name: str
    base: str

    def track(self, track: str) -> Path:
        """Fetch the files of `track`, once, and return the folder they lie in.

        Raises:
            UsageError: If the hub, the revision or the track can't be reached.
        """
        fetched = self._fetch(f"{track}/model_input.jsonl")
        try:
            self._fetch(f"{track}/reference_output.jsonl")
        except UsageError:
            if self.name != "test":  # the gold of the test split is withheld
                raise
        return fetched.parent

    def _fetch(self, name: str) -> Path:
        from datasets import DownloadManager
        from datasets.utils.logging import disable_progress_bar

        disable_progress_bar()
        address = f"{self.base}/{self.name}/{name}"
        try:
            return Path(DownloadManager(dataset_name=REPOSITORY.replace("/", "_")).download(address))
        except FileNotFoundError as error:
            raise UsageError(f"data=hub: {address} does not exist") from error
        except Exception as error:  # whatever the hub's client raises, the data could not be fetched
            reason = " ".join(str(error).split())[:160]
            message = f"data=hub: {address} can't be fetched ({type(error).__name__}: {reason}); "
            raise UsageError(message + "give a local copy with data=FOLDER") from error


def open_hub(data: str, split: str | None) -> HubSplit:
    """Open a split of the hub's data set; `data` is `hub` or `hub@REVISION`.

    Raises:
        UsageError: If no split is named.
    """
    if split is None:
        raise UsageError(f"data={data}: name a split with split= ({', '.join(SPLITS)})")
    revision = data.partition("@")[2] or NEWEST
    return HubSplit(split, f"hf://datasets/{REPOSITORY}@{revision}/{FOLDER}")


def commit_of(folder: Path) -> str | None:
    """Return the commit whose snapshot `folder` lies in, None where it is no snapshot of the hub."""
    parts = folder.parts
    if "snapshots" not in parts:
        return None
    commit = parts[-parts[::-1].index("snapshots")]  # of the last: the cache itself may lie below such a name
    if len(commit) != 40:
        raise DataError(f"expected a commit, got '{commit}'", path=folder)
    return commit
