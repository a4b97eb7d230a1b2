"""Other submissions beside a folder that give the same answers."""

from collections.abc import Iterator
from pathlib import Path

from alps.errors import AlpsError
from alps.leaderboard.copies import ALIKE, Answers, answers_of, likeness
from alps.leaderboard.findings import Findings, some_of
from alps.leaderboard.submission import CARD, Entry, Submission, read_entry
from alps.leaderboard.wording import shown

_MEND = "say in notes whose answers they are; copies count as one system in ranks and tests"
_MOST_BESIDE = 1_000


def check_copies(folder: Path, card: Submission, findings: Findings) -> None:
    """Flag every track whose answers are those of another submission in the same folder, equal or
    nearly.
    """
    others = list(_beside(folder))
    for name in card.tracks:
        rivals = [entry for entry in others if _is_rival(entry, card, name)]
        if not rivals or (mine := _answers(Entry(folder, card, None), name)) is None:
            continue
        theirs = ((entry.card.slug, _answers(entry, name)) for entry in rivals)
        same = [
            slug
            for slug, answers in theirs
            if answers is not None and likeness(mine, answers) >= ALIKE
        ]
        if same:
            what = f"the answers of {some_of(map(shown, same))}, in the same words or nearly"
            findings.warn("copy", f"{name}/predictions.jsonl", what, _MEND)


def _beside(folder: Path) -> Iterator[Entry]:
    """Yield the other submissions that can be read."""
    own = folder.resolve()
    try:
        paths = sorted(path for path in own.parent.iterdir() if path.name != own.name)
    except OSError:
        return
    for path in paths[:_MOST_BESIDE]:
        try:
            if not path.is_symlink() and (path / CARD).is_file():
                yield read_entry(path)
        except (AlpsError, OSError):
            continue


def _is_rival(entry: Entry, card: Submission, name: str) -> bool:
    return (
        name in entry.card.tracks
        and entry.card.tracks[name].data_sha256 == card.tracks[name].data_sha256
    )


def _answers(entry: Entry, name: str) -> Answers | None:
    try:
        return answers_of(entry.rows(name, "predictions"), entry.card.tracks[name].task)
    except AlpsError:
        return None
