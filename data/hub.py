"""Data sets of the Hugging Face hub, read through `huggingface_hub`.

`data=` takes `hub` for the data set that a task names (the public release, for most) and
`hub:OWNER/NAME` for any other, each with or without `@REVISION`. A revision is resolved to its
commit once; all that is read afterwards is read at that commit, and what is cached of a commit
needs no network. The files are those of a local folder byte for byte, so everything after the
download is the code that reads one.
"""

import functools
import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.errors import UsageError, causes_of
from alps.waiting import tell

HUB = "hub"
RELEASE = "Cosineyx/Alpsbench"
SPLITS = ("examples", "dev", "validation", "test")
# The split of the public release whose gold is withheld.
HIDDEN_SPLIT = "test"

# Where the splits of a data set may lie.
_FOLDERS = ("dataset", "")
_INPUT, _GOLD = "model_input.jsonl", "reference_output.jsonl"
_NEWEST = "main"
_SHOWN_OF_COMMIT = 12
_is_commit = re.compile(r"[0-9a-f]{40}").fullmatch
_is_part_of_commit = re.compile(r"[0-9a-f]{7,40}").fullmatch
_is_repository = re.compile(r"[\w.-]+/[\w.-]+").fullmatch
_is_folder_name = re.compile(r"(?!\.{1,2}$)[^/\\]+").fullmatch


class HubError(UsageError):
    """The hub did not give what was asked of it; what the data set holds is not known from this."""


@dataclass(frozen=True)
class HubName:
    """What `data=` says of a data set of the hub.

    Attributes:
        repository: OWNER/NAME.
        revision: A branch, a tag or a commit; None where none is named.
    """

    repository: str
    revision: str | None = None

    @property
    def branch(self) -> str:
        """The revision; that of the newest files where none is named."""
        return self.revision or _NEWEST

    @property
    def commit(self) -> str | None:
        """The commit that the revision is, None where it has to be resolved."""
        return self.revision if self.revision and _is_commit(self.revision) else None

    def at(self, revision: str) -> str:
        """Return what `data=` takes for this data set at `revision`."""
        return f"{self._without_revision}@{revision}"

    def resolved(self) -> str:
        """Return the commit that its revision is now; else raise a HubError."""
        return self.commit or _resolved(self.repository, self.branch)

    def may_be(self, commit: str) -> bool:
        """Tell whether it can mean `commit`: it names no revision, or the beginning of that one."""
        if self.revision is None:
            return True
        return bool(_is_part_of_commit(self.revision)) and commit.startswith(self.revision)

    @property
    def data(self) -> str:
        """What `data=` takes for it, with the repository named unless it is the public release."""
        return self._without_revision if self.revision is None else self.at(self.revision)

    @property
    def _without_revision(self) -> str:
        return HUB if self.repository == RELEASE else f"{HUB}:{self.repository}"


def is_hub(data: str) -> bool:
    """Tell whether what `data=` takes names a data set of the hub; a folder may merely begin so."""
    return data == HUB or data.startswith((f"{HUB}@", f"{HUB}:"))


def hub_name(data: str, default: str = RELEASE) -> HubName | None:
    """Read what `data=` says; None where it is no data set of the hub.

    Args:
        data: What it says.
        default: The repository that `hub` means.

    Raises:
        UsageError: If the repository is not OWNER/NAME, or @ is not followed by a revision.
    """
    if not is_hub(data):
        return None
    before, at, revision = data.partition("@")
    repository = before.partition(":")[2] if ":" in before else default
    if not _is_repository(repository) or (at and not revision):
        forms = f"{HUB}, {HUB}@REVISION or {HUB}:OWNER/NAME@REVISION"
        raise UsageError(f"data={data}: write a hub data set as {forms}")
    return HubName(repository, revision or None)


def as_read(data: str, commit: str | None) -> str:
    """Name a data set of the hub by the `commit` it was read at; other names stay as they are."""
    name = hub_name(data)
    return data if name is None or commit is None else name.at(name.commit or commit)


def label(data: str) -> str:
    """Return a name of data for people: the last part of a path, a commit cut short."""
    if not is_hub(data):
        return Path(data).name or data
    before, _, revision = data.partition("@")
    return f"{before}@{revision[:_SHOWN_OF_COMMIT]}" if _is_commit(revision) else data


def public_name(data: str) -> str:
    """Return a name of data without the path of a folder, and without the revision."""
    return data.partition("@")[0] if is_hub(data) else Path(data).name


