"""What else a change to the repository touches: a submission adds its own folder, and nothing
beside it.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from alps.leaderboard.checks.files import file_card
from alps.leaderboard.findings import Findings, some_of
from alps.leaderboard.submission import REVIEW
from alps.leaderboard.wording import shown

SUBMISSIONS = Path("leaderboard") / "submissions"
"""Where submissions lie in the repository."""

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@^~-]{0,199}\Z")
_GIT = (
    *("git", "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "protocol.allow=never", "-c", "core.quotePath=false"),
)
_DIFF = (
    "diff",
    "--name-only",
    "-z",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
)
_MEND = "leave everything outside your submission's folder as it was"


def check_changes(
    folder: Path,
    findings: Findings,
    *,
    base: str | None,
    changed: Iterable[str] | None,
    reviewed: bool,
    continues: str | None = None,
) -> bool:
    """Check that nothing outside `folder` changed, and no review went.

    Return whether anything in it may have changed.

    A submission that is in the base already is somebody's: nothing in a checkout tells who sends
    the change, so that a maintainer has to.

    Without `base` and `changed` there is no change to speak of.

    Args:
        folder: The submission.
        findings: Takes what is found.
        base: What the change is held against: a git reference, or another copy of the folder that
            the submissions are in.
        changed: Instead of that, the files that changed, as paths in the repository.
        reviewed: Whether a review may change.
        continues: The submission whose submitter sends the change, as a maintainer knows.
    """
    if base is None and changed is None:
        findings.unchecked.append(
            "changes outside the folder: give base=REF, base=DIR or changed=FILE"
        )
        return False
    slug = folder.resolve().name
    own, names, there = (SUBMISSIONS / slug).as_posix(), changed, False
    if names is not None:
        findings.unchecked.append("whether the submission is a new one: give base=REF or base=DIR")
    elif base is not None and Path(base).is_dir():
        own, names = slug, _between(Path(base), folder.resolve().parent)
        there = os.path.lexists(Path(base) / slug)
    elif base is not None:
        root = _root(folder.resolve().parent)
        if root is None:
            findings.unchecked.append(
                "changes outside the folder: this is no git checkout; give base=DIR or changed=FILE"
            )
            return True
        try:
            own, names = folder.resolve().relative_to(root).as_posix(), _of_git(root, base)
            there = bool(_git(root, "ls-tree", "-z", "--name-only", base, "--", own))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            mend = "fetch the base, with its history"
            findings.serious(
                "changes", "the change", f"can't be seen: {shown(str(error), 160)}", mend
            )
            return True
    listed = list(names or ())
    inside = [name for name in listed if name.startswith(f"{own}/")]
    if outside := [shown(name) for name in listed if name not in set(inside)]:
        what = f"{len(outside):,} files outside the submission's folder changed: {some_of(outside)}"
        findings.serious("changes", "the change", what, _MEND)
    touched = [name for name in inside if not (reviewed and name == f"{own}/{REVIEW}")]
    if there and touched and continues != slug:
        what = f"{some_of(shown(name) for name in touched)}: of a submission that is in the base already"
        mend = f"only who submitted it may change it: a maintainer who knows that says continues={shown(slug)}"
        findings.serious("changes", "the change", what, mend)
    taken_away = f"{own}/{REVIEW}" in inside and not os.path.lexists(folder / REVIEW)
    if taken_away and not reviewed:
        findings.serious("changes", REVIEW, "only maintainers take it away", "leave it as it was")
    findings.checked["changes"] = (
        f"{len(listed):,} changed files, held against {shown(base or 'the list given')}"
    )
    return bool(inside)


def _root(folder: Path) -> Path | None:
    """Return the root of the checkout that `folder` is in, None where it is in none."""
    try:
        return Path(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _of_git(root: Path, base: str) -> list[str]:
    """Return what changed since `base` branched off."""
    if not _REFERENCE.match(base) or ".." in base:
        raise ValueError(f"base={shown(base)} is no git reference")
    listed = _git(root, *_DIFF, f"{base}...HEAD", "--")
    return [name for name in listed.split("\0") if name]


def _git(folder: Path, *words: str) -> str:
    """Run git without a shell, hooks, helpers or the network."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    own = {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }
    done = subprocess.run(
        [*_GIT, *words],
        cwd=folder,
        env={**kept, **own},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise ValueError(
            f"git says {done.stderr.decode(errors='replace').strip()[-120:] or 'nothing'}"
        )
    return done.stdout.decode(errors="replace")


def _between(base: Path, here: Path) -> Iterator[str]:
    """Yield what differs between two copies of the folder that submissions are in."""
    then, now = dict(_files(base)), dict(_files(here))
    for name in sorted(then.keys() | now.keys()):
        if then.get(name) != now.get(name):
            yield name


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for place, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in [*names, *(name for name in folders if (Path(place) / name).is_symlink())]:
            path = Path(place) / name
            try:
                said = file_card(path).sha256
            except ValueError as error:
                said = str(error)
            yield path.relative_to(folder).as_posix(), said