@dataclass(frozen=True)
class HubSplit:
    """One split of a data set of the hub, at one commit."""

    name: str
    repository: str
    commit: str

    @property
    def data(self) -> str:
        """What `data=` takes for it."""
        return HubName(self.repository).at(self.commit)

    def track(self, track: str) -> Path:
        """Fetch the files of `track`, once, and return the folder they lie in.

        Raises:
            UsageError: If the data set has no such track at this commit.
            HubError: If they can't be fetched, or the release lacks gold that everybody can see.
        """
        inside = f"{self.name}/{track}"
        folder = self._fetch(inside, _INPUT)
        if folder is None:
            what = f"the data set has no {inside}/{_INPUT}{self._other_splits()}"
            raise UsageError(f"data={self.data}: {what}")
        public = self.repository == RELEASE and self.name != HIDDEN_SPLIT
        if public and not (folder / _GOLD).is_file():
            what = f"the data set has no {inside}/{_GOLD}; name another commit: {HUB}@COMMIT"
            raise HubError(f"data={self.data}: {what}")
        return folder

    def folder(self) -> Path:
        """Fetch the whole split and return its folder.

        Raises:
            UsageError: If the data set has no such split at this commit.
            HubError: If it can't be fetched.
        """
        folder = self._fetch(self.name)
        if folder is None:
            raise UsageError(f"split={self.name}: not in {self.data}{self._other_splits()}")
        return folder

    def _fetch(self, inside: str, file: str = "") -> Path | None:
        """Fetch a folder of the data set; return it, if it and `file` in it are there."""
        # `snapshot_download` returns when everything in the commit's listing that fits is there: a
        # file that is absent then is absent from the data set.
        places = ["/".join(filter(None, (above, inside))) for above in _FOLDERS]
        patterns = [f"{glob.escape(place)}/*" for place in places]
        what = f"{self.data}, {inside}"
        snapshot = _snapshot(self.repository, self.commit, what, patterns)
        for place in places:
            if (snapshot / place / file).exists():
                return snapshot / place
        return None

    def _other_splits(self) -> str:
        """Say which splits the data set has, where this one is not among them."""
        hub = _library()
        try:
            files = hub.get_cached_repo_tree(
                self.repository, repo_type="dataset", revision=self.commit
            )
        except hub.errors.CachedRepoTreeNotFoundError:
            return ""
        splits: set[str] = set()
        for file in files:
            split, *inside = file.path.removeprefix(f"{_FOLDERS[0]}/").split("/")
            if len(inside) > 1 and inside[-1] == _INPUT:
                splits.add(split)
        names = ", ".join(sorted(splits)) or "none in the release layout"
        return "" if self.name in splits else f" (splits: {names})"


def open_hub(data: str, split: str | None) -> HubSplit:
    """Open a split of a data set of the hub, at the commit that its revision is now.

    Raises:
        UsageError: If no split is named.
        HubError: If the revision can't be resolved.
    """
    name = hub_name(data)
    assert name is not None, data
    if split is None:
        known = f" ({', '.join(SPLITS)})" if name.repository == RELEASE else ""
        raise UsageError(f"data={data}: name a split with split={known}")
    if not _is_folder_name(split):
        raise UsageError(f"split={split}: must be the name of one folder")
    return HubSplit(split, name.repository, name.resolved())


def fetch_files(data: str, patterns: Sequence[str]) -> Path:
    """Fetch the files of a data set of the hub that fit a pattern, once; return their folder.

    Raises:
        HubError: If they can't be fetched, or the revision can't be resolved.
    """
    name = hub_name(data)
    assert name is not None, data
    return _snapshot(name.repository, name.resolved(), data, patterns)


def _snapshot(repository: str, commit: str, what: str, patterns: Sequence[str]) -> Path:
    tell(f"fetching {what}")
    wanted = {"repo_type": "dataset", "revision": commit, "allow_patterns": list(patterns)}
    with _in_one_line(what, repository):
        return Path(_library().snapshot_download(repository, **wanted))


@functools.cache
def _resolved(repository: str, revision: str) -> str:
    """Ask the hub for the commit of a revision, once a process.

    Where the hub can't be reached, the commit that it named last counts, out of the cache.

    Raises:
        HubError: If there is no such data set or revision, or nobody knows its commit.
    """
    data = HubName(repository).at(revision)
    with _in_one_line(data, repository):
        answer = _library().resolve_revision(repository, repo_type="dataset", revision=revision)
    commit = str(answer.resolved)
    if not _is_commit(commit):
        what = f"data={data}: the hub returned '{commit[:60]}', not a commit; name one after @"
        raise HubError(what)
    return commit


@functools.cache
def _library() -> Any:
    """Import `huggingface_hub`, and keep it quiet: what goes wrong is told in one line of ours."""
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.utils import disable_progress_bars, logging

    # To say in each request who sends it, it would ask the hub for a list first, and were all
    # cached.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    disable_progress_bars()
    logging.set_verbosity(logging.CRITICAL)
    return huggingface_hub


@contextmanager
def _in_one_line(what: str, repository: str) -> Iterator[None]:
    """Turn whatever the hub's client raises into one line that says how to mend it.

    Raises:
        HubError: In its place.
    """
    try:
        yield
    except Exception as error:
        raise HubError(f"data={what}: {reason_of(error, repository)}") from error


_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"
_ELSEWHERE = "try again later, or give a local copy with data=FOLDER"


def reason_of(error: Exception, repository: str) -> str:
    """Say why something of `repository` can't be read."""
    # The client wraps what happened: a file that the hub refuses becomes «not in the cache», with
    # the answer behind it. So the whole chain is looked through, the most telling kind first.
    from huggingface_hub import constants, errors

    causes = list(causes_of(error))
    page = f"{constants.ENDPOINT}/datasets/{repository}"
    telling = {
        errors.GatedRepoError: f"access is restricted: request it at {page}, then {_LOG_IN}",
        errors.DisabledRepoError: f"the hub has disabled this data set; see {page}",
        errors.RevisionNotFoundError: f"{repository} has no such revision; see {page}",
        errors.RepositoryNotFoundError: f"the data set does not exist or is private: {_LOG_IN}",
        errors.OfflineModeIsEnabled: "not in the cache, and HF_HUB_OFFLINE prevents the download; "
        "unset HF_HUB_OFFLINE, or give a local copy with data=FOLDER",
    }
    for kind, reason in telling.items():
        if any(isinstance(cause, kind) for cause in causes):
            return reason
    for cause in causes:
        if isinstance(cause, errors.HfHubHTTPError):
            code = cause.response.status_code
            if code in (401, 403):
                return f"the hub refused access (HTTP {code}): {_LOG_IN}"
            return f"not in the cache, and the hub answered HTTP {code}; {_ELSEWHERE}"
    first = " ".join(str(causes[-1]).split())[:120]
    return f"can't be fetched ({type(causes[-1]).__name__}: {first}); {_ELSEWHERE}"
